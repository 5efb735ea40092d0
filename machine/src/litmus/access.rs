//! When the parts of an access may happen: its walk, its update of the descriptor, and itself.
//!
//! | part | after |
//! | --- | --- |
//! | walk | each `ISB` and fault before it; with FEAT_ETS2 each `DSB`, and, of one that faults, each access |
//! | update | the walk, and the walks of *all* accesses before it |
//! | load | the walk, and each `DSB`, full `DMB` and `DMB LD` before it; of `LDAR`, each `STLR` before it |
//! | store | the walks of *all* accesses before it, each barrier, and accesses of the same word; of `STLR`, each access before it |
//! | fault | the walk, and each barrier before it |
//!
//! Each access and fault comes after loads before it that acquire, and after atomics before it that
//! acquire and release. An atomic is a load and a store of one word between which nobody else writes it.
//! An update and a store come after what their value, and addresses before them, depend on; so does whether
//! they happen at all: branches before them are decided. Loads and walks are tried on a guess.

use super::{
    order::{Before, Event, Rules},
    state::{Source, State, Step, data, fails, instruction, names, place, to_write},
    test::{FaultKind, Named, OnFault},
    translate::{Kind, translations},
};

impl Rules<'_> {
    /// The parts of an access that may happen now. One that takes nothing from anything else is
    /// returned.
    pub(super) fn of_access(
        &self,
        state: &State,
        thread: usize,
        index: usize,
        kind: Kind,
        before: &Before,
        events: &mut Vec<Event>,
    ) -> Option<Event> {
        let step = &state.threads[thread][index];
        if !before.synchronised {
            return None;
        }
        let Some(walk) = step.walk else {
            return self.walks(state, thread, index, kind, before, events);
        };
        if walk.update.is_some() && self.may_update(state, thread, index, before) {
            events.push(Event::Update { thread, step: index });
        }
        if step.done || !before.free_to_access() {
            return None;
        }
        let program = &self.test.threads[thread];
        let what = instruction(program, step);
        let steps = &state.threads[thread];
        if walk.fault.is_some() {
            let taken = Event::Do { thread, step: index };
            // Nothing comes after a fault that ends the thread.
            let last = program.on_fault == OnFault::Stop;
            let sure = place(program, steps, index).is_some_and(|place| !place.guessed);
            // A fault synchronises what comes after it, as an `ISB` does.
            if !(last || before.walks && before.decided() && sure) {
                return None;
            }
            if before.dmb_stores && last {
                return Some(taken);
            }
            // A `DMB ST` orders the fault, but not what comes after it (see `may_complete`).
            if !last {
                events.push(taken);
            }
            return None;
        }
        if what.reads() && step.source.is_none() {
            if !what.acquires_sequentially() || before.released {
                self.reads(state, thread, index, walk.cell, events);
            }
            return None;
        }
        let act = Event::Do { thread, step: index };
        if fails(program, steps, index) == Some(true) {
            return Some(act);
        }
        if before.walks
            && before.dmb_stores
            && before.decided()
            && (!what.releases() || before.loads && before.stores)
            && self.may_store(state, thread, index, walk.cell)
        {
            events.push(act);
        }
        None
    }

    fn walks(
        &self,
        state: &State,
        thread: usize,
        index: usize,
        kind: Kind,
        before: &Before,
        events: &mut Vec<Event>,
    ) -> Option<Event> {
        let named = names(self.test, thread, &state.threads[thread], index)?;
        let ets2 = self.hardware.ets2;
        if ets2 && !before.dsb {
            return None;
        }
        let constant = match named {
            Named::Page(page) => !self.changing[page],
            Named::Descriptor(_) => true,
        };
        let performed = before.loads && before.stores;
        for walk in translations(self.test, state, thread, named, kind) {
            if ets2 && uncacheable(walk.fault) && !performed {
                continue;
            }
            let event = Event::Walk { thread, step: index, walk };
            if constant && walk.fault.is_none() {
                return Some(event);
            }
            events.push(event);
        }
        None
    }

    fn may_update(&self, state: &State, thread: usize, index: usize, before: &Before) -> bool {
        let (program, steps) = (&self.test.threads[thread], &state.threads[thread]);
        let sure = place(program, steps, index).is_some_and(|place| !place.guessed);
        let decided = before.decided() && sure;
        before.walks && decided && (before.dsb || !self.hardware.ets2)
    }

    /// A load reads memory, or what an earlier store of its thread is about to write. Whether that
    /// store goes to the same word need not be known yet.
    fn reads(
        &self,
        state: &State,
        thread: usize,
        index: usize,
        cell: usize,
        events: &mut Vec<Event>,
    ) {
        let program = &self.test.threads[thread];
        let steps = &state.threads[thread];
        let acquires = instruction(program, &steps[index]).acquires();
        for (at, store) in steps[..index].iter().enumerate() {
            let what = instruction(program, store);
            let known = what.writes()
                && !store.done
                && !(what.reads() && acquires) // What acquires waits for an atomic's write.
                && data(program, steps, at).is_some();
            if known && (store.walk.is_none() || store.cell() == Some(cell)) {
                events.push(Event::Read { thread, step: index, source: Source::Own(at) });
            }
        }
        let source = Source::Memory(state.cells[cell].version);
        events.push(Event::Read { thread, step: index, source });
    }

    /// Whether a store has its data, and what came before it at the same word has happened.
    fn may_store(&self, state: &State, thread: usize, index: usize, cell: usize) -> bool {
        let steps = &state.threads[thread];
        let waits = |(at, earlier): (usize, &Step)| {
            let updates = earlier.walk.is_some_and(|walk| walk.update.is_some())
                && match names(self.test, thread, steps, at) {
                    Some(Named::Page(page)) => self.test.contents.len() + page == cell,
                    _ => false,
                };
            updates || !earlier.done && earlier.cell() == Some(cell)
        };
        let program = &self.test.threads[thread];
        let sure = place(program, steps, index).is_some_and(|place| !place.guessed)
            && to_write(program, steps, index).is_some_and(|data| !data.guessed);
        sure && !steps[..index].iter().enumerate().any(waits)
    }
}

/// Whether a TLB cannot hold what raises the fault (A1).
fn uncacheable(fault: Option<FaultKind>) -> bool {
    matches!(fault, Some(FaultKind::Translation | FaultKind::AccessFlag))
}
