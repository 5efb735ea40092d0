//! The state of a run: memory, what each CPU may hold, and how far each instruction has come.

use crate::adversary::tlb::Entry;

use super::test::{FaultKind, Instruction, Named, OnFault, Register, Test, Thread, named};

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
    /// The access is performed, the fault taken, the barrier passed, the invalidation issued.
    pub(crate) done: bool,
    /// What a load has read, or a store has written.
    pub(crate) value: u64,
    pub(crate) source: Option<Source>,
}

impl Step {
    pub(crate) fn new(at: usize) -> Self {
        Self { at: at as u16, walk: None, done: false, value: 0, source: None }
    }

    /// Whether it was translated to a fault.
    pub(crate) fn faults(&self) -> bool {
        self.walk.is_some_and(|walk| walk.fault.is_some())
    }

    /// Whether it can be forgotten: nothing that it did is seen by others.
    pub(crate) fn unseen(&self) -> bool {
        !self.done && self.walk.is_none_or(|walk| !walk.updated)
    }

    /// The cell of an access that does not fault.
    pub(crate) fn cell(&self) -> Option<usize> {
        self.walk.filter(|walk| walk.fault.is_none()).map(|walk| walk.cell)
    }

    /// How often the cell had been written when a load read it, or a store had written it.
    pub(crate) fn version(&self) -> Option<u32> {
        match self.source {
            Some(Source::Memory(version)) => Some(version),
            _ => None,
        }
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

/// The value of a register before a step, if it is known.
pub(crate) fn register(
    thread: &Thread,
    steps: &[Step],
    before: usize,
    register: Register,
) -> Option<u64> {
    if register == Register::ZERO {
        return Some(0);
    }
    for (index, step) in steps[..before].iter().enumerate().rev() {
        match instruction(thread, step) {
            Instruction::Move { to, value } if to == register => return Some(value),
            Instruction::Copy { to, from } if to == register => {
                return self::register(thread, steps, index, from);
            }
            Instruction::ShiftRight { to, from, bits } if to == register => {
                return self::register(thread, steps, index, from).map(|value| value >> bits);
            }
            // A load that faults leaves its register alone.
            Instruction::Load { to, .. }
                if to == register && step.walk.is_none_or(|walk| walk.fault.is_none()) =>
            {
                return step.done.then_some(step.value);
            }
            _ => {}
        }
    }
    let initial = thread.registers.iter().find(|(of, _)| *of == register);
    Some(initial.map_or(0, |&(_, value)| value))
}

/// The address of an access, if it is known.
pub(crate) fn address(thread: &Thread, steps: &[Step], at: usize) -> Option<u64> {
    let (Instruction::Load { base, index, .. } | Instruction::Store { base, index, .. }) =
        instruction(thread, &steps[at])
    else {
        return None;
    };
    let base = register(thread, steps, at, base)?;
    let index = index.map_or(Some(0), |index| register(thread, steps, at, index))?;
    Some(base.wrapping_add(index as u32 as i32 as u64))
}

/// What a store writes, if it is known.
pub(crate) fn data(thread: &Thread, steps: &[Step], at: usize) -> Option<u64> {
    let Instruction::Store { from, width, .. } = instruction(thread, &steps[at]) else {
        return None;
    };
    register(thread, steps, at, from).map(|value| width.of(value))
}

/// What an access names.
pub(crate) fn names(test: &Test, thread: usize, steps: &[Step], at: usize) -> Option<Named> {
    address(&test.threads[thread], steps, at).and_then(|at| named(at, test.contents.len()))
}
