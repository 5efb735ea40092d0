//! Who caused what.

use lookaside_replay::{Blame, Replayed};

use crate::script::{Builder, machine, run};

/// Two threads of `writer` on CPUs 0 and 1, of which the first calls mprotect ten times, and `other` on
/// CPU 2.
fn two_threads_and_another() -> Builder {
    let mut builder = Builder::new(3, 4000);
    let writer = builder.space("writer", 100, 2);
    let other = builder.space("other", 100, 1);
    builder.run(0, 1, 1, writer);
    builder.run(1, 2, 2, writer);
    builder.run(2, 3, 3, other);
    for i in 0..10 {
        builder.mprotect(0, 1000 + 200 * i, 1, writer);
    }
    builder
}

#[track_caller]
fn blame<'r>(replayed: &'r Replayed, process: &str, operation: &str) -> &'r Blame {
    let is = |blame: &&Blame| blame.process == process && blame.operation == operation;
    replayed
        .blame
        .iter()
        .find(is)
        .unwrap_or_else(|| panic!("{process}, {operation}: {replayed:#?}"))
}

#[test]
fn the_cost_of_a_flush_on_other_cpus_is_charged_to_its_initiator() {
    let script = two_threads_and_another().script;
    for strategy in ["lookaside", "linux-ipi-2025", "pcid-2017"] {
        let replayed = run(&script, &machine("skylake_sp"), strategy, 3);
        let writer = blame(&replayed, "writer", "mprotect");
        assert_eq!((writer.count, writer.interrupts), (10, 10), "{strategy}");
        let upkeep = writer.upkeep;
        assert!(
            upkeep.interrupted > 0 && upkeep.waits > 0 && upkeep.flushes > 0,
            "{strategy}: {upkeep:?}"
        );
        assert_eq!(
            replayed.upkeep.interrupted, upkeep.interrupted,
            "{strategy}: nobody else interrupts"
        );
        assert_eq!(replayed.upkeep.waits, upkeep.waits, "{strategy}");
        assert_eq!(replayed.operations.interrupts, 10, "{strategy}");
        let count = |of: &str| replayed.latencies.iter().find(|one| one.of == of).unwrap().count;
        assert_eq!(["flush", "switch", "handler"].map(count), [10, 3, 10], "{strategy}");
        for latency in &replayed.latencies {
            let times = [latency.p50, latency.p90, latency.p99, latency.max];
            assert!(times.is_sorted() && times[0] > 10_000, "{strategy}: {latency:?}");
        }
        let longest = |of: &str| replayed.latencies.iter().find(|one| one.of == of).unwrap().max;
        assert!(
            longest("flush") > longest("handler"),
            "{strategy}: who flushes waits for handlers"
        );
        assert!(replayed.share() > 0.0 && replayed.share() < 0.05, "{strategy}");
    }
}

/// Of the recording of a command: other programs only switch.
#[test]
fn switches_of_other_programs_are_in_no_count() {
    let mut script = two_threads_and_another().script;
    for one in &mut script.initiators {
        one.recorded = one.process != "other";
    }
    script.spaces[1].recorded = false;
    let replayed = run(&script, &machine("skylake_sp"), "linux-ipi-2025", 3);
    let switches = replayed.latencies.iter().find(|one| one.of == "switch").unwrap();
    assert_eq!([replayed.operations.switches, switches.count], [2, 2]);
    assert!(replayed.rest.switches > 0);
}

#[test]
fn refills_after_a_flush_are_charged_to_its_initiator() {
    let mut builder = two_threads_and_another();
    let before = run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 3);
    let writer = lookaside_traces::reconstruct::SpaceId(0);
    let everything = lookaside_traces::reconstruct::Act::Restrict {
        space: writer,
        first: 0,
        pages: 1,
        whole: true,
    };
    builder.step(0, 3500, 1, lookaside_traces::reconstruct::Operation::Fault, everything);
    let after = run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 3);
    // Ten hot pages on each of two CPUs.
    assert_eq!(after.operations.walks, before.operations.walks + 20);
    let refills = blame(&after, "writer", "fault").upkeep.refills;
    assert_eq!(refills, after.upkeep.refills - before.upkeep.refills);
    assert!(refills > 0);
}

#[test]
fn the_cost_of_broadcasts_is_charged_to_their_senders() {
    let script = two_threads_and_another().script;
    let replayed = run(&script, &machine("altra_2node"), "linux-broadcast", 3);
    let writer = blame(&replayed, "writer", "mprotect");
    assert!(writer.upkeep.fabric > 0);
    assert_eq!(replayed.upkeep.fabric, writer.upkeep.fabric, "nobody else broadcasts");
    assert_eq!(replayed.upkeep.interrupted, 0);
    assert_eq!(replayed.operations.broadcasts, 10);
}
