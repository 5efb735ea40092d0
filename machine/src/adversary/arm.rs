//! Arm64: what the instructions do to translations.
//!
//! A `TLBI` dooms; a full `DSB` of the same CPU completes, `NSH` only what the CPU issued for
//! itself; an `ISB` settles which values of `TTBR0`, `TTBR1` and `TCR` are in effect. Neither a
//! `TLBI` nor a write of a root register waits for the store buffer; every `DSB` empties it.
//!
//! Operands are decoded here from the definition of the instructions (Arm ARM, C5.5), not with the
//! library's encoders. Of `TCR` the machine knows EPD0 (bit 7), A1 (bit 22) and AS (bit 36).

use lookaside::arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp};

use super::{
    cpu::Cpu,
    current::step,
    deviations::Deviations,
    invalidate::{Partial, What},
    machine::Machine,
    op::{Arm, Op},
    replaced::Waits,
    violation::Rule,
};

/// The instructions of an Arm CPU, for the CPU that runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insn;

impl Instructions for Insn {
    #[track_caller]
    fn tlbi(&self, op: Tlbi) {
        step(Op::Arm(Arm::Tlbi(op)));
    }

    #[track_caller]
    fn dsb(&self, kind: Dsb) {
        step(Op::Arm(Arm::Dsb(kind)));
    }

    #[track_caller]
    fn isb(&self) {
        step(Op::Arm(Arm::Isb));
    }

    #[track_caller]
    fn write_ttbr0(&self, value: u64) {
        step(Op::Arm(Arm::WriteTtbr0(value)));
    }

    #[track_caller]
    fn read_ttbr1(&self) -> u64 {
        step(Op::Arm(Arm::ReadTtbr1))
    }

    #[track_caller]
    fn write_ttbr1(&self, value: u64) {
        step(Op::Arm(Arm::WriteTtbr1(value)));
    }

    #[track_caller]
    fn read_tcr(&self) -> u64 {
        step(Op::Arm(Arm::ReadTcr))
    }

    #[track_caller]
    fn write_tcr(&self, value: u64) {
        step(Op::Arm(Arm::WriteTcr(value)));
    }

    #[track_caller]
    fn ic_iallu(&self) {
        step(Op::Arm(Arm::IcIallu));
    }
}

impl Machine {
    pub(crate) fn execute_arm(&mut self, cpu: usize, instruction: Arm) -> u64 {
        match instruction {
            Arm::Tlbi(tlbi) => {
                if tlbi.scope == Scope::InnerShareable {
                    self.corrupt_code();
                }
                if let Some(what) = decode_tlbi(tlbi, self.config.tag_bits) {
                    self.doom(cpu, what, tlbi.scope == Scope::InnerShareable);
                }
            }
            Arm::Dsb(kind) => {
                self.drain_all(cpu);
                match kind {
                    Dsb::Nsh => self.complete(cpu, false),
                    Dsb::Ish => self.complete(cpu, true),
                    Dsb::Nshst | Dsb::Ishst => {}
                }
                let (waits, everywhere) = match kind {
                    Dsb::Nsh => (Waits::Everything, false),
                    Dsb::Ish => (Waits::Everything, true),
                    Dsb::Nshst => (Waits::Stores, false),
                    Dsb::Ishst => (Waits::Stores, true),
                };
                match waits {
                    Waits::Everything => self.close_now(cpu),
                    Waits::Stores => self.close_wrote(cpu),
                }
                self.hold_invalidations(cpu, waits, everywhere);
            }
            Arm::Isb => {
                self.cpus[cpu].lingering.clear();
                let registers = &mut self.cpus[cpu].registers;
                let mut settled = false;
                for list in [&mut registers.root, &mut registers.second, &mut registers.control] {
                    settled |= list.len() > 1;
                    let old = list.len() - 1;
                    list.drain(..old);
                }
                if settled {
                    self.registers_changed(cpu);
                }
                self.synchronise_absent(cpu);
            }
            Arm::WriteTtbr0(value) => self.write_arm(cpu, |cpu| &mut cpu.registers.root, value),
            Arm::WriteTtbr1(value) => self.write_arm(cpu, |cpu| &mut cpu.registers.second, value),
            Arm::WriteTcr(value) => self.write_arm(cpu, |cpu| &mut cpu.registers.control, value),
            Arm::ReadTtbr1 => return Cpu::newest(&self.cpus[cpu].registers.second),
            Arm::ReadTcr => return Cpu::newest(&self.cpus[cpu].registers.control),
            Arm::IcIallu => self.empty_code(cpu),
        }
        0
    }

    /// An invalidation is broadcast on hardware whose instruction caches it corrupts.
    fn corrupt_code(&mut self) {
        if !self.config.deviations.contains(Deviations::CORRUPT_CODE) {
            return;
        }
        for cpu in &mut self.cpus {
            let (cached, corrupt) = &mut cpu.code;
            let idle = |tag: &&u16| !cpu.live.iter().any(|live| live.tag == **tag);
            for &tag in cached.iter().filter(idle) {
                if !corrupt.contains(&tag) {
                    corrupt.push(tag);
                }
            }
        }
    }

    /// The instruction cache holds nothing but what is executed now.
    fn empty_code(&mut self, cpu: usize) {
        let cpu = &mut self.cpus[cpu];
        cpu.code.0.clear();
        cpu.code.0.extend(cpu.live.iter().map(|live| live.tag));
        cpu.code.1.clear();
    }

    /// `cpu` executes a program of the spaces that its registers name.
    pub(crate) fn execute_code(&mut self, cpu: usize) {
        if !self.config.deviations.contains(Deviations::CORRUPT_CODE) {
            return;
        }
        let state = &mut self.cpus[cpu];
        let (cached, corrupt) = &mut state.code;
        let mut struck = None;
        for tag in state.live.iter().map(|live| live.tag) {
            if !cached.contains(&tag) {
                cached.push(tag);
            }
            if corrupt.contains(&tag) {
                struck = Some(tag);
            }
        }
        if let Some(tag) = struck {
            let text = format!("CPU {cpu}: what it has cached of the code of tag {tag} is corrupt");
            self.fail(Rule::Erratum, text);
        }
    }

    /// Whether a write of a root register is neither in effect for certain nor not.
    pub(crate) fn is_between_roots(&self, cpu: usize) -> bool {
        let registers = &self.cpus[cpu].registers;
        registers.root.len() > 1 || registers.second.len() > 1
    }

    /// Writes a register. Until the next `ISB` the older values may be in effect, too.
    fn write_arm(&mut self, cpu: usize, list: fn(&mut Cpu) -> &mut Vec<u64>, value: u64) {
        let list = list(&mut self.cpus[cpu]);
        // Writing a value again makes it the newest; that it may be in effect is known already.
        list.retain(|&old| old != value);
        list.push(value);
        self.registers_changed(cpu);
    }
}

/// What a `TLBI` names; nothing if its operand names nothing.
pub(crate) fn decode_tlbi(tlbi: Tlbi, tag_bits: u32) -> Option<What> {
    let operand = tlbi.operand;
    let asid = (operand >> 48) as u16 & ((1u32 << tag_bits) - 1) as u16;
    let (tag, partial) = match tlbi.op {
        TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => return Some(What::all(true)),
        TlbiOp::Aside => return Some(What::tag(asid)),
        TlbiOp::Va | TlbiOp::Rva => (Some(asid), Partial::Leading),
        TlbiOp::Vaa | TlbiOp::Rvaa => (None, Partial::Leading),
        TlbiOp::Val | TlbiOp::Rval => (Some(asid), Partial::No),
        TlbiOp::Vaal | TlbiOp::Rvaal => (None, Partial::No),
    };
    let (pages, level) = match tlbi.op {
        TlbiOp::Rva | TlbiOp::Rvaa | TlbiOp::Rval | TlbiOp::Rvaal => decode_range(operand)?,
        _ => {
            let page = operand & 0x0fff_ffff_ffff; // VA[55:12]
            // TTL (bits 47:44): granule and level; no granule means no hint.
            let hint = match operand >> 46 & 0b11 {
                0 => None,
                1 => Some(operand >> 44 & 0b11),
                _ => return None, // the machine's granule is 4 KiB
            };
            ((page, page), hint)
        }
    };
    // The architecture counts levels from the top: 3 is the last.
    let level = level.map(|level| 3 - level as u8);
    Some(What { tag, globals: true, pages, partial, level })
}

/// The pages of a range operand, and the level that it hints at.
fn decode_range(operand: u64) -> Option<((u64, u64), Option<u64>)> {
    if operand >> 46 & 0b11 != 1 {
        return None; // TG: the machine's granule is 4 KiB
    }
    let scale = operand >> 44 & 0b11;
    let number = operand >> 39 & 0b1_1111;
    let ttl = operand >> 37 & 0b11;
    // BaseADDR is a signed page number of 37 bits; the machine has only low addresses.
    let first = operand & ((1 << 37) - 1);
    let pages = (number + 1) << (5 * scale + 1);
    Some(((first, first + pages - 1), (ttl != 0).then_some(ttl)))
}
