//! The result of a run: time by cause and by initiator, and latencies of operations.

use lookaside_machine::timed::{AccountId, Bill, Cause, Ps, Report};
use lookaside_traces::reconstruct::{Initiator, Operation, Script};

use super::{
    Blame, Latency, Operations, Replayed, Setup, Upkeep,
    accounts::Accounts,
    player::{KINDS, Player},
};

/// The name of the process of account 0.
const NOBODY: &str = "(nobody)";

/// Adds time, by activity and cause, to its category of upkeep. Computing, idling and the time before the
/// trace begins are no upkeep and belong to no category.
fn add(upkeep: &mut Upkeep, activity: &str, cause: Cause, time: Ps) {
    let place = match (activity, cause) {
        ("boot", _) | (_, Cause::Idle) => return,
        (_, Cause::Stolen | Cause::Broadcasts | Cause::BroadcastQueue) => &mut upkeep.fabric,
        (_, Cause::Walks | Cause::SecondLevel) => &mut upkeep.refills,
        ("switch", _) => &mut upkeep.switches,
        ("flush" | "exit", Cause::Waiting | Cause::Locks) => &mut upkeep.waits,
        ("flush" | "exit", _) => &mut upkeep.flushes,
        ("interrupt" | "handler", _) => &mut upkeep.interrupted,
        _ => return,
    };
    *place += time;
}

fn upkeep(report: &Report, bill: &Bill) -> Upkeep {
    let mut upkeep = Upkeep { fabric: bill.stolen, ..Upkeep::default() };
    for (number, activity) in report.activities.iter().enumerate() {
        for &cause in Cause::ALL {
            add(&mut upkeep, activity, cause, bill.spent(number, cause));
        }
    }
    upkeep
}

/// The name of an operation.
pub(super) fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::User => "user",
        Operation::Call(call) => call.name(),
        Operation::Fault => "fault",
        Operation::Fork => "fork",
        Operation::Execute => "execute",
        Operation::Exit => "exit",
        Operation::Switch => "switch",
        Operation::Other => "other",
    }
}

/// The operation of an initiator, with the function that did it where that is known: `munmap in free_chunk`.
fn operation(who: &Initiator) -> String {
    let word = word(who.operation);
    match &who.function {
        Some(function) => format!("{word} in {function}"),
        None => word.to_owned(),
    }
}

/// Upkeep by initiator, of those of whom everything was recorded; and that of all others in a sum. What has no
/// initiator counts as recorded, so that it is not hidden.
fn blame(accounts: &Accounts, player: &Player<'_>, report: &Report) -> (Vec<Blame>, Upkeep) {
    let mut rest = Upkeep::default();
    let one = |(bill, account): (&Bill, AccountId)| {
        let who = accounts.who(account);
        if who.is_some_and(|who| !who.recorded) {
            rest.add(&upkeep(report, bill));
            return None;
        }
        let blame = Blame {
            process: who.map_or(NOBODY, |who| &who.process).to_owned(),
            operation: who.map_or_else(|| word(Operation::Other).to_owned(), operation),
            count: player.counts[account.0 as usize].get(),
            upkeep: upkeep(report, bill),
            interrupts: bill.sent,
        };
        (blame.count > 0 || blame.upkeep != Upkeep::default()).then_some(blame)
    };
    let accounts = (0..).map(AccountId);
    let mut all: Vec<Blame> = report.bills.iter().zip(accounts).filter_map(one).collect();
    all.sort_by(|a, b| {
        let key = |blame: &Blame| core::cmp::Reverse((blame.upkeep.total(), blame.count));
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.process, &a.operation).cmp(&(&b.process, &b.operation)))
    });
    (all, rest)
}

pub(super) fn replayed(
    script: &Script,
    setup: &Setup<'_>,
    accounts: &Accounts,
    player: &Player<'_>,
    report: &Report,
) -> Replayed {
    let (blame, rest) = blame(accounts, player, report);
    let mut sum = Upkeep::default();
    blame.iter().for_each(|blame| sum.add(&blame.upkeep));
    let counters = report.counters();
    let histograms = player.latencies.borrow();
    let latency = |(of, histogram): (&'static str, &hdrhistogram::Histogram<u64>)| Latency {
        of,
        count: histogram.len(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    };
    let kernel = player.kernel.as_ref().ok();
    Replayed {
        machine: setup.machine.key.clone(),
        strategy: setup.strategy.to_owned(),
        cpus: setup.cpus,
        traced: script.length * super::NS,
        total: sum.total(),
        upkeep: sum,
        rest,
        refills_band: None,
        operations: Operations {
            switches: player.switches.get(),
            flushes: player.flushes.get(),
            interrupts: counters.sent,
            page_flushes: counters.page_flushes,
            full_flushes: counters.full_flushes,
            broadcasts: counters.broadcasts,
            walks: counters.walks,
            accesses: counters.accesses,
        },
        latencies: KINDS.into_iter().zip(histograms.iter()).map(latency).collect(),
        blame,
        steps: player.steps.get(),
        events: report.events,
        observed: kernel.and_then(|kernel| kernel.strategy().observed()),
    }
}
