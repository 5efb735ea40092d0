//! The latency of interrupts on the traced system. A validation charges it, so that counts which depend on
//! the order of two CPUs are compared under the same conditions.

use std::collections::HashMap;

use lookaside_machine::timed::{Next, Price};
use lookaside_simulation::{
    data::Machine,
    strategy::{FLUSH_ASK, INTERRUPT_HOLD, SWITCH_LOOK},
};
use lookaside_traces::{Kind, Pages, Reason, Trace};

/// How far from a flush the request may be that it is taken to have sent, in nanoseconds.
const NEAR: u64 = 50_000;
/// A flush of at most so many pages shows what a flush takes, and one of at least so many what its pages take.
const FEW: u32 = 4;
const MANY: u32 = 16;
/// The smallest number of samples for a median.
const ENOUGH: usize = 20;

/// How long interrupts took, in nanoseconds: medians. Recording is in them, as it is in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// From the request to the sender's own flush: in a guest the host sends the interrupt meanwhile. Without the time of
    /// its pages.
    pub send: u64,
    /// From the request to its handler on the other CPU.
    pub arrive: u64,
    /// The order of events if the sender gets a request itself meanwhile; `None` if there are too few cases.
    pub hold: Option<Hold>,
    /// From a switch to what the kernel says the TLB held: it reads the generation of the space before it says so.
    /// 0 if it said so too seldom.
    pub look: u64,
    /// From a flush that others may concern to its first request: it looks in between which CPUs are lazy. 0 if there are
    /// too few.
    pub ask: u64,
    /// What the invalidation of a page takes on the CPU itself, in picoseconds: the difference between flushes of few pages
    /// and of many, from the moment at which one says that others may hold the pages until it says that it is done.
    /// `None` if there are too few of either.
    pub page: Option<u64>,
}

/// The host holds up the sender of an interrupt. If an interrupt has been sent to the sender by then, it
/// takes that one first. The trace does not show from when on an interrupt counts as sent, only which of two
/// CPUs that sent requests to each other did its own flush first; the age is fitted to that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// A CPU that resumes first takes interrupts that were requested at least this many nanoseconds before.
    pub age: u64,
    /// The number of cases in which the rule agrees with the trace.
    pub right: usize,
    /// The number of all cases.
    pub cases: usize,
}

/// The state of an initiator.
#[derive(Clone, Copy, Default)]
struct Asking {
    began: u64,
    /// The number of its requests since.
    asked: u32,
    /// The time of its own first pending request.
    crossed: Option<u64>,
}

/// Measures them; none if there are too few, or requests were not recorded.
#[must_use]
pub fn measure(trace: &Trace) -> Option<Interrupts> {
    let mut asking: HashMap<u16, Asking> = HashMap::new();
    let mut asked: HashMap<(u16, u64), u64> = HashMap::new();
    // By CPU: the time of its first pending request.
    let mut first: HashMap<u16, u64> = HashMap::new();
    let (mut sends, mut arrivals) = (Vec::new(), Vec::new());
    // The time from a CPU's request to another CPU's request to it, and whether the latter was handled before
    // the CPU's own flush.
    let mut crossed: Vec<(i64, bool)> = Vec::new();
    // By CPU: the time of a switch that was its last event.
    let mut switched: HashMap<u16, u64> = HashMap::new();
    // By CPU: the time of a flush that concerns others, if that was its last event.
    let mut said: HashMap<u16, u64> = HashMap::new();
    let (mut looks, mut asks) = (Vec::new(), Vec::new());
    // The pages and the time of flushes that asked nobody.
    let mut locals: Vec<(u32, u64)> = Vec::new();
    let lag = |asking: &Asking| Some(asking.crossed?.cast_signed() - asking.began.cast_signed());
    for event in &trace.events {
        match (event.kind, said.remove(&event.cpu)) {
            (Kind::Flush { reason: Reason::Send, .. }, _) => _ = said.insert(event.cpu, event.time),
            (Kind::Ask { flush: true, .. }, Some(began)) => asks.push(event.time - began),
            (
                Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(pages) },
                Some(began),
            ) => {
                locals.push((pages, event.time - began));
            }
            _ => {}
        }
        match (event.kind, switched.remove(&event.cpu)) {
            (Kind::Switch { .. }, _) => _ = switched.insert(event.cpu, event.time),
            (Kind::Flush { reason: Reason::Switch, .. }, Some(began)) => {
                looks.push(event.time - began)
            }
            _ => {}
        }
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
            Kind::Flush { reason: Reason::LocalSpace, pages } => {
                if let Some(asking @ Asking { began, asked: 1, .. }) = asking.remove(&event.cpu) {
                    sends.push((event.time - began, pages));
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
    let page = page(&locals);
    // The kernel says that it has flushed when the last page is invalidated.
    let mut sends: Vec<u64> =
        sends.into_iter().map(|(time, pages)| time.saturating_sub(of_pages(pages, page))).collect();
    let (send, arrive) = (median(&mut sends)?, median(&mut arrivals)?);
    Some(Interrupts {
        send,
        arrive,
        hold: hold(send, crossed),
        look: median(&mut looks).unwrap_or(0),
        ask: median(&mut asks).unwrap_or(0),
        page,
    })
}

/// The age that is right for most of these, of which all may be alike.
fn hold(send: u64, mut crossed: Vec<(i64, bool)>) -> Option<Hold> {
    let cases = crossed.len();
    let taken = crossed.iter().filter(|(_, taken)| *taken).count();
    if cases < 2 * ENOUGH {
        return None;
    }
    crossed.sort_unstable();
    // For each place: all cases up to it are taken to have been handled first, and none behind it.
    let mut right = cases - taken;
    let (mut best, mut at) = (right, crossed[0].0);
    for (place, &(lag, taken)) in crossed.iter().enumerate() {
        let next = crossed.get(place + 1).map_or(lag, |&(next, _)| next);
        right = if taken { right + 1 } else { right - 1 };
        if right > best {
            (best, at) = (right, lag.midpoint(next));
        }
    }
    Some(Hold { age: send.saturating_add_signed(-at), right: best, cases })
}

/// When each recorded request arrived, and each switch read the generation: how late a request was says what its target did
/// meanwhile, such as turning to another thread with interrupts off. A validation lets the interrupts of a flush
/// arrive when those of the recorded flush did; what the target finds to do follows from the rules.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// By sender: when it asked, since the trace began; whom; and how many nanoseconds later the target began.
    senders: Vec<Vec<(u64, u16, u64)>>,
    /// By CPU: when it turned to a thread, since the trace began, and after how many nanoseconds it said what its TLB held.
    looks: Vec<Vec<(u64, u64)>>,
    /// By CPU: when it began a flush that others may concern, since the trace began, and after how many nanoseconds it made
    /// the first request.
    asks: Vec<Vec<(u64, u64)>>,
    /// By CPU: the same, and after how many nanoseconds it went on from its only request, and with what.
    goes_on: Vec<Vec<(u64, (u64, Next))>>,
}

impl Arrivals {
    /// Reads them from a trace.
    #[must_use]
    pub fn of(trace: &Trace, interrupts: &Interrupts) -> Self {
        let mut arrivals = Self::default();
        let mut asked: HashMap<(u16, u64), (u16, u64)> = HashMap::new();
        let start = trace.events.first().map_or(0, |event| event.time);
        // By CPU: its last event, if that was a switch, or a flush that others may concern.
        let mut switched: HashMap<u16, u64> = HashMap::new();
        let mut flushed: HashMap<u16, u64> = HashMap::new();
        // By CPU: when it began a flush, and how many requests it made since.
        let mut sending: HashMap<u16, (u64, u32)> = HashMap::new();
        for event in &trace.events {
            let (before, flush) = (switched.remove(&event.cpu), flushed.remove(&event.cpu));
            let since = |began: u64| (began.saturating_sub(start), event.time - began);
            match event.kind {
                Kind::Switch { .. } => {
                    sending.remove(&event.cpu);
                    switched.insert(event.cpu, event.time);
                }
                Kind::Flush { reason: Reason::Send, .. } => {
                    sending.insert(event.cpu, (event.time, 0));
                    flushed.insert(event.cpu, event.time);
                }
                Kind::Flush { reason: Reason::Switch, .. } => {
                    let Some(began) = before else { continue };
                    of(&mut arrivals.looks, event.cpu).push(since(began));
                }
                Kind::Ask { target, request, flush: true } => {
                    if let Some((_, requests)) = sending.get_mut(&event.cpu) {
                        *requests += 1;
                    }
                    if let Some(began) = flush {
                        of(&mut arrivals.asks, event.cpu).push(since(began));
                    }
                    asked.insert((target, request), (event.cpu, event.time));
                }
                // The kernel says that it has flushed when the last page is invalidated.
                Kind::Flush { reason: Reason::LocalSpace, pages } => {
                    if let Some((began, 1)) = sending.remove(&event.cpu) {
                        let (began, time) = since(began);
                        let own = time.saturating_sub(of_pages(pages, interrupts.page));
                        of(&mut arrivals.goes_on, event.cpu).push((began, (own, Next::Own)));
                    }
                }
                Kind::Serve { request, flush: true } if request != 0 => {
                    if let Some(&(began, requests)) = sending.get(&event.cpu)
                        && requests > 0
                    {
                        sending.remove(&event.cpu);
                        if requests == 1 {
                            let (began, time) = since(began);
                            of(&mut arrivals.goes_on, event.cpu)
                                .push((began, (time, Next::Interrupt)));
                        }
                    }
                    let Some((sender, began)) = asked.remove(&(event.cpu, request)) else {
                        continue;
                    };
                    let found = (began.saturating_sub(start), event.cpu, event.time - began);
                    of(&mut arrivals.senders, sender).push(found);
                }
                _ => {}
            }
        }
        arrivals.senders.iter_mut().for_each(|requests| requests.sort_unstable());
        arrivals
    }

    /// After how many nanoseconds a CPU that turned to a thread at a time said what its TLB held, if it did.
    pub(super) fn look(&self, cpu: usize, time: u64) -> Option<u64> {
        at(self.looks.get(cpu)?, time)
    }

    /// After how many nanoseconds a flush that a CPU began at a time made its first request, if it made one.
    pub(super) fn ask(&self, cpu: usize, time: u64) -> Option<u64> {
        at(self.asks.get(cpu)?, time)
    }

    /// After how many nanoseconds a CPU that began a flush at a time, and made one request, went on, and with what.
    pub(super) fn goes_on(&self, cpu: usize, time: u64) -> Option<(u64, Next)> {
        at(self.goes_on.get(cpu)?, time)
    }

    /// For each CPU to which `sender` sent a request near a time since the trace began: it, and how many nanoseconds after
    /// that time the nearest one arrived; 0 if it did before.
    pub(super) fn near(&self, sender: usize, time: u64) -> Vec<(u16, u64)> {
        let Some(requests) = self.senders.get(sender) else { return Vec::new() };
        let first = requests.partition_point(|(at, ..)| at + NEAR < time);
        let mut found: Vec<(u16, u64, u64)> = Vec::new();
        for &(at, target, took) in
            requests[first..].iter().take_while(|(at, ..)| *at <= time + NEAR)
        {
            let apart = at.abs_diff(time);
            let arrived = (at + took).saturating_sub(time);
            match found.iter_mut().find(|(other, ..)| *other == target) {
                Some(best) if best.1 <= apart => {}
                Some(best) => *best = (target, apart, arrived),
                None => found.push((target, apart, arrived)),
            }
        }
        found.into_iter().map(|(target, _, arrived)| (target, arrived)).collect()
    }
}

/// What a list says of the moment that began at a time.
fn at<T: Copy>(all: &[(u64, T)], time: u64) -> Option<T> {
    let place = all.binary_search_by_key(&time, |(began, _)| *began).ok()?;
    Some(all[place].1)
}

/// What the invalidation of these pages takes, in nanoseconds, if one takes so many picoseconds.
fn of_pages(pages: Pages, page: Option<u64>) -> u64 {
    match pages {
        Pages::Some(pages) => u64::from(pages) * page.unwrap_or(0) / 1000,
        Pages::Everything => 0,
    }
}

/// What a page takes, in picoseconds, of flushes by their pages and times.
fn page(locals: &[(u32, u64)]) -> Option<u64> {
    let [few, many] = [0..=FEW, MANY..=u32::MAX].map(|some| {
        let (mut pages, mut times): (Vec<u64>, Vec<u64>) = locals
            .iter()
            .filter(|(pages, _)| some.contains(pages))
            .map(|&(pages, time)| (u64::from(pages), time))
            .unzip();
        Some((median(&mut pages)?, median(&mut times)?))
    });
    let ((few, short), (many, long)) = (few?, many?);
    Some(long.checked_sub(short)? * 1000 / (many - few))
}

/// The list of a CPU.
fn of<T>(lists: &mut Vec<Vec<T>>, cpu: u16) -> &mut Vec<T> {
    let cpu = usize::from(cpu);
    if lists.len() <= cpu {
        lists.resize_with(cpu + 1, Vec::new);
    }
    &mut lists[cpu]
}

fn median(times: &mut [u64]) -> Option<u64> {
    if times.len() < ENOUGH {
        return None;
    }
    let middle = times.len() / 2;
    Some(*times.select_nth_unstable(middle).1)
}

impl Interrupts {
    /// Gives a machine these latencies.
    pub fn apply(&self, machine: &mut Machine) {
        let prices = &mut machine.model.prices;
        let (send, arrive) = (self.send * 1000, self.arrive * 1000);
        let entry = prices.charge(Price::InterruptEntry);
        prices.set(Price::InterruptSend, send);
        prices.set(Price::InterruptDeliver, arrive.saturating_sub(send + entry));
        if let Some(Hold { age, .. }) = self.hold {
            machine.paths.insert(INTERRUPT_HOLD.to_owned(), age * 1000);
        }
        machine.paths.insert(SWITCH_LOOK.to_owned(), self.look * 1000);
        machine.paths.insert(FLUSH_ASK.to_owned(), self.ask * 1000);
        if let Some(page) = self.page {
            prices.set(Price::FlushPage, page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookaside_traces::Event;

    const NONE: Interrupts =
        Interrupts { send: 0, arrive: 0, hold: None, look: 0, ask: 0, page: None };

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
        assert_eq!(
            measure(&trace),
            Some(Interrupts { send: 15, arrive: 60, hold: None, look: 0, ask: 0, page: None })
        );
        // A CPU's own flush is no sample if it was interrupted before, or had sent several requests.
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
    fn a_sender_handles_a_request_first_if_the_request_came_early_enough() {
        // CPU 0 sends a request at `at`, CPU 1 sends one to it `lag` later; sending takes 10.
        let crossing = |at: u64, lag: u64, first: bool| {
            let ask = |target, request| Kind::Ask { target, request, flush: true };
            let own = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(1) };
            let then = if first { Kind::Serve { request: 8, flush: true } } else { own };
            [
                event(at, 0, ask(1, 7)),
                event(at + lag, 1, ask(0, 8)),
                event(at + 10, 0, then),
                // Requests that are still pending.
                event(at + 30, 0, Kind::Serve { request: 8, flush: true }),
                event(at + 30, 1, Kind::Serve { request: 7, flush: true }),
            ]
        };
        let mut trace = Trace::default();
        let cases = (0..60).map(|i| crossing(i * 1000, i % 6, i % 6 < 3));
        trace.events = cases.flatten().collect();
        // One case that differs from the others. In all of them CPU 1 gets its request first, and handles it
        // first.
        trace.events.extend(crossing(60_000, 0, false));
        let hold = measure(&trace).expect("there are enough").hold;
        assert_eq!(hold, Some(Hold { age: 8, right: 121, cases: 122 }));
        trace.events.truncate(5 * 30);
        assert_eq!(measure(&trace).and_then(|interrupts| interrupts.hold), None);
        // A host that holds senders up for so long that all of them are interrupted first.
        let cases = (0..60).map(|i| crossing(i * 1000, i % 6, true));
        let alone = (100..120).flat_map(|i| round(i * 1000, 10, 30));
        trace.events = cases.flatten().chain(alone).collect();
        let hold = measure(&trace).and_then(|interrupts| interrupts.hold);
        assert!(hold.is_some_and(|hold| hold.right == hold.cases && hold.age < 10), "{hold:?}");
    }

    #[test]
    fn what_a_page_takes_is_the_difference_between_few_and_many() {
        let mut locals = [(1, 400), (3, 440), (26, 1590)].repeat(20);
        assert_eq!(page(&locals), Some(1_150 * 1000 / 23));
        locals.truncate(30);
        assert_eq!(page(&locals), None, "ten flushes of many pages");
    }

    #[test]
    fn the_time_of_the_pages_is_none_of_the_interrupt() {
        // Flushes that ask nobody: 2 pages in 300, 22 in 2300. Those that ask: the request after 200, and 22 pages in 3100.
        let of =
            |time, reason, pages| event(time, 0, Kind::Flush { reason, pages: Pages::Some(pages) });
        let alone = |(at, pages, time)| {
            [of(at, Reason::Send, pages), of(at + time, Reason::LocalSpace, pages)]
        };
        let asking = |at: u64| {
            [
                of(at, Reason::Send, 22),
                event(at + 200, 0, Kind::Ask { target: 1, request: 7, flush: true }),
                of(at + 3300, Reason::LocalSpace, 22),
                event(at + 1700, 1, Kind::Serve { request: 7, flush: true }),
            ]
        };
        let few = (0..20).map(|i| (i * 10_000, 2, 300));
        let many = (20..40).map(|i| (i * 10_000, 22, 2300));
        let events =
            few.chain(many).flat_map(alone).chain((40..61).flat_map(|i| asking(i * 10_000)));
        let measured = measure(&Trace { events: events.collect(), ..Trace::default() });
        let measured = measured.expect("there are enough");
        assert_eq!((measured.page, measured.send, measured.ask), (Some(100_000), 900, 200));
        assert_eq!(measured.arrive, 1500);
    }

    #[test]
    fn a_flush_looks_who_is_lazy_in_the_time_that_was_recorded() {
        let send = Kind::Flush { reason: Reason::Send, pages: Pages::Some(1) };
        let ask = Kind::Ask { target: 1, request: 7, flush: true };
        let events = vec![event(5, 0, send), event(105, 0, send), event(330, 0, ask)];
        let arrivals = Arrivals::of(&Trace { events, ..Trace::default() }, &NONE);
        assert_eq!(
            (arrivals.ask(0, 100), arrivals.ask(0, 0), arrivals.ask(1, 100)),
            (Some(225), None, None)
        );
    }

    #[test]
    fn a_sender_goes_on_with_what_was_recorded_first() {
        let send = |time, cpu| {
            event(time, cpu, Kind::Flush { reason: Reason::Send, pages: Pages::Some(10) })
        };
        let ask = |time, cpu, target, request| {
            event(time, cpu, Kind::Ask { target, request, flush: true })
        };
        let own = Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Some(10) };
        let serve = |time, cpu, request| event(time, cpu, Kind::Serve { request, flush: true });
        let events = vec![
            send(0, 0),
            ask(100, 0, 1, 7),
            // CPU 1 asks meanwhile, and serves CPU 0 first.
            send(200, 1),
            ask(300, 1, 0, 8),
            event(5000, 0, own),
            serve(6000, 1, 7),
            event(7000, 1, own),
            serve(8000, 0, 8),
            // Of a CPU with two requests it is not known for which it was held up how long.
            send(10_000, 0),
            ask(10_100, 0, 1, 9),
            ask(10_200, 0, 2, 10),
            event(15_000, 0, own),
        ];
        let interrupts = Interrupts { page: Some(50_000), ..NONE };
        let arrivals = Arrivals::of(&Trace { events, ..Trace::default() }, &interrupts);
        assert_eq!(arrivals.goes_on(0, 0), Some((4500, Next::Own)), "ten pages take 500 ns");
        assert_eq!(arrivals.goes_on(1, 200), Some((5800, Next::Interrupt)));
        assert_eq!(arrivals.goes_on(0, 10_000), None);
    }

    #[test]
    fn each_request_arrives_when_it_was_recorded() {
        let events = [round(1_000, 5, 40), round(200_000, 5, 900)].concat();
        let trace = Trace { events, ..Trace::default() };
        let arrivals = Arrivals::of(&trace, &NONE);
        assert_eq!(arrivals.near(0, 10), [(1, 30)], "it was sent at 0 and arrived at 40");
        assert_eq!(arrivals.near(0, 198_000), [(1, 1900)]);
        assert_eq!(arrivals.near(0, 100_000), []);
        assert_eq!(arrivals.near(1, 10), []);
    }

    #[test]
    fn a_machine_takes_them_over() {
        let machines = lookaside_simulation::data::Files::own().machines().expect("machines");
        let mut machine =
            machines.into_iter().find(|m| m.key == "skylake_sp").expect("it is shipped");
        let prices = |machine: &Machine| {
            [Price::InterruptSend, Price::InterruptDeliver, Price::InterruptEntry]
                .map(|price| machine.model.prices.charge(price))
        };
        let [.., entry] = prices(&machine);
        let hold = Some(Hold { age: 4000, right: 40, cases: 40 });
        Interrupts { send: 7000, arrive: 13_000, hold, look: 600, ask: 300, page: Some(55_000) }
            .apply(&mut machine);
        assert_eq!(prices(&machine), [7_000_000, 6_000_000 - entry, entry]);
        assert_eq!(machine.path_or_none(INTERRUPT_HOLD), 4_000_000);
        assert_eq!(machine.path_or_none(SWITCH_LOOK), 600_000);
        assert_eq!(machine.path_or_none(FLUSH_ASK), 300_000);
        assert_eq!(machine.model.prices.charge(Price::FlushPage), 55_000);
    }
}
