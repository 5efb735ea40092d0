//! Runs as a whole: through the library, the same each time, and refused where they make no sense.

use lookaside::platform::{Ordering::Relaxed, Word as _};
use lookaside_machine::timed::{self, Arena, Failure, Options, Word, World, simulate};

use crate::{
    storm::{self, Flush, Storm},
    support::{LIMIT, arena, assert_accounts, model, run, try_run, words},
};

const STORM: Storm =
    Storm { cpus: 8, group: 4, flushes: 20, switches: 2, touched: 64, flush: Flush::Right };

#[test]
fn the_library_flushes_what_it_says() {
    for storm in [STORM, Storm { cpus: 1, group: 1, ..STORM }, Storm { touched: 3, ..STORM }] {
        for report in [storm::x86(storm, 1), storm::arm(storm, 1)] {
            let report = report.unwrap_or_else(|failure| panic!("{failure}"));
            assert_accounts(&report);
            assert!(report.counters().walks > 0 && report.events > 1000);
        }
    }
}

#[test]
fn a_strategy_that_is_fast_because_it_is_wrong_fails() {
    for flush in [Flush::LeftOut, Flush::ClaimedEarly] {
        let storm = Storm { flush, ..STORM };
        for result in [storm::x86(storm, 1), storm::arm(storm, 1)] {
            let failure = result.expect_err("somebody uses what was revoked");
            assert!(matches!(failure, Failure::Stale { .. }), "{failure}");
        }
    }
}

#[test]
fn one_seed_gives_one_report_and_another_seed_another() {
    let text = |run: fn(Storm, u64) -> _, seed| -> String {
        let report: Result<timed::Report, Failure> = run(STORM, seed);
        format!("{:?}", report.expect("it is right"))
    };
    for run in [storm::x86, storm::arm] {
        assert_eq!(text(run, 1), text(run, 1));
        assert_ne!(text(run, 1), text(run, 2));
    }
}

#[test]
#[should_panic(expected = "put it into the arena")]
fn a_word_elsewhere_is_refused() {
    let arena = arena();
    let word = Word::ZERO;
    run(&model(), 1, &arena, |_| assert_eq!(word.load(Relaxed), 0), || ());
}

#[test]
#[should_panic(expected = "no timed machine")]
fn without_a_machine_there_is_no_time() {
    timed::work(1);
}

#[test]
fn a_cpu_that_waits_for_nobody_is_reported() {
    let arena = arena();
    let [word] = words(&arena);
    let program = |cpu| {
        while cpu == 1 && word.load(Relaxed) == 0 {
            timed::relax();
        }
    };
    let failure = try_run(&model(), 2, &arena, || (), program, || ()).unwrap_err();
    let Failure::Deadlock { waiting, .. } = &failure else { panic!("{failure}") };
    assert_eq!(*waiting, [(1, 1)]);
}

#[test]
fn a_run_that_never_ends_is_given_up() {
    let arena = arena();
    let program = |_| {
        loop {
            timed::work(100);
            timed::relax();
        }
    };
    let failure = try_run(&model(), 2, &arena, || (), program, || ()).unwrap_err();
    assert_eq!(failure, Failure::OutOfTime { limit: LIMIT });
}

struct Nothing;

impl World for Nothing {
    fn run(&self, _: lookaside::platform::CpuId) {}
}

fn attempt(arena: &Arena, model: &timed::Model, cpus: usize) -> Result<u64, Failure> {
    let options = Options { cpus, seed: 1, limit: LIMIT, timeline: 0 };
    simulate(model, arena, options, || Nothing).map(|(_, report)| report.elapsed)
}

#[test]
fn machines_that_cannot_be_are_refused() {
    let arena = arena();
    let good = model();
    assert_eq!(attempt(&arena, &good, 4), Ok(0));
    assert_eq!(attempt(&arena, &good, 5), Err(Failure::Cpus { asked: 5, limit: 4 }));
    assert_eq!(attempt(&arena, &good, 0), Err(Failure::Cpus { asked: 0, limit: 4 }));
    let bad = |change: fn(&mut timed::Model)| {
        let mut model = good.clone();
        change(&mut model);
        match attempt(&Arena::new(4096), &model, 1) {
            Err(Failure::Model(bad)) => bad.to_string(),
            result => panic!("{result:?}"),
        }
    };
    assert_eq!(bad(|m| m.tlb.first.ways = 0), "`first` has no entries or no ways");
    assert!(bad(|m| m.tlb.first.ways = 3).contains("ways do not divide"));
    assert_eq!(bad(|m| m.fabric_window = 0), "`fabric_window` is zero");
    assert_eq!(bad(|m| m.interrupt_group = 0), "`interrupt_group` is zero");
    assert!(bad(|m| m.topology.sockets = 5000).contains("more than 4096 CPUs"));
}
