//! Hardware threads of one core slow each other while both execute instructions: by half, in these tests.

use lookaside::platform::{Ordering::Relaxed, Word as _};
use lookaside_machine::timed::{
    Cause, Hops, Model, Price, Ps, Topology, idle_until, interrupts_off, relax, work,
};

use crate::support::{arena, interrupt, model, run, words};

/// Two cores of two threads; CPU 2 is the other thread of CPU 0's core.
fn cores() -> Model {
    let topology = Topology {
        threads: 2,
        cores_per_cluster: 2,
        clusters: 1,
        sockets: 1,
        hops: Hops::ONE,
        nodes: 1,
    };
    Model { topology, ..model() }
}

/// When each CPU is through with what `program` has it do.
fn ends(model: &Model, cpus: usize, program: impl Fn(usize)) -> Vec<Ps> {
    let arena = arena();
    let report = run(model, cpus, &arena, program, || ());
    report.cpus.iter().map(|cpu| cpu.ended).collect()
}

#[test]
fn work_beside_work_of_the_other_thread_takes_half_as_long_again() {
    assert_eq!(ends(&cores(), 2, |_| work(1000)), [1000; 2], "each has a core of its own");
    // Each does two thirds of its work in the time of the other's.
    let both = ends(&cores(), 3, |_| work(900));
    assert_eq!(both[1], 900);
    for cpu in [0, 2] {
        assert!(both[cpu].abs_diff(1350) <= 2, "{both:?}");
    }
}

#[test]
fn only_the_time_in_which_both_execute_is_longer() {
    // The short one: 300 of its own take 450. The long one has done 300 by then, and the rest at full speed.
    let ends = ends(&cores(), 3, |cpu| match cpu {
        0 => work(1000),
        2 => work(300),
        _ => (),
    });
    assert!(ends[2].abs_diff(450) <= 2 && ends[0].abs_diff(1150) <= 2, "{ends:?}");
}

#[test]
fn with_interrupts_off_it_is_the_same() {
    let ends = ends(&cores(), 3, |cpu| match cpu {
        0 => interrupts_off(|| work(1000)),
        2 => interrupts_off(|| work(300)),
        _ => (),
    });
    // CPU 0 notices at its next step.
    assert_eq!((ends[0], ends[2]), (1150, 450));
}

#[test]
fn a_thread_that_waits_leaves_the_core_to_the_other() {
    let idle = ends(&cores(), 3, |cpu| if cpu == 2 { idle_until(5000) } else { work(1000) });
    assert_eq!(idle[0], 1000);
    // CPU 2 waits for a word that CPU 1 writes while CPU 0 works.
    let arena = arena();
    let [word] = words(&arena);
    let waits = run(
        &cores(),
        3,
        &arena,
        |cpu| match cpu {
            0 => work(5000),
            1 => {
                work(3000);
                word.store(1, Relaxed);
            }
            _ => {
                while word.load(Relaxed) == 0 {
                    relax();
                }
            }
        },
        || (),
    );
    let ended = waits.cpus[0].ended;
    assert!(ended <= 5002, "{ended}: only two loads of CPU 2 are beside it");
}

#[test]
fn a_handler_beside_the_other_thread_is_charged_once() {
    // CPU 1 interrupts CPU 0 in its work; the work of CPU 2 is beside all that CPU 0 does, and the handler works too.
    let arena = arena();
    let report = run(
        &cores(),
        3,
        &arena,
        |cpu| match cpu {
            0 => work(3000),
            1 => interrupt(1),
            _ => work(20_000),
        },
        || work(600),
    );
    let siblings = |cpu: usize| {
        (0..report.activities.len()).map(|a| report.cpus[cpu].spent(a, Cause::Siblings)).sum::<Ps>()
    };
    // Half of 3000 and 600, less what lies beside the entry and the exit of the handler.
    assert!(siblings(0).abs_diff(1800) <= 2, "{}", siblings(0));
    assert!(siblings(2).abs_diff(1800) <= 2, "{}", siblings(2));
}

#[test]
fn an_interruption_does_not_charge_the_same_overlap_again() {
    // What CPU 2 does with interrupts off is known at once to be beside all of the work of CPU 0.
    let arena = arena();
    let report = run(
        &cores(),
        3,
        &arena,
        |cpu| match cpu {
            0 => work(3000),
            1 => interrupt(1),
            _ => {
                idle_until(10);
                interrupts_off(|| work(20_000));
            }
        },
        || work(600),
    );
    let activities = 0..report.activities.len();
    let late: Ps = activities.map(|a| report.cpus[0].spent(a, Cause::Siblings)).sum();
    assert!((1490..=1800).contains(&late), "{late}");
}

#[test]
fn without_the_price_or_a_second_thread_nothing_is_longer() {
    let flat = Model { topology: Topology::flat(4), ..model() };
    assert_eq!(ends(&flat, 3, |_| work(1000)), [1000; 3]);
    let mut unpriced = cores();
    unpriced.prices.set(Price::Sibling, 0);
    assert_eq!(ends(&unpriced, 3, |_| work(1000)), [1000; 3]);
}
