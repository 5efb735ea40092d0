//! Tables of the kernel's own, and PCIDs, without which each switch flushes.

use super::*;

#[test]
fn isolation_costs_two_root_writes_for_each_call() {
    let program = "begin c\nrepeat 100\nallow 0 1\ndone\nend c";
    let time = |head: &str| {
        let outcome = run_on("skylake_sp", "lookaside", 1, &one(head, program)).unwrap();
        outcome.metric("c").unwrap() / 100.0
    };
    let machine = Machine::named("skylake_sp").unwrap();
    let root = machine.model.prices.get(Price::Root).unwrap() as f64 / NS as f64;
    let more = time("isolation = true") - time("");
    assert!((more - 2.0 * root).abs() < 1.0, "{more} {root}");
}

/// Without PCIDs each crossing would flush, which is not modelled.
#[test]
fn isolation_needs_pcids() {
    let text = one("isolation = true", "call");
    for entry in strategy::all().filter(|entry| entry.isas.contains(&Isa::X86_64)) {
        if entry.name == "linux-invlpgb-2025" {
            continue; // A Skylake has no INVLPGB.
        }
        let ran = run_on("skylake_sp", entry.name, 1, &text);
        match strategy::is_without_pcids(entry.name) {
            true => {
                let why = ran.unwrap_err().0;
                let words =
                    format!("`isolation` needs PCIDs, and strategy `{}` uses none", entry.name);
                assert!(why.starts_with("w.toml:2: ") && why.contains(&words), "{why}");
                let without = one("", "call");
                assert!(run_on("skylake_sp", entry.name, 1, &without).is_ok());
            }
            false => assert!(ran.is_ok(), "{}", entry.name),
        }
    }
    let why = run_on("westmere_ep_2s", "linux-ipi-2025", 1, &text).unwrap_err().0;
    assert!(why.contains("machine `westmere_ep_2s` has none"), "{why}");
    assert!(run_on("neoverse_n1", "linux-broadcast", 1, &text).is_ok());
}

#[test]
fn isolation_may_be_a_parameter() {
    let text = one("isolation = \"on\"\n[parameters]\non = 1", "begin c\ncall\nend c");
    let machine = Machine::named("skylake_sp").unwrap();
    let time = |on: f64| {
        let options = BTreeMap::from([("on".to_owned(), on)]);
        let setup = Setup {
            machine: &machine,
            strategy: "lookaside",
            cpus: Some(1),
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        workload(&text).unwrap().run(&setup).unwrap().metric("c").unwrap()
    };
    let root = machine.model.prices.get(Price::Root).unwrap() as f64 / NS as f64;
    assert!((time(1.0) - time(0.0) - 2.0 * root).abs() < 1.0, "{} {}", time(1.0), time(0.0));
}

/// Two processes that take turns on a CPU lose their translations at each switch without PCIDs, and with them keep them.
#[test]
fn strategies_without_pcids_flush_at_each_switch() {
    let text = "about = \"a test\"\n[[space]]\nname = \"a\"\npages = 8\nmapped = 8\neach = true\n\
                [[threads]]\nname = \"t\"\nspace = \"a\"\ncount = 2\ncpu = 0\n\
                program = \"\"\"\nrepeat 100\ntouch 0 8\nyield\ndone\n\"\"\"\n";
    for entry in strategy::all().filter(|entry| entry.isas.contains(&Isa::X86_64)) {
        let Ok(outcome) = run_on("skylake_sp", entry.name, 1, text) else { continue };
        let misses = outcome.report.counters().walks;
        let flushes = misses > 1000;
        assert_eq!(flushes, strategy::is_without_pcids(entry.name), "{}: {misses}", entry.name);
    }
}
