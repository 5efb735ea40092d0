//! What holds for every script under every strategy.

use lookaside_replay::{Setup, Upkeep, WorkingSet, replay};
use lookaside_simulation::{
    data::{Isa, Machine},
    strategy,
};
use lookaside_traces::reconstruct::Script;

use crate::script::{machine, random};

/// Enough to lose translations by capacity, too.
const LARGE: WorkingSet = WorkingSet { window: 20_000, hot: 60, others: 10, pool: 700 };

/// One machine of each kind: PCIDs, none, broadcasts on x86, Arm.
const MACHINES: &[&str] = &["skylake_sp", "fbsd_32thread", "zen5", "neoverse_n1"];

/// Replays a script, and checks what must hold. What it gives, as text.
#[track_caller]
fn check(script: &Script, machine: &Machine, strategy: &str, cpus: usize, seed: u64) -> String {
    let setup = Setup { machine, strategy, cpus, working_set: LARGE, seed, arrivals: None };
    let at = format!("{strategy} on {}, {cpus} CPUs, seed {seed}", machine.key);
    let replayed = replay(script, &setup).unwrap_or_else(|refused| panic!("{at}: {refused}"));
    let mut sum = Upkeep::default();
    replayed.blame.iter().for_each(|blame| sum.add(&blame.upkeep));
    assert_eq!(sum, replayed.upkeep, "{at}");
    assert_eq!(sum.total(), replayed.total, "{at}");
    let recorded = script.cpus.len();
    let steps: usize = match cpus < recorded {
        true => script.cpus.iter().map(Vec::len).sum(),
        false => (0..cpus).map(|cpu| script.cpus[cpu % recorded].len()).sum(),
    };
    assert_eq!(replayed.steps, steps as u64, "{at}: each step is executed");
    assert!(replayed.blame.iter().all(|blame| blame.process != "(nobody)"), "{at}");
    serde_json::to_string(&replayed).expect("it can be written")
}

#[test]
fn every_strategy_executes_every_script() {
    for &key in MACHINES {
        let machine = machine(key);
        let without = !machine.features.invlpgb;
        for entry in strategy::all().filter(|entry| entry.isas.contains(&machine.isa)) {
            // Scripts have threads.
            let is_single = strategy::is_for_one_thread(entry.name);
            if is_single || without && entry.name.contains("invlpgb") {
                continue;
            }
            for seed in 0..3 {
                let script = random(seed, 3, 600);
                for cpus in [1, 2, 3, 7, 12] {
                    check(&script, &machine, entry.name, cpus, seed);
                }
            }
        }
    }
}

#[test]
fn many_scripts_under_the_strategies_that_are_compared_most() {
    for &key in MACHINES {
        let machine = machine(key);
        let strategies = match machine.isa {
            Isa::X86_64 if machine.features.tag_bits > 0 => {
                &["lookaside", "linux-ipi-2025", "linux-ipi-2025-kvm"][..]
            }
            Isa::X86_64 => &["lookaside-untagged", "linux-ipi-2025"],
            _ => &["lookaside", "linux-broadcast"],
        };
        for &strategy in strategies {
            for seed in 100..130 {
                let cpus = 1 + (seed % 5) as usize;
                let script = random(seed, 1 + (seed % 4) as usize, 800);
                let first = check(&script, &machine, strategy, cpus, seed);
                if seed % 10 == 0 {
                    let again = check(&script, &machine, strategy, cpus, seed);
                    assert_eq!(first, again, "two runs give the same bytes");
                }
            }
        }
    }
}
