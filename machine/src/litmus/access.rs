//! When the parts of an access may happen: its walk, its update of the descriptor, and itself.
//!
//! | part | after |
//! | --- | --- |
//! | walk | each `ISB` and fault before it; with FEAT_ETS2 each `DSB`, and, of one that faults, each access |
//! | update | the walk, walks of the same page before it, and what addresses before it depend on |
//! | load | the walk, and each `DSB`, full `DMB` and `DMB LD` before it |
//! | store | the walks of *all* accesses before it, each barrier, and accesses of the same word |
//! | fault | the walk, and each barrier before it |

use super::{
    order::{Before, Event, Rules},
    state::{Source, State, Step, data, instruction, names},
    test::{FaultKind, Instruction, Named, OnFault, Thread},
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
        if step.done || !before.dsb || !before.dmb_full || !before.dmb_loads {
            return None;
        }
        if walk.fault.is_some() {
            let taken = Event::Do { thread, step: index };
            // Nothing comes after a fault that ends the thread.
            let last = self.test.threads[thread].on_fault == OnFault::Stop;
            if before.dmb_stores && last {
                return Some(taken);
            }
            events.extend(before.dmb_stores.then_some(taken));
            return None;
        }
        match kind {
            Kind::Load => self.reads(state, thread, index, walk.cell, events),
            Kind::Store => {
                if before.walks
                    && before.dmb_stores
                    && self.may_store(state, thread, index, walk.cell)
                {
                    events.push(Event::Do { thread, step: index });
                }
            }
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
        let program = &self.test.threads[thread];
        let steps = &state.threads[thread];
        let own = names(self.test, thread, steps, index);
        let same_page_walked = (0..index).all(|at| {
            steps[at].walk.is_some()
                || !is_access(program, &steps[at])
                || names(self.test, thread, steps, at) != own
        });
        before.addresses && same_page_walked && (before.dsb || !self.hardware.ets2)
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
        for (at, store) in steps[..index].iter().enumerate() {
            let known = matches!(instruction(program, store), Instruction::Store { .. })
                && !store.done
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
        data(&self.test.threads[thread], steps, index).is_some()
            && !steps[..index].iter().enumerate().any(waits)
    }
}

fn is_access(program: &Thread, step: &Step) -> bool {
    matches!(instruction(program, step), Instruction::Load { .. } | Instruction::Store { .. })
}

/// Whether a TLB cannot hold what raises the fault (A1).
fn uncacheable(fault: Option<FaultKind>) -> bool {
    matches!(fault, Some(FaultKind::Translation | FaultKind::AccessFlag))
}
