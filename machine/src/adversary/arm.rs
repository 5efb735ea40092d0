//! Arm64: what the instructions do to translations.
//!
//! A `TLBI` dooms; a full `DSB` of the same CPU completes, `NSH` only what the CPU issued for
//! itself; an `ISB` settles which values of `TTBR0`, `TTBR1` and `TCR` are in effect. Neither a
//! `TLBI` nor a write of a root register waits for the store buffer; every `DSB` empties it.
//!
//! What a `TLBI` names, what a `DSB` waits for and what the registers say together is said by
//! [`lookaside_hardware::arm`]. Of `TCR` the machine knows EPD0 (bit 7), A1 (bit 22) and AS (bit 36).

use lookaside::arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp};
use lookaside_hardware::{
    Invalidation,
    arm::{self, Barrier, Domain, TlbiKind},
};

use super::{
    cpu::Cpu,
    current::step,
    deviations::Deviations,
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
    fn ic_iallu(&self) {
        step(Op::Arm(Arm::IcIallu));
    }
}

impl Insn {
    /// `MRS TCR_EL1`.
    #[track_caller]
    pub fn read_tcr(&self) -> u64 {
        step(Op::Arm(Arm::ReadTcr))
    }

    /// `MSR TCR_EL1`.
    #[track_caller]
    pub fn write_tcr(&self, value: u64) {
        step(Op::Arm(Arm::WriteTcr(value)));
    }
}

impl Machine {
    pub(crate) fn execute_arm(&mut self, cpu: usize, instruction: Arm) -> u64 {
        match instruction {
            Arm::Tlbi(tlbi) => {
                if tlbi.scope == Scope::Broadcast {
                    self.corrupt_code();
                }
                let vmids = self.tags_in_effect(cpu);
                if let Some(what) = decode_tlbi(tlbi, self.config.tag_bits, &vmids) {
                    self.doom(cpu, what, tlbi.scope == Scope::Broadcast);
                }
            }
            Arm::Dsb(kind) => {
                let (barrier, domain) = of_dsb(kind);
                if barrier.waits_for_stores() {
                    self.drain_all(cpu);
                }
                let everywhere = domain.completes_broadcasts();
                if barrier.completes_tlbis() {
                    self.complete(cpu, everywhere);
                }
                let waits = match barrier {
                    Barrier::Full => Waits::Everything,
                    Barrier::Stores => Waits::Stores,
                    Barrier::Loads => Waits::Loads,
                };
                match waits {
                    Waits::Everything => self.close_now(cpu),
                    Waits::Loads => self.close_read(cpu),
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

/// What a `TLBI` names, on hardware that keeps so many bits of a tag and where one of `vmids` may be in effect.
pub(crate) fn decode_tlbi(tlbi: Tlbi, tag_bits: u32, vmids: &[u16]) -> Option<Invalidation> {
    let kind = match tlbi.op {
        TlbiOp::Vmall => TlbiKind::Vmall,
        TlbiOp::Aside => TlbiKind::Aside,
        TlbiOp::Va => TlbiKind::Va,
        TlbiOp::Vaa => TlbiKind::Vaa,
        TlbiOp::Val => TlbiKind::Val,
        TlbiOp::Vaal => TlbiKind::Vaal,
        TlbiOp::Rva => TlbiKind::Rva,
        TlbiOp::Rvaa => TlbiKind::Rvaa,
        TlbiOp::Rval => TlbiKind::Rval,
        TlbiOp::Rvaal => TlbiKind::Rvaal,
        TlbiOp::Vmalls12 => TlbiKind::Vmalls12,
        TlbiOp::Alle1 => TlbiKind::Alle1,
    };
    arm::tlbi(kind, tlbi.operand, tag_bits, vmids)
}

/// What a `DSB` waits for, and how far it reaches.
pub(crate) const fn of_dsb(kind: Dsb) -> (Barrier, Domain) {
    match kind {
        Dsb::Nsh => (Barrier::Full, Domain::Own),
        Dsb::Nshst => (Barrier::Stores, Domain::Own),
        Dsb::Ish => (Barrier::Full, Domain::Shared),
        Dsb::Ishld => (Barrier::Loads, Domain::Shared),
        Dsb::Ishst => (Barrier::Stores, Domain::Shared),
    }
}
