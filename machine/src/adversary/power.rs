//! CPUs go off and come on again.
//!
//! A CPU that is off begins no walk and hears no broadcast, and its TLB keeps what it holds: no architecture promises
//! that it is lost. It comes on with the root that boot code, or firmware, has left in its register. Boot code removes
//! what can be used under that root before it switches translation on, as each architecture asks of it, and nothing else:
//! entries under other tags, whose invalidation was broadcast meanwhile, can be used as soon as their tag is loaded.

use lookaside::platform::CpuId;
use lookaside_hardware::x86;

use super::{
    config::Arch, cpu::Registers, current::step, format::Frame, machine::Machine, op::Op,
    tlb::Entry,
};

/// The CPU that runs, with interrupts off, goes off: an interrupt that waits for it is lost.
#[track_caller]
pub fn power_off() {
    step(Op::PowerOff);
}

/// Another CPU stops where it is, in the middle of whatever it calls, and executes nothing any more: the NMI of a panic
/// has reached it. What it has stored reaches memory, and its interrupts are lost.
#[track_caller]
pub fn stop(other: CpuId) {
    step(Op::Stop(other.index()));
}

/// The CPU that runs, which may have gone off, comes on with interrupts off, and with `root` in its register. On x86 PCIDs
/// are not in use.
#[track_caller]
pub fn power_on(root: Frame) {
    step(Op::PowerOn(root));
}

impl Machine {
    pub(super) fn power_off(&mut self, cpu: usize) {
        self.stopped |= 1 << cpu;
        self.cpus[cpu].live.clear();
        self.cpus[cpu].walks = false;
        if self.is_deaf(cpu) {
            for index in 0..self.cpus[cpu].tlb.len() {
                let mut entry = self.cpus[cpu].tlb[index];
                entry.doomed = 0;
                self.amend(cpu, index, entry);
            }
        }
    }

    /// Its program is never resumed.
    pub(super) fn stop(&mut self, cpu: usize) {
        self.execute(cpu, Op::PowerOff);
        let bit = 1 << cpu;
        self.down |= bit;
        self.ready &= !bit;
        self.relaxing &= !bit;
        self.open &= !bit;
        self.cpus[cpu].op = Op::Idle;
    }

    pub(super) fn power_on(&mut self, cpu: usize, Frame(root): Frame) {
        self.stopped &= !(1 << cpu);
        self.booting |= 1 << cpu;
        let mut registers = Registers::initial(self.config.arch);
        match self.config.arch {
            Arch::Arm => registers.root[0] = root << 12,
            Arch::X86 => {
                registers.root[0] = root << 12;
                registers.control[0] &= !x86::PCIDE;
            }
            Arch::Riscv => registers.root[0] = 8 << 60 | root,
        }
        self.cpus[cpu].registers = registers;
        self.remove(cpu, |entry| entry.tag == 0 || entry.is(Entry::GLOBAL));
        self.registers_changed(cpu);
    }

    /// Whether a CPU hears no broadcast. One whose TLB others share does: the TLB is as awake as they are.
    pub(super) fn is_deaf(&self, cpu: usize) -> bool {
        self.stopped & 1 << cpu != 0 && !self.config.cnp
    }
}
