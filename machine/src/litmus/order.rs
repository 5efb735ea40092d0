//! What must have happened before a part of an instruction may.
//!
//! Instructions run out of order, each in up to three parts: the *walk* that chooses a translation,
//! the *update* that hardware makes to the descriptor, and the *access* itself, or the fault.

use super::state::{Step, Walk};
use super::{
    Hardware,
    state::{Source, State, address, data, instruction, names, register},
    test::{Barrier, FaultKind, Instruction, Named, OnFault, Test},
    translate::{Kind, translations},
};

/// One thing that may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An access is translated.
    Walk { thread: usize, step: usize, walk: Walk },
    /// Hardware writes the descriptor of an access.
    Update { thread: usize, step: usize },
    /// A load reads.
    Read { thread: usize, step: usize, source: Source },
    /// A store reaches memory, a fault is taken, a barrier is passed, an invalidation is issued.
    Do { thread: usize, step: usize },
    /// Hardware sets the access flag of a descriptor unasked.
    Touch { variable: usize },
}

/// What has happened of the instructions before one.
struct Before {
    synchronised: bool,
    dsb: bool,
    dmb_full: bool,
    dmb_loads: bool,
    dmb_stores: bool,
    walks: bool,
    addresses: bool,
    loads: bool,
    stores: bool,
    updates: bool,
    invalidations: bool,
}

/// What the events of a state are looked for in.
pub(crate) struct Rules<'a> {
    pub(crate) test: &'a Test,
    pub(crate) hardware: Hardware,
    /// The variables whose descriptors something may write.
    pub(crate) changing: Vec<bool>,
}

impl Rules<'_> {
    /// Everything that may happen next. If something may happen that takes nothing from anything
    /// else, that alone.
    pub(crate) fn events(&self, state: &State) -> Vec<Event> {
        let mut events = Vec::new();
        for thread in 0..state.threads.len() {
            if let Some(free) = self.of_thread(state, thread, &mut events) {
                return vec![free];
            }
        }
        if self.test.threads.iter().any(|thread| thread.accessed) {
            let variables = self.test.contents.len();
            for variable in 0..variables {
                if may_touch(state.cells[variables + variable].value) {
                    events.push(Event::Touch { variable });
                }
            }
        }
        events
    }

    fn of_thread(&self, state: &State, thread: usize, events: &mut Vec<Event>) -> Option<Event> {
        let program = &self.test.threads[thread];
        let steps = &state.threads[thread];
        let mut before = Before {
            synchronised: true,
            dsb: true,
            dmb_full: true,
            dmb_loads: true,
            dmb_stores: true,
            walks: true,
            addresses: true,
            loads: true,
            stores: true,
            updates: true,
            invalidations: true,
        };
        for (index, step) in steps.iter().enumerate() {
            let what = instruction(program, step);
            let act = Event::Do { thread, step: index };
            match what {
                Instruction::Nop
                | Instruction::Move { .. }
                | Instruction::Copy { .. }
                | Instruction::ShiftRight { .. } => {}
                Instruction::Isb => {
                    if !step.done {
                        if before.synchronised && before.dsb && before.walks {
                            return Some(act);
                        }
                        before.synchronised = false;
                    }
                }
                Instruction::Dmb(kind) => {
                    if !step.done {
                        let ready = before.synchronised
                            && match kind {
                                Barrier::Full => before.loads && before.stores,
                                Barrier::Loads => before.loads,
                                Barrier::Stores => before.stores,
                            };
                        if ready {
                            return Some(act);
                        }
                        match kind {
                            Barrier::Full => before.dmb_full = false,
                            Barrier::Loads => before.dmb_loads = false,
                            Barrier::Stores => before.dmb_stores = false,
                        }
                    }
                }
                Instruction::Dsb(kind) => {
                    if !step.done {
                        let ready = before.synchronised
                            && before.dsb
                            && match kind {
                                Barrier::Full => {
                                    before.walks
                                        && before.loads
                                        && before.stores
                                        && before.updates
                                        && before.invalidations
                                }
                                Barrier::Loads => before.loads,
                                Barrier::Stores => before.stores,
                            };
                        if ready {
                            if kind != Barrier::Full || !completes(state, thread) {
                                return Some(act);
                            }
                            if self.may_complete(state, thread) {
                                events.push(act);
                            }
                        }
                        before.dsb = false;
                    }
                }
                Instruction::Tlbi { operand, .. } => {
                    if !step.done {
                        let known =
                            operand.is_none_or(|of| register(program, steps, index, of).is_some());
                        if before.synchronised && before.dsb && known {
                            events.push(act);
                        }
                        before.invalidations = false;
                    }
                }
                Instruction::Load { .. } | Instruction::Store { .. } => {
                    let kind = match what {
                        Instruction::Load { .. } => Kind::Load,
                        _ => Kind::Store,
                    };
                    if let Some(free) = self.of_access(state, thread, index, kind, &before, events)
                    {
                        return Some(free);
                    }
                    let walked = step.walk.is_some();
                    let faulted = step.walk.is_some_and(|walk| walk.fault.is_some());
                    before.walks &= walked;
                    before.addresses &= walked || address(program, steps, index).is_some();
                    before.updates &= step.walk.is_none_or(|walk| walk.update.is_none());
                    if faulted {
                        before.synchronised &= step.done;
                    } else if kind == Kind::Load {
                        before.loads &= step.done;
                    } else {
                        before.stores &= step.done;
                    }
                }
            }
        }
        None
    }

    /// The parts of an access.
    fn of_access(
        &self,
        state: &State,
        thread: usize,
        index: usize,
        kind: Kind,
        before: &Before,
        events: &mut Vec<Event>,
    ) -> Option<Event> {
        let program = &self.test.threads[thread];
        let steps = &state.threads[thread];
        let step = &steps[index];
        let ets2 = self.hardware.ets2;
        if !before.synchronised {
            return None;
        }
        let Some(walk) = step.walk else {
            let named = names(self.test, thread, steps, index)?;
            if ets2 && !before.dsb {
                return None;
            }
            let walks = translations(self.test, state, thread, named, kind);
            let constant = match named {
                Named::Page(page) => !self.changing[page],
                Named::Descriptor(_) => true,
            };
            let performed = before.loads && before.stores;
            for walk in walks {
                if ets2 && uncacheable(walk.fault) && !performed {
                    continue;
                }
                let event = Event::Walk { thread, step: index, walk };
                if constant && walk.fault.is_none() {
                    return Some(event);
                }
                events.push(event);
            }
            return None;
        };
        if walk.update.is_some() {
            let own_walks = |earlier: &Step| earlier.walk.is_some();
            let page = |at| names(self.test, thread, steps, at);
            let same_page_walked = (0..index).all(|at| {
                own_walks(&steps[at]) || !is_access(program, &steps[at]) || page(at) != page(index)
            });
            if before.addresses && same_page_walked && (before.dsb || !ets2) {
                events.push(Event::Update { thread, step: index });
            }
        }
        if step.done {
            return None;
        }
        let same_done = |cell: usize| {
            steps[..index].iter().all(|earlier| earlier.done || earlier.cell() != Some(cell))
        };
        if walk.fault.is_some() {
            if before.dsb && before.dmb_full && before.dmb_loads && before.dmb_stores {
                return self.free_fault(thread, index, events);
            }
            return None;
        }
        if !before.dsb || !before.dmb_full || !before.dmb_loads {
            return None;
        }
        match kind {
            Kind::Load => {
                for at in 0..index {
                    let store = &steps[at];
                    let known = matches!(instruction(program, store), Instruction::Store { .. })
                        && !store.done
                        && data(program, steps, at).is_some();
                    let fits = match store.walk {
                        None => true,
                        Some(of) => of.fault.is_none() && of.cell == walk.cell,
                    };
                    if known && fits {
                        let source = Source::Own(at);
                        events.push(Event::Read { thread, step: index, source });
                    }
                }
                let source = Source::Memory(state.cells[walk.cell].version);
                events.push(Event::Read { thread, step: index, source });
            }
            Kind::Store => {
                let updated = steps[..index].iter().enumerate().all(|(at, earlier)| {
                    earlier.walk.is_none_or(|of| of.update.is_none())
                        || names(self.test, thread, steps, at).is_none_or(|named| match named {
                            Named::Page(page) => self.test.contents.len() + page != walk.cell,
                            Named::Descriptor(_) => true,
                        })
                });
                if before.walks
                    && before.dmb_stores
                    && data(program, steps, index).is_some()
                    && same_done(walk.cell)
                    && updated
                {
                    events.push(Event::Do { thread, step: index });
                }
            }
        }
        None
    }

    /// A fault is taken as soon as it may be, unless something comes after it.
    fn free_fault(&self, thread: usize, step: usize, events: &mut Vec<Event>) -> Option<Event> {
        let event = Event::Do { thread, step };
        if self.test.threads[thread].on_fault == OnFault::Stop {
            return Some(event);
        }
        events.push(event);
        None
    }

    /// Whether a full `DSB` of `by` may be passed: other CPUs have performed what they translated
    /// before its invalidations (A7), and what they translate of the same page before that, they
    /// have translated.
    fn may_complete(&self, state: &State, by: usize) -> bool {
        state.threads.iter().enumerate().filter(|(thread, _)| *thread != by).all(
            |(thread, steps)| {
                steps.iter().enumerate().all(|(at, step)| {
                    let doomed = step.walk.is_some_and(|walk| walk.doomed & 1 << by != 0);
                    if !doomed {
                        return true;
                    }
                    let page = names(self.test, thread, steps, at);
                    let earlier = (0..at).all(|at| {
                        steps[at].walk.is_some() || names(self.test, thread, steps, at) != page
                    });
                    // A fault has reached no memory that an earlier access could have missed.
                    let faults = step.walk.is_some_and(|walk| walk.fault.is_some());
                    step.done && (faults || earlier)
                })
            },
        )
    }
}

fn is_access(program: &super::test::Thread, step: &Step) -> bool {
    matches!(instruction(program, step), Instruction::Load { .. } | Instruction::Store { .. })
}

/// Whether a TLB cannot hold what raises the fault.
fn uncacheable(fault: Option<FaultKind>) -> bool {
    matches!(fault, Some(FaultKind::Translation | FaultKind::AccessFlag))
}

/// Whether invalidations of `by` wait for completion, anywhere.
fn completes(state: &State, by: usize) -> bool {
    state.tlbs.iter().flatten().any(|entry| entry.doomed & 1 << by != 0)
        || state
            .threads
            .iter()
            .flatten()
            .any(|step| step.walk.is_some_and(|walk| walk.doomed & 1 << by != 0))
}

/// Whether hardware may set the access flag of a descriptor unasked: it is valid, and has it not.
fn may_touch(word: u64) -> bool {
    use super::descriptor::{cacheable, with_accessed};
    !cacheable(word) && cacheable(with_accessed(word))
}

/// Whether what a thread has read agrees with the order in which memory has been written.
pub(crate) fn coherent(test: &Test, thread: usize, steps: &[Step]) -> bool {
    let program = &test.threads[thread];
    let version = |step: &Step| match step.source {
        Some(Source::Own(of)) => steps[of].version(),
        _ => step.version(),
    };
    for (at, load) in steps.iter().enumerate() {
        let Instruction::Load { .. } = instruction(program, load) else { continue };
        let (Some(cell), Some(source)) = (load.cell(), load.source) else { continue };
        if let Source::Own(store) = source
            && steps[store].walk.is_some()
            && steps[store].cell() != Some(cell)
        {
            return false;
        }
        for (earlier_at, earlier) in steps[..at].iter().enumerate() {
            if earlier.cell() != Some(cell) {
                continue;
            }
            let fits = match (instruction(program, earlier), source) {
                (Instruction::Store { .. }, Source::Own(store)) => earlier_at <= store,
                (Instruction::Store { .. }, Source::Memory(read)) => {
                    earlier.version().is_some_and(|written| written <= read)
                }
                _ => match (version(earlier), version(load)) {
                    (Some(first), Some(second)) => first <= second,
                    _ => true,
                },
            };
            if !fits {
                return false;
            }
        }
    }
    true
}
