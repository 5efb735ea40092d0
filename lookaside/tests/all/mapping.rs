//! New mappings: which CPU forgets that nothing was mapped.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use crate::support::{
    Fake, Op,
    machine::{Machine, Strategy, epochs, pages, recent, space, switch, this_cpu},
    on,
};

const OTHER: u32 = 1;
const CPUS: usize = 2;
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// What all CPUs do after `act` of CPU 0.
fn acts<T: Strategy>(tlb: Machine<T>, act: impl FnOnce()) -> Vec<(u32, Op)> {
    tlb.platform().forget_logs();
    on(0, act);
    tlb.platform().acts()
}

#[test]
fn where_absent_entries_are_cached_the_cpu_that_maps_forgets_them_if_it_runs_the_space() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        for cpu in [0, OTHER] {
            let _ = switch(tlb, cpu, &a);
        }
        let tag = on(0, || this_cpu(tlb).tag()).0;
        let map = |space| acts(tlb, || this_cpu(tlb).map(space, pages(0x5000, 2)));
        assert_eq!(map(&a), [(0, Op::FlushRange(tag, 0x5000, 2))], "and no other CPU");
        assert_eq!(map(&b), [], "it walks the new entry when it runs the space");
    }
    check(recent(CPUS, Fake::new(CPUS, 12).with_absent_entries_cached()));
    check(epochs(CPUS, Fake::new(CPUS, 16).with_absent_entries_cached()));
}

#[test]
fn so_much_may_be_mapped_that_the_cpu_forgets_the_whole_tag() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        tlb.platform().set_costs(|costs| costs.local.ceiling = 512);
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        let tag = on(0, || this_cpu(tlb).tag()).0;
        let map = |count| acts(tlb, || this_cpu(tlb).map(&a, pages(0x5000, count)));
        assert_eq!(map(513), [(0, Op::FlushTag(tag))]);
        assert_eq!(map(1 << 30), [(0, Op::FlushTag(tag))]);
    }
    check(recent(CPUS, Fake::new(CPUS, 12).with_absent_entries_cached()));
    check(epochs(CPUS, Fake::new(CPUS, 16).with_absent_entries_cached()));
}

#[test]
fn where_absent_entries_are_cached_every_cpu_forgets_those_of_kernel_addresses() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let done = acts(tlb, || this_cpu(tlb).map_kernel(pages(KERNEL, 1)));
        for cpu in [0, OTHER] {
            assert!(done.contains(&(cpu, Op::FlushKernel(vec![(KERNEL, 1)]))), "{done:?}");
        }
    }
    check(recent(CPUS, Fake::new(CPUS, 12).with_absent_entries_cached()));
    let fake = Fake::new(CPUS, 16).with_absent_entries_cached().without_broadcast();
    check(epochs(CPUS, fake));
}

#[test]
fn where_absent_entries_are_not_cached_nothing_is_flushed() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        assert_eq!(acts(tlb, || this_cpu(tlb).map(&a, pages(0x5000, 1))), []);
        // On Arm64 the next access of this CPU comes after an `ISB`, which `publish` does not execute.
        on(0, || this_cpu(tlb).map_kernel(pages(KERNEL, 1)));
        assert_eq!(tlb.platform().log(0), [Op::Settle]);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_space_of_another_tlb_is_refused() {
    let (one, other) = (epochs(1, Fake::new(1, 16)), epochs(1, Fake::new(1, 16)));
    let a = space(one, 1);
    let maps = || this_cpu(other).map(&a, pages(0x5000, 1));
    assert!(catch_unwind(AssertUnwindSafe(maps)).is_err());
}
