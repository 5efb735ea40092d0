//! The state of a run: memory, what each CPU may hold, and how far each instruction has come.

use crate::adversary::tlb::Entry;

use super::test::{
    Atomic, Condition, FaultKind, Instruction, Named, OnFault, Operand, Operation, Register, Test,
    Thread, named,
};

/// A word of memory, and how often it has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) value: u64,
    pub(crate) version: u32,
}

/// Where a load has its value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Memory, when it had been written so often.
    Memory(u32),
    /// An earlier store of its own thread, which was still on its way.
    Own(usize),
}

/// A translation that was chosen for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Walk {
    /// The cell that the access goes to. Of a fault, that it would have gone to.
    pub(crate) cell: usize,
    /// Which version of the descriptor was read; none for what no descriptor of the test maps.
    pub(crate) version: Option<u32>,
    /// Why the access faults.
    pub(crate) fault: Option<FaultKind>,
    /// What hardware makes of the descriptor before the access.
    pub(crate) update: Option<u64>,
    /// Hardware has written the descriptor.
    pub(crate) updated: bool,
    /// The CPUs that have issued, and not completed, an invalidation that came after this walk.
    pub(crate) doomed: u64,
}

/// One instruction on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    /// Which instruction of the thread; those of the handler are counted on.
    pub(crate) at: u16,
    pub(crate) walk: Option<Walk>,
    /// The access is performed, the fault taken, the barrier passed, the invalidation issued. An
    /// atomic has written, too.
    pub(crate) done: bool,
    /// What a load has read.
    pub(crate) value: u64,
    /// Where from.
    pub(crate) source: Option<Source>,
    /// How often its cell had been written when a store had.
    pub(crate) written: Option<u32>,
    /// What a branch or a selection was guessed to do, before that was known.
    pub(crate) guess: Option<bool>,
}

impl Step {
    pub(crate) fn new(at: usize) -> Self {
        Self {
            at: at as u16,
            walk: None,
            done: false,
            value: 0,
            source: None,
            written: None,
            guess: None,
        }
    }

    /// Whether it was translated to a fault.
    pub(crate) fn faults(&self) -> bool {
        self.walk.is_some_and(|walk| walk.fault.is_some())
    }

    /// Whether it can be forgotten: nothing has come of it.
    pub(crate) fn unseen(&self) -> bool {
        !self.done && self.source.is_none() && self.walk.is_none_or(|walk| !walk.updated)
    }

    /// The cell of an access that does not fault.
    pub(crate) fn cell(&self) -> Option<usize> {
        self.walk.filter(|walk| walk.fault.is_none()).map(|walk| walk.cell)
    }
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The frames of the variables, then their descriptors.
    pub(crate) cells: Vec<Cell>,
    /// For each CPU, what its TLB may hold.
    pub(crate) tlbs: Vec<Vec<Entry>>,
    pub(crate) threads: Vec<Vec<Step>>,
    /// A change needed break-before-make and lacked it.
    pub(crate) broke: bool,
}

impl State {
    /// What it takes up in memory: an estimate, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.tlbs.iter().map(|of| size_of::<Vec<Entry>>() + size_of_val(&of[..]));
        let steps = self.threads.iter().map(|of| size_of::<Vec<Step>>() + size_of_val(&of[..]));
        size_of::<Self>()
            + size_of_val(&self.cells[..])
            + entries.sum::<usize>()
            + steps.sum::<usize>()
    }
}

/// The instruction of a step.
pub(crate) fn instruction(thread: &Thread, step: &Step) -> Instruction {
    let at = usize::from(step.at);
    match (&thread.on_fault, at.checked_sub(thread.code.len())) {
        (_, None) => thread.code[at],
        (OnFault::Handler(code), Some(at)) => code[at],
        (_, Some(_)) => Instruction::Nop,
    }
}

/// The instructions from one on, up to a branch of which it is not known yet where it leads.
pub(crate) fn straight(code: &[Instruction], mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while at < code.len() {
        steps.push(Step::new(at));
        match code[at] {
            Instruction::Branch { condition: Condition::Always, target } if target > at => {
                at = target
            }
            Instruction::Branch { target, .. } if target != at + 1 => break,
            _ => at += 1,
        }
    }
    steps
}

/// A register's value before a step, and what of it was guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) value: u64,
    /// It rests on a guess that is not confirmed.
    pub(crate) guessed: bool,
}

impl Known {
    const fn surely(value: u64) -> Self {
        Self { value, guessed: false }
    }

    /// What follows from this one and another.
    fn with(self, other: Self, value: impl Fn(u64, u64) -> u64) -> Self {
        Self { value: value(self.value, other.value), guessed: self.guessed || other.guessed }
    }
}

/// The value of a register before a step, if it is known.
pub(crate) fn register(
    thread: &Thread,
    steps: &[Step],
    before: usize,
    register: Register,
) -> Option<u64> {
    known(thread, steps, before, register).map(|known| known.value)
}

/// The same, with what of it was guessed.
pub(crate) fn known(
    thread: &Thread,
    steps: &[Step],
    before: usize,
    register: Register,
) -> Option<Known> {
    if register == Register::ZERO {
        return Some(Known::surely(0));
    }
    for (index, step) in steps[..before].iter().enumerate().rev() {
        let of = |register| known(thread, steps, index, register);
        let operand = |what| operand(thread, steps, index, what);
        match instruction(thread, step) {
            Instruction::Move { to, value } if to == register => return Some(Known::surely(value)),
            Instruction::Copy { to, from } if to == register => return of(from),
            Instruction::Compute { to, width, operation, first, second } if to == register => {
                let result = |first, second| operation.apply(width, first, second);
                return Some(of(first)?.with(operand(second)?, result));
            }
            Instruction::Compare { width, first, second } if register == Register::FLAGS => {
                let result = |first, second| Operation::Subtract.apply(width, first, second);
                return Some(of(first)?.with(operand(second)?, result));
            }
            Instruction::Select { to, width, of: [yes, no], .. } if to == register => {
                let condition = holds(thread, steps, index);
                let chosen = match (condition, step.guess) {
                    (Some(condition), _) => Known { value: condition.value, ..condition },
                    (None, Some(guess)) => Known { value: guess.into(), guessed: true },
                    (None, None) => return None,
                };
                let of = operand(if chosen.value != 0 { yes } else { no })?;
                return Some(chosen.with(of, |_, value| width.of(value)));
            }
            // An access that faults leaves its register alone.
            Instruction::Load { to, .. } | Instruction::Atomic { to, .. }
                if to == register && !step.faults() =>
            {
                return step.source.map(|source| Known {
                    value: step.value,
                    guessed: read_rests_on_guess(thread, steps, index, source),
                });
            }
            _ => {}
        }
    }
    let initial = thread.registers.iter().find(|(of, _)| *of == register);
    Some(Known::surely(initial.map_or(0, |&(_, value)| value)))
}

/// Whether what an access has read depends on a guess: its address does, or the store that it read.
fn read_rests_on_guess(thread: &Thread, steps: &[Step], at: usize, source: Source) -> bool {
    let guessed = |what: Option<Known>| what.is_some_and(|known| known.guessed);
    guessed(place(thread, steps, at))
        || matches!(source, Source::Own(of) if guessed(to_write(thread, steps, of)))
}

fn operand(thread: &Thread, steps: &[Step], before: usize, what: Operand) -> Option<Known> {
    let extended = |value: u64| value as u32 as i32 as u64;
    match what {
        Operand::Register(of) => known(thread, steps, before, of),
        Operand::Extended(of) => {
            let known = known(thread, steps, before, of)?;
            Some(Known { value: extended(known.value), ..known })
        }
        Operand::Value(value) => Some(Known::surely(value)),
    }
}

/// Whether the condition of a branch or a selection holds (1) or not (0), if that is known.
pub(crate) fn holds(thread: &Thread, steps: &[Step], at: usize) -> Option<Known> {
    let condition = match instruction(thread, &steps[at]) {
        Instruction::Branch { condition, .. } | Instruction::Select { condition, .. } => condition,
        _ => return None,
    };
    let (register, width, zero) = match condition {
        Condition::Always => return Some(Known::surely(1)),
        Condition::Equal => (Register::FLAGS, None, true),
        Condition::NotEqual => (Register::FLAGS, None, false),
        Condition::Zero(register, width) => (register, Some(width), true),
        Condition::NotZero(register, width) => (register, Some(width), false),
    };
    let known = known(thread, steps, at, register)?;
    let value = width.map_or(known.value, |width| width.of(known.value));
    Some(Known { value: u64::from((value == 0) == zero), ..known })
}

/// Whether a branch or a selection is known to do what it was guessed to do, if it was.
pub(crate) fn is_settled(thread: &Thread, steps: &[Step], at: usize) -> bool {
    holds(thread, steps, at).is_some_and(|known| {
        !known.guessed && steps[at].guess.is_none_or(|guess| u64::from(guess) == known.value)
    })
}

/// The address of an access, if it is known.
pub(crate) fn address(thread: &Thread, steps: &[Step], at: usize) -> Option<u64> {
    place(thread, steps, at).map(|known| known.value)
}

/// The same, with what of it was guessed.
pub(crate) fn place(thread: &Thread, steps: &[Step], at: usize) -> Option<Known> {
    let (base, index) = match instruction(thread, &steps[at]) {
        Instruction::Load { base, index, .. } | Instruction::Store { base, index, .. } => {
            (base, index)
        }
        Instruction::Atomic { base, .. } => (base, None),
        _ => return None,
    };
    let base = known(thread, steps, at, base)?;
    let Some(index) = index else { return Some(base) };
    let index = operand(thread, steps, at, index)?;
    Some(base.with(index, u64::wrapping_add))
}

/// What a store writes, if it is known.
pub(crate) fn data(thread: &Thread, steps: &[Step], at: usize) -> Option<u64> {
    to_write(thread, steps, at).map(|known| known.value)
}

/// The same, with what of it was guessed. A `CAS` that finds something else writes nothing.
pub(crate) fn to_write(thread: &Thread, steps: &[Step], at: usize) -> Option<Known> {
    match instruction(thread, &steps[at]) {
        Instruction::Store { from, width, .. } => {
            let known = known(thread, steps, at, from)?;
            Some(Known { value: width.of(known.value), ..known })
        }
        Instruction::Atomic { atomic, from, width, .. } => {
            let from = known(thread, steps, at, from)?;
            if atomic == Atomic::Swap {
                return Some(Known { value: width.of(from.value), ..from });
            }
            let step = &steps[at];
            let guessed = read_rests_on_guess(thread, steps, at, step.source?);
            let read = Known { value: step.value, guessed };
            match atomic {
                Atomic::Swap => None,
                Atomic::CompareSwap => {
                    let result = |_, from| width.of(from);
                    (!fails(thread, steps, at)?).then(|| read.with(from, result))
                }
                Atomic::Add | Atomic::Set | Atomic::Clear => {
                    let operation = match atomic {
                        Atomic::Add => Operation::Add,
                        Atomic::Set => Operation::Or,
                        _ => Operation::Clear,
                    };
                    Some(read.with(from, |old, from| operation.apply(width, old, from)))
                }
            }
        }
        _ => None,
    }
}

/// Whether a `CAS` finds something else than it compares with, if that is known.
pub(crate) fn fails(thread: &Thread, steps: &[Step], at: usize) -> Option<bool> {
    let step = &steps[at];
    match instruction(thread, step) {
        Instruction::Atomic { atomic: Atomic::CompareSwap, to, width, .. } => {
            step.source?;
            let expected = register(thread, steps, at, to)?;
            Some(width.of(expected) != step.value)
        }
        _ => Some(false),
    }
}

/// What an access names.
pub(crate) fn names(test: &Test, thread: usize, steps: &[Step], at: usize) -> Option<Named> {
    address(&test.threads[thread], steps, at).and_then(|at| named(at, test.contents.len()))
}
