//! What becomes of one step after the other.

use lookaside_replay::{Setup, WorkingSet, replay};
use lookaside_terminal::Refused;
use lookaside_traces::reconstruct::{Act, Operation, Script};

use crate::script::{Builder, SMALL, machine, run};

#[test]
fn programs_use_their_working_set() {
    let mut builder = Builder::new(1, 1000);
    let space = builder.space("program", 20, 1);
    builder.run(0, 0, 1, space);
    builder.idle(0, 500);
    let replayed = run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 1);
    // Ten pages in each of five windows, less what was under way when it went idle.
    assert!((48..=50).contains(&replayed.operations.accesses), "{:?}", replayed.operations);
    assert_eq!(replayed.operations.walks, 10);
    // Pages that were mapped last are hot.
    let map = Act::Map { space, first: 3, pages: 4 };
    let mut builder = Builder::new(1, 1000);
    builder.space("program", 20, 1);
    builder.run(0, 0, 1, space);
    builder.step(0, 500, 1, Operation::Fault, map);
    let replayed = run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 1);
    assert_eq!(replayed.operations.walks, 14);
    // And pages that are gone are not used.
    let gone = Act::Unmap { space, first: 3, pages: 4, tables: false, whole: false };
    builder.step(0, 501, 1, Operation::Other, gone);
    let replayed = run(&builder.script, &machine("skylake_sp"), "linux-ipi-2025", 1);
    assert_eq!(replayed.operations.walks, 10);
    assert!((78..=80).contains(&replayed.operations.accesses), "{:?}", replayed.operations);
}

/// A process with so many threads, one on each of two CPUs, or one process on each.
fn pair(threads: u32) -> Script {
    let mut builder = Builder::new(2, 2000);
    let first = builder.space("first", 10, threads);
    let second = if threads == 2 { first } else { builder.space("second", 10, 1) };
    builder.run(0, 1, 1, first);
    builder.run(1, 1, 2, second);
    for i in 1..10 {
        builder.mprotect(0, 100 * i, 1, first);
        builder.mprotect(1, 100 * i + 50, 2, second);
    }
    builder.script
}

#[test]
fn a_strategy_for_one_thread_refuses_more_threads() {
    let machine = machine("neoverse_n1");
    let working_set = SMALL;
    let setup = Setup {
        machine: &machine,
        strategy: "local-mm-users",
        cpus: 2,
        working_set,
        seed: 1,
        arrivals: None,
    };
    assert!(replay(&pair(1), &setup).is_ok());
    let Refused(why) = replay(&pair(2), &setup).unwrap_err();
    assert_eq!(why, "it is for processes with one thread, and `first` has 2");
}

#[test]
fn threads_interrupt_each_other_in_copies_and_not_on_one_cpu() {
    let interrupts = |script: &Script, cpus| {
        let replayed = run(script, &machine("skylake_sp"), "linux-ipi-2025", cpus);
        assert_eq!(replayed.operations.flushes, 18 * (cpus as u64).div_ceil(2), "{cpus}");
        replayed.operations.interrupts
    };
    let [threads, processes] = [pair(2), pair(1)];
    assert_eq!([1, 2].map(|cpus| interrupts(&threads, cpus)), [0, 18]);
    // Four threads: each flush has three others to ask. Requests that meet are asked for once.
    let four = interrupts(&threads, 4);
    assert!((18 * 2 * 2..=18 * 2 * 3).contains(&four), "{four}");
    assert_eq!([1, 2, 4, 8].map(|cpus| interrupts(&processes, cpus)), [0; 4]);
}

#[test]
fn cpus_take_turns() {
    let replayed = run(&pair(1), &machine("skylake_sp"), "linux-ipi-2025", 1);
    // Each of the 18 calls is by the other one, so the CPU turns to it; and twice at the beginning.
    assert_eq!(replayed.operations.switches, 2 + 18);
}

#[test]
fn thousands_of_processes_come_and_go() {
    let mut builder = Builder::new(1, 100_000);
    let parent = builder.space("shell", 600, 1);
    builder.run(0, 0, 1, parent);
    for i in 0..3000_u32 {
        let time = 10 + u64::from(i) * 30;
        let child = builder.space("command", 600, 1);
        builder.step(0, time, 1, Operation::Fork, Act::Fork { parent, child });
        builder.run(0, time + 10, 2 + i, child);
        builder.step(0, time + 19, 2 + i, Operation::Exit, Act::Idle);
        builder.step(0, time + 19, 2 + i, Operation::Exit, Act::End(child));
        builder.run(0, time + 20, 1, parent);
    }
    for strategy in ["lookaside", "linux-ipi-2025"] {
        let replayed = run(&builder.script, &machine("skylake_sp"), strategy, 1);
        assert_eq!(replayed.operations.flushes, 6000);
    }
    let replayed = run(&builder.script, &machine("neoverse_n1"), "lookaside", 1);
    assert_eq!(replayed.steps, 1 + 5 * 3000);
}

#[test]
fn invalid_setups_and_scripts_are_refused() {
    let (script, machine) = (pair(2), machine("neoverse_n1"));
    let good = Setup {
        machine: &machine,
        strategy: "lookaside",
        cpus: 2,
        working_set: SMALL,
        seed: 1,
        arrivals: None,
    };
    let why = |script: &Script, setup: &Setup<'_>| {
        let Refused(why) = replay(script, setup).unwrap_err();
        why
    };
    assert!(replay(&script, &good).is_ok());
    assert!(why(&script, &Setup { cpus: 65, ..good.clone() }).contains("has 64"));
    assert!(why(&script, &Setup { cpus: 0, ..good.clone() }).contains("0 CPUs"));
    assert!(
        why(&script, &Setup { strategy: "linux-ipi-2025", ..good.clone() })
            .contains("is not one for")
    );
    let set = WorkingSet { window: 0, ..SMALL };
    assert!(why(&script, &Setup { working_set: set, ..good.clone() }).contains("window"));
    let set = WorkingSet { others: 1, ..SMALL };
    assert!(why(&script, &Setup { working_set: set, ..good.clone() }).contains("other pages"));
    assert!(why(&Script { length: 0, ..script.clone() }, &good).contains("a trace of 0 ns"));
    let mut huge = script;
    huge.spaces[0].pages = 1 << 40;
    assert!(why(&huge, &good).contains("4 TiB"));
}
