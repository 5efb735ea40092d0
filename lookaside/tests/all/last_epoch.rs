//! The last epoch: spaces share one tag, and some CPUs still run under the tags of the epoch before.

use crate::support::{
    Fake, Moment, Op,
    machine::{ByEpochs, What, epochs_with, flush, park, space, switch, this_cpu},
    on,
};
use lookaside::{
    AddressSpace,
    arch::Tag,
    platform::CpuId,
    tags::{GlobalAsidsConfig, Released, Residency},
};

const OTHER: u32 = 1;
const THIRD: u32 = 2;
const CPUS: usize = 3;
const LAST_EPOCH: u64 = 2;

fn machine(fake: Fake) -> ByEpochs {
    epochs_with(CPUS, fake, GlobalAsidsConfig { tags: 64, pins: 1, last_epoch: LAST_EPOCH })
}

/// `cpu` uses up all tags and is the first one in the last epoch.
fn turn(tlb: ByEpochs, cpu: u32) {
    for number in 100.. {
        if tlb.tags().epoch() == LAST_EPOCH {
            return;
        }
        let _ = switch(tlb, cpu, &space(tlb, number));
    }
}

/// What is done for a flush of one page by `cpu`.
fn flush_page(tlb: ByEpochs, cpu: u32, space: &AddressSpace<Fake>) -> Vec<(u32, Op)> {
    tlb.platform().forget_logs();
    let _ = flush(tlb, cpu, space, |gather| What::Page.tell(gather));
    tlb.platform().acts()
}

#[test]
fn a_flush_reaches_a_cpu_that_still_runs_under_a_former_tag() {
    for broadcasts in [false, true] {
        let fake = Fake::new(CPUS, 8);
        let tlb = machine(if broadcasts { fake } else { fake.without_broadcast() });
        let a = space(tlb, 1);
        let _ = switch(tlb, OTHER, &a);
        turn(tlb, 0);
        let _ = switch(tlb, 0, &a);
        let acts = flush_page(tlb, 0, &a);
        let all = if broadcasts { (0, Op::FlushAllEverywhere) } else { (OTHER, Op::FlushAll) };
        assert!(acts.contains(&all), "{acts:?}");
    }
}

#[test]
fn a_cpu_that_left_a_space_is_absent_after_a_flush() {
    let tlb = machine(Fake::new(CPUS, 8));
    let a = space(tlb, 1);
    turn(tlb, 0);
    for cpu in [0, OTHER] {
        let _ = switch(tlb, cpu, &a);
    }
    park(tlb, OTHER);
    assert_eq!(flush_page(tlb, 0, &a), [(0, Op::FlushAll)]);
    assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Absent);
}

#[test]
fn a_cpu_that_enters_during_a_retag_stays_a_flush_target() {
    let tlb = machine(Fake::new(CPUS, 8).without_broadcast());
    let a: &'static _ = Box::leak(Box::new(space(tlb, 1)));
    let _ = switch(tlb, 0, a);
    tlb.platform().set_costs(|costs| (costs.retag, costs.useful_entries) = (0, 0));
    tlb.platform().meanwhile(Moment::CostsAsked(1), || {
        turn(tlb, OTHER);
        let _ = switch(tlb, THIRD, a);
    });
    let _ = flush(tlb, 0, a, |gather| What::Range.tell(gather));
    let acts = flush_page(tlb, OTHER, a);
    assert!(acts.contains(&(THIRD, Op::FlushAll)), "{acts:?}");
}

#[test]
fn a_cpu_that_runs_a_space_without_a_tag_of_its_own_leaves_it_at_its_release() {
    let tlb = machine(Fake::new(CPUS, 8));
    turn(tlb, 0);
    let mut a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    assert_eq!(on(THIRD, || this_cpu(tlb).release(&mut a)), Released::AtOnce);
    assert_eq!(on(OTHER, || this_cpu(tlb).tag()), Tag::RESERVED);
}

#[test]
fn a_cpu_under_a_former_tag_does_not_interrupt_itself() {
    let tlb = machine(Fake::new(CPUS, 8).without_broadcast());
    let a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    turn(tlb, 0);
    // Its entries are under the former tag still.
    assert_eq!(flush_page(tlb, OTHER, &a), [(OTHER, Op::FlushRange(2, 0x5000, 1))]);
}
