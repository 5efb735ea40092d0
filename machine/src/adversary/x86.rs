//! x86-64: what the instructions do to translations.
//!
//! Everything but `INVLPGB` has happened when the instruction is over, and waits for the store
//! buffer first. `INVLPGB` dooms, without waiting for anything; `TLBSYNC` completes what the same
//! CPU began.

use lookaside::{
    Ordering,
    arch::x86_64::{Instructions, Invpcid},
};

use super::{
    cpu::Cpu,
    current::step,
    deviations::Deviations,
    invalidate::{Partial, What},
    machine::Machine,
    op::{Op, X86},
    violation::Rule,
    word::Word,
};

const PGE: u64 = 1 << 7;
const PCIDE: u64 = 1 << 17;

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
        <Word as lookaside::Word>::fence(Ordering::SeqCst);
    }
}

impl Machine {
    pub(crate) fn execute_x86(&mut self, cpu: usize, instruction: X86) -> u64 {
        let control = Cpu::newest(&self.cpus[cpu].registers.control);
        let root = Cpu::newest(&self.cpus[cpu].registers.root);
        let mask = ((1u64 << self.config.tag_bits) - 1) & 0xfff;
        let tag = |value: u64| if control & PCIDE != 0 { (value & mask) as u16 } else { 0 };
        if matches!(instruction, X86::Invlpgb { .. } | X86::Tlbsync)
            && self.config.deviations.contains(Deviations::UNDEFINED_INVLPGB)
        {
            self.fail(Rule::Erratum, format!("CPU {cpu} has no such instruction"));
        }
        match instruction {
            X86::ReadCr3 => return root,
            X86::ReadCr4 => return control,
            X86::WriteCr3(value) => {
                self.drain_all(cpu);
                let keep = control & PCIDE != 0 && value & 1 << 63 != 0;
                let what =
                    if control & PCIDE == 0 { What::all(false) } else { What::tag(tag(value)) };
                self.cpus[cpu].registers.root[0] = value & !(1 << 63);
                // The entries go before the new root can produce any.
                if !keep {
                    let bits = self.config.index_bits;
                    self.remove(cpu, |entry| what.names(entry, bits));
                }
                self.registers_changed(cpu);
            }
            X86::WriteCr4(value) => {
                self.drain_all(cpu);
                self.cpus[cpu].registers.control[0] = value;
                let toggled = control ^ value;
                if toggled & PGE != 0 || (toggled & PCIDE != 0 && value & PCIDE == 0) {
                    self.remove(cpu, |_| true);
                }
                if toggled != 0 {
                    self.registers_changed(cpu);
                }
            }
            X86::Invlpg(address) => {
                self.drain_all(cpu);
                let page = address >> 12;
                let spares = self.config.deviations.contains(Deviations::INVLPG_SPARES_GLOBALS);
                let what = What {
                    tag: Some(tag(root)),
                    globals: control & PCIDE == 0 || !spares,
                    pages: (page, page),
                    // Whatever the address, every partial walk of the PCID goes.
                    partial: Partial::All,
                    level: None,
                };
                self.invalidate_now(cpu, what);
            }
            X86::Invpcid(kind, [pcid, address]) => {
                self.drain_all(cpu);
                let page = address >> 12;
                let what = match kind {
                    Invpcid::Address => What {
                        pages: (page, page),
                        partial: Partial::Leading,
                        ..What::tag(tag(pcid))
                    },
                    Invpcid::Context => What::tag(tag(pcid)),
                    Invpcid::All => What::all(true),
                    Invpcid::AllButGlobal => What::all(false),
                };
                self.invalidate_now(cpu, what);
            }
            X86::Invlpgb { rax, ecx, edx } => {
                let what = decode_invlpgb(rax, ecx, edx, tag, self.config.index_bits);
                self.doom(cpu, what, true);
            }
            X86::Tlbsync => {
                self.drain_all(cpu);
                self.complete(cpu, true);
            }
        }
        0
    }
}

/// `RAX` holds flags (0: the address counts; 1: the PCID counts; 3: globals too; 4: final level
/// only) and the address; `ECX` the number of further pages (15:0) and the stride (31: that of the
/// level above the last); `EDX` the ASID of virtual machines (15:0), which is 0 here, and the PCID
/// (27:16).
fn decode_invlpgb(rax: u64, ecx: u32, edx: u32, tag: impl Fn(u64) -> u16, index_bits: u32) -> What {
    let flag = |bit: u32| rax & 1 << bit != 0;
    let pages = if flag(0) {
        let stride = if ecx & 1 << 31 != 0 { 1 << index_bits } else { 1 };
        let first = rax >> 12;
        (first, first + (u64::from(ecx & 0xffff) + 1) * stride - 1)
    } else {
        What::EVERYWHERE
    };
    What {
        tag: flag(1).then(|| tag(u64::from(edx >> 16 & 0xfff))),
        globals: flag(3),
        pages,
        partial: if flag(4) { Partial::No } else { Partial::Leading },
        level: None,
    }
}
