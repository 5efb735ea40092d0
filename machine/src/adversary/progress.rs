//! Progress: which operations need not wait for a choice, and why no CPU can go on.

use lookaside::{arch::aarch64::Dsb, platform::Ordering};

use super::{
    config::{Arch, Buffers},
    cpu::{Buffered, Cpu},
    machine::Machine,
    op::{Arm, Op, Riscv, X86},
};

impl Machine {
    /// Whether nothing can come between the program of `cpu` and its next operation on that CPU.
    fn undisturbed(&self, cpu: usize) -> bool {
        (!self.config.interrupts || self.open & 1 << cpu == 0) && !self.takes_nmi(cpu)
    }

    /// Whether the next operation of `cpu` commutes with everything that others can do before it,
    /// and can be executed: see the argument in [`crate::explore`].
    pub(crate) fn is_local(&self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        let empty = state.buffer.is_empty();
        match state.op {
            Op::Relax => self.changed & 1 << cpu != 0,
            Op::End => empty,
            Op::Store(_, _, order) => {
                let buffered = match self.config.buffers {
                    Buffers::None => false,
                    Buffers::Tso => order != Ordering::SeqCst,
                    Buffers::Pso => true,
                };
                // Firmware that answers for another hart's stores tells those that were made from those to come.
                let awaited = self.config.arch == Arch::Riscv && !self.config.hasty_firmware;
                buffered && !awaited && self.undisturbed(cpu)
            }
            Op::Fence(order) => empty || (order != Ordering::SeqCst && self.undisturbed(cpu)),
            Op::Riscv(Riscv::Fence | Riscv::SfenceWInval) => empty,
            Op::Arm(Arm::Dsb(Dsb::Nshst | Dsb::Ishst)) => empty,
            Op::Arm(Arm::Dsb(_)) => empty && state.pending.is_empty(),
            Op::Arm(Arm::ReadTcr | Arm::ReadTtbr1 | Arm::IcIallu)
            | Op::X86(X86::ReadCr3 | X86::ReadCr4)
            | Op::Riscv(Riscv::ReadSatp) => self.undisturbed(cpu),
            _ => false,
        }
    }

    /// Whether the next operation of `cpu` is on a word that no other CPU ever touched, and does nothing
    /// else. If no CPU ever will, it commutes with every transition of other CPUs.
    pub(crate) fn is_alone(&self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        let (word, drains) = match state.op {
            Op::Load(word, order) => {
                let strong = state.buffer.iter().any(|entry| entry.strong);
                (word, order == Ordering::SeqCst && strong)
            }
            Op::Rmw(word, ..) => (word, !state.buffer.is_empty()),
            _ => return false,
        };
        !drains
            && self.undisturbed(cpu)
            && !self.loads_early()
            && self.tables.locate(word).is_none()
            && self.sharers.is_alone(word, cpu)
    }

    /// Whether no other CPU would see it now if a buffered store of `cpu` reached memory: it can as well
    /// do so later. See the argument in [`crate::explore`].
    pub(crate) fn can_wait(&self, cpu: usize, index: usize) -> bool {
        // Who relaxes waits for any change; and early loads return what was there at any time.
        if self.relaxing != 0 || self.loads_early() {
            return false;
        }
        let mut held = false;
        for (at, entry) in self.cpus[cpu].buffer.iter().enumerate().skip(index) {
            // Behind a barrier, and in one queue, everything waits for the store; else what releases.
            held |= entry.word.is_null() || self.config.buffers == Buffers::Tso;
            let waits = at == index || held || entry.release;
            if waits && self.is_awaited(cpu, entry) {
                return false;
            }
        }
        true
    }

    /// Whether it makes a difference now whether a store has reached memory: for walkers, or for the next
    /// operation of another CPU or what that has buffered.
    fn is_awaited(&self, cpu: usize, entry: &Buffered) -> bool {
        let word = entry.word;
        let touches = |other: &Cpu| {
            let next = match other.op {
                Op::Load(next, _) | Op::Store(next, ..) | Op::Rmw(next, ..) => next == word,
                _ => false,
            };
            next || other.buffer.iter().any(|entry| entry.word == word)
        };
        let mut others = self.cpus.iter().enumerate().filter(|(other, _)| *other != cpu);
        !word.is_null()
            && (entry.via.is_some()
                || self.tables.locate(word).is_some()
                || others.any(|(_, other)| touches(other)))
    }

    /// Why no CPU can go on; nothing if all programs have ended.
    pub(crate) fn who_waits(&self) -> Option<String> {
        let mut message = String::from("no CPU can go on:");
        let mut anyone = false;
        for (index, cpu) in self.cpus.iter().enumerate() {
            if matches!(cpu.op, Op::Idle) {
                continue;
            }
            let joint = if anyone { ";" } else { "" };
            anyone = true;
            let open = if self.open & 1 << index != 0 { "on" } else { "off" };
            let pending = if self.interrupted & 1 << index != 0 { ", one pending" } else { "" };
            let (file, line) = (cpu.location.file(), cpu.location.line());
            message.push_str(&format!(
                "{joint} CPU {index} waits at {file}:{line} (interrupts {open}{pending})"
            ));
        }
        anyone.then_some(message)
    }
}
