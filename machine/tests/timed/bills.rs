//! Time by initiator: time is charged to an account, which interrupts and broadcasts carry to other CPUs.

use lookaside::arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp};
use lookaside_machine::timed::{
    self, AccountId, Cause, Ps, Report, arm::Insn, idle_until, interrupts_off, on_behalf, work,
};

use crate::support::{arena, assert_accounts, interrupt, model, try_run};

/// Runs a program with bills for four accounts, the first of which is nobody.
fn run(cpus: usize, program: impl Fn(usize), handler: impl Fn()) -> Report {
    let arena = arena();
    let report = try_run(&model(), cpus, &arena, || timed::keep_bills(4), program, handler);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert_accounts(&report);
    let all: Ps = (0..report.bills.len()).map(|account| billed(&report, account)).sum();
    let spent: Ps = report.cpus.iter().map(|cpu| cpu.elapsed).sum();
    assert_eq!(all, spent, "bills are what was spent, without a rest");
    report
}

/// All that is on one bill.
fn billed(report: &Report, account: usize) -> Ps {
    let bill = &report.bills[account];
    let activities = 0..report.activities.len();
    let causes = || Cause::ALL.iter();
    let spent: Ps = activities.flat_map(|a| causes().map(move |&cause| bill.spent(a, cause))).sum();
    spent + bill.stolen
}

#[test]
fn handlers_are_charged_to_the_sender_of_the_interrupt() {
    let program = |cpu| match cpu {
        0 => on_behalf(AccountId(1), || {
            idle_until(1000);
            interrupt(0b10);
        }),
        _ => on_behalf(AccountId(2), || timed::during("program of CPU 1", || work(10_000))),
    };
    let seen = core::cell::Cell::new(AccountId::NOBODY);
    let handler = || {
        seen.set(timed::initiator());
        timed::during("handler", || work(100));
    };
    let report = run(2, program, handler);
    assert_eq!(seen.get(), AccountId(1));
    assert_eq!(report.billed(AccountId(1), "interrupt", Cause::Interrupts), 550);
    assert_eq!(report.billed(AccountId(1), "handler", Cause::Work), 100);
    assert_eq!(report.billed(AccountId(2), "program of CPU 1", Cause::Work), 10_000);
    assert_eq!(billed(&report, 2), 10_000, "an interrupted CPU's account is not charged");
    assert_eq!(report.bills.iter().map(|bill| bill.sent).collect::<Vec<_>>(), [0, 1, 0, 0]);
}

#[test]
fn merged_interrupts_are_charged_to_the_first_sender() {
    let program = |cpu: usize| match cpu {
        0 | 1 => on_behalf(AccountId(2 - cpu as u32), || {
            idle_until(1000 + cpu as u64);
            interrupt(1 << 2);
        }),
        _ => interrupts_off(|| work(5000)),
    };
    let report = run(3, program, || ());
    assert_eq!(report.counters().taken, 1);
    assert_eq!(report.billed(AccountId(2), "interrupt", Cause::Interrupts), 550);
    assert_eq!(report.billed(AccountId(1), "interrupt", Cause::Interrupts), 0);
}

#[test]
fn an_account_is_restored_when_its_closure_ends() {
    let program = |_| {
        on_behalf(AccountId(1), || {
            work(10);
            on_behalf(AccountId(3), || work(7));
            work(5);
        });
        work(2);
    };
    let report = run(1, program, || ());
    assert_eq!([0, 1, 2, 3].map(|account| billed(&report, account)), [2, 15, 0, 7]);
}

#[test]
fn stolen_time_is_charged_to_the_broadcasting_accounts() {
    let flushes = |account, count| {
        on_behalf(AccountId(account), || {
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
        _ => on_behalf(AccountId(3), || {
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
