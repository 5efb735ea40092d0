//! What an execution did to page tables, in the order in which its programs asked for it: what a trace for
//! others is made of. Kept only while one is asked for.

use core::panic::Location;

use super::{
    cpu::Cpu,
    machine::{Machine, Phase},
    op::{Address, Arm, Op},
};

/// Something that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) cpu: usize,
    /// The line that asked for it.
    pub(crate) location: &'static Location<'static>,
    pub(crate) did: Did,
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Did {
    /// A program wrote a descriptor: the table, the index in it, and the value.
    Write {
        table: usize,
        index: usize,
        value: u64,
        release: bool,
    },
    /// Hardware wrote one.
    HardwareWrite,
    Arm(Arm),
    /// A table was given back.
    TableFreed(usize),
    /// A page was.
    PageFreed,
}

/// An execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    /// How many tables there are, and which of them are reserved roots.
    pub(crate) reserved: Vec<bool>,
    /// The descriptors that are not zero in the beginning: table, index, value.
    pub(crate) descriptors: Vec<(usize, usize, u64)>,
    /// What the root register of each CPU holds in the beginning.
    pub(crate) roots: Vec<u64>,
    pub(crate) events: Vec<Event>,
}

impl Machine {
    /// Notes what an execution begins with.
    pub(super) fn begin_tape(&mut self) {
        let Some(tape) = &mut self.tape else { return };
        *tape = Tape { reserved: self.tables.all_reserved().to_vec(), ..Tape::default() };
        for table in 0..tape.reserved.len() {
            for index in 0..1 << self.config.index_bits {
                let value = self.tables.read(table, index);
                if value != 0 {
                    tape.descriptors.push((table, index, value));
                }
            }
        }
        tape.roots = self.cpus.iter().map(|cpu| Cpu::newest(&cpu.registers.root)).collect();
    }

    /// Notes what `cpu` does.
    pub(crate) fn note_did(&mut self, cpu: usize, did: Did) {
        let location = self.cpus[cpu].location;
        if let Some(tape) = &mut self.tape
            && self.phase == Phase::Running
        {
            tape.events.push(Event { cpu, location, did });
        }
    }

    /// Notes the operation that `cpu` has executed, and whose result was `result`.
    #[cold]
    pub(super) fn note_op(&mut self, cpu: usize, op: Op, result: u64) {
        let releases = super::memory::releases;
        let written = |word: Address| self.tables.locate(word);
        let did = match op {
            Op::Store(word, value, order) => written(word).map(|(table, index)| Did::Write {
                table,
                index,
                value,
                release: releases(order),
            }),
            Op::Rmw(word, rmw, order) => written(word).and_then(|(table, index)| {
                let value = rmw.apply(result)?;
                Some(Did::Write { table, index, value, release: releases(order) })
            }),
            Op::Arm(instruction) => Some(Did::Arm(instruction)),
            _ => None,
        };
        if let Some(did) = did {
            self.note_did(cpu, did);
        }
    }
}
