//! Generated programs: their text form is exact, generation is repeatable, and no rule is broken.

use core::time::Duration;
use std::sync::Mutex;

use lookaside_machine::explore::{Budget, Schedule};
use lookaside_scenarios::{
    generate::{Outcome, Program, Request, run},
    scenario::Depth,
};

fn outcome(scripts: u64, threads: usize) -> Outcome {
    let request = Request {
        seed: 7,
        scripts,
        steps: u64::MAX,
        time: Duration::MAX,
        effort: 3000,
        failures: 1,
        threads,
    };
    run(&request, &|_| ())
}

#[test]
fn a_run_is_the_same_on_any_number_of_threads_and_breaks_nothing() {
    let (one, three) = (outcome(1000, 1), outcome(1000, 3));
    assert_eq!(one.failures, []);
    assert_eq!((one.scripts, one.steps, one.pairs), (three.scripts, three.steps, three.pairs));
    assert_eq!(one.seen, three.seen);
    assert_eq!(one.scripts, 1000);
    // They are about something.
    for what in ["a broadcast", "a shootdown", "a fresh tag", "a CPU that caught up"] {
        assert!(one.seen.contains(what), "{what}: {:?}", one.seen);
    }
    assert!(one.pairs.covered * 8 > one.pairs.total, "{:?}", one.pairs);
}

#[test]
fn progress_is_reported() {
    let reported = Mutex::new(Vec::new());
    let request = Request {
        seed: 1,
        scripts: 5,
        steps: u64::MAX,
        time: Duration::MAX,
        effort: 100,
        failures: 1,
        threads: 1,
    };
    let _ = run(&request, &|now| reported.lock().expect("a list").push(now.scripts));
    assert_eq!(reported.into_inner().expect("a list"), [1, 2, 3, 4, 5]);
}

#[test]
fn programs_round_trip_through_text() {
    for text in [
        "arm epochs(3) [Run(A) Unmap(A)] [Run(A) Run(B) Run(A)]",
        "arm-cnp+early+noting epochs(5,1) [Pin(A) Batch(A,B)] [Await] [Tell]",
        "x86-no-pcid+nmi recent [Lazy] [UnmapKernel]",
        "riscv epochs(4,0,1) [Up Run(C) Down]",
        "arm epochs(3) [Run(B) Bury Release(A)] [Run(A) Halt]",
        "blocks-arm-by-hand dirty [Run Fold(0) Clean(0..4) Tell] [Await Insist(1) Store(2)]",
        "pair-x86-at-exit [Unmap(A,1) Clear(B)] [Run(A) Visit Copy Lazy]",
        "pair-riscv [Await Release(A) Run(B) Visit] [Run(A) Visit Lazy Signal Run(B) Write]",
    ] {
        let program: Program = text.parse().expect(text);
        assert_eq!(program.to_string(), text);
        let mut explored = program.open();
        assert_eq!(explored.name(), text);
        let report = explored.explore(Depth::Bounded(1), Budget::steps(5000));
        assert!(report.failure.is_none(), "{text}: {:?}", report.failure);
        // Its name is in its schedules.
        let schedule: Schedule = format!("v1:{text}:").parse().expect("a schedule");
        assert!(explored.replay(&schedule).expect("its own").is_none());
    }
}

#[test]
fn programs_that_no_kernel_may_run_are_refused() {
    let wrong = [
        ("arm epochs(3)", "looks like"),
        ("pdp11 epochs(3) [Run(A)]", "there is no machine `pdp11`"),
        ("arm+fast epochs(3) [Run(A)]", "`fast`"),
        ("arm epochs [Run(A)]", "neither"),
        ("arm epochs(2) [Run(A)] [Run(A)]", "it takes 3"),
        ("arm epochs(3) [Jump(A)]", "`Jump(A)` is no act"),
        ("arm epochs(3) [Run(Z)]", "`Z`"),
        ("arm epochs(3) [Run]", "needs a space"),
        ("arm epochs(3) [Run(A,B)]", "too many"),
        ("arm epochs(3) []", "no CPU does anything"),
        ("arm recent [Run(A)]", "interrupts"),
        ("x86-no-pcid epochs(3) [Run(A)]", "no tags"),
        ("x86+early recent [Run(A)]", "early"),
        ("arm epochs(3) [Run(A) Up]", "first of all"),
        ("arm epochs(3) [Down Run(A)]", "nothing follows"),
        ("arm epochs(3) [Await] [Run(A)]", "no other CPU signals"),
        ("arm epochs(3) [Await Tell] [Await Tell]", "no other CPU signals"),
        ("x86 recent [Complete] [Run(A)]", "no other CPU hands over"),
        ("x86 recent [Pin(A)]", "pinned"),
        ("arm epochs(3) [Batch(A,A)]", "several spaces"),
        ("arm epochs(3) [Touch(A)]", "catalogue"),
        ("arm epochs(3) [Halt] [Bury]", "CPU 1 stops"),
        ("arm epochs(3) [Run(A)] [Halt]", "notices"),
        ("arm epochs(3) [Bury] [Halt Run(A)]", "come up again"),
        ("arm epochs(3) [Bury Tell] [Halt]", "the signal is used"),
        ("arm epochs(3) [Unmap(A) Bury] [Halt]", "waits for the CPU"),
        ("blocks-pdp11 used [Store(1)]", "there is no machine `blocks-pdp11`"),
        ("blocks-arm full [Store(1)]", "there is no mapping `full`"),
        ("blocks-arm used [Store]", "`Store` is no act"),
        ("blocks-arm used [Store(1..2)]", "`Store(1..2)` is no act"),
        ("blocks-arm used [Store(4)]", "no such page"),
        ("blocks-arm used [Unmap(2..2)]", "about no page"),
        ("blocks-arm used [Unmap(0..2)] [Unmap(1..3)]", "a page goes once"),
        ("blocks-arm used [Unmap(0..2)] [Allow(1)]", "may be gone"),
        ("blocks-arm used [Insist(0)]", "does not run the space"),
        ("blocks-arm used [Exit(0..4)] [Load(0)]", "runs the space"),
        ("blocks-arm used [Look(0)]", "catalogue"),
        ("pair-pdp11 [Run(A)]", "there is no machine `pair-pdp11`"),
        ("pair-arm Run(A)", "looks like"),
        ("pair-arm [Jump(A)]", "`Jump(A)` is no act"),
        ("pair-arm [Run(A,0)]", "`Run(A,0)` is no act"),
        ("pair-arm [Run(F)]", "no such space"),
        ("pair-arm [Unmap(A,2)]", "pages 0 and 1"),
        ("pair-arm [Visit]", "executes no thread"),
        ("pair-arm [Run(A) Lazy Copy]", "executes no thread"),
        ("pair-arm [Run(A) Release(A) Visit]", "executes no thread"),
        ("pair-arm [Unmap(A,0)] [Clear(A)]", "a page goes once"),
        ("pair-arm [Protect(A)] [Unmap(A,0)]", "another CPU changes"),
        ("pair-arm [Clear(A) Protect(A)]", "the page is gone"),
        ("pair-arm [Await Run(A)] [Run(A)]", "no other CPU signals"),
        ("pair-arm [Release(A) Run(A)]", "afterwards"),
        ("pair-arm [Release(A)] [Run(A)]", "another CPU uses"),
        ("pair-arm [Await Release(A)] [Run(A) Signal]", "another CPU uses"),
        ("pair-arm-recent [Await Release(A)] [Run(A) Lazy Signal] [Signal]", "another CPU uses"),
        ("pair-arm [Run(A)] [Run(A)] [Run(A)]", "1 to 2 CPUs"),
    ];
    for (text, why) in wrong {
        let error = text.parse::<Program>().expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn faults_found_by_generation_stay_fixed() {
    let (_, found) = include_str!("../../../docs/generate.md")
        .split_once("## What it has found")
        .expect("a part");
    let (table, _) = found.split_once("\n## ").expect("another part");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let mut programs = 0;
    for (text, _) in rows {
        let program: Program = text.parse().expect(text);
        let mut explored = program.open();
        let report = explored.explore(Depth::Bounded(2), Budget::steps(1_000_000));
        let failure = report.failure.or_else(|| explored.chance(1, 500).failure);
        assert!(failure.is_none(), "{text}: {failure:?}");
        programs += 1;
    }
    assert!(programs >= 13, "{programs}");
}
