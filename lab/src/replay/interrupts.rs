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

/// Medians of how long interrupts took, in nanoseconds. Recording is in them, as it is in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// From the request to what its sender does next: in a guest the host sends it meanwhile.
    pub send: u64,
    /// From the request to its handler on the other CPU.
    pub arrive: u64,
}

/// What a CPU does that asked another to flush.
#[derive(Clone, Copy, Default)]
struct Asking {
    began: u64,
    /// How many it asked since.
    asked: u32,
}

/// Measures them; none if there are too few, or requests were not recorded.
#[must_use]
pub fn measure(trace: &Trace) -> Option<Interrupts> {
    let mut asking: HashMap<u16, Asking> = HashMap::new();
    let mut asked: HashMap<(u16, u64), u64> = HashMap::new();
    let (mut sends, mut arrivals) = (Vec::new(), Vec::new());
    for event in &trace.events {
        match event.kind {
            Kind::Ask { target, request, flush: true } => {
                asked.insert((target, request), event.time);
                let asking = asking.entry(event.cpu).or_default();
                *asking = Asking { began: event.time, asked: asking.asked + 1 };
            }
            // Interrupts are sent after all requests are made, and before the sender's own part.
            Kind::Send { .. } | Kind::SendMany { .. } => {}
            Kind::Flush { reason: Reason::LocalSpace, .. } => {
                if let Some(Asking { began, asked: 1 }) = asking.remove(&event.cpu) {
                    sends.push(event.time - began);
                }
            }
            Kind::Serve { request, flush: true } if request != 0 => {
                asking.remove(&event.cpu);
                if let Some(began) = asked.remove(&(event.cpu, request)) {
                    arrivals.push(event.time - began);
                }
            }
            Kind::Serve { request: 0, .. } => {}
            // Something else came in between.
            _ => {
                asking.remove(&event.cpu);
            }
        }
    }
    Some(Interrupts { send: median(&mut sends)?, arrive: median(&mut arrivals)? })
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
        assert_eq!(measure(&trace), Some(Interrupts { send: 15, arrive: 60 }));
        // Its own part does not tell when a CPU was interrupted before it, or asked several.
        for (at, event) in [
            (1, event(1, 0, Kind::Serve { request: 9, flush: true })),
            (1, event(1, 0, Kind::Ask { target: 2, request: 8, flush: true })),
            (1, event(1, 0, Kind::Interrupt)),
        ] {
            let mut less = trace.clone();
            less.events.drain(..3);
            less.events.splice(at..at, [Event { time: 1001, ..event }]);
            assert_eq!(measure(&less), None, "{event:?}");
        }
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
        Interrupts { send: 7000, arrive: 13_000 }.apply(&mut machine);
        assert_eq!(prices(&machine), [7_000_000, 6_000_000 - entry, entry]);
    }
}
