//! The trace of an execution, step by step, in words. Kept only while a schedule is replayed for a report.

use core::panic::Location;
use std::collections::HashMap;

use lookaside::platform::Ordering;

use super::{
    current::with,
    machine::Machine,
    op::{Address, Op, Rmw},
    word::Word,
};

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The step that the line belongs to, if it begins one.
    pub step: Option<u64>,
    /// The CPU.
    pub cpu: usize,
    /// The source location that requested the operation.
    pub location: Option<&'static Location<'static>>,
    /// What happened.
    pub text: String,
}

/// The lines of an execution.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) lines: Vec<Line>,
    /// Short names for words without one, in order of appearance.
    anonymous: HashMap<usize, usize>,
}

/// Gives a word a name for reports, while the world is being built and when the word has found its
/// place: its address is what is named.
pub fn name(word: &Word, name: impl Into<String>) {
    with(|machine| {
        machine.names.insert(word.address() as usize, name.into());
    });
}

impl Machine {
    /// The name of a word in reports.
    pub(crate) fn name_of(&mut self, word: Address) -> String {
        if let Some(name) = self.names.get(&(word as usize)) {
            return name.clone();
        }
        if let Some((table, index)) = self.tables.locate(word) {
            return format!("table {:#x}[{index}]", self.tables.frame(table as u32).0);
        }
        if let Some(frame) = self.tables.data_frame(word) {
            return format!("frame {:#x}", frame.0);
        }
        match &mut self.trace {
            Some(trace) => {
                let next = trace.anonymous.len();
                format!("w{}", trace.anonymous.entry(word as usize).or_insert(next))
            }
            None => "a word".to_owned(),
        }
    }

    /// Adds a line about something that belongs to the step before it.
    pub(crate) fn note(&mut self, cpu: usize, text: String) {
        if let Some(trace) = &mut self.trace {
            trace.lines.push(Line { step: None, cpu, location: None, text });
        }
    }

    /// Adds a line that begins a step which no line of source asks for.
    pub(crate) fn trace_event(&mut self, cpu: usize, text: String) {
        let step = Some(self.steps);
        if let Some(trace) = &mut self.trace {
            trace.lines.push(Line { step, cpu, location: None, text });
        }
    }

    pub(crate) fn trace_op(&mut self, cpu: usize, op: Op) {
        let weak = |order: Ordering| format!("{order:?}");
        let text = match op {
            Op::Idle | Op::Claim | Op::Own => return,
            // Of no interest, unless something is left to be drained.
            Op::End if self.cpus[cpu].buffer.is_empty() => return,
            Op::End => "the program ends".to_owned(),
            Op::Load(word, order) => format!("load {} {}", self.name_of(word), weak(order)),
            Op::Store(word, value, order) => {
                format!("store {} <- {value:#x} {}", self.name_of(word), weak(order))
            }
            Op::Rmw(word, rmw, order) => {
                let name = self.name_of(word);
                let what = match rmw {
                    Rmw::Swap(value) => format!("swap {name} <- {value:#x}"),
                    Rmw::Add(value) => format!("fetch_add {name}, {value:#x}"),
                    Rmw::Or(bits) => format!("fetch_or {name}, {bits:#x}"),
                    Rmw::And(bits) => format!("fetch_and {name}, {bits:#x}"),
                    Rmw::Exchange { current, new, .. } => {
                        format!("compare_exchange {name}, {current:#x} <- {new:#x}")
                    }
                };
                format!("{what} {}", weak(order))
            }
            Op::Fence(order) => format!("fence {}", weak(order)),
            Op::Interrupt(mask) => format!("interrupts CPUs {mask:#b}"),
            Op::Relax => "relax".to_owned(),
            Op::IrqOff => "interrupts off".to_owned(),
            Op::Reset => "initialises its interrupt controller".to_owned(),
            Op::PowerOff => "goes off".to_owned(),
            Op::Stop(other) => format!("stops CPU {other}"),
            Op::PowerOn(root) => format!("comes on with root {:#x}", root.0),
            Op::Access(va) => format!("accesses va {va:#x}"),
            Op::AccessStore(va, value) => format!("stores {value:#x} at va {va:#x}"),
            Op::Arm(instruction) => instruction.to_string(),
            Op::X86(instruction) => instruction.to_string(),
            Op::Riscv(instruction) => instruction.to_string(),
        };
        let step = Some(self.steps);
        let location = (!matches!(op, Op::End)).then_some(self.cpus[cpu].location);
        if let Some(trace) = &mut self.trace {
            trace.lines.push(Line { step, cpu, location, text });
        }
    }

    /// Completes the line of the operation with what it returned.
    pub(crate) fn trace_result(&mut self, op: Op, result: u64) {
        use super::op::{Arm, Riscv, X86};
        let text = match op {
            Op::Load(..)
            | Op::Rmw(..)
            | Op::Arm(Arm::ReadTtbr1 | Arm::ReadTcr)
            | Op::X86(X86::ReadCr3 | X86::ReadCr4)
            | Op::Riscv(Riscv::ReadSatp) => format!(" = {result:#x}"),
            Op::Access(_) | Op::AccessStore(..) if result == 0 => " = fault".to_owned(),
            Op::Access(_) | Op::AccessStore(..) => format!(" = frame {:#x}", result - 1),
            _ => return,
        };
        if let Some(trace) = &mut self.trace
            && let Some(line) = trace.lines.iter_mut().rev().find(|line| line.step.is_some())
        {
            line.text.push_str(&text);
        }
    }
}
