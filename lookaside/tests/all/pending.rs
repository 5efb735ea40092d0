//! Flushes that are begun, and waited for later.

use core::{cell::Cell, sync::atomic::AtomicU64};

use crate::support::{
    Answer, Fake, Op,
    machine::{ByEpochs, Machine, Strategy, epochs, flush, pages, recent, space, switch, this_cpu},
    on,
};
use lookaside::{
    AddressSpace, Gather, GlobalAsids, KernelGather, VaRange, counts::Outcome, flush::PendingFlush,
    platform::CpuId,
};

const KERNEL: u64 = 0xffff_8000_0000_0000;

/// A space that the CPUs 0 and 1 run, and that never ends.
fn shared<T: Strategy>(tlb: Machine<T>, number: u64) -> &'static AddressSpace<Fake> {
    let space = Box::leak(Box::new(space(tlb, number)));
    for cpu in [0, 1] {
        let _ = switch(tlb, cpu, space);
    }
    space
}

/// CPU 0 begins to flush a page, which a target is told, and holds `frame`.
fn begin<T: Strategy, F>(
    tlb: Machine<T>,
    space: &'static AddressSpace<Fake>,
    address: u64,
    frame: F,
) -> PendingFlush<'static, 'static, Fake, T, Vec<F>> {
    begin_pages(tlb, space, &[address], frame)
}

/// As [`begin`], of some pages. If they are more than one, they are described.
fn begin_pages<T: Strategy, F>(
    tlb: Machine<T>,
    space: &'static AddressSpace<Fake>,
    addresses: &[u64],
    frame: F,
) -> PendingFlush<'static, 'static, Fake, T, Vec<F>> {
    on(0, || {
        let mut gather = Gather::holding(space, Vec::new());
        addresses.iter().for_each(|&address| gather.revoke(pages(address, 1)));
        gather.hold_page(frame);
        tlb.begin_flush(&(), gather)
    })
}

fn acts<T: Strategy>(tlb: Machine<T>, cpu: u32) -> Vec<Op> {
    tlb.platform().log(cpu).into_iter().filter(Op::acts).collect()
}

fn handle<T: Strategy>(tlb: Machine<T>, cpu: u32) {
    on(cpu, || this_cpu(tlb).handle_ipi());
}

#[test]
fn a_begun_flush_completes_when_its_target_has_acknowledged() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = shared(tlb, 1);
        tlb.platform().set_answer(Answer::Never);
        let mut pending = begin(tlb, a, 0x5000, "page");
        assert!(!pending.is_complete());
        handle(tlb, 1);
        assert!(pending.is_complete());
        // The wait may be anywhere.
        assert_eq!(on(3, || pending.wait()).frames, ["page"]);
    }
    check(recent(4, Fake::new(4, 12)));
    check(epochs(4, Fake::new(4, 16).without_broadcast()));
}

#[test]
fn a_begun_flush_that_was_not_described_makes_no_later_request_unreadable() {
    fn check<T: Strategy>(tlb: Machine<T>, begin: fn(Machine<T>, &'static AddressSpace<Fake>)) {
        let a = shared(tlb, 1);
        begin(tlb, a);
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, a, |gather| gather.revoke(pages(0x10_0000, 9)));
        let acts = acts(tlb, 1);
        assert!(matches!(acts[..], [Op::FlushRange(_, 0x10_0000, 9)]), "{acts:?}");
    }
    /// Begins to flush a kernel page, which fits the ring, and does not wait.
    fn kernel<T: Strategy>(tlb: Machine<T>, _: &AddressSpace<Fake>) {
        let mut gather = KernelGather::new(tlb);
        gather.revoke(pages(KERNEL, 1));
        core::mem::forget(on(0, || tlb.begin_flush_kernel(&(), gather)));
    }
    // A page that the target was told.
    check(recent(4, Fake::new(4, 12)), |tlb, a| core::mem::forget(begin(tlb, a, 0x5000, ())));
    check(recent(4, Fake::new(4, 12)), kernel);
    check(epochs(4, Fake::new(4, 16).without_broadcast()), kernel);
}

#[test]
fn a_begun_flush_without_targets_is_complete() {
    let tlb = recent(4, Fake::new(4, 12));
    let a = Box::leak(Box::new(space(tlb, 1)));
    tlb.platform().set_answer(Answer::Never);
    let mut pending = begin(tlb, a, 0x5000, 7);
    assert!(pending.is_complete());
    assert_eq!(pending.wait().frames, [7]);
    assert_eq!(tlb.begin_flush(&(), Gather::new(a)).wait().frames, ());
    let nothing = KernelGather::new(tlb);
    assert_eq!(tlb.begin_flush_kernel(&(), nothing).wait().frames, ());
}

#[test]
fn kernel_addresses_are_flushed_in_two_steps_too() {
    let tlb = epochs(4, Fake::new(4, 16).without_broadcast());
    tlb.platform().set_answer(Answer::Never);
    let mut gather = KernelGather::holding(tlb, Vec::new());
    gather.revoke(pages(KERNEL, 1));
    gather.hold_page("stack");
    let mut pending = on(0, || tlb.begin_flush_kernel(&(), gather));
    for cpu in 1..4 {
        assert!(!pending.is_complete(), "CPU {cpu} has not acknowledged");
        handle(tlb, cpu);
    }
    assert!(pending.is_complete());
    assert_eq!(pending.wait().frames, ["stack"]);
}

#[test]
fn a_request_that_is_read_late_is_never_another_one() {
    let tlb = epochs(4, Fake::new(4, 16).without_broadcast());
    let a = shared(tlb, 1);
    let other = Box::leak(Box::new(space(tlb, 2)));
    let _ = switch(tlb, 2, other);
    tlb.platform().set_answer(Answer::Never);
    let first = begin_pages(tlb, a, &[0x5000, 0x10_0000], 1);
    let second = begin_pages(tlb, other, &[0x9000, 0x20_0000], 2);
    tlb.platform().forget_logs();
    let everything = [Op::FlushKernel(vec![])];
    for cpu in [1, 2] {
        handle(tlb, cpu);
        assert_eq!(acts(tlb, cpu), everything, "CPU {cpu} cannot read the request");
    }
    assert_eq!((first.wait().frames, second.wait().frames), (vec![1], vec![2]));
    // Requests are readable again.
    reads_its_page(tlb, a);
}

/// CPU 1 flushes one page if CPU 0 asks for it.
fn reads_its_page(tlb: ByEpochs, space: &'static AddressSpace<Fake>) {
    tlb.platform().set_answer(Answer::AtOnce);
    tlb.platform().forget_logs();
    let _ = flush(tlb, 0, space, |gather| gather.revoke(pages(0x7000, 1)));
    let tag = on(1, || this_cpu(tlb).tag().0);
    assert_eq!(acts(tlb, 1), [Op::FlushRange(tag, 0x7000, 1)]);
}

#[test]
fn a_dropped_flush_leaks_its_frames_and_the_next_one_makes_up_for_it() {
    struct Frame(&'static Cell<u32>);
    impl Drop for Frame {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let tlb = epochs(4, Fake::new(4, 16).without_broadcast());
    let a = shared(tlb, 1);
    let freed = Box::leak(Box::new(Cell::new(0)));
    tlb.platform().set_answer(Answer::Never);
    drop(begin(tlb, a, 0x5000, Frame(freed)));
    assert_eq!(freed.get(), 0);
    tlb.platform().set_answer(Answer::AtOnce);
    tlb.platform().forget_logs();
    let _ = flush(tlb, 0, a, |gather| gather.revoke(pages(0x7000, 1)));
    let acts = acts(tlb, 1);
    assert!(acts.iter().any(|op| matches!(op, Op::FlushTag(_))), "everything: {acts:?}");
    reads_its_page(tlb, a);
}

#[test]
fn a_target_that_was_told_a_range_says_so_by_clearing_its_word() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (a, other) = (shared(tlb, 1), Box::leak(Box::new(space(tlb, 2))));
        let _ = switch(tlb, 1, other);
        let _ = switch(tlb, 1, a);
        tlb.platform().set_answer(Answer::Never);
        let mut first = begin(tlb, a, 0x5000, "first");
        // Its word is taken, and the request in its queue or its generation is waited for as well.
        let mut second = begin(tlb, a, 0x9000, "second");
        assert!(!first.is_complete() && !second.is_complete());
        handle(tlb, 1);
        assert!(first.is_complete() && second.is_complete());
        // The next one can claim the word again.
        let mut third = begin(tlb, a, 0xb000, "third");
        assert!(!third.is_complete());
        handle(tlb, 1);
        assert!(third.is_complete());
        for (pending, frame) in [(first, "first"), (second, "second"), (third, "third")] {
            assert_eq!(pending.wait().frames, [frame]);
        }
    }
    check(recent(4, Fake::new(4, 12)));
    check(epochs(4, Fake::new(4, 16).without_broadcast()));
}

#[test]
fn nobody_waits_for_a_cpu_that_was_told_a_range_and_has_stopped() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = shared(tlb, 1);
        tlb.platform().set_answer(Answer::Never);
        let mut pending = begin(tlb, a, 0x5000, "page");
        assert!(!pending.is_complete());
        assert_eq!(tlb.stopped(&(), CpuId(1)), Ok(()));
        assert!(pending.is_complete());
        assert_eq!(pending.wait().frames, ["page"]);
    }
    check(recent(4, Fake::new(4, 12)));
    check(epochs(4, Fake::new(4, 16).without_broadcast()));
}

/// CPU 0 begins to flush a table of the kernel at this address.
fn begin_kernel(
    tlb: ByEpochs,
    start: u64,
) -> PendingFlush<'static, 'static, Fake, GlobalAsids<'static, Fake>> {
    let mut gather = KernelGather::new(tlb);
    gather.unlink_table(pages(start, 1));
    on(0, || tlb.begin_flush_kernel(&(), gather))
}

#[test]
fn a_flush_of_kernel_addresses_that_is_dropped_is_not_taken_for_the_next_one() {
    let tlb = epochs(2, Fake::new(2, 16).without_broadcast());
    tlb.platform().set_answer(Answer::Never);
    drop(begin_kernel(tlb, KERNEL));
    // It posts nothing, and so completes nothing.
    let _ = on(0, || tlb.begin_flush_kernel(&(), KernelGather::new(tlb))).wait();
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    tlb.platform().forget_logs();
    let next = |start| {
        let mut gather = KernelGather::new(tlb);
        gather.unlink_table(pages(start, 1));
        let _ = on(0, || this_cpu(tlb).flush_kernel(gather));
        acts(tlb, 1)
    };
    let everything = next(KERNEL + 0x9000);
    assert!(everything.iter().all(|op| *op == Op::FlushKernel(vec![])), "{everything:?}");
    // All have acknowledged it: requests are readable again.
    assert_eq!(next(KERNEL + 0xb000), [Op::FlushKernel(vec![(KERNEL + 0xb000, 1)])]);
}

#[test]
fn the_requests_of_one_cpu_to_all_are_few_at_a_time() {
    // One that is described, and one that fits the ring.
    for tables in [true, false] {
        let tlb = epochs(2, Fake::new(2, 16).without_broadcast());
        let begin = |page: u64| {
            let mut gather = KernelGather::new(tlb);
            match tables {
                true => gather.unlink_table(pages(KERNEL + (page << 12), 1)),
                false => gather.revoke(pages(KERNEL + (page << 12), 1)),
            }
            on(0, || tlb.begin_flush_kernel(&(), gather))
        };
        tlb.platform().set_answer(Answer::Never);
        let mut begun: Vec<_> = (0..7).map(begin).collect();
        assert!(!begun[6].is_complete());
        begun.push(begin(7));
        tlb.platform().set_answer(Answer::WhenWaitedFor);
        let mut last = begin(9);
        assert!(last.is_complete(), "it was waited for");
        let _ = last.wait();
        for mut pending in begun {
            assert!(pending.is_complete());
            let _ = pending.wait();
        }
    }
}

#[test]
fn the_next_kernel_flush_waits_for_those_that_were_dropped() {
    let tlb = epochs(2, Fake::new(2, 16).without_broadcast());
    tlb.platform().set_answer(Answer::Never);
    drop([0, 1, 2].map(|_| begin_kernel(tlb, KERNEL)));
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    let mut next = begin_kernel(tlb, KERNEL + 0x9000);
    assert!(next.is_complete());
    let _ = next.wait();
    // Requests are readable again, and nobody waits.
    tlb.platform().set_answer(Answer::Never);
    tlb.platform().forget_logs();
    let mut last = begin_kernel(tlb, KERNEL + 0xb000);
    assert!(!last.is_complete());
    handle(tlb, 1);
    assert_eq!(acts(tlb, 1), [Op::FlushKernel(vec![(KERNEL + 0xb000, 1)])]);
    let _ = last.wait();
}

#[test]
fn the_next_kernel_flush_waits_for_no_other_flush_that_was_dropped() {
    let tlb = epochs(2, Fake::new(2, 16).without_broadcast());
    let a = shared(tlb, 1);
    tlb.platform().set_answer(Answer::Never);
    let complete = begin_kernel(tlb, KERNEL);
    handle(tlb, 1);
    drop(complete);
    // The second is described, since the first is under way.
    let first = begin(tlb, a, 0x5000, "first");
    drop(begin(tlb, a, 0x9000, "second"));
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    let mut next = begin_kernel(tlb, KERNEL + 0x9000);
    assert!(!next.is_complete(), "it has waited");
    handle(tlb, 1);
    let _ = (first.wait(), next.wait());
}

#[test]
fn a_thread_may_be_moved_while_its_flush_is_pending() {
    fn is_send<T: Send>(_: &T) {}
    let tlb = recent(2, Fake::new(2, 12));
    let a = shared(tlb, 1);
    static FRAMES: AtomicU64 = AtomicU64::new(0);
    let pending = begin(tlb, a, 0x5000, &FRAMES);
    is_send(&pending);
    assert!(format!("{pending:?}").contains("targets: 1"));
    let _ = std::thread::scope(|scope| scope.spawn(|| pending.wait().frames.len()).join());
}

/// CPU 0 begins to flush a range; returns what is to be waited for.
fn begin_range<T: Strategy>(
    tlb: Machine<T>,
    space: &'static AddressSpace<Fake>,
    range: VaRange,
) -> Option<PendingFlush<'static, 'static, Fake, T>> {
    let mut pending = None;
    on(0, || tlb.begin_flush_range(&this_cpu(tlb), space, range, &mut pending));
    pending
}

#[test]
fn a_page_that_no_other_cpu_uses_is_flushed_and_leaves_nothing_to_wait_for() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = shared(tlb, 1);
        let page = pages(0x5000, 1);
        on(1, || this_cpu(tlb).lazy());
        // The first flush finds CPU 1 lazy, and leaves it a note; the others find the note.
        let _ = begin_range(tlb, a, page).map(PendingFlush::wait);
        for _ in 0..3 {
            tlb.platform().forget_logs();
            assert!(begin_range(tlb, a, page).is_none());
            assert!(matches!(acts(tlb, 0)[..], [Op::FlushRange(_, 0x5000, 1)]));
            assert_eq!(acts(tlb, 1), []);
            assert_eq!(tlb.platform().outcome(), (Outcome::Local, 0));
        }
        // What CPU 1 has missed it makes up for.
        let _ = switch(tlb, 1, a);
        assert!(!acts(tlb, 1).is_empty());
        // Alone.
        let b = Box::leak(Box::new(space(tlb, 2)));
        let _ = switch(tlb, 0, b);
        tlb.platform().forget_logs();
        assert!(begin_range(tlb, b, page).is_none());
        assert!(matches!(acts(tlb, 0)[..], [Op::FlushRange(_, 0x5000, 1)]));
    }
    check(recent(4, Fake::new(4, 12)));
    check(epochs(4, Fake::new(4, 16).without_broadcast()));
}

#[test]
fn a_range_that_others_use_is_flushed_by_them_before_the_wait_ends() {
    fn check<T: Strategy>(tlb: Machine<T>, range: VaRange) {
        let a = shared(tlb, 1);
        tlb.platform().set_answer(Answer::Never);
        for _ in 0..3 {
            tlb.platform().forget_logs();
            let mut pending = begin_range(tlb, a, range).expect("CPU 1 runs the space");
            assert!(!pending.is_complete());
            handle(tlb, 1);
            // It was announced once: a CPU that had missed another flush would flush all of the space.
            let first = acts(tlb, 1).swap_remove(0);
            assert!(matches!(first, Op::FlushRange(_, 0x5000, _)), "{first:?}");
            assert!(pending.is_complete());
            let _ = on(3, || pending.wait());
        }
    }
    for range in [pages(0x5000, 1), pages(0x5000, 3)] {
        check(recent(4, Fake::new(4, 12)), range);
        check(epochs(4, Fake::new(4, 16).without_broadcast()), range);
    }
}

#[test]
fn a_begun_range_that_is_dropped_is_flushed_with_everything_by_the_next_flush() {
    let tlb = recent(4, Fake::new(4, 12));
    let a = shared(tlb, 1);
    tlb.platform().set_answer(Answer::Never);
    drop(begin_range(tlb, a, pages(0x5000, 1)));
    handle(tlb, 1);
    tlb.platform().forget_logs();
    let pending = begin_range(tlb, a, pages(0x9000, 1)).expect("CPU 1 runs the space");
    handle(tlb, 1);
    let acts = acts(tlb, 0);
    assert!(matches!(acts[..], [Op::Interrupt(_), Op::FlushTag(_)]), "{acts:?}");
    let _ = pending.wait();
}

#[test]
#[should_panic = "another `Tlb`"]
fn a_range_is_not_begun_on_a_cpu_of_another_machine() {
    let (tlb, other) = (recent(4, Fake::new(4, 12)), recent(4, Fake::new(4, 12)));
    let a = shared(tlb, 1);
    on(0, || tlb.begin_flush_range(&this_cpu(other), a, pages(0x5000, 1), &mut None));
}
