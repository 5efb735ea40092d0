//! Linux's strategy in Linux's own terms: what it says of flushes, one rule after the other.

use lookaside_machine::timed::Price;
use lookaside_simulation::{data::Machine, strategy::INTERRUPT_HOLD};
use lookaside_traces::{
    KernelCounts, Pages, Reason,
    reconstruct::{Act, Operation, SpaceId},
};

use crate::script::{Builder, machine, run};

const ALL: Pages = Pages::Everything;
const ONE: Pages = Pages::Some(1);
const NONE: Pages = Pages::Some(0);

/// Two threads of a process on CPUs 0 and 1, and another process.
struct Two {
    builder: Builder,
    a: SpaceId,
    b: SpaceId,
}

impl Two {
    fn new(length: u64) -> Self {
        let mut builder = Builder::new(2, length);
        let (a, b) = (builder.space("a", 100, 2), builder.space("b", 100, 1));
        builder.run(0, 0, 1, a);
        builder.run(1, 1, 2, a);
        Self { builder, a, b }
    }

    fn free(&mut self, cpu: usize, time: u64) {
        let act = Act::Unmap { space: self.a, first: 5, pages: 1, tables: true, whole: false };
        self.builder.step(cpu, time, 1, Operation::Other, act);
    }

    /// What is said. What CPUs run at the beginning was not switched to.
    fn observed(&self, strategy: &str) -> KernelCounts {
        let replayed = run(&self.builder.script, &machine("skylake_sp"), strategy, 2);
        replayed.observed.expect("it counts in Linux's terms")
    }
}

fn flushes(of: &[(Reason, Pages, u64)]) -> KernelCounts {
    let flushes = of.iter().map(|&(reason, pages, count)| ((reason, pages), count)).collect();
    KernelCounts { flushes, ..KernelCounts::default() }
}

#[test]
fn cpus_that_run_the_space_get_requests() {
    let mut two = Two::new(1000);
    two.builder.mprotect(0, 100, 1, two.a);
    let local = [(Reason::LocalSpace, ONE, 1), (Reason::Remote, ONE, 1), (Reason::Send, ONE, 1)];
    let expected = KernelCounts { sends: 1, fates: [1, 0, 0, 0], ..flushes(&local) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
}

#[test]
fn from_34_pages_on_everything_goes() {
    let mut two = Two::new(1000);
    for (time, pages) in [(100, 33), (200, 34)] {
        let act = Act::Restrict { space: two.a, first: 0, pages, whole: false };
        two.builder.step(0, time, 1, Operation::Other, act);
    }
    let pages = Pages::Some(33);
    let both = [Reason::LocalSpace, Reason::Remote, Reason::Send];
    let all = both.map(|reason| [(reason, pages, 1), (reason, ALL, 1)]).concat();
    assert_eq!(two.observed("linux-ipi-2025").flushes, flushes(&all).flushes);
}

#[test]
fn a_lazy_cpu_is_left_alone_and_flushes_when_it_comes_back() {
    let mut two = Two::new(1000);
    two.builder.idle(1, 50);
    two.builder.mprotect(0, 100, 1, two.a);
    two.builder.run(1, 200, 2, two.a);
    two.builder.idle(1, 300);
    two.builder.run(1, 400, 2, two.a); // Nothing has happened meanwhile.
    let all = [(Reason::LocalSpace, ONE, 1), (Reason::Send, ONE, 1), (Reason::Switch, ALL, 1)];
    assert_eq!(two.observed("linux-ipi-2025"), KernelCounts { misses: 1, ..flushes(&all) });
}

#[test]
fn a_lazy_cpu_drops_the_space_when_tables_were_freed() {
    let mut two = Two::new(1000);
    two.builder.idle(1, 50);
    two.free(0, 100);
    two.builder.mprotect(0, 150, 1, two.a); // It has the kernel's own space loaded by now.
    let all = [(Reason::LocalSpace, ONE, 2), (Reason::Send, ONE, 2)];
    let expected = KernelCounts { sends: 1, dropped: 1, fates: [0, 1, 0, 0], ..flushes(&all) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
}

#[test]
fn a_halted_cpu_of_a_guest_is_left_to_its_host() {
    let mut two = Two::new(2000);
    two.builder.idle(1, 50);
    two.free(0, 100); // Its host still polls.
    two.builder.run(1, 200, 2, two.a);
    two.builder.idle(1, 250);
    two.free(0, 700);
    let observed = two.observed("linux-ipi-2025-kvm");
    assert_eq!((observed.sends, observed.dropped), (1, 1));
    assert_eq!(two.observed("linux-ipi-2025").sends, 2);
}

#[test]
fn a_cpu_with_another_space_leaves_the_mask_at_a_request() {
    let mut two = Two::new(1000);
    two.builder.run(1, 50, 3, two.b);
    two.builder.mprotect(0, 100, 1, two.a); // It is in the mask, and passed over.
    two.free(0, 200);
    two.builder.mprotect(0, 300, 1, two.a); // It is gone from the mask.
    let all = [
        (Reason::LocalSpace, ONE, 3),
        (Reason::Send, ONE, 2),
        (Reason::WrongSpace, NONE, 1),
        (Reason::Switch, ALL, 1),
    ];
    let expected = KernelCounts { sends: 1, misses: 1, fates: [0, 0, 1, 0], ..flushes(&all) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
}

#[test]
fn pages_that_the_kernel_takes_away_are_flushed_in_whatever_space_a_cpu_has() {
    let page_out = |space| Act::PageOut { space, page: 5 };
    let out = |two: &mut Two, time| {
        two.builder.step(0, time, 1, Operation::Other, page_out(two.a));
    };
    let mut two = Two::new(1000);
    out(&mut two, 100);
    let all = [(Reason::Local, ALL, 1), (Reason::Remote, ALL, 1), (Reason::Send, ALL, 1)];
    let expected = KernelCounts { sends: 1, fates: [1, 0, 0, 0], ..flushes(&all) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
    // A CPU with another space is asked, has nothing to flush there, and stays in the mask.
    two.builder.run(1, 200, 3, two.b);
    out(&mut two, 300);
    out(&mut two, 400);
    // A lazy one is not asked.
    two.builder.idle(1, 500);
    out(&mut two, 600);
    let all = [
        (Reason::Local, ALL, 4),
        (Reason::Remote, ALL, 1),
        (Reason::Remote, NONE, 2),
        (Reason::Send, ALL, 4),
        (Reason::Switch, ALL, 1),
    ];
    let expected = KernelCounts { sends: 3, misses: 1, fates: [3, 0, 0, 0], ..flushes(&all) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
    // Where nobody else is in the mask, each page is flushed by itself.
    let mut builder = Builder::new(2, 1000);
    let a = builder.space("a", 100, 1);
    builder.run(0, 0, 1, a);
    builder.step(0, 100, 1, Operation::Other, page_out(a));
    let alone = Two { builder, a, b: a }.observed("linux-ipi-2025");
    assert_eq!(alone, flushes(&[(Reason::LocalSpace, ONE, 1)]));
}

#[test]
fn masks_are_trimmed_once_a_second() {
    let mut two = Two::new(1_200_000);
    two.builder.run(1, 50, 3, two.b);
    for time in [100, 1_100_000, 1_100_100] {
        two.builder.mprotect(0, time, 1, two.a);
    }
    let observed = two.observed("linux-ipi-2025");
    assert_eq!(observed.sends, 1);
    assert_eq!(observed.flushes[&(Reason::WrongSpace, NONE)], 1);
    assert_eq!(observed.flushes[&(Reason::Send, ONE)], 2);
}

#[test]
fn the_mask_of_a_space_from_before_the_trace_is_trimmed_at_its_first_flush() {
    let mut two = Two::new(1000);
    two.builder.run(1, 50, 3, two.b);
    two.builder.mprotect(0, 100, 1, two.a);
    two.builder.mprotect(0, 200, 1, two.a);
    let wrong = |two: &Two| {
        let observed = two.observed("linux-ipi-2025");
        (observed.sends, observed.flushes.get(&(Reason::Send, ONE)).copied())
    };
    assert_eq!(wrong(&two), (0, Some(2)));
    two.builder.script.spaces[two.a.0 as usize].older = true;
    assert_eq!(wrong(&two), (1, Some(1)));
}

#[test]
fn while_a_space_ends_only_its_last_flush_asks_cpus_that_do_not_run_it() {
    let mut two = Two::new(1000);
    two.builder.run(1, 50, 3, two.b);
    two.builder.step(0, 90, 1, Operation::Exit, Act::Idle);
    let part = Act::Unmap { space: two.a, first: 0, pages: 100, tables: false, whole: false };
    for time in [100, 200] {
        two.builder.step(0, time, 1, Operation::Exit, part);
    }
    two.builder.step(0, 300, 1, Operation::Exit, Act::End(two.a));
    let all = [(Reason::Send, ALL, 3), (Reason::WrongSpace, NONE, 1), (Reason::Switch, ALL, 1)];
    let expected =
        KernelCounts { sends: 1, misses: 1, patching: 1, fates: [0, 0, 1, 0], ..flushes(&all) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
}

#[test]
fn six_spaces_have_tags_and_the_seventh_takes_one() {
    // The kernel's own space has one slot at first.
    for (spaces, hits) in [(6, 6), (7, 0)] {
        let mut builder = Builder::new(1, 1000);
        let all: Vec<SpaceId> = (0..spaces).map(|_| builder.space("one", 10, 1)).collect();
        for (time, &space) in all.iter().chain(&all).enumerate() {
            builder.run(0, 10 + time as u64, space.0 + 1, space);
        }
        let observed =
            run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 1).observed.unwrap();
        assert_eq!((observed.hits, observed.misses), (hits, 2 * spaces - 1 - hits), "{spaces}");
    }
}

#[test]
fn execve_and_exit_are_not_counted_as_switches() {
    let mut builder = Builder::new(1, 1000);
    let (a, b) = (builder.space("a", 10, 1), builder.space("b", 10, 1));
    builder.run(0, 10, 1, a);
    builder.step(0, 20, 1, Operation::Execute, Act::Run(b));
    builder.step(0, 20, 1, Operation::Execute, Act::End(a));
    builder.step(0, 30, 1, Operation::Exit, Act::Idle);
    builder.step(0, 30, 1, Operation::Exit, Act::End(b));
    let observed =
        run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 1).observed.unwrap();
    // The old space has nobody in its mask but this CPU, which has the new one loaded. That one is
    // dropped for the kernel's own.
    let expected = KernelCounts { patching: 1, ..flushes(&[(Reason::Switch, ALL, 1)]) };
    assert_eq!(observed, expected);
}

#[test]
fn a_switch_that_was_not_recorded_is_not_counted() {
    let mut two = Two::new(1000);
    two.builder.run(1, 50, 3, two.b);
    two.builder.run(1, 60, 2, two.a);
    let observed = two.observed("linux-ipi-2025");
    assert_eq!((observed.hits, observed.misses), (1, 1));
    two.builder.script.cpus[1][1].counted = false;
    let expected = KernelCounts { hits: 1, ..flushes(&[(Reason::Switch, NONE, 1)]) };
    assert_eq!(two.observed("linux-ipi-2025"), expected);
}

/// Interrupts are on their way for long.
fn slow(hold: Option<u64>) -> Machine {
    let mut machine = machine("skylake_sp");
    machine.model.prices.set(Price::InterruptSend, 7_000_000);
    machine.model.prices.set(Price::InterruptDeliver, 5_000_000);
    machine.paths.extend(hold.map(|hold| (INTERRUPT_HOLD.to_owned(), hold)));
    machine
}

#[test]
fn the_idle_loop_handles_requests_before_it_switches_to_a_thread() {
    let fates = |idle: fn(&mut Builder)| {
        let mut two = Two::new(1000);
        idle(&mut two.builder);
        two.free(0, 100);
        two.builder.run(1, 105, 2, two.a); // The interrupt is on its way.
        run(&two.builder.script, &slow(None), "linux-ipi-2025", 2).observed.unwrap().fates
    };
    assert_eq!(fates(|builder| builder.idle(1, 50)), [0, 1, 0, 0]);
    // A thread of the kernel does not: the interrupt comes when the space is flushed.
    let kernel = |builder: &mut Builder| builder.step(1, 50, 9, Operation::Switch, Act::Idle);
    assert_eq!(fates(kernel), [0, 0, 0, 1]);
}

#[test]
fn two_guests_that_ask_each_other_are_let_go_to_serve_each_other_first() {
    let reasons = |hold, later: u64| {
        let mut two = Two::new(1000);
        two.builder.mprotect(0, 100, 1, two.a);
        two.builder.mprotect(1, 100 + later, 2, two.a);
        // Whether the host takes halted vCPUs away, too, or not.
        let both = ["linux-ipi-2025-kvm", "linux-ipi-2025"].map(|strategy| {
            let run = run(&two.builder.script, &slow(hold), strategy, 2);
            let observed = run.observed.unwrap();
            assert_eq!(observed.sends, 2);
            [Reason::Remote, Reason::LocalSpace].map(|reason| {
                let of = observed.flushes.iter().filter(|((of, _), _)| *of == reason);
                of.map(|(_, count)| count).sum::<u64>()
            })
        });
        assert_eq!(both[0], both[1]);
        both[0]
    };
    // Each comes to its own part before it is interrupted: nothing is left to do for the other.
    assert_eq!(reasons(None, 2), [0, 2]);
    assert_eq!(reasons(Some(3_000_000), 2), [2, 0]);
    // The second asks when the first is about to be let go.
    assert_eq!(reasons(Some(3_000_000), 5), [1, 1]);
}
