//! Which CPUs must act for a flush: none, this CPU, some, or all; and that it is no more of them
//! than must.

use crate::support::{
    Fake, Op,
    machine::{
        ByEpochs, Machine, Strategy, What, epochs, flush, pages, park, recent, space, switch,
        this_cpu,
    },
    on,
};
use lookaside::{
    AddressSpace, CurrentCpu, Gather, GlobalAsids, PerCpuAsids,
    arch::{Held, Wait},
    counts::Outcome,
    platform::CpuId,
    tags::{Residency, Switched},
};

/// CPUs are numbered beyond one word of residency, and one of targets.
const CPUS: usize = 200;
const OTHER: u32 = 70;
const THIRD: u32 = 199;

/// What was done on all CPUs, and how the flush ended.
type Story = (Vec<(u32, Op)>, (Outcome, u32));

fn story<T: Strategy>(tlb: Machine<T>, cpu: u32, space: &AddressSpace<Fake>, what: What) -> Story {
    tlb.platform().forget_logs();
    let _ = flush(tlb, cpu, space, |gather| what.tell(gather));
    let outcome = tlb.platform().outcome();
    (tlb.platform().acts(), outcome)
}

/// What one CPU executes for its part.
fn here_op(tag: u16, what: What) -> Op {
    match what {
        What::Page => Op::FlushRange(tag, 0x5000, 1),
        What::Range => Op::FlushRange(tag, 0x10_0000, 9),
        What::AddressSpace | What::Table => Op::FlushTag(tag),
    }
}

/// What is broadcast.
fn everywhere_op(tag: u16, what: What) -> Op {
    match what {
        What::Page => Op::FlushRangeEverywhere(tag, 0x5000, 1, Wait::Now),
        What::Range => Op::FlushRangeEverywhere(tag, 0x10_0000, 9, Wait::Now),
        What::AddressSpace | What::Table => Op::FlushTagEverywhere(tag),
    }
}

fn tag<T: Strategy>(tlb: Machine<T>, cpu: u32) -> u16 {
    on(cpu, || this_cpu(tlb).tag().0)
}

// ---- Nobody

fn nobody_acts_for_a_space_that_nobody_runs<T: Strategy>(tlb: Machine<T>) {
    for what in What::ALL {
        let a = space(tlb, 1);
        assert_eq!(story(tlb, 0, &a, what), (vec![], (Outcome::NoCpu, 0)), "never ran: {what:?}");
        for cpu in [0, OTHER, THIRD] {
            let _ = switch(tlb, cpu, &a);
            park(tlb, cpu);
        }
        assert_eq!(story(tlb, 0, &a, what), (vec![], (Outcome::NoCpu, 0)), "{what:?}");
        // And nothing but the order of stores to tables before walks was asked of the hardware.
        let _ = flush(tlb, 0, &a, |gather| what.tell(gather));
        assert_eq!(tlb.platform().log(0), [Op::Publish(Wait::Now)], "{what:?}");
    }
}

#[test]
fn local_01_nobody_executes_anything_for_a_space_that_nobody_runs() {
    nobody_acts_for_a_space_that_nobody_runs(epochs(CPUS, Fake::new(CPUS, 16)));
    nobody_acts_for_a_space_that_nobody_runs(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
    nobody_acts_for_a_space_that_nobody_runs(recent(CPUS, Fake::new(CPUS, 12)));
}

// ---- Here

fn a_space_that_runs_here_alone_is_flushed_here<T: Strategy>(tlb: Machine<T>) {
    for what in What::ALL {
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        // Two others ran it: one runs another space now, one none.
        for cpu in [OTHER, THIRD, 0] {
            let _ = switch(tlb, cpu, &a);
        }
        let _ = switch(tlb, OTHER, &b);
        park(tlb, THIRD);
        let only = vec![(0, here_op(tag(tlb, 0), what))];
        assert_eq!(story(tlb, 0, &a, what), (only.clone(), (Outcome::Local, 0)), "{what:?}");
        assert_eq!(story(tlb, 0, &a, what), (only, (Outcome::Local, 0)), "again: {what:?}");
        park(tlb, 0);
        park(tlb, OTHER);
    }
}

#[test]
fn local_01_a_space_that_runs_on_one_cpu_is_flushed_by_that_cpu_alone() {
    a_space_that_runs_here_alone_is_flushed_here(epochs(CPUS, Fake::new(CPUS, 16)));
    a_space_that_runs_here_alone_is_flushed_here(recent(CPUS, Fake::new(CPUS, 12)));
}

// ---- These

fn those_that_run_it_are_interrupted_and_no_others<T: Strategy>(tlb: Machine<T>) {
    for what in What::ALL {
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        for cpu in [0, 1, OTHER, THIRD] {
            let _ = switch(tlb, cpu, &a);
        }
        let _ = switch(tlb, 1, &b);
        let op = |cpu| (cpu, here_op(tag(tlb, cpu), what));
        let interrupt = |cpu| (0, Op::Interrupt(vec![cpu]));
        let expected = vec![interrupt(OTHER), op(OTHER), interrupt(THIRD), op(THIRD), op(0)];
        assert_eq!(story(tlb, 0, &a, what), (expected, (Outcome::Ipis, 2)), "{what:?}");
        // A CPU that does not run the space itself executes nothing of it.
        let expected = vec![interrupt2(5, 0), op(0), interrupt2(5, OTHER), op(OTHER)];
        park(tlb, THIRD);
        assert_eq!(story(tlb, 5, &a, what), (expected, (Outcome::Ipis, 2)), "{what:?}");
        for cpu in [0, 1, OTHER] {
            park(tlb, cpu);
        }
    }
}

fn interrupt2(from: u32, to: u32) -> (u32, Op) {
    (from, Op::Interrupt(vec![to]))
}

#[test]
fn local_01_those_that_run_a_space_are_interrupted_and_no_others() {
    those_that_run_it_are_interrupted_and_no_others(recent(CPUS, Fake::new(CPUS, 12)));
    let fake = Fake::new(CPUS, 16).without_broadcast();
    those_that_run_it_are_interrupted_and_no_others(epochs(CPUS, fake));
    // Where broadcasts are dear, interrupts are chosen although there are broadcasts.
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    tlb.platform().set_costs(|costs| costs.broadcast.wait = 1 << 40);
    those_that_run_it_are_interrupted_and_no_others(tlb);
}

// ---- Everyone

#[test]
fn local_01_where_several_run_a_space_hardware_broadcasts_if_that_is_cheaper() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    for what in What::ALL {
        let a = space(tlb, 1);
        let _ = switch(tlb, OTHER, &a);
        let tag = tag(tlb, OTHER);
        let everywhere = (vec![(0, everywhere_op(tag, what))], (Outcome::Broadcast, 0));
        // Who flushes need not run the space.
        assert_eq!(story(tlb, 0, &a, what), everywhere, "{what:?}");
        let _ = switch(tlb, 0, &a);
        assert_eq!(story(tlb, 0, &a, what), everywhere, "{what:?}");
        park(tlb, 0);
        park(tlb, OTHER);
    }
}

#[test]
fn how_many_are_interrupted_before_a_broadcast_is_cheaper_follows_from_the_costs() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    // A broadcast of one page is 1050. One interrupt is 500, and each more 200.
    tlb.platform().set_costs(|costs| costs.ipi = 500);
    let a = space(tlb, 1);
    let mut outcomes = Vec::new();
    for cpu in 1..6 {
        let _ = switch(tlb, 30 * cpu, &a);
        outcomes.push(story(tlb, 0, &a, What::Page).1);
    }
    assert_eq!(
        outcomes,
        [
            (Outcome::Ipis, 1),
            (Outcome::Ipis, 2),
            (Outcome::Ipis, 3),
            (Outcome::Broadcast, 0),
            (Outcome::Broadcast, 0)
        ]
    );
}

#[test]
fn local_05_a_pinned_space_is_always_broadcast() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let a = space(tlb, 1);
    let tag = this_cpu(tlb).pin(&a).unwrap().0;
    for what in What::ALL {
        let everywhere = (vec![(0, everywhere_op(tag, what))], (Outcome::Broadcast, 0));
        assert_eq!(story(tlb, 0, &a, what), everywhere, "no CPU runs it, a device may");
        let _ = switch(tlb, 0, &a);
        assert_eq!(story(tlb, 0, &a, what), everywhere);
        park(tlb, 0);
    }
    this_cpu(tlb).unpin(&a).unwrap();
    assert_eq!(story(tlb, 0, &a, What::Page), (vec![], (Outcome::NoCpu, 0)));
}

// ---- Who counts

fn a_lazy_cpu_is_left_alone_for_pages_and_told_of_tables<T: Strategy>(tlb: Machine<T>) {
    let a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    let tag = tag(tlb, OTHER);
    let lazy = || on(OTHER, || this_cpu(tlb).lazy());
    for what in What::LEAVES {
        lazy();
        assert_eq!(story(tlb, 0, &a, what), (vec![], (Outcome::NoCpu, 0)), "{what:?}");
        assert_eq!(switch(tlb, OTHER, &a), Switched::CaughtUp);
        assert!(tlb.platform().acts().iter().any(|(cpu, op)| {
            *cpu == OTHER && [Op::FlushTag(tag), here_op(tag, what)].contains(op)
        }));
    }
    for what in [What::AddressSpace, What::Table] {
        lazy();
        let (acts, (outcome, _)) = story(tlb, 0, &a, what);
        assert_ne!(outcome, Outcome::NoCpu, "{what:?}");
        let dropped = |acts: &[(u32, Op)]| {
            let all = [Op::FlushTag(tag), Op::FlushTagEverywhere(tag)];
            acts.iter().any(|(_, op)| {
                all.contains(op)
                    || matches!(op, Op::Load { tag: of, held: Held::Drop, .. } if *of == tag)
            })
        };
        // Who leaves is not asked again, and pays when it comes back.
        let left = acts.contains(&(OTHER, Op::Park));
        assert_ne!(dropped(&acts), left, "{what:?}");
        if left {
            assert_eq!(story(tlb, 0, &a, what), (vec![], (Outcome::NoCpu, 0)), "{what:?}");
        }
        let switched = switch(tlb, OTHER, &a);
        assert!(!left || dropped(&tlb.platform().acts()), "{what:?}: {switched:?}");
    }
    // Nothing was revoked: coming back costs nothing.
    lazy();
    assert_eq!(switch(tlb, OTHER, &a), Switched::Unchanged);
}

#[test]
fn local_05_a_lazy_cpu_is_left_alone_for_pages_and_told_of_tables() {
    a_lazy_cpu_is_left_alone_for_pages_and_told_of_tables(recent(CPUS, Fake::new(CPUS, 12)));
    a_lazy_cpu_is_left_alone_for_pages_and_told_of_tables(epochs(CPUS, Fake::new(CPUS, 16)));
    let fake = Fake::new(CPUS, 16).without_broadcast();
    a_lazy_cpu_is_left_alone_for_pages_and_told_of_tables(epochs(CPUS, fake));
}

fn a_cpu_in_firmware_counts<T: Strategy>(tlb: Machine<T>) {
    let a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    let tag = tag(tlb, OTHER);
    let firmware = lookaside::arch::Root::new(0xffff_0000);
    on(OTHER, || {
        let mut cpu = this_cpu(tlb);
        let flushed = || {
            let (acts, (outcome, targets)) = on(0, || story(tlb, 0, &a, What::Page));
            assert_eq!((outcome, targets), (Outcome::Ipis, 1));
            assert_eq!(acts, [interrupt2(0, OTHER), (OTHER, here_op(tag, What::Page))]);
        };
        cpu.with_root(&firmware, flushed).unwrap();
    });
}

#[test]
fn local_05_a_cpu_under_a_foreign_root_counts_as_running() {
    a_cpu_in_firmware_counts(recent(CPUS, Fake::new(CPUS, 12)));
    a_cpu_in_firmware_counts(epochs(CPUS, Fake::new(CPUS, 16).without_broadcast()));
}

fn the_flusher_need_not_run_the_space<T: Strategy>(tlb: Machine<T>) {
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, 0, &a);
    let _ = switch(tlb, 0, &b);
    // It held something itself, and pays like any other CPU, when it comes back.
    assert_eq!(story(tlb, 0, &a, What::AddressSpace), (vec![], (Outcome::NoCpu, 0)));
    tlb.platform().forget_logs();
    let _ = switch(tlb, 0, &a);
    let flushed = |op: &Op| matches!(op, Op::Load { held: Held::Drop, .. });
    assert!(tlb.platform().log(0).iter().any(flushed));
}

#[test]
fn local_05_a_cpu_that_flushes_and_does_not_run_the_space_flushes_when_it_switches_in() {
    the_flusher_need_not_run_the_space(recent(CPUS, Fake::new(CPUS, 12)));
    the_flusher_need_not_run_the_space(epochs(CPUS, Fake::new(CPUS, 16)));
}

// ---- What is remembered of those who were left alone

#[test]
fn local_02_a_cpu_that_was_skipped_flushes_at_its_next_switch_in_and_only_then() {
    for broadcast in [true, false] {
        let fake = Fake::new(CPUS, 16);
        let fake = if broadcast { fake } else { fake.without_broadcast() };
        let tlb = epochs(CPUS, fake);
        let a = space(tlb, 1);
        for cpu in [OTHER, THIRD, 0] {
            let _ = switch(tlb, cpu, &a);
            if cpu != 0 {
                park(tlb, cpu);
            }
        }
        let residency = |cpu| a.residents().get(CpuId(cpu));
        assert_eq!([OTHER, THIRD].map(residency), [Residency::Present; 2]);
        assert_eq!(story(tlb, 0, &a, What::Page).1, (Outcome::Local, 0));
        assert_ne!(residency(OTHER), Residency::Present);
        assert_eq!(residency(0), Residency::Present, "who flushed has not missed anything");
        let load = |cpu| {
            tlb.platform().forget_logs();
            let _ = switch(tlb, cpu, &a);
            let ops = tlb.platform().log(cpu);
            let held = ops.iter().find_map(|op| match op {
                Op::Load { held, .. } => Some(*held),
                _ => None,
            });
            park(tlb, cpu);
            held.unwrap()
        };
        use lookaside::arch::Held::{Drop, Keep};
        assert_eq!([load(OTHER), load(OTHER)], [Drop, Keep], "once");
        assert_eq!(residency(OTHER), Residency::Present);
        assert_eq!([load(THIRD), load(THIRD)], [Drop, Keep], "each for itself");
    }
}

#[test]
fn local_02_only_a_fresh_tag_clears_the_residency() {
    let config = lookaside::tags::GlobalAsidsConfig { tags: 10, ..Default::default() };
    let tlb = crate::support::machine::epochs_with(3, Fake::new(3, 8), config);
    let a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    park(tlb, 1);
    let _ = switch(tlb, 0, &a);
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    let tag = a.cookie().tag();
    let residency = |cpu| a.residents().get(CpuId(cpu));
    assert_ne!(residency(1), Residency::Present);
    // The epoch turns, and CPU 0 takes its tag along: CPU 1 is what it was.
    for number in 2..20 {
        let _ = switch(tlb, 2, &space(tlb, number));
    }
    assert!(tlb.tags().epoch() > 1);
    let _ = switch(tlb, 2, &a);
    assert_eq!(a.cookie().tag(), tag);
    assert_eq!(residency(0), Residency::Present);
    // Nobody runs it any more, and its tag goes to others: whoever comes finds a fresh one.
    for cpu in [0, 2] {
        park(tlb, cpu);
    }
    let before = a.cookie().epoch();
    for number in 20..60 {
        let _ = switch(tlb, 2, &space(tlb, number));
    }
    assert_eq!(switch(tlb, 1, &a), Switched::Fresh);
    assert!(a.cookie().epoch() > before);
    assert_eq!([residency(0), residency(1)], [Residency::Absent, Residency::Present]);
}

#[test]
fn local_01_after_a_migration_mprotect_asks_nobody() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        for from in [0, 1, OTHER] {
            let _ = switch(tlb, from, &a);
            park(tlb, from);
        }
        let _ = switch(tlb, THIRD, &a);
        for _ in 0..100 {
            let (acts, outcome) = story(tlb, THIRD, &a, What::Page);
            assert_eq!(outcome, (Outcome::Local, 0));
            assert!(acts.iter().all(|&(cpu, _)| cpu == THIRD), "{acts:?}");
        }
        assert_eq!(a.residents().get(CpuId(THIRD)), Residency::Present);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
    check(epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags()));
}

// ---- Tables, where walks outlive tags

/// A space that this CPU runs, and that another one has left.
fn left_by_another() -> (ByEpochs, AddressSpace<Fake>) {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    let a = space(tlb, 1);
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    let _ = switch(tlb, 0, &a);
    (tlb, a)
}

#[test]
fn local_08_freeing_a_table_is_broadcast_to_those_who_left_and_becomes_local() {
    let (tlb, a) = left_by_another();
    let tag = tag(tlb, 0);
    // What a broadcast costs is 1000, and what the tag holds is worth 3000: the third takes it.
    let table = || {
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| gather.unlink_table(pages(0x20_0000, 9)));
        (tlb.platform().acts(), tlb.platform().outcome())
    };
    let outcomes: Vec<_> = (0..5).map(|_| table()).collect();
    let everywhere = |op| (vec![(0, op)], (Outcome::Broadcast, 0));
    let few = everywhere(Op::FlushTablesEverywhere(tag, 0x20_0000, 9, Wait::Now));
    let everything = everywhere(Op::FlushTagEverywhere(tag));
    assert_eq!(outcomes[..3], [few.clone(), few, everything]);
    let this_cpu = (vec![(0, Op::FlushTables(tag, 0x20_0000, 9))], (Outcome::Local, 0));
    assert_eq!(outcomes[3..], [this_cpu.clone(), this_cpu], "everyone has left");
    assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Absent);
    // Who comes back is asked again.
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    assert_eq!(table().1, (Outcome::Broadcast, 0));
}

#[test]
fn local_08_a_broadcast_that_takes_the_whole_tag_anyway_makes_everyone_leave_at_once() {
    for what in [What::Table, What::AddressSpace] {
        let (tlb, a) = left_by_another();
        let tag = tag(tlb, 0);
        let everywhere = (vec![(0, Op::FlushTagEverywhere(tag))], (Outcome::Broadcast, 0));
        assert_eq!(story(tlb, 0, &a, what), everywhere, "{what:?}");
        assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Absent, "{what:?}");
        let here = (vec![(0, Op::FlushTag(tag))], (Outcome::Local, 0));
        assert_eq!(story(tlb, 0, &a, what), here, "{what:?}");
    }
}

#[test]
fn local_08_a_page_after_which_others_are_absent_does_not_make_the_next_table_local() {
    let (tlb, a) = left_by_another();
    assert_eq!(story(tlb, 0, &a, What::Page).1, (Outcome::Local, 0));
    assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Absent);
    // It is absent, and still holds what it held: it was only spared.
    assert_eq!(story(tlb, 0, &a, What::Table).1, (Outcome::Broadcast, 0));
}

#[test]
fn local_08_a_table_is_never_flushed_by_interrupts_alone_if_somebody_rests() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).with_walks_that_outlive_tags());
    tlb.platform().set_costs(|costs| (costs.ipi, costs.ipi_more) = (1, 1));
    let a = space(tlb, 1);
    for cpu in [0, OTHER, THIRD] {
        let _ = switch(tlb, cpu, &a);
    }
    assert_eq!(story(tlb, 0, &a, What::Page).1, (Outcome::Ipis, 2));
    park(tlb, THIRD);
    assert_eq!(story(tlb, 0, &a, What::Page).1, (Outcome::Ipis, 1));
    assert_eq!(story(tlb, 0, &a, What::Table).1, (Outcome::Broadcast, 0));
}

// ---- What the proof rests on

#[test]
fn local_04_this_cpu_is_neither_sent_nor_shared() {
    // A flush is one call on a value that stays where it is, with interrupts off. Both
    // implementations would fit a type that could move, and then this would not compile.
    trait Stays<Why> {
        fn stays() {}
    }
    enum Sent {}
    enum Shared {}
    impl<T> Stays<()> for T {}
    impl<T: Send> Stays<Sent> for T {}
    impl<T: Sync> Stays<Shared> for T {}
    <CurrentCpu<'_, Fake, PerCpuAsids> as Stays<_>>::stays();
    <CurrentCpu<'_, Fake, GlobalAsids<'_, Fake>> as Stays<_>>::stays();
}

#[test]
fn local_07_what_a_cpu_published_is_settled_before_it_loads_a_root() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let check = |space: &AddressSpace<Fake>| {
        tlb.platform().forget_logs();
        let switched = switch(tlb, 0, space);
        let log = tlb.platform().log(0);
        let load = log.iter().position(|op| matches!(op, Op::Load { .. })).unwrap();
        let before = log[..load].iter().rev().find(|op| !matches!(op, Op::Publish(_)));
        assert_eq!(before, Some(&Op::Settle), "{switched:?}: {log:?}");
    };
    // The first time, and again; after a flush; and in a new epoch.
    for _ in 0..3 {
        [&a, &b].into_iter().for_each(check);
        let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    }
    let config = lookaside::tags::GlobalAsidsConfig { tags: 5, ..Default::default() };
    let tlb = crate::support::machine::epochs_with(2, Fake::new(2, 8), config);
    for number in 1..20 {
        tlb.platform().forget_logs();
        let _ = switch(tlb, 0, &space(tlb, number));
        let log = tlb.platform().log(0);
        let [before @ .., Op::Load { .. }] = &log[..] else { panic!("{log:?}") };
        assert_eq!(
            before.iter().rfind(|op| !matches!(op, Op::Publish(_))),
            Some(&Op::Settle),
            "{log:?}"
        );
    }
}

#[test]
fn a_fresh_tag_is_taken_where_it_costs_less_than_a_flush() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    let a = space(tlb, 1);
    // This CPU has tags in its ASID cache.
    for cpu in [0, OTHER] {
        let _ = switch(tlb, cpu, &a);
    }
    park(tlb, OTHER);
    assert_eq!(story(tlb, 0, &a, What::AddressSpace).1, (Outcome::Local, 0));
    tlb.platform().set_costs(|costs| costs.retag = 0);
    let before = tag(tlb, 0);
    let (acts, outcome) = story(tlb, 0, &a, What::AddressSpace);
    assert_eq!(outcome, (Outcome::Retagged, 0));
    // The register lets go of the old tag before others can learn the new one.
    assert!(matches!(acts[..], [(0, Op::Park), (0, Op::Load { .. })]), "{acts:?}");
    assert_ne!(tag(tlb, 0), before);
    // Who had met the old tag holds nothing under the new one.
    assert_eq!(a.residents().get(CpuId(OTHER)), Residency::Absent);
    // Another CPU that runs it would go on under the old tag: then it is flushed.
    let _ = switch(tlb, OTHER, &a);
    assert_ne!(story(tlb, 0, &a, What::AddressSpace).1.0, Outcome::Retagged);
}

// ---- Idle

#[test]
fn local_06_a_parked_cpu_drops_out_and_is_told_again_when_it_is_back() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, OTHER, &a);
        tlb.platform().forget_logs();
        park(tlb, OTHER);
        assert_eq!(tlb.platform().acts(), [(OTHER, Op::Park)], "idle: the reserved root");
        for what in What::LEAVES {
            assert_eq!(story(tlb, 0, &a, what), (vec![], (Outcome::NoCpu, 0)));
        }
        // Back from idle, it is told again.
        let _ = switch(tlb, OTHER, &a);
        assert_ne!(story(tlb, 0, &a, What::Page).1.0, Outcome::NoCpu);
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

// ---- Shared TLBs

#[test]
fn where_entries_are_shared_a_cpu_that_left_is_reached_too() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared());
    let a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    assert_eq!(story(tlb, 0, &a, What::Page).1, (Outcome::Local, 0));
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    assert_eq!(story(tlb, 0, &a, What::Page).1, (Outcome::Broadcast, 0));
}

// ---- Counters

#[test]
fn local_12_each_cpu_counts_how_its_flushes_ended_and_what_it_caught_up() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16));
    tlb.platform().set_costs(|costs| costs.ipi = 1000);
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = story(tlb, 0, &a, What::Page);
    let _ = switch(tlb, 0, &a);
    for _ in 0..3 {
        let _ = story(tlb, 0, &a, What::Page);
    }
    let _ = switch(tlb, OTHER, &a);
    let _ = story(tlb, 0, &a, What::Range);
    for cpu in [1, 2, 3, THIRD] {
        let _ = switch(tlb, cpu, &a);
    }
    let _ = story(tlb, 0, &a, What::Range);
    on(OTHER, || this_cpu(tlb).lazy());
    for cpu in [1, 2, 3, THIRD] {
        let _ = switch(tlb, cpu, &b);
    }
    let _ = story(tlb, 0, &a, What::Page);
    let _ = switch(tlb, OTHER, &a);
    let counts = &tlb.platform().counts[0];
    let ended = [Outcome::NoCpu, Outcome::Local, Outcome::Ipis, Outcome::Broadcast];
    assert_eq!(ended.map(|outcome| counts.flushes(outcome)), [1, 4, 1, 1]);
    assert_eq!(counts.interrupted(), 1);
    let other = &tlb.platform().counts[OTHER as usize];
    assert_eq!((other.served(), other.caught_up()), ((1, 1), 1));
    let _ = this_cpu(tlb).flush(Gather::new(&a));
    assert_eq!(counts.flushes(Outcome::NoCpu), 2, "an empty one asks nobody");
}
