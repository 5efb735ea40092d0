//! Broadcasts: the queue, the window, one synchronisation at a time, nodes, and the time taken from other
//! CPUs.

use lookaside::arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp};
use lookaside_machine::timed::{Cause, arm::Insn, idle_until, work};

use crate::support::{Notes, arena, model, run};

fn broadcast(count: u64) {
    for page in 0..count {
        Insn.tlbi(Tlbi { op: TlbiOp::Val, scope: Scope::Broadcast, operand: page });
    }
    Insn.dsb(Dsb::Ish);
}

#[test]
fn one_alone_takes_its_way() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |_| {
        broadcast(1);
        notes.note();
        Insn.dsb(Dsb::Ish); // There is nothing to wait for.
        notes.note();
    };
    let report = run(&model(), 1, &arena, program, || ());
    // Issued at 4 and answered at 4 + 100 + 1000; then the synchronisation, 200 + 1000.
    assert_eq!(notes.of(0), [1104 + 1200, 2304 + 2]);
    assert_eq!(report.spent_on(Cause::Broadcasts), 4 + (1104 - 6) + 1200);
    assert_eq!(report.spent_on(Cause::BroadcastQueue), 0);
    assert_eq!((report.counters().broadcasts, report.counters().syncs), (1, 1));
}

#[test]
fn two_and_three_queue() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |_| {
        broadcast(1);
        notes.note();
    };
    let report = run(&model(), 3, &arena, program, || ());
    // Distributed until 104, 204 and 304; synchronised until 1304, 1504 and 1704.
    assert_eq!(notes.of(0), [2304]);
    assert_eq!(notes.of(1), [2504]);
    assert_eq!(notes.of(2), [2704]);
    // The first takes something from CPUs 1 and 2 and the second from CPU 2, who do not wait yet.
    assert_eq!(report.spent_on(Cause::Stolen), 3 * 6);
    assert_eq!(report.spent_on(Cause::BroadcastQueue), 200 + 400 - 3 * 6);
}

#[test]
fn broadcasts_are_served_in_order() {
    // CPU 0 fills its window; while it waits for a place, CPU 1 comes and goes.
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| {
        if cpu == 0 {
            broadcast(5);
        } else {
            idle_until(600);
            broadcast(1);
        }
        notes.note();
    };
    run(&model(), 2, &arena, program, || ());
    // CPU 1 is distributed from 604 to 704 and answered at 1704, before the fifth of CPU 0.
    assert_eq!(notes.of(1), [1704 + 1200]);
    // The first is answered at 1104; so the fifth is at 2204, and synchronised from then on.
    assert_eq!(notes.of(0), [2204 + 1200]);
}

#[test]
fn a_window_of_one_waits_for_each() {
    let (arena, notes) = (arena(), Notes::default());
    let mut model = model();
    model.fabric_window = 1;
    let program = |_| {
        broadcast(3);
        notes.note();
    };
    run(&model, 1, &arena, program, || ());
    assert_eq!(notes.of(0), [4 + 3 * 1100 + 1200]);
}

#[test]
fn nodes_are_served_one_after_the_other() {
    let (arena, notes) = (arena(), Notes::default());
    let mut model = model();
    model.topology.nodes = 2;
    let program = |_| {
        broadcast(1);
        notes.note();
    };
    run(&model, 2, &arena, program, || ());
    // 200 for each broadcast, 200 + 300 for each synchronisation.
    assert_eq!(notes.of(0), [4 + 200 + 1000 + 500 + 1000]);
    assert_eq!(notes.of(1), [1204 + 500 + 500 + 1000]);
}

#[test]
fn each_takes_something_from_those_who_work() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| match cpu {
        0 => broadcast(2),
        1 => {
            work(10_000);
            notes.note();
        }
        _ => idle_until(10_000),
    };
    let report = run(&model(), 3, &arena, program, || ());
    assert_eq!(notes.of(1), [10_012]);
    assert_eq!(report.cpus[2].elapsed, 10_000, "it had nothing to do");
    assert_eq!(report.spent_on(Cause::Stolen), 12);
}

#[test]
fn local_invalidations_broadcast_nothing() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |_| {
        for op in [TlbiOp::Val, TlbiOp::Aside, TlbiOp::Vmall] {
            Insn.tlbi(Tlbi { op, scope: Scope::Local, operand: 0 });
            notes.note();
        }
        Insn.dsb(Dsb::Nsh);
        notes.note();
    };
    let report = run(&model(), 1, &arena, program, || ());
    assert_eq!(notes.of(0), [19, 48, 85, 87]);
    assert_eq!((report.counters().page_flushes, report.counters().full_flushes), (1, 2));
}
