//! What must have happened before a part of an instruction may.
//!
//! Instructions run out of order, each in up to three parts: the *walk* that chooses a translation,
//! the *update* that hardware makes to the descriptor, and the *access* itself, or the fault. This file
//! has the barriers and invalidations, [`super::access`] the parts of an access.

use super::{
    Hardware,
    descriptor::{cacheable, with_accessed},
    state::{Source, State, Step, Walk, holds, instruction, is_settled, known, names, place},
    test::{Barrier, Condition, Instruction, Test, Thread},
    translate::Kind,
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
    /// A branch or a selection goes on before it is known which way is right.
    Guess { thread: usize, step: usize, guess: bool },
    /// Hardware sets the access flag of a descriptor unasked.
    Touch { variable: usize },
}

/// What has happened of the instructions before one: all of each kind.
pub(super) struct Before {
    /// Every `ISB` is passed, and every fault is taken.
    pub(super) synchronised: bool,
    /// Every `DSB` is passed.
    pub(super) dsb: bool,
    pub(super) dmb_full: bool,
    pub(super) dmb_loads: bool,
    pub(super) dmb_stores: bool,
    /// Every access that acquires has read.
    pub(super) acquired: bool,
    /// Every store that releases has reached memory.
    pub(super) released: bool,
    /// Every atomic that does both has written.
    pub(super) full_atomics: bool,
    /// Every branch is known to go where it went.
    pub(super) branches: bool,
    /// No address rests on a guess.
    pub(super) sure: bool,
    /// Every access is translated.
    pub(super) walks: bool,
    /// Every load has read.
    pub(super) loads: bool,
    /// Every load whose value is observed has read.
    pub(super) seen_loads: bool,
    /// Every store has reached memory.
    pub(super) stores: bool,
    /// Hardware has written every descriptor that it must.
    pub(super) updates: bool,
    /// Every `TLBI` is issued.
    pub(super) invalidations: bool,
}

impl Before {
    /// Nothing came before.
    const NOTHING: Self = Self {
        synchronised: true,
        dsb: true,
        dmb_full: true,
        dmb_loads: true,
        dmb_stores: true,
        acquired: true,
        released: true,
        full_atomics: true,
        branches: true,
        sure: true,
        walks: true,
        loads: true,
        seen_loads: true,
        stores: true,
        updates: true,
        invalidations: true,
    };

    /// Whether what a barrier orders before itself has happened.
    fn performed(&self, kind: Barrier) -> bool {
        // A full one waits for loads whose value nobody looks at, too.
        let loads = if kind.waits_for_stores() { self.loads } else { self.seen_loads };
        (loads || !kind.waits_for_loads()) && (self.stores || !kind.waits_for_stores())
    }

    /// Whether everything is known that decides whether what comes next happens at all, and where
    /// what came before went.
    pub(super) fn decided(&self) -> bool {
        self.branches && self.sure
    }

    /// Whether no access before holds back those after it.
    pub(super) fn free_to_access(&self) -> bool {
        self.dsb && self.dmb_full && self.dmb_loads && self.acquired && self.full_atomics
    }

    /// The same for a `DSB`. A full one waits for walks, updates and invalidations, too.
    fn finished(&self, kind: Barrier) -> bool {
        let more = self.walks && self.updates && self.invalidations;
        self.dsb && self.performed(kind) && (!kind.completes_tlbis() || more)
    }
}

impl Before {
    /// Counts an access among what came before.
    fn pass(&mut self, what: Instruction, program: &Thread, steps: &[Step], index: usize) {
        let step = &steps[index];
        self.walks &= step.walk.is_some();
        self.sure &= place(program, steps, index).is_none_or(|place| !place.guessed);
        self.updates &= step.walk.is_none_or(|walk| walk.update.is_none());
        if step.faults() {
            self.synchronised &= step.done;
            return;
        }
        if what.reads() {
            let read = step.source.is_some();
            self.loads &= read;
            self.seen_loads &= read || what.reads_unseen();
            self.acquired &= read || !what.acquires();
        }
        if what.writes() {
            self.stores &= step.done;
            self.released &= step.done || !what.releases();
            self.full_atomics &= step.done || !what.is_full_atomic();
        }
    }
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
        let mut before = Before::NOTHING;
        for (index, step) in steps.iter().enumerate() {
            let what = instruction(program, step);
            if self.hardware.in_order && index > 0 && !is_over(program, &steps[index - 1]) {
                return self.overtaking(state, thread, index, before, events);
            }
            let act = Event::Do { thread, step: index };
            match what {
                Instruction::Nop
                | Instruction::Move { .. }
                | Instruction::Copy { .. }
                | Instruction::Compute { .. }
                | Instruction::Compare { .. } => {}
                Instruction::Select { .. } => {
                    let guess = |guess| Event::Guess { thread, step: index, guess };
                    if step.guess.is_none() && holds(program, steps, index).is_none() {
                        events.extend([guess(false), guess(true)]);
                    }
                }
                Instruction::Branch { .. } => {
                    if let Some(sure) = branch(program, steps, thread, index, events) {
                        return Some(sure);
                    }
                    before.branches &= is_settled(program, steps, index);
                }
                Instruction::Isb => {
                    if !step.done {
                        let decided = before.decided();
                        if before.synchronised && before.dsb && before.walks && decided {
                            return Some(act);
                        }
                        before.synchronised = false;
                    }
                }
                Instruction::Dmb(kind) => {
                    if !step.done {
                        if before.synchronised && before.performed(kind) {
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
                        if before.synchronised && before.finished(kind) {
                            if !kind.completes_tlbis() || !completes(state, thread) {
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
                        let known = operand.is_none_or(|of| {
                            known(program, steps, index, of).is_some_and(|of| !of.guessed)
                        });
                        if before.synchronised && before.dsb && before.decided() && known {
                            events.push(act);
                        }
                        before.invalidations = false;
                    }
                }
                Instruction::Load { .. }
                | Instruction::Store { .. }
                | Instruction::Atomic { .. } => {
                    let kind = if what.writes() { Kind::Store } else { Kind::Load };
                    if let Some(free) = self.of_access(state, thread, index, kind, &before, events)
                    {
                        return Some(free);
                    }
                    before.pass(what, program, steps, index);
                }
            }
        }
        None
    }

    /// What may happen of the instructions from one on which a CPU that executes in order has not reached: a `TLBI` is
    /// ordered after the last `DSB` or `ISB`, and after nothing else; and a `DSB` for stores after stores.
    fn overtaking(
        &self,
        state: &State,
        thread: usize,
        from: usize,
        before: Before,
        events: &mut Vec<Event>,
    ) -> Option<Event> {
        let program = &self.test.threads[thread];
        let steps = &state.threads[thread];
        if !before.synchronised || !before.dsb {
            return None;
        }
        let mut stores = before.stores;
        for (index, step) in steps.iter().enumerate().skip(from) {
            let act = Event::Do { thread, step: index };
            match instruction(program, step) {
                Instruction::Tlbi { operand, .. } if !step.done => {
                    let known = |of| known(program, steps, index, of).is_some_and(|of| !of.guessed);
                    events.extend(operand.is_none_or(known).then_some(act));
                }
                // One for stores does not wait for loads.
                Instruction::Dsb(kind) if !step.done => {
                    events.extend((stores && !kind.waits_for_loads()).then_some(act));
                    break;
                }
                Instruction::Isb if !step.done => break,
                Instruction::Store { .. } | Instruction::Atomic { .. } => stores &= step.done,
                _ => {}
            }
        }
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
                    // A fault has reached no memory that an earlier access could have missed. It comes
                    // after a `DMB ST`, although what follows it need not.
                    let ordered = steps[..at].iter().all(|step| {
                        let what = instruction(&self.test.threads[thread], step);
                        step.done || what != Instruction::Dmb(Barrier::Stores)
                    });
                    step.done && if step.faults() { ordered } else { earlier }
                })
            },
        )
    }
}

/// Where a branch that ends the steps of its thread may go on. One that is known goes there, which is
/// returned: it takes nothing from anything else.
fn branch(
    program: &Thread,
    steps: &[Step],
    thread: usize,
    index: usize,
    events: &mut Vec<Event>,
) -> Option<Event> {
    let code = program.code.len();
    let open = steps[index].guess.is_none()
        && match instruction(program, &steps[index]) {
            Instruction::Branch { condition, target } => {
                let at = usize::from(steps[index].at);
                let leads = target <= at || condition != Condition::Always && target != at + 1;
                leads && at < code
            }
            _ => false,
        };
    if !open {
        return None;
    }
    let guess = |guess| Event::Guess { thread, step: index, guess };
    match holds(program, steps, index) {
        Some(known) => Some(guess(known.value != 0)),
        None => {
            events.extend([guess(false), guess(true)]);
            None
        }
    }
}

/// Whether the next instruction may begin, on a CPU that executes in order.
fn is_over(program: &Thread, step: &Step) -> bool {
    match instruction(program, step) {
        Instruction::Store { .. } => step.done || step.cell().is_some(),
        Instruction::Load { .. }
        | Instruction::Atomic { .. }
        | Instruction::Dmb(_)
        | Instruction::Dsb(_)
        | Instruction::Isb
        | Instruction::Tlbi { .. } => step.done,
        _ => true,
    }
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
    !cacheable(word) && cacheable(with_accessed(word))
}
