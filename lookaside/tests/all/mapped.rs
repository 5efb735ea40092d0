//! Flushes of several pages where each CPU knows what it has mapped since it lost everything under a tag.

use crate::support::{
    Fake, Op,
    machine::{Machine, Strategy, epochs, pages, recent, space, switch, this_cpu},
    on,
};
use lookaside::{AddressSpace, Gather};

const OTHER: u32 = 1;
const CPUS: usize = 2;
/// Some pages, and so many that they are worth a tag of which nothing else is known to be in use.
const MANY: u64 = 12;

/// Whether the CPUs that flush `count` pages do it by address, in the order of their numbers.
fn by_address<T: Strategy>(
    tlb: Machine<T>,
    space: &AddressSpace<Fake>,
    count: u64,
) -> Vec<(u32, bool)> {
    tlb.platform().forget_logs();
    on(0, || {
        let mut gather = Gather::new(space);
        gather.revoke(pages(0x10_0000, count));
        let _ = this_cpu(tlb).flush(gather);
    });
    let mut done: Vec<_> = tlb
        .platform()
        .acts()
        .into_iter()
        .filter_map(|(cpu, act)| match act {
            Op::FlushRange(..) => Some((cpu, true)),
            Op::FlushTag(..) => Some((cpu, false)),
            _ => None,
        })
        .collect();
    done.sort_unstable();
    done
}

#[test]
fn pages_mapped_on_a_cpu_count_for_flushes_by_address_until_they_are_lost() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let a = space(tlb, 1);
    for cpu in [0, OTHER] {
        let _ = switch(tlb, cpu, &a);
    }
    assert_eq!(by_address(tlb, &a, MANY - 1), [(0, true), (OTHER, true)]);
    assert_eq!(by_address(tlb, &a, MANY), [(0, false), (OTHER, false)]);
    on(OTHER, || this_cpu(tlb).map(&a, pages(0x20_0000, 60)));
    assert_eq!(by_address(tlb, &a, MANY), [(0, false), (OTHER, true)], "each for itself");
    // Of 48 that are left, 8 are no part of this.
    assert_eq!(by_address(tlb, &a, 40), [(0, false), (OTHER, false)]);
    assert_eq!(by_address(tlb, &a, MANY), [(0, false), (OTHER, false)], "they are lost");
}

#[test]
fn what_was_mapped_is_lost_with_a_tag_that_is_dropped_at_a_switch() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, 0, &a);
    on(0, || this_cpu(tlb).map(&a, pages(0x20_0000, 60)));
    let _ = switch(tlb, 0, &b);
    let _ = switch(tlb, 0, &a);
    assert_eq!(by_address(tlb, &a, MANY), [(0, true)], "the tag was kept");
    on(0, || this_cpu(tlb).map(&a, pages(0x20_0000, 60)));
    let _ = switch(tlb, 0, &b);
    // This CPU misses two flushes.
    let _ = switch(tlb, OTHER, &a);
    for _ in 0..2 {
        on(OTHER, || {
            let mut gather = Gather::new(&a);
            gather.revoke(pages(0x10_0000, 1));
            let _ = this_cpu(tlb).flush(gather);
        });
    }
    let _ = switch(tlb, OTHER, &b);
    let _ = switch(tlb, 0, &a);
    assert_eq!(by_address(tlb, &a, MANY), [(0, false)]);
}

#[test]
fn pages_of_a_space_that_does_not_run_are_not_counted() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, 0, &b);
    on(0, || this_cpu(tlb).map(&a, pages(0x20_0000, 60)));
    assert_eq!(by_address(tlb, &b, MANY), [(0, false)]);
    let _ = switch(tlb, 0, &a);
    assert_eq!(by_address(tlb, &a, MANY), [(0, false)]);
}

#[test]
fn where_it_is_not_known_the_loss_counts_in_full() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    assert_eq!(by_address(tlb, &a, MANY), [(0, true)]);
    tlb.platform().set_costs(|costs| costs.local.ceiling = MANY - 1);
    assert_eq!(by_address(tlb, &a, MANY), [(0, false)]);
}

/// Whether CPU 0 keeps the tag of `a` when it comes back to it after it has missed a flush of `count` pages.
fn keeps<T: Strategy>(
    tlb: Machine<T>,
    a: &AddressSpace<Fake>,
    b: &AddressSpace<Fake>,
    count: u64,
) -> bool {
    let _ = switch(tlb, 0, b);
    let _ = switch(tlb, OTHER, a);
    on(OTHER, || {
        let mut gather = Gather::new(a);
        gather.revoke(pages(0x10_0000, count));
        let _ = this_cpu(tlb).flush(gather);
    });
    let _ = switch(tlb, OTHER, b);
    tlb.platform().forget_logs();
    let _ = switch(tlb, 0, a);
    let flushed = |(cpu, act): &(u32, Op)| *cpu == 0 && matches!(act, Op::FlushRange(..));
    tlb.platform().acts().iter().any(flushed)
}

#[test]
fn a_flush_that_was_missed_goes_by_the_same_rule() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, 0, &a);
    assert!(keeps(tlb, &a, &b, MANY - 1));
    assert!(!keeps(tlb, &a, &b, MANY));
    on(0, || this_cpu(tlb).map(&a, pages(0x20_0000, 60)));
    assert!(keeps(tlb, &a, &b, MANY), "it would lose what it has mapped");
    // Of 48 that are left, 8 are no part of this.
    assert!(!keeps(tlb, &a, &b, 40));
    assert!(!keeps(tlb, &a, &b, MANY), "they are lost");
}

#[test]
fn a_flush_that_was_missed_while_lazy_goes_by_the_same_rule() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12));
    let a = space(tlb, 1);
    for cpu in [0, OTHER] {
        let _ = switch(tlb, cpu, &a);
    }
    let by_address_after_lazy = |count| {
        on(0, || this_cpu(tlb).lazy());
        on(OTHER, || {
            let mut gather = Gather::new(&a);
            gather.revoke(pages(0x10_0000, count));
            let _ = this_cpu(tlb).flush(gather);
        });
        tlb.platform().forget_logs();
        let _ = switch(tlb, 0, &a);
        let acts = tlb.platform().acts();
        let by_address =
            acts.iter().any(|(cpu, act)| *cpu == 0 && matches!(act, Op::FlushRange(..)));
        let by_tag = acts.iter().any(|(cpu, act)| *cpu == 0 && matches!(act, Op::FlushTag(..)));
        assert!(by_address != by_tag, "{acts:?}");
        by_address
    };
    assert!(by_address_after_lazy(MANY - 1));
    assert!(!by_address_after_lazy(MANY));
    on(0, || this_cpu(tlb).map(&a, pages(0x20_0000, 60)));
    assert!(by_address_after_lazy(MANY));
    assert!(!by_address_after_lazy(40));
    assert!(!by_address_after_lazy(MANY));
    assert!(by_address_after_lazy(1), "one page always does");
}
