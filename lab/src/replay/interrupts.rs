//! How long interrupts took on the traced system: what a validation charges, so that counts which depend on
//! who is quicker are compared under the same conditions.

use std::collections::HashMap;

use lookaside_machine::timed::Price;

use crate::{
    data::Machine,
    trace::{Kind, Reason, Trace},
};

/// Fewer say nothing.
const ENOUGH: usize = 20;

/// The path of a machine that says what [`Hold::age`] is.
pub const HOLD: &str = "interrupt_hold";

/// How long interrupts took, in nanoseconds: medians. Recording is in them, as it is in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// From the request to what its sender does next: in a guest the host sends it meanwhile.
    pub send: u64,
    /// From the request to its handler on the other CPU.
    pub arrive: u64,
    /// What becomes of a sender that is asked itself meanwhile; none if too few were.
    pub hold: Option<Hold>,
}

/// Who sends an interrupt is held up by the host. If another has been sent to it by then, it is let go only to
/// take that. From when on it counts as sent is not seen, only which of two CPUs that asked each other came to
/// its own part first: it is fitted to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// A CPU that is let go takes interrupts first that were asked for so many nanoseconds before, or more.
    pub age: u64,
    /// In how many cases that is what was seen.
    pub right: usize,
    /// Of how many.
    pub cases: usize,
}

/// What a CPU does that asked another to flush.
#[derive(Clone, Copy, Default)]
struct Asking {
    began: u64,
    /// How many it asked since.
    asked: u32,
    /// When it was itself asked first, of what it did not serve yet.
    crossed: Option<u64>,
}

/// Measures them; none if there are too few, or requests were not recorded.
#[must_use]
pub fn measure(trace: &Trace) -> Option<Interrupts> {
    let mut asking: HashMap<u16, Asking> = HashMap::new();
    let mut asked: HashMap<(u16, u64), u64> = HashMap::new();
    // By CPU: when it was asked first, of what it did not serve yet.
    let mut first: HashMap<u16, u64> = HashMap::new();
    let (mut sends, mut arrivals) = (Vec::new(), Vec::new());
    // How long after the request another came, and whether that was served before the CPU's own part.
    let mut crossed: Vec<(i64, bool)> = Vec::new();
    let lag = |asking: &Asking| Some(asking.crossed?.cast_signed() - asking.began.cast_signed());
    for event in &trace.events {
        match event.kind {
            Kind::Ask { target, request, flush: true } => {
                asked.insert((target, request), event.time);
                if let Some(other) = asking.get_mut(&target) {
                    other.crossed = other.crossed.or(Some(event.time));
                }
                first.entry(target).or_insert(event.time);
                let crossed = first.get(&event.cpu).copied();
                let asking = asking.entry(event.cpu).or_default();
                *asking = Asking { began: event.time, asked: asking.asked + 1, crossed };
            }
            // Interrupts are sent after all requests are made, and before the sender's own part.
            Kind::Send { .. } | Kind::SendMany { .. } => {}
            Kind::Flush { reason: Reason::LocalSpace, .. } => {
                if let Some(asking @ Asking { began, asked: 1, .. }) = asking.remove(&event.cpu) {
                    sends.push(event.time - began);
                    crossed.extend(lag(&asking).map(|lag| (lag, false)));
                }
            }
            Kind::Serve { request, flush: true } if request != 0 => {
                first.remove(&event.cpu);
                if let Some(asking @ Asking { asked: 1, .. }) = asking.remove(&event.cpu) {
                    crossed.extend(lag(&asking).map(|lag| (lag, true)));
                }
                if let Some(began) = asked.remove(&(event.cpu, request)) {
                    arrivals.push(event.time - began);
                }
            }
            Kind::Serve { request: 0, .. } | Kind::Served { request: 0, .. } => {}
            // The handler begins with it, where it is recorded.
            Kind::Interrupt => {}
            // Something else came in between.
            _ => {
                asking.remove(&event.cpu);
            }
        }
    }
    let (send, arrive) = (median(&mut sends)?, median(&mut arrivals)?);
    Some(Interrupts { send, arrive, hold: hold(send, crossed) })
}

/// The age that is right for most of these.
fn hold(send: u64, mut crossed: Vec<(i64, bool)>) -> Option<Hold> {
    let cases = crossed.len();
    let taken = crossed.iter().filter(|(_, taken)| *taken).count();
    if taken < ENOUGH || cases - taken < ENOUGH {
        return None;
    }
    crossed.sort_unstable();
    // Up to each place all are taken to have been served first, and none behind it.
    let mut right = cases - taken;
    let (mut best, mut at) = (right, crossed[0].0);
    for pair in crossed.windows(2) {
        let [(lag, taken), (next, _)] = [pair[0], pair[1]];
        right = if taken { right + 1 } else { right - 1 };
        if right > best {
            (best, at) = (right, lag.midpoint(next));
        }
    }
    Some(Hold { age: send.saturating_add_signed(-at), right: best, cases })
}

fn median(times: &mut [u64]) -> Option<u64> {
    if times.len() < ENOUGH {
        return None;
    }
    let middle = times.len() / 2;
    Some(*times.select_nth_unstable(middle).1)
}

impl Interrupts {
    /// A machine whose interrupts take as long.
    pub fn apply(&self, machine: &mut Machine) {
        let prices = &mut machine.model.prices;
        let (send, arrive) = (self.send * 1000, self.arrive * 1000);
        let entry = prices.charge(Price::InterruptEntry);
        prices.set(Price::InterruptSend, send);
        prices.set(Price::InterruptDeliver, arrive.saturating_sub(send + entry));
        if let Some(Hold { age, .. }) = self.hold {
            machine.paths.insert(HOLD.to_owned(), age * 1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Event, Pages};

    fn event(time: u64, cpu: u16, kind: Kind) -> Event {
        Event { time, cpu, in_interrupt: None, task: 1, kind }
    }

    fn round(at: u64, send: u64, arrive: u64) -> [Event; 3] {
        let local = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(1) };
        [
            event(at, 0, Kind::Ask { target: 1, request: 7, flush: true }),
            event(at + send, 0, local),
            event(at + arrive, 1, Kind::Serve { request: 7, flush: true }),
        ]
    }

    #[test]
    fn medians_of_whole_rounds_count() {
        let mut trace = Trace::default();
        let rounds = (0..21).map(|i| round(i * 1000, 5 + i, 50 + i));
        trace.events = rounds.flatten().collect();
        assert_eq!(measure(&trace), Some(Interrupts { send: 15, arrive: 60, hold: None }));
        // Its own part does not tell when a CPU was interrupted before it, or asked several.
        for (at, event) in [
            (1, event(1, 0, Kind::Serve { request: 9, flush: true })),
            (1, event(1, 0, Kind::Ask { target: 2, request: 8, flush: true })),
            (1, event(1, 0, Kind::Exit)),
        ] {
            let mut less = trace.clone();
            less.events.drain(..3);
            less.events.splice(at..at, [Event { time: 1001, ..event }]);
            assert_eq!(measure(&less), None, "{event:?}");
        }
    }

    #[test]
    fn who_is_asked_early_enough_is_let_go_to_serve_it_first() {
        // CPU 0 asks at `at`, CPU 1 asks it so much later; it takes 10 to send.
        let crossing = |at: u64, lag: u64, first: bool| {
            let ask = |target, request| Kind::Ask { target, request, flush: true };
            let own = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(1) };
            let then = if first { Kind::Serve { request: 8, flush: true } } else { own };
            [
                event(at, 0, ask(1, 7)),
                event(at + lag, 1, ask(0, 8)),
                event(at + 10, 0, then),
                // What was not served yet.
                event(at + 30, 0, Kind::Serve { request: 8, flush: true }),
                event(at + 30, 1, Kind::Serve { request: 7, flush: true }),
            ]
        };
        let mut trace = Trace::default();
        let cases = (0..60).map(|i| crossing(i * 1000, i % 6, i % 6 < 3));
        trace.events = cases.flatten().collect();
        // One that is not as the others are. In all of them CPU 1 was asked first, and serves that first.
        trace.events.extend(crossing(60_000, 0, false));
        let hold = measure(&trace).expect("there are enough").hold;
        assert_eq!(hold, Some(Hold { age: 8, right: 121, cases: 122 }));
        trace.events.truncate(5 * 30);
        assert_eq!(measure(&trace).and_then(|interrupts| interrupts.hold), None);
    }

    #[test]
    fn a_machine_takes_them_over() {
        let machines = crate::data::Files::own().machines().expect("machines");
        let mut machine =
            machines.into_iter().find(|m| m.key == "skylake_sp").expect("it is shipped");
        let prices = |machine: &Machine| {
            [Price::InterruptSend, Price::InterruptDeliver, Price::InterruptEntry]
                .map(|price| machine.model.prices.charge(price))
        };
        let [.., entry] = prices(&machine);
        let hold = Some(Hold { age: 4000, right: 40, cases: 40 });
        Interrupts { send: 7000, arrive: 13_000, hold }.apply(&mut machine);
        assert_eq!(prices(&machine), [7_000_000, 6_000_000 - entry, entry]);
        assert_eq!(machine.path_or_none(HOLD), 4_000_000);
    }
}
