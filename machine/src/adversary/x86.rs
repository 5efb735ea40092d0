//! x86-64: what the instructions do to translations.
//!
//! What each instruction names, whether it serialises, and when it faults is said by
//! [`lookaside_hardware::x86`]. Everything but `INVLPGB` has happened when the instruction is over, and,
//! if it serialises, waits for the store buffer first. `INVLPGB` dooms, without waiting for anything;
//! `TLBSYNC` completes what the same CPU began. An instruction that faults ends the execution as a violation.

use lookaside::{
    arch::x86_64::{Instructions, Invpcid},
    platform::Ordering,
};
use lookaside_hardware::x86::{self, Effect};

use super::{
    cpu::Cpu,
    current::step,
    deviations::Deviations,
    machine::Machine,
    op::{Op, X86},
    violation::Rule,
    word::Word,
};

/// The instructions of an x86 CPU, for the CPU that runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

impl Instructions for Insn {
    #[track_caller]
    fn write_cr3(&self, value: u64) {
        step(Op::X86(X86::WriteCr3(value)));
    }

    #[track_caller]
    fn read_cr3(&self) -> u64 {
        step(Op::X86(X86::ReadCr3))
    }

    #[track_caller]
    fn write_cr4(&self, value: u64) {
        step(Op::X86(X86::WriteCr4(value)));
    }

    #[track_caller]
    fn read_cr4(&self) -> u64 {
        step(Op::X86(X86::ReadCr4))
    }

    #[track_caller]
    fn invlpg(&self, address: u64) {
        step(Op::X86(X86::Invlpg(address)));
    }

    #[track_caller]
    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]) {
        step(Op::X86(X86::Invpcid(kind, descriptor)));
    }

    #[track_caller]
    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32) {
        step(Op::X86(X86::Invlpgb { rax, ecx, edx }));
    }

    #[track_caller]
    fn tlbsync(&self) {
        step(Op::X86(X86::Tlbsync));
    }

    #[track_caller]
    fn mfence(&self) {
        <Word as lookaside::platform::Word>::fence(Ordering::SeqCst);
    }
}

impl Machine {
    pub(crate) fn execute_x86(&mut self, cpu: usize, instruction: X86) -> u64 {
        if matches!(instruction, X86::Invlpgb { .. } | X86::Tlbsync)
            && self.config.deviations.contains(Deviations::UNDEFINED_INVLPGB)
        {
            self.fail(Rule::Erratum, format!("CPU {cpu} has no such instruction"));
        }
        let registers = self.control_of(cpu);
        let done = match instruction {
            X86::ReadCr3 => return registers.cr3,
            X86::ReadCr4 => return registers.cr4,
            X86::WriteCr3(value) => {
                let done = x86::mov_to_cr3(registers, value);
                done.map(|effect| self.change_control(cpu, effect))
            }
            X86::WriteCr4(value) => {
                let done = x86::mov_to_cr4(registers, value);
                done.map(|effect| self.change_control(cpu, effect))
            }
            X86::Invlpg(address) => {
                let mut effect = x86::invlpg(registers, address);
                let spares = self.config.deviations.contains(Deviations::INVLPG_SPARES_GLOBALS);
                if let Some(what) = &mut effect.removes {
                    what.globals &= registers.cr4 & x86::PCIDE == 0 || !spares;
                }
                self.act(cpu, effect);
                Ok(())
            }
            X86::Invpcid(kind, descriptor) => {
                let done = x86::invpcid(registers, kind as u64, descriptor);
                done.map(|effect| self.act(cpu, effect))
            }
            X86::Invlpgb { rax, ecx, edx } => {
                // A large page is one of the level above the last, however many small ones that is here.
                let large = 1 << self.config.index_bits;
                let done = x86::invlpgb(registers, (rax, ecx, edx), None, large);
                done.map(|what| self.doom(cpu, what.with_tags_of(self.tags_kept()), true))
            }
            X86::Tlbsync => {
                self.drain_all(cpu);
                self.complete(cpu, true);
                Ok(())
            }
        };
        if let Err(fault) = done {
            self.fail(Rule::ProtectionFault, format!("CPU {cpu}: {instruction}: {fault}"));
        }
        0
    }

    /// An access of a CPU has faulted.
    pub(super) fn page_fault(&mut self, cpu: usize, op: Op) {
        if let Op::Access(address) | Op::AccessStore(address, _) = op {
            let what = x86::page_fault(self.control_of(cpu), address);
            self.invalidate_now(cpu, what.with_tags_of(self.tags_kept()));
        }
    }

    /// What the control registers of an x86 CPU hold.
    pub(super) fn control_of(&self, cpu: usize) -> x86::Registers {
        let registers = &self.cpus[cpu].registers;
        x86::Registers { cr3: Cpu::newest(&registers.root), cr4: Cpu::newest(&registers.control) }
    }

    /// An instruction that changes no register.
    fn act(&mut self, cpu: usize, effect: Effect) {
        if effect.serialising {
            self.drain_all(cpu);
        }
        if let Some(what) = effect.removes {
            self.invalidate_now(cpu, what.with_tags_of(self.tags_kept()));
        }
    }

    /// A write of a control register.
    fn change_control(&mut self, cpu: usize, effect: Effect) {
        if effect.serialising {
            self.drain_all(cpu);
        }
        let registers = &mut self.cpus[cpu].registers;
        (registers.root[0], registers.control[0]) = (effect.registers.cr3, effect.registers.cr4);
        // The entries go before the new root can produce any.
        if let Some(what) = effect.removes {
            let (what, bits) = (what.with_tags_of(self.tags_kept()), self.config.index_bits);
            self.remove(cpu, |entry| what.names(&entry.cached(bits)));
        }
        self.registers_changed(cpu);
    }
}
