//! Who causes what: time is put down to a party, and goes with interrupts and broadcasts to other CPUs.

use lookaside::arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp};
use lookaside_machine::timed::{
    self, Cause, Party, Ps, Report, arm::Insn, idle_until, interrupts_off, on_behalf, work,
};

use crate::support::{arena, assert_accounts, interrupt, model, try_run};

/// Runs a program with bills for four parties, the first of which is nobody.
fn run(cpus: usize, program: impl Fn(usize), handler: impl Fn()) -> Report {
    let arena = arena();
    let report = try_run(&model(), cpus, &arena, || timed::keep_bills(4), program, handler);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert_accounts(&report);
    let all: Ps = (0..report.bills.len()).map(|party| billed(&report, party)).sum();
    let spent: Ps = report.cpus.iter().map(|cpu| cpu.elapsed).sum();
    assert_eq!(all, spent, "bills are what was spent, without a rest");
    report
}

/// All that is on one bill.
fn billed(report: &Report, party: usize) -> Ps {
    let bill = &report.bills[party];
    let activities = 0..report.activities.len();
    let causes = || Cause::ALL.iter();
    let spent: Ps = activities.flat_map(|a| causes().map(move |&cause| bill.spent(a, cause))).sum();
    spent + bill.stolen
}

#[test]
fn a_handler_is_put_down_to_who_sent_the_interrupt() {
    let program = |cpu| match cpu {
        0 => on_behalf(Party(1), || {
            idle_until(1000);
            interrupt(0b10);
        }),
        _ => on_behalf(Party(2), || timed::during("program of CPU 1", || work(10_000))),
    };
    let seen = core::cell::Cell::new(Party::NOBODY);
    let handler = || {
        seen.set(timed::party());
        timed::during("handler", || work(100));
    };
    let report = run(2, program, handler);
    assert_eq!(seen.get(), Party(1));
    assert_eq!(report.billed(Party(1), "interrupt", Cause::Interrupts), 550);
    assert_eq!(report.billed(Party(1), "handler", Cause::Work), 100);
    assert_eq!(report.billed(Party(2), "program of CPU 1", Cause::Work), 10_000);
    assert_eq!(billed(&report, 2), 10_000, "who is interrupted does not pay for it");
    assert_eq!(report.bills.iter().map(|bill| bill.sent).collect::<Vec<_>>(), [0, 1, 0, 0]);
}

#[test]
fn interrupts_that_are_taken_as_one_are_with_the_first_sender() {
    let program = |cpu: usize| match cpu {
        0 | 1 => on_behalf(Party(2 - cpu as u32), || {
            idle_until(1000 + cpu as u64);
            interrupt(1 << 2);
        }),
        _ => interrupts_off(|| work(5000)),
    };
    let report = run(3, program, || ());
    assert_eq!(report.counters().taken, 1);
    assert_eq!(report.billed(Party(2), "interrupt", Cause::Interrupts), 550);
    assert_eq!(report.billed(Party(1), "interrupt", Cause::Interrupts), 0);
}

#[test]
fn a_party_ends_where_it_began() {
    let program = |_| {
        on_behalf(Party(1), || {
            work(10);
            on_behalf(Party(3), || work(7));
            work(5);
        });
        work(2);
    };
    let report = run(1, program, || ());
    assert_eq!([0, 1, 2, 3].map(|party| billed(&report, party)), [2, 15, 0, 7]);
}

#[test]
fn what_broadcasts_take_is_with_those_who_broadcast() {
    let flushes = |party, count| {
        on_behalf(Party(party), || {
            for page in 0..count {
                let scope = Scope::Broadcast;
                Insn.tlbi(Tlbi { op: TlbiOp::Val, scope, operand: page });
            }
            Insn.dsb(Dsb::Ish);
        });
    };
    let program = |cpu| match cpu {
        0 => flushes(1, 1),
        1 => flushes(2, 3),
        _ => on_behalf(Party(3), || {
            for _ in 0..100 {
                work(200);
            }
        }),
    };
    let report = run(3, program, || ());
    let stolen = report.spent_on(Cause::Stolen);
    assert!(stolen >= 4 * 6, "four broadcasts reach a CPU that computes: {stolen}");
    assert_eq!(report.bills[3].stolen, 0);
    assert_eq!(report.bills[1].stolen, stolen / 4);
    assert_eq!(report.bills[2].stolen, stolen - stolen / 4);
}
