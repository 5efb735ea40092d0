//! What one CPU says about itself in its ID registers.
//!
//! A field that is unsigned says "at least this" (manual D24.1.3, "Principles of the ID scheme"), so
//! larger values than are known today count as the largest known one. Where a field is a plain
//! code, an unknown value counts as the smallest capability.

use super::tlbi::{AddressSize, Geometry, Granule};
use crate::arch::{
    SizeChange,
    errata::{self, Feature},
};

/// The ID registers as read, each 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdRegisters {
    /// `MIDR_EL1`.
    pub midr: u64,
    /// `ID_AA64MMFR0_EL1`.
    pub mmfr0: u64,
    /// `ID_AA64MMFR1_EL1`.
    pub mmfr1: u64,
    /// `ID_AA64MMFR2_EL1`.
    pub mmfr2: u64,
    /// `ID_AA64MMFR3_EL1`.
    pub mmfr3: u64,
    /// `ID_AA64ISAR0_EL1`.
    pub isar0: u64,
}

/// What happens when the size or the contiguous bit of a live entry changes without
/// break-before-make (manual D8.7.1.1, rules RNGLXZ and RJQQTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bbm {
    /// Level 0: anything, also a mixture of the entries.
    #[default]
    Level0,
    /// Level 1: as level 2, but only with the bit `nT` set in the meantime.
    Level1,
    /// Level 2: a conflict abort or one of the entries, never a mixture.
    Level2,
    /// Level 3 (FEAT_BBML3): one of the entries. Also a CPU that reports level 2 and is known to raise no
    /// conflict aborts ([`errata::Effect::Vouches`]).
    Level3,
}

/// Which flags hardware sets in descriptors by itself, if the kernel lets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HardwareUpdates {
    /// None.
    #[default]
    None,
    /// The access flag.
    Accessed,
    /// The access flag and the dirty state.
    AccessedAndDirty,
}

/// How a stage of translation supports a granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Support {
    /// Not at all.
    #[default]
    No,
    /// With addresses of 48 bits.
    Bits48,
    /// With addresses of 52 bits too: FEAT_LPA2 or, for 64 KiB, FEAT_LPA.
    Bits52,
}

/// How a stage of translation supports each granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Granules {
    /// 4 KiB.
    pub k4: Support,
    /// 16 KiB.
    pub k16: Support,
    /// 64 KiB.
    pub k64: Support,
}

impl Granules {
    /// Whether tables of this geometry work.
    #[must_use]
    pub const fn supports(&self, geometry: Geometry) -> bool {
        let support = match geometry.granule {
            Granule::K4 => self.k4,
            Granule::K16 => self.k16,
            Granule::K64 => self.k64,
        };
        match geometry.addresses {
            AddressSize::Bits48 => !matches!(support, Support::No),
            AddressSize::Bits52 => matches!(support, Support::Bits52),
        }
    }
}

/// What one CPU can do, as its ID registers say and [`errata`] corrects.
///
/// The fields are public so that a kernel can hold something back: a flag cleared in the boot CPU's
/// features is not used by the machine. What the table of errata withdraws cannot be put back: a CPU
/// counts as [corrected](Self::corrected) wherever this crate is told of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Features {
    /// `MIDR_EL1`: who made it, and which revision it is. Errata are looked up by it.
    pub midr: u64,
    /// Width of ASIDs in bits: 8 or 16. `MMFR0[7:4]` (`ASIDBits`).
    pub asid_bits: u32,
    /// Width of VMIDs in bits: 8 or 16. `MMFR1[7:4]` (`VMIDBits`).
    pub vmid_bits: u32,
    /// Width of physical addresses in bits: 32 to 52. `MMFR0[3:0]` (`PARange`).
    pub pa_bits: u32,
    /// Range instructions. `ISAR0[59:56]` (`TLB`) is 2 or more.
    pub range_ops: bool,
    /// Outer-shareable instructions. `ISAR0[59:56]` (`TLB`) is 1 or more.
    pub outer_shareable_ops: bool,
    /// Level hints in by-address operands. `MMFR2[51:48]` (`TTL`).
    pub level_hints: bool,
    /// Break-before-make. `MMFR2[55:52]` (`BBM`).
    pub bbm: Bbm,
    /// Common-not-private tables. `MMFR2[3:0]` (`CnP`).
    pub cnp: bool,
    /// FEAT_ETS2. `MMFR1[39:36]` (`ETS`) is 2 or more; 1 is a withdrawn feature and means nothing.
    pub ets2: bool,
    /// Flags that hardware can set. `MMFR1[3:0]` (`HAFDBS`).
    pub hardware_updates: HardwareUpdates,
    /// Granules of stage 1. `MMFR0[31:28]` (`TGran4`), `[23:20]` (`TGran16`), `[27:24]`
    /// (`TGran64`).
    pub stage1: Granules,
    /// Granules of stage 2. `MMFR0[43:40]` (`TGran4_2`), `[35:32]` (`TGran16_2`), `[39:36]`
    /// (`TGran64_2`), where 0 means "as for stage 1".
    pub stage2: Granules,
    /// FEAT_D128, 128-bit descriptors, which this crate does not operate. `MMFR3[35:32]` (`D128`).
    pub d128: bool,
}

impl Features {
    /// Decodes the ID registers, and [corrects](Self::corrected) what they say.
    #[must_use]
    pub const fn decode(id: IdRegisters) -> Self {
        let tlb = field(id.isar0, 56);
        let pa_bits = pa_bits(field(id.mmfr0, 0));
        // FEAT_LPA: descriptors of 64 KiB granules hold 52 bits as soon as addresses have them.
        let large = if pa_bits >= 52 { Support::Bits52 } else { Support::Bits48 };
        // `TGran4` and `TGran64` are signed: 0xf is "not implemented", and so is every other
        // negative value.
        let stage1 = Granules {
            k4: match field(id.mmfr0, 28) {
                0 => Support::Bits48,
                1..=7 => Support::Bits52,
                _ => Support::No,
            },
            k16: match field(id.mmfr0, 20) {
                0 => Support::No,
                1 => Support::Bits48,
                _ => Support::Bits52,
            },
            k64: match field(id.mmfr0, 24) {
                0..=7 => large,
                _ => Support::No,
            },
        };
        let stage2 = Granules {
            k4: stage2_support(field(id.mmfr0, 40), stage1.k4, Support::Bits48, Support::Bits52),
            k16: stage2_support(field(id.mmfr0, 32), stage1.k16, Support::Bits48, Support::Bits52),
            k64: stage2_support(field(id.mmfr0, 36), stage1.k64, large, large),
        };
        Self {
            midr: id.midr,
            asid_bits: tag_bits(field(id.mmfr0, 4)),
            vmid_bits: tag_bits(field(id.mmfr1, 4)),
            pa_bits,
            range_ops: tlb >= 2,
            outer_shareable_ops: tlb >= 1,
            level_hints: field(id.mmfr2, 48) >= 1,
            bbm: match field(id.mmfr2, 52) {
                0 => Bbm::Level0,
                1 => Bbm::Level1,
                2 => Bbm::Level2,
                _ => Bbm::Level3,
            },
            cnp: field(id.mmfr2, 0) >= 1,
            ets2: field(id.mmfr1, 36) >= 2,
            hardware_updates: match field(id.mmfr1, 0) {
                0 => HardwareUpdates::None,
                1 => HardwareUpdates::Accessed,
                _ => HardwareUpdates::AccessedAndDirty,
            },
            stage1,
            stage2,
            d128: field(id.mmfr3, 32) >= 1,
        }
        .corrected()
    }

    /// Whether an entry must be broken before the permission to execute is taken away, because of an erratum of this
    /// CPU ([`errata::BREAK_BEFORE_NO_EXECUTE`]).
    #[must_use]
    pub const fn breaks_before_no_execute(&self) -> bool {
        errata::of_arm(self.midr).errata.contains(errata::BREAK_BEFORE_NO_EXECUTE)
    }

    /// The same without what the table of [`errata`] withdraws from the CPU that [`Self::midr`] names, and
    /// with what it vouches for.
    #[must_use]
    pub const fn corrected(mut self) -> Self {
        let found = errata::of_arm(self.midr);
        if found.withdraws(Feature::HardwareFlags) {
            self.hardware_updates = HardwareUpdates::None;
        }
        if found.withdraws(Feature::HardwareDirty)
            && matches!(self.hardware_updates, HardwareUpdates::AccessedAndDirty)
        {
            self.hardware_updates = HardwareUpdates::Accessed;
        }
        if found.withdraws(Feature::SharedEntries) {
            self.cnp = false;
        }
        if found.withdraws(Feature::BreaklessSizeChange) {
            self.bbm = Bbm::Level0;
        }
        if found.vouches(Feature::BreaklessSizeChange) && matches!(self.bbm, Bbm::Level2) {
            self.bbm = Bbm::Level3;
        }
        self
    }

    /// What must stand between a block's entries and plain ones on this CPU. A kernel may use what holds on
    /// every CPU of its machine.
    #[must_use]
    pub const fn size_change(&self) -> SizeChange {
        match self.corrected().bbm {
            Bbm::Level3 => SizeChange::Free,
            Bbm::Level0 | Bbm::Level1 | Bbm::Level2 => SizeChange::Flushed,
        }
    }
}

const fn field(register: u64, shift: u32) -> u64 {
    register >> shift & 0xf
}

/// 0: as for stage 1; 1: none; 2: yes; 3: with 52 bits. `TGran64_2` has no code 3.
const fn stage2_support(field: u64, stage1: Support, small: Support, large: Support) -> Support {
    match field {
        0 => stage1,
        1 => Support::No,
        2 => small,
        _ => large,
    }
}

/// `ASIDBits` and `VMIDBits` are codes, not counts: 2 is 16 bits, everything else 8, the width that
/// all hardware has.
const fn tag_bits(code: u64) -> u32 {
    match code {
        2 => 16,
        _ => 8,
    }
}

/// `PARange` is a code. 7 is 56 bits, of which 64-bit descriptors reach 52. Codes beyond are read
/// as 32 bits: an address too large is then refused and not cut off.
const fn pa_bits(code: u64) -> u32 {
    match code {
        1 => 36,
        2 => 40,
        3 => 42,
        4 => 44,
        5 => 48,
        6 | 7 => 52,
        _ => 32,
    }
}
