//! When calls end whose returns are not recorded (`lookaside record --lean`).
//!
//! A call is over when it has flushed, and those whom it asked have served it. One that flushed nothing is
//! taken to be over at once. That it succeeded has to be believed.

use std::collections::{HashMap, HashSet};

use crate::{Call, Kind, Reason, Trace, fault};

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Whose call.
    pub(super) task: u32,
    pub(super) call: Call,
    /// When it flushed, or began if it did not.
    pub(super) flushed: u64,
}

/// A call that did not end yet.
struct Open {
    end: End,
    /// The place of the latest event that shows it under way.
    place: usize,
    /// Whether its latest flush was one that others were told of: what its thread then does by itself
    /// belongs to it.
    told: bool,
}

/// Finds the ends, each by the place of the event with which it comes; none where returns are recorded.
pub(super) fn find(trace: &Trace) -> HashMap<usize, Vec<End>> {
    let mut ends = Ends::default();
    if !lacks_returns(trace) {
        return ends.found;
    }
    for (place, event) in trace.events.iter().enumerate() {
        let task = event.task;
        match event.kind {
            Kind::Call { call, .. } => {
                ends.end(task);
                if !call.gives_address() {
                    let end = End { task, call, flushed: event.time };
                    ends.open.insert(task, Open { end, place, told: false });
                }
            }
            Kind::Fault { code, .. } if code & fault::USER != 0 => ends.end(task),
            Kind::Exit | Kind::Execute { .. } => ends.end(task),
            Kind::Flush { reason: reason @ (Reason::LocalSpace | Reason::Send), .. } => {
                let told = reason == Reason::Send;
                if let Some(open) = ends.open.get_mut(&task) {
                    if told || !open.told {
                        open.end.flushed = event.time;
                    }
                    (open.told, open.place) = (told, place);
                }
            }
            Kind::Ask { target, request, flush: true } => {
                ends.asked.insert((target, request), task);
            }
            Kind::Serve { request, flush: true } => {
                let initiator = ends.asked.remove(&(event.cpu, request));
                if let Some(open) = initiator.and_then(|task| ends.open.get_mut(&task)) {
                    open.place = place;
                }
            }
            // Others may have begun unseen.
            Kind::Lost { .. } => ends.open.clear(),
            _ => {}
        }
    }
    let mut left: Vec<u32> = ends.open.keys().copied().collect();
    left.sort_unstable();
    left.into_iter().for_each(|task| ends.end(task));
    ends.found
}

/// Whether calls that give no address end unseen: none returns, and a thread goes on after one.
fn lacks_returns(trace: &Trace) -> bool {
    let mut inside = HashSet::new();
    let mut goes_on = false;
    for event in &trace.events {
        match event.kind {
            Kind::Return { call, .. } if !call.gives_address() => return false,
            Kind::Return { .. } => _ = inside.remove(&event.task),
            Kind::Call { call, .. } => {
                goes_on |= inside.contains(&event.task);
                if !call.gives_address() {
                    inside.insert(event.task);
                }
            }
            Kind::Fault { code, .. } if code & fault::USER != 0 => {
                goes_on |= inside.contains(&event.task);
            }
            Kind::Lost { .. } => inside.clear(),
            _ => {}
        }
    }
    goes_on
}

#[derive(Default)]
struct Ends {
    found: HashMap<usize, Vec<End>>,
    /// By thread.
    open: HashMap<u32, Open>,
    /// By CPU and request: who asked.
    asked: HashMap<(u16, u64), u32>,
}

impl Ends {
    /// A thread is in no call any more.
    fn end(&mut self, task: u32) {
        if let Some(Open { end, place, .. }) = self.open.remove(&task) {
            self.found.entry(place).or_default().push(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Pages};

    fn events(kinds: &[(u16, u32, Kind)]) -> Trace {
        let event =
            |(&(cpu, task, kind), time)| Event { time, cpu, in_interrupt: None, task, kind };
        Trace { events: kinds.iter().zip(10..).map(event).collect(), ..Trace::default() }
    }

    /// Place, thread and time of each end; thread 9 shows that calls end unseen.
    fn found(kinds: &[(u16, u32, Kind)]) -> Vec<(usize, u32, u64)> {
        let found = find(&events(&[kinds, &[(1, 9, CALL), (1, 9, CALL)]].concat()));
        let all = found.iter().flat_map(|(place, ends)| ends.iter().map(|end| (*place, end)));
        let ours = all.filter(|(_, end)| end.task != 9);
        let mut ours: Vec<_> = ours.map(|(place, end)| (place, end.task, end.flushed)).collect();
        ours.sort_unstable();
        ours
    }

    const CALL: Kind = Kind::Call { call: Call::Munmap, arguments: [0; 5] };
    const SERVE: Kind = Kind::Serve { request: 7, flush: true };

    fn flush(reason: Reason) -> Kind {
        Kind::Flush { reason, pages: Pages::Some(1) }
    }

    #[test]
    fn a_call_ends_with_its_flush_or_when_others_have_served_it() {
        let (told, local) = (flush(Reason::Send), flush(Reason::LocalSpace));
        assert_eq!(found(&[(0, 1, CALL), (0, 1, local), (0, 1, CALL)]), [(1, 1, 11), (2, 1, 12)]);
        let ask = Kind::Ask { target: 1, request: 7, flush: true };
        let shared =
            [(0, 1, CALL), (0, 1, told), (0, 1, ask), (0, 1, local), (1, 2, SERVE), (0, 1, CALL)];
        assert_eq!(found(&shared), [(4, 1, 11), (5, 1, 15)]);
        // Two flushes in one call: the later counts.
        assert_eq!(found(&[(0, 1, CALL), (0, 1, local), (0, 1, local)]), [(2, 1, 12)]);
    }

    #[test]
    fn a_call_without_a_flush_ends_at_once_and_not_with_what_comes_after_it() {
        let fault = |code| Kind::Fault { address: 1, code };
        let local = flush(Reason::LocalSpace);
        let user = [(0, 1, CALL), (0, 1, fault(fault::USER)), (0, 1, local)];
        assert_eq!(found(&user), [(0, 1, 10)]);
        // The kernel itself faults in the call.
        assert_eq!(found(&[(0, 1, CALL), (0, 1, fault(0)), (0, 1, local)]), [(2, 1, 12)]);
        assert_eq!(found(&[(0, 1, CALL), (0, 1, Kind::Exit), (0, 1, local)]), [(0, 1, 10)]);
        assert_eq!(found(&[(0, 1, CALL), (0, 1, Kind::Lost { events: 1 })]), []);
    }

    #[test]
    fn where_returns_are_recorded_nothing_is_guessed() {
        let returns = |call| (0, 1, Kind::Return { call, value: 0 });
        assert_eq!(found(&[(0, 1, CALL), returns(Call::Munmap), (0, 1, CALL)]), []);
        assert_eq!(found(&[(0, 1, CALL), returns(Call::Mmap)]), [(0, 1, 10)]);
        // Nobody goes on after the only call: it is still under way.
        assert_eq!(find(&events(&[(0, 1, CALL), (0, 2, flush(Reason::LocalSpace))])).len(), 0);
    }
}
