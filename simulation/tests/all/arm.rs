//! The strategies of arm64's publications: that they are right where tags are few, and that the
//! interconnect behaves as its fit supposes.

use std::collections::BTreeMap;

use lookaside_simulation::{
    data::{self, Machine},
    workload::{self, Setup},
};

const STRATEGIES: [&str; 6] = [
    "broadcast-at-switch",
    "freebsd-asids",
    "linux-broadcast",
    "local-mm-users",
    "local-active",
    "lookaside",
];

fn options(workload: &str, more: &[(&str, f64)]) -> BTreeMap<String, f64> {
    let mut options = data::parameters(workload).unwrap();
    options.extend(more.iter().map(|&(name, value)| (name.to_owned(), value)));
    options
}

fn run(
    machine: &Machine,
    workload: &str,
    strategy: &str,
    cpus: Option<usize>,
    more: &[(&str, f64)],
) -> f64 {
    let options = options(workload, more);
    let setup = Setup { machine, strategy, cpus, x: None, options: &options, seed: 7, timeline: 0 };
    let outcome = (workload::find(workload).unwrap().run)(&setup);
    outcome.unwrap_or_else(|error| panic!("{strategy}: {error}")).metrics[0].value
}

/// A machine with so few tags that they are used up.
fn with_few_tags(key: &str) -> Machine {
    let mut machine = Machine::named(key).unwrap();
    machine.features.tag_bits = 8;
    machine
}

#[test]
fn a_ring_of_more_processes_than_tags_uses_nothing_stale() {
    let machine = with_few_tags("cortex_a72_graviton1");
    let many = [("processes", 300.0)];
    let times = STRATEGIES.map(|strategy| run(&machine, "lat_ctx", strategy, None, &many));
    assert!(times.iter().all(|&time| time > 0.0));
}

#[test]
fn programs_that_come_go_and_migrate_use_nothing_stale() {
    let machine = with_few_tags("ampere_32cpu");
    let often = [("migrations", 1.0), ("preemptions", 4.0), ("shells_per_cpu", 3.0)];
    for strategy in STRATEGIES {
        assert!(run(&machine, "sort", strategy, Some(6), &often) > 0.0);
    }
}

#[test]
fn the_latency_of_broadcasts_grows_with_their_senders() {
    let machine = Machine::named("ampere_32cpu").unwrap();
    let time = |strategy, cpus| run(&machine, "mprotect", strategy, Some(cpus), &[]);
    let (half, all) = (time("linux-broadcast", 16), time("linux-broadcast", 32));
    assert!((1.95..2.05).contains(&(all / half)), "{half} us on 16 CPUs, {all} us on 32");
    let (one, many) = (time("local-active", 1), time("local-active", 32));
    assert!(many / one < 1.01, "{one} us on one CPU, {many} us on 32");
}

#[test]
fn the_library_stays_local() {
    let machine = Machine::named("ampere_32cpu").unwrap();
    let time = |strategy| run(&machine, "mprotect", strategy, None, &[]);
    let times = time("linux-broadcast") / time("lookaside");
    assert!(times >= 15.6, "32 processes that call mprotect are {times} times faster");
}
