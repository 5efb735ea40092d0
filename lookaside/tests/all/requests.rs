//! How a CPU processes requests that were posted before it looked: which of them it merges, which it cannot tell apart
//! any more, and which initiators wait.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::support::{
    Answer, Fake, Moment, Op,
    machine::{
        Machine, Strategy, What, epochs, flush, pages, park, recent, space, switch, this_cpu,
    },
    on,
};
use lookaside::{AddressSpace, Gather, KernelGather, counts::Outcome};

const KERNEL: u64 = 0xffff_8000_0000_0000;

/// A space that others can use meanwhile.
fn lasting<T: Strategy>(tlb: Machine<T>) -> &'static AddressSpace<Fake> {
    Box::leak(Box::new(space(tlb, 1)))
}

/// Has the CPUs `0..asking` ask one after the other, each of which waits; `target` serves when all of them
/// have. What it has done for that.
fn met_at_once<T: Strategy>(
    tlb: Machine<T>,
    (asking, target): (u32, u32),
    ask: impl Fn(u32) + Sync,
) -> Vec<Op> {
    tlb.platform().set_answer(Answer::Never);
    tlb.platform().forget_logs();
    let interrupts = || tlb.platform().mmu.count(|op| matches!(op, Op::Interrupt(_)));
    let finished = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for cpu in 0..asking {
            let (ask, finished) = (&ask, &finished);
            scope.spawn(move || {
                on(cpu, || ask(cpu));
                // Those that are not finished may wait for this one.
                finished.fetch_add(1, Ordering::SeqCst);
                while finished.load(Ordering::SeqCst) < asking {
                    on(cpu, || this_cpu(tlb).handle_ipi());
                    std::thread::yield_now();
                }
            });
            // Whoever interrupts has asked.
            while interrupts() <= cpu as usize {
                std::thread::yield_now();
            }
        }
        on(target, || this_cpu(tlb).handle_ipi());
    });
    let log = tlb.platform().log(target);
    log.into_iter().filter(Op::acts).collect()
}

#[test]
fn requests_for_one_space_are_processed_as_one_as_long_as_they_can_be_told_apart() {
    let met = |asking| {
        let tlb = epochs(16, Fake::new(16, 16).without_broadcast());
        let a = space(tlb, 1);
        let _ = switch(tlb, 15, &a);
        let tag = on(15, || this_cpu(tlb).tag().0);
        let ops = met_at_once(tlb, (asking, 15), |cpu| {
            let page = pages(u64::from(cpu + 1) << 20, 1);
            let _ = flush(tlb, cpu, &a, |gather| gather.revoke(page));
        });
        let served = tlb.platform().counts[15].served();
        assert_eq!(served, (asking.into(), asking.into()));
        (tag, ops)
    };
    for asking in [1, 2] {
        let (tag, ops) = met(asking);
        // The first was told its page. The others are in the queue.
        let each = (2..=u64::from(asking)).chain([1]).map(|mib| Op::FlushRange(tag, mib << 20, 1));
        assert_eq!(ops, each.collect::<Vec<_>>(), "each page once");
    }
    // In the queue the slot of the first is that of the eighth.
    let (tag, ops) = met(9);
    let told = Op::FlushRange(tag, 1 << 20, 1);
    assert_eq!(ops, [Op::FlushKernel(vec![]), told], "once, for all in the queue");
}

#[test]
fn broadcast_requests_are_processed_one_by_one_as_long_as_they_can_be_told_apart() {
    let met = |asking| {
        let tlb = recent(16, Fake::new(16, 12));
        for cpu in asking..15 {
            on(cpu, || this_cpu(tlb).offline());
        }
        met_at_once(tlb, (asking, 15), |cpu| {
            let mut gather = KernelGather::new(tlb);
            gather.revoke(pages(KERNEL + (u64::from(cpu + 1) << 20), 1));
            let _ = this_cpu(tlb).flush_kernel(gather);
        })
    };
    for asking in [1, 7] {
        let each = (1..=u64::from(asking)).map(|mib| (KERNEL + (mib << 20), 1));
        let each: Vec<_> = each.map(|page| Op::FlushKernel(vec![page])).collect();
        assert_eq!(met(asking), each);
    }
    assert_eq!(met(8), [Op::FlushKernel(vec![])], "once, for all");
}

#[test]
fn a_request_that_comes_too_late_is_counted_and_found_to_be_of_no_use() {
    let tlb = recent(16, Fake::new(16, 12).with_walks_that_outlive_tags());
    let a = space(tlb, 1);
    let _ = switch(tlb, 15, &a);
    // Its slots are those of other spaces by now; but nobody has noticed that it is gone.
    let others: Vec<_> = (2..9).map(|number| space(tlb, number)).collect();
    for other in &others {
        let _ = switch(tlb, 15, other);
    }
    let _ = switch(tlb, 0, &a);
    let _ = flush(tlb, 0, &a, |gather| What::Table.tell(gather));
    assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 1));
    assert_eq!(tlb.platform().counts[15].served(), (1, 0));
}

#[test]
fn an_early_answer_does_not_wait_for_the_invalidation() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = lasting(tlb);
        let _ = switch(tlb, 15, a);
        tlb.platform().set_answer(Answer::Never);
        let [done, first]: &[AtomicBool; 2] = Box::leak(Box::default());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut gather = Gather::new(a);
                What::Page.tell(&mut gather);
                let _ = on(0, || this_cpu(tlb).flush_early(gather));
                done.store(true, Ordering::SeqCst);
            });
            while tlb.platform().pending().is_empty() {
                std::thread::yield_now();
            }
            // Before it removes anything, the target has the initiator go on, or complain.
            tlb.platform().meanwhile(Moment::Removed, move || {
                while !done.load(Ordering::SeqCst) && tlb.platform().stuck_waits().is_empty() {
                    std::thread::yield_now();
                }
                first.store(done.load(Ordering::SeqCst), Ordering::SeqCst);
            });
            on(15, || this_cpu(tlb).handle_ipi());
        });
        assert!(first.load(Ordering::SeqCst), "it waits for the invalidation");
        assert!(tlb.platform().log(15).iter().any(|op| matches!(op, Op::FlushRange(..))));
    }
    check(recent(16, Fake::new(16, 12)));
    check(epochs(16, Fake::new(16, 16).without_broadcast()));
}

#[test]
fn a_cpu_that_was_called_and_has_not_looked_is_not_interrupted_again() {
    let tlb = recent(200, Fake::new(200, 12));
    let a = lasting(tlb);
    for cpu in [70, 199] {
        let _ = switch(tlb, cpu, a);
    }
    park(tlb, 199);
    tlb.platform().set_answer(Answer::WhenWaitedFor);
    tlb.platform().forget_logs();
    // The one has sent an IPI to CPU 70 and records what CPU 199 misses, when another one flushes, too.
    tlb.platform().meanwhile(Moment::CostsAsked(1), move || {
        let _ = flush(tlb, 1, a, |gather| What::Page.tell(gather));
        assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 1), "it waits all the same");
    });
    let _ = flush(tlb, 5, a, |gather| What::Range.tell(gather));
    let acts = tlb.platform().acts();
    let interrupts: Vec<_> = acts.iter().filter(|(_, op)| matches!(op, Op::Interrupt(_))).collect();
    assert_eq!(interrupts, [&(5, Op::Interrupt(vec![70]))], "{acts:?}");
    let (served, useful) = tlb.platform().counts[70].served();
    assert_eq!((served, useful), (2, 2), "one flush for both");
}

#[test]
fn the_first_target_is_awaited_before_the_wait_list_overflows() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        // One of each group, of which sixteen can be under way.
        let targets: Vec<_> = (0..17).map(|group| group * 32).collect();
        for &cpu in &targets {
            let _ = switch(tlb, cpu, &a);
        }
        tlb.platform().forget_logs();
        tlb.platform().set_answer(Answer::Never);
        // The interrupt of the first was lost: it serves only if it is missed itself.
        tlb.platform().set_diagnosis(move |stuck| {
            let missed = |cpu: &u32| *cpu != 0 || stuck.target.0 == 0;
            for cpu in tlb.platform().pending().into_iter().filter(missed) {
                on(cpu, || this_cpu(tlb).handle_ipi());
            }
            tlb.platform().set_answer(Answer::AtOnce);
        });
        let _ = flush(tlb, 1, &a, |gather| What::Page.tell(gather));
        assert_eq!(tlb.platform().outcome(), (Outcome::Ipis, 17));
        let waits = tlb.platform().stuck_waits();
        assert_eq!(waits.iter().map(|wait| wait.target.0).collect::<Vec<_>>(), [0]);
        for cpu in targets {
            let log = tlb.platform().log(cpu);
            assert!(log.iter().any(|op| matches!(op, Op::FlushRange(..))), "{cpu}: {log:?}");
        }
    }
    check(recent(544, Fake::new(544, 12)));
    check(epochs(544, Fake::new(544, 16).without_broadcast()));
}
