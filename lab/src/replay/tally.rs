//! What a run comes to: time by cause, by who caused it, and how long operations took.

use lookaside_machine::timed::{Bill, Cause, Party, Ps, Report};

use super::{
    Blame, Latency, Operations, Replayed, Setup, Upkeep,
    parties::Parties,
    player::{KINDS, Player},
};
use crate::reconstruct::{Deed, Script};

/// Who stands for what nobody caused.
const NOBODY: &str = "(nobody)";

/// Puts time that was spent on a cause in an activity where it belongs. What belongs nowhere is no
/// upkeep: computing, idling, and the time before the trace begins.
fn add(upkeep: &mut Upkeep, activity: &str, cause: Cause, time: Ps) {
    let place = match (activity, cause) {
        ("boot", _) | (_, Cause::Idle) => return,
        (_, Cause::Stolen | Cause::Broadcasts | Cause::BroadcastQueue) => &mut upkeep.fabric,
        (_, Cause::Walks | Cause::SecondLevel) => &mut upkeep.refills,
        ("switch", _) => &mut upkeep.switches,
        ("flush" | "exit", Cause::Waiting | Cause::Locks) => &mut upkeep.waits,
        ("flush" | "exit", _) => &mut upkeep.flushes,
        ("interrupt" | "handler", _) => &mut upkeep.victims,
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

/// What a program was doing, in a word.
pub(super) fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::User => "user",
        Deed::Call(call) => call.name(),
        Deed::Fault => "fault",
        Deed::Fork => "fork",
        Deed::Execute => "execute",
        Deed::Exit => "exit",
        Deed::Switch => "switch",
        Deed::Other => "other",
    }
}

fn blame(parties: &Parties, player: &Player<'_>, report: &Report) -> Vec<Blame> {
    let one = |(bill, party): (&Bill, Party)| {
        let who = parties.who(party);
        let blame = Blame {
            process: who.map_or(NOBODY, |who| &who.process).to_owned(),
            deed: word(who.map_or(Deed::Other, |who| who.deed)).to_owned(),
            count: player.counts[party.0 as usize].get(),
            upkeep: upkeep(report, bill),
            interrupts: bill.sent,
        };
        (blame.count > 0 || blame.upkeep != Upkeep::default()).then_some(blame)
    };
    let parties = (0..).map(Party);
    let mut all: Vec<Blame> = report.bills.iter().zip(parties).filter_map(one).collect();
    all.sort_by(|a, b| {
        let key = |blame: &Blame| core::cmp::Reverse((blame.upkeep.total(), blame.count));
        key(a).cmp(&key(b)).then_with(|| (&a.process, &a.deed).cmp(&(&b.process, &b.deed)))
    });
    all
}

pub(super) fn replayed(
    script: &Script,
    setup: &Setup<'_>,
    parties: &Parties,
    player: &Player<'_>,
    report: &Report,
) -> Replayed {
    let blame = blame(parties, player, report);
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
