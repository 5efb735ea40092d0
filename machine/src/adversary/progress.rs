//! Who can go on: which operations need not wait for a choice, and why nobody can.

use lookaside::{Ordering, arch::aarch64::Dsb};

use super::{
    config::Buffers,
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
                buffered && self.undisturbed(cpu)
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

    /// Why nobody can go on; nothing if all programs have ended.
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
