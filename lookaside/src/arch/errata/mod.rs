//! Deviations of CPUs from their architecture, as data: one table for all architectures.
//!
//! A [`Row`] says who is affected, what the library does about it, and where that was published. The
//! rows are the only place that knows CPUs: the sequences ask for bits of [`Errata`], and features are
//! decoded without what a row [withdraws](Effect::Withdraws). The tests and the adversarial machine's
//! modes go by the same rows, and `docs/errata.md` compares them with the lists of Linux and FreeBSD.
//!
//! Where the range of affected revisions is not public, the row covers all of them: a workaround that is
//! not needed costs time, one that is missing costs memory. Numbers and ranges follow the vendors'
//! notices as collected in public kernels; where a row names only a kernel's commit or list, the notice
//! was not read at first hand.

mod arm;
mod riscv;
mod x86;

use super::{Errata, riscv64, x86_64};

/// The instruction cache is invalidated after every write of the root register that changes the
/// tag. Concerns the CPU that has it.
///
/// Cavium 27456: broadcast invalidations can corrupt instruction-cache lines that belong to a tag
/// that is not the current one.
pub const ICACHE_AFTER_LOAD: Errata = Errata(1 << 0);

/// The tag and the table are never changed by one write while walks can start. Concerns the CPU
/// that has it.
///
/// Qualcomm Falkor 1003: a walk at that moment may be cached under the wrong one of the two tags.
pub const TAG_AND_ROOT_APART: Errata = Errata(1 << 1);

/// A broadcast `TLBI; DSB` is followed by a second one. Concerns every CPU of a machine as soon as
/// one CPU has it: the accesses that are late are that CPU's, the CPU that must wait is another.
///
/// The entries are gone after the first pair, but accesses that were translated by them may not be
/// performed yet, and the frame may not be reused before they are.
pub const REPEAT_BROADCAST: Errata = Errata(1 << 2);

/// A user page loses its permission to be executed only by break-before-make: the entry is made
/// invalid, flushed, and written anew. A matter of the kernel that writes the entry: this library
/// changes no such permission. The kernel asks [`Tlb::errata`](crate::Tlb::errata).
///
/// Cortex-A715 2645198: a CPU that sees the permission go without a break may report wrong registers
/// (`ESR_EL1`, `FAR_EL1`) at the next permission fault of an instruction fetch.
pub const BREAK_BEFORE_NO_EXECUTE: Errata = Errata(1 << 3);

/// A hypervisor keeps stage 1 from being walked while it switches between regimes. A matter of the
/// hypervisor, which writes `HCR_EL2` and the guest's `TCR_EL1`; [`Stage2`](super::aarch64::Stage2)
/// writes neither.
///
/// Cortex-A76 1165522, A72 1319367, A57 1319537, A55 1530923, A53 1530924: a speculative `AT` may walk with the registers of
/// one regime and the VMID of another, and leave the result in the TLB.
pub const SPECULATIVE_AT: Errata = Errata(1 << 4);

/// A write of `HCR_EL2` stands between a `DSB` and an `ISB`. A matter of the hypervisor;
/// [`Stage2`](super::aarch64::Stage2) does not write it.
///
/// AmpereOne AC04_CPU_23: the write may corrupt translations of data addresses that are under way.
pub const SYNCHRONISED_HCR: Errata = Errata(1 << 5);

/// `INVLPG` may leave global entries of the address when `CR4.PCIDE` is set.
///
/// *Instead:* an address that is mapped globally is removed with `INVPCID` type 2 (everything,
/// global entries too), or by toggling `CR4.PGE` where `INVPCID` is missing. `INVLPG` stays in use
/// for addresses that are mapped for one tag, and everywhere while `CR4.PCIDE` is clear.
///
/// Microcode mends it: see [`X86Cpus::mended_by`].
pub const INVLPG_KEEPS_GLOBALS: Errata = Errata(1 << 6);

/// `SFENCE.VMA` with an address or an ASID may leave what it names; only the form without operands is
/// used. Concerns every hart of a machine as soon as one has it: the firmware fences on that hart, too.
pub const FENCE_OPERANDS: Errata = Errata(1 << 7);

/// Every deviation that changes what this library executes, with a name for it.
pub const SEQUENCES: [(Errata, &str); 5] = [
    (ICACHE_AFTER_LOAD, "ICACHE_AFTER_LOAD"),
    (TAG_AND_ROOT_APART, "TAG_AND_ROOT_APART"),
    (REPEAT_BROADCAST, "REPEAT_BROADCAST"),
    (INVLPG_KEEPS_GLOBALS, "INVLPG_KEEPS_GLOBALS"),
    (FENCE_OPERANDS, "FENCE_OPERANDS"),
];

/// Every deviation that is a matter of the kernel or the hypervisor, with a name for it.
pub const ADVICE: [(Errata, &str); 3] = [
    (BREAK_BEFORE_NO_EXECUTE, "BREAK_BEFORE_NO_EXECUTE"),
    (SPECULATIVE_AT, "SPECULATIVE_AT"),
    (SYNCHRONISED_HCR, "SYNCHRONISED_HCR"),
];

/// The errata that change the load of a root.
pub const AT_LOADS: Errata = ICACHE_AFTER_LOAD.union(TAG_AND_ROOT_APART);

/// What a CPU can say it has, and a row may know better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Arm: hardware sets the dirty state of descriptors (`TCR_EL1.HD`).
    HardwareDirty,
    /// Arm: hardware sets flags of descriptors at all (`TCR_EL1.HA` and `HD`).
    HardwareFlags,
    /// Arm: CPUs may share entries (`TTBRn_EL1.CnP`).
    SharedEntries,
    /// Arm: the size of a live entry may change without break-before-make, and no access ever takes a
    /// conflict abort for it ([`Bbm::Level3`](super::aarch64::Bbm::Level3)).
    BreaklessSizeChange,
    /// x86: `INVLPGB` and `TLBSYNC`.
    Invlpgb,
}

/// Every feature, with a name for it.
pub const FEATURES: [(Feature, &str); 5] = [
    (Feature::HardwareDirty, "HardwareDirty"),
    (Feature::HardwareFlags, "HardwareFlags"),
    (Feature::SharedEntries, "SharedEntries"),
    (Feature::BreaklessSizeChange, "BreaklessSizeChange"),
    (Feature::Invlpgb, "Invlpgb"),
];

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Something is executed in another way: by this library ([`SEQUENCES`]) or by its caller
    /// ([`ADVICE`]).
    Changes(Errata),
    /// The CPU reports the feature and must not be run with it. Decoded features do not have it, and a
    /// CPU is refused on a machine that runs with it.
    Withdraws(Feature),
    /// The CPU is known to do more than it can report.
    Vouches(Feature),
    /// Nothing executed here meets the erratum's condition, on any CPU; the row says where that is held.
    Avoided,
}

/// Arm CPUs, by `MIDR_EL1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmCpus {
    /// `MIDR_EL1[31:24]`.
    pub implementer: u8,
    /// `MIDR_EL1[15:4]`, first and last.
    pub parts: (u16, u16),
    /// Variant (`MIDR_EL1[23:20]`) and revision (`MIDR_EL1[3:0]`) as one number of two hexadecimal
    /// digits, first and last: r1p2 is `0x12`.
    pub revisions: (u8, u8),
}

impl ArmCpus {
    /// Whether the CPU with this `MIDR_EL1` is one of them.
    #[must_use]
    pub const fn contain(&self, midr: u64) -> bool {
        let implementer = (midr >> 24 & 0xff) as u8;
        let part = (midr >> 4 & 0xfff) as u16;
        let revision = ((midr >> 20 & 0xf) << 4 | midr & 0xf) as u8;
        implementer == self.implementer
            && part >= self.parts.0
            && part <= self.parts.1
            && revision >= self.revisions.0
            && revision <= self.revisions.1
    }
}

/// x86 CPUs, by CPUID and the revision of their microcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct X86Cpus {
    /// Who made them.
    pub vendor: x86_64::Vendor,
    /// Family, as in [`Features::family`](x86_64::Features::family).
    pub family: u32,
    /// Model, as in [`Features::model`](x86_64::Features::model): first and last.
    pub models: (u32, u32),
    /// First and last stepping.
    pub steppings: (u32, u32),
    /// The first revision of microcode that mends it. A CPU whose revision is
    /// [not known](x86_64::Features::microcode), or is told by a hypervisor, counts as not mended.
    pub mended_by: Option<u32>,
}

impl X86Cpus {
    /// Whether the CPU that says this about itself is one of them.
    #[must_use]
    pub const fn contain(&self, cpu: &x86_64::Features) -> bool {
        let mended = match (self.mended_by, cpu.microcode) {
            (Some(mended), Some(revision)) => !cpu.hypervisor && revision >= mended,
            _ => false,
        };
        self.vendor as u8 == cpu.vendor as u8
            && self.family == cpu.family
            && self.models.0 <= cpu.model
            && cpu.model <= self.models.1
            && self.steppings.0 <= cpu.stepping
            && cpu.stepping <= self.steppings.1
            && !mended
    }
}

/// RISC-V harts, by `mvendorid`, `marchid` and `mimpid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RiscvHarts {
    /// `mvendorid`.
    pub vendor: u64,
    /// `marchid`.
    pub architecture: u64,
    /// The bits of `mimpid` that number the implementations.
    pub mask: u64,
    /// The first and the last number.
    pub implementations: (u64, u64),
    /// A whole `mimpid` that is in the range and not affected.
    pub except: Option<u64>,
}

impl RiscvHarts {
    /// Whether the hart with these numbers is one of them.
    #[must_use]
    pub const fn contain(&self, hart: riscv64::Identity) -> bool {
        let implementation = hart.implementation & self.mask;
        let excepted = match self.except {
            Some(except) => hart.implementation == except,
            None => false,
        };
        self.vendor == hart.vendor
            && self.architecture == hart.architecture
            && self.implementations.0 <= implementation
            && implementation <= self.implementations.1
            && !excepted
    }
}

/// Who is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Arm CPUs.
    Arm(ArmCpus),
    /// x86 CPUs.
    X86(X86Cpus),
    /// RISC-V harts.
    Riscv(RiscvHarts),
}

/// One row: some CPUs, and what is to be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The vendor's number or name for it.
    pub erratum: &'static str,
    /// What the CPUs are called.
    pub cpus: &'static str,
    /// Who is affected.
    pub affected: Affected,
    /// What is done.
    pub effect: Effect,
    /// Where it was published.
    pub source: &'static str,
}

/// Every row, by architecture: Arm, x86, RISC-V.
pub const TABLE: [&[Row]; 3] = [arm::ROWS, x86::ROWS, riscv::ROWS];

/// Every row.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.into_iter().flatten()
}

/// What the table says of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What is executed in another way.
    pub errata: Errata,
    withdrawn: u8,
    vouched: u8,
}

impl Found {
    const NOTHING: Self = Self { errata: Errata::NONE, withdrawn: 0, vouched: 0 };

    const fn and(self, effect: Effect) -> Self {
        match effect {
            Effect::Changes(errata) => Self { errata: self.errata.union(errata), ..self },
            Effect::Withdraws(feature) => {
                Self { withdrawn: self.withdrawn | 1 << feature as u8, ..self }
            }
            Effect::Vouches(feature) => Self { vouched: self.vouched | 1 << feature as u8, ..self },
            Effect::Avoided => self,
        }
    }

    /// Whether the CPU must not be run with `feature`, whatever it says.
    #[must_use]
    pub const fn withdraws(&self, feature: Feature) -> bool {
        self.withdrawn >> feature as u8 & 1 == 1
    }

    /// Whether the CPU is known to have `feature`, and no row withdraws it.
    #[must_use]
    pub const fn vouches(&self, feature: Feature) -> bool {
        self.vouched >> feature as u8 & 1 == 1 && !self.withdraws(feature)
    }
}

/// What the table says of the CPU with this `MIDR_EL1`.
#[must_use]
pub const fn of_arm(midr: u64) -> Found {
    let mut found = Found::NOTHING;
    let mut rows: &[Row] = arm::ROWS;
    while let [row, rest @ ..] = rows {
        if let Affected::Arm(cpus) = row.affected
            && cpus.contain(midr)
        {
            found = found.and(row.effect);
        }
        rows = rest;
    }
    found
}

/// What the table says of the CPU that says this about itself.
#[must_use]
pub const fn of_x86(cpu: &x86_64::Features) -> Found {
    let mut found = Found::NOTHING;
    let mut rows: &[Row] = x86::ROWS;
    while let [row, rest @ ..] = rows {
        if let Affected::X86(cpus) = row.affected
            && cpus.contain(cpu)
        {
            found = found.and(row.effect);
        }
        rows = rest;
    }
    found
}

/// What the table says of the hart with these numbers.
#[must_use]
pub const fn of_riscv(hart: riscv64::Identity) -> Found {
    let mut found = Found::NOTHING;
    let mut rows: &[Row] = riscv::ROWS;
    while let [row, rest @ ..] = rows {
        if let Affected::Riscv(harts) = row.affected
            && harts.contain(hart)
        {
            found = found.and(row.effect);
        }
        rows = rest;
    }
    found
}
