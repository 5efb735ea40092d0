//! Bugs that were put in by hand, and that no test or scenario found at first.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::support::{
    Answer, Fake, Moment, Op,
    machine::{
        ByRecent, Machine, Strategy, epochs, epochs_with, flush, pages, recent, space, switch,
        this_cpu,
    },
    on,
};
use lookaside::{AddressSpace, Gather, KernelGather, VaRange, tags::GlobalAsidsConfig};

const KERNEL: u64 = 0xffff_8000_0000_0000;

/// `cpu` takes one kernel page back, of this number.
fn unmap_kernel(tlb: ByRecent, cpu: u32, number: u64) {
    let mut gather = KernelGather::new(tlb);
    gather.revoke(pages(KERNEL + (number << 20), 1));
    let _ = on(cpu, || this_cpu(tlb).flush_kernel(gather));
}

/// What a CPU does for that.
fn kernel_page(number: u64) -> Op {
    Op::FlushKernel(vec![(KERNEL + (number << 20), 1)])
}

/// Waits until so many CPUs have interrupted others.
fn wait_for_interrupts(tlb: ByRecent, count: usize) {
    while tlb.platform().mmu.count(|op| matches!(op, Op::Interrupt(_))) < count {
        thread::yield_now();
    }
}

#[test]
fn a_cpu_that_asks_everybody_still_does_what_it_was_asked_before() {
    let tlb = recent(2, Fake::new(2, 12));
    tlb.platform().set_answer(Answer::Never);
    let finished = AtomicU32::new(0);
    let ask = |cpu, number| {
        unmap_kernel(tlb, cpu, number);
        // The other one may still wait for this one.
        finished.fetch_add(1, Ordering::SeqCst);
        while finished.load(Ordering::SeqCst) < 2 {
            on(cpu, || this_cpu(tlb).handle_ipi());
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| ask(0, 1));
        wait_for_interrupts(tlb, 1);
        // Its own notice is the later one. It answers the other while it waits.
        scope.spawn(|| ask(1, 2));
    });
    for cpu in 0..2 {
        let log = tlb.platform().log(cpu);
        assert!(log.contains(&kernel_page(1)) && log.contains(&kernel_page(2)), "{cpu}: {log:?}");
    }
}

#[test]
fn a_request_posted_while_handling_is_not_acknowledged_early() {
    let tlb = recent(3, Fake::new(3, 12));
    // CPUs 0 and 1 are interrupted, one after the other. While CPU 1 flushes what it found on the board,
    // CPU 0 puts something else there.
    let (sender, receiver) = std::sync::mpsc::channel();
    tlb.platform().meanwhile(Moment::KernelRemoved, move || {
        tlb.platform().meanwhile(Moment::KernelRemoved, move || {
            tlb.platform().set_answer(Answer::Never);
            sender.send(thread::spawn(move || unmap_kernel(tlb, 0, 2))).unwrap();
            wait_for_interrupts(tlb, 2);
        });
    });
    unmap_kernel(tlb, 2, 1);
    let later = receiver.recv().unwrap();
    while !later.is_finished() {
        for cpu in [1, 2] {
            on(cpu, || this_cpu(tlb).handle_ipi());
        }
        thread::yield_now();
    }
    later.join().unwrap();
    for cpu in 0..3 {
        let log = tlb.platform().log(cpu);
        assert!(log.contains(&kernel_page(1)) && log.contains(&kernel_page(2)), "{cpu}: {log:?}");
    }
}

#[test]
fn a_flush_of_everything_completes_nothing_that_is_given_up_later() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a: &AddressSpace<Fake> = Box::leak(Box::new(space(tlb, 1)));
        let _ = switch(tlb, 0, a);
        tlb.platform().meanwhile(Moment::Removed, || {
            let mut lost = Gather::new(a);
            lost.unlink_table(pages(0x20_0000, 512));
            drop(lost);
        });
        let _ = flush(tlb, 0, a, |gather| gather.revoke_everything());
        tlb.platform().forget_logs();
        // Whoever relies on what it finds absent there completes it.
        let _ = flush(tlb, 0, a, |gather| gather.relies_on(pages(0x20_0000, 1)));
        let log = tlb.platform().log(0);
        assert!(log.iter().any(|op| matches!(op, Op::FlushTag(_))), "{log:?}");
    }
    check(recent(1, Fake::new(1, 12)));
    check(epochs(1, Fake::new(1, 16).without_broadcast()));
}

#[test]
fn a_pinned_tag_stays_its_spaces_whatever_its_number() {
    let config = GlobalAsidsConfig { tags: 200, pins: 1, last_epoch: 4 };
    let tlb = epochs_with(1, Fake::new(1, 8), config);
    let tags = |count| {
        (0..count).map(|_| {
            let other = space(tlb, 2);
            let _ = switch(tlb, 0, &other);
            other.cookie().tag().0
        })
    };
    let before = tags(130).last().unwrap();
    let pinned = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&pinned).unwrap().0;
    assert!(tag >= 128 && tag > before, "beyond the first two words of the map: {tag}");
    while tlb.tags().epoch() < 3 {
        assert!(tags(1).all(|other| other != tag), "two spaces have tag {tag}");
    }
}

#[test]
fn only_what_has_one_size_is_said_to_have_one() {
    type Tell = fn(&mut Gather<'_, Fake>);
    fn page() -> VaRange {
        pages(0x20_0000, 1)
    }
    let told: [(Tell, bool); 5] = [
        (|gather| gather.revoke(page()), true),
        (|gather| gather.revoke_mixed(page()), false),
        (|gather| gather.unlink_table(page()), false),
        (|gather| gather.move_away(page(), &()), false),
        (|gather| gather.unshare_table(page(), &()), false),
    ];
    for (number, (tell, uniform)) in told.into_iter().enumerate() {
        let tlb = recent(1, Fake::new(1, 12));
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        let _ = flush(tlb, 0, &a, tell);
        assert_eq!(tlb.platform().mmu.uniform(), Some(uniform), "the way of number {number}");
    }
}
