//! What the patches change, as the machine counts it.

use std::collections::BTreeMap;

use crate::{
    data::{Files, Machine},
    workload::{self, Outcome, Setup},
};

fn run(
    machine: &Machine,
    workload: &str,
    strategy: &str,
    cpus: usize,
    more: &[(&str, f64)],
) -> Outcome {
    let mut options: BTreeMap<String, f64> = Files::own().parameters().unwrap().of(workload);
    options.extend(more.iter().map(|&(name, value)| (name.to_owned(), value)));
    let (cpus, options) = (Some(cpus), &options);
    let setup = Setup { machine, strategy, cpus, x: None, options, seed: 1, timeline: 0 };
    (workload::find(workload).unwrap().run)(&setup).unwrap()
}

#[test]
fn each_of_the_proposals_of_2019_makes_a_flush_shorter() {
    let haswell = Machine::named("haswell_desktop").unwrap();
    let time =
        |strategy| run(&haswell, "madvise", strategy, 2, &[]).metric("time_per_iteration").unwrap();
    let times = ["linux-ipi-2019", "concurrent", "early-ack"].map(time);
    assert!(times.is_sorted_by(|before, after| before > after), "{times:?}");
}

#[test]
fn a_queue_that_is_not_empty_is_not_interrupted_for() {
    let options = [("operations", 640.0)];
    let storm = run(&Machine::named("zen5").unwrap(), "storm", "linux-ipi-2025", 32, &options);
    let counters = storm.report.counters();
    let requests = 640 * 31;
    assert!(counters.sent < requests / 2, "{} interrupts", counters.sent);
    // Each operation is flushed for on every CPU, but by far not by a flush of its own.
    assert!(counters.page_flushes + counters.full_flushes < requests, "{counters:?}");
}

#[test]
fn cpus_that_queue_calls_at_the_same_time_do_not_take_turns_by_the_square() {
    let time = |cpus| {
        let options = [("operations", cpus as f64 * 20.0)];
        let storm =
            run(&Machine::named("zen5").unwrap(), "storm", "linux-ipi-2022", cpus, &options);
        storm.metric("operation_time").unwrap()
    };
    let (few, many) = (time(16), time(64));
    assert!(many < few * 8.0, "{few} ns on 16 CPUs, {many} ns on 64");
}

#[test]
fn broadcasts_interrupt_nobody_once_the_space_has_its_tag() {
    let sent = |strategy, operations| {
        let options = [("operations", operations)];
        let milan = Machine::named("milan_72cpu").unwrap();
        run(&milan, "storm", strategy, 16, &options).report.counters().sent
    };
    // Until then, and to load the tag, CPUs are interrupted.
    let [few, many] = [320.0, 3200.0].map(|operations| sent("linux-invlpgb-2025", operations));
    let without = sent("linux-ipi-2025", 3200.0);
    assert!(many < few * 2 && many * 10 < without, "{few}, {many}; without {without}");
}

#[test]
fn two_thousand_cpus_are_not_refused() {
    let mut machine = Machine::named("zen5").unwrap();
    machine.model.topology.clusters = 128;
    let options = [("operations", 2.0), ("senders", 2.0)];
    let storm = run(&machine, "storm", "linux-ipi-2025", 2048, &options);
    assert!(storm.metric("operation_time").unwrap() > 0.0);
}

/// While a space is given its tag some CPUs run it under that tag and others under tags of their own. A flush that
/// broadcasts only once all have it lets those of the first kind use what they cached meanwhile.
#[test]
fn no_cpu_keeps_a_translation_while_a_space_is_given_its_tag_on_all_cpus() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/munmap-all.toml");
    for (machine, cpus) in [("genoa", 32), ("genoa", 40), ("genoa", 48), ("turin", 64)] {
        let machine = Machine::named(machine).unwrap();
        let options = BTreeMap::new();
        let setup = Setup {
            machine: &machine,
            strategy: "linux-invlpgb-2025",
            cpus: Some(cpus),
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        let outcome = workload::run(path, &setup).unwrap_or_else(|why| panic!("{cpus}: {why}"));
        assert!(outcome.metric("unmap").unwrap() > 0.0);
    }
}

#[test]
fn one_broadcast_takes_seven_pages_and_more_than_the_ceiling_are_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/munmap-all.toml");
    let machine = Machine::named("turin").unwrap();
    let broadcasts = |pages: f64| {
        let options = BTreeMap::from([("pages".to_owned(), pages)]);
        let setup = Setup {
            machine: &machine,
            strategy: "linux-invlpgb-2025",
            cpus: Some(8),
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        workload::run(path, &setup).unwrap().report.counters().broadcasts as f64
    };
    let [one, eight, many] = [1.0, 8.0, 40.0].map(broadcasts);
    assert!((1.8..2.2).contains(&(eight / one)), "{eight} for 8 pages, {one} for one");
    assert!((0.9..1.1).contains(&(many / one)), "{many} for 40 pages, {one} for one");
}
