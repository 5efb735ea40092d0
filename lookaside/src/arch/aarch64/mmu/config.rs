//! How a machine is operated, checked once when it boots and once for each CPU.

use super::super::{
    features::{Features, HardwareUpdates},
    range::Planner,
    registers::{
        TCR_A1, TCR_AS, TCR_HA, TCR_HD, TTBR_TAG_SHIFT, geometry_of, pa_bits_of, root_bytes_of,
        tag_bits_of, ttbr, upper_geometry_of,
    },
    tlbi::{AddressSize, Geometry, Granule},
};
use crate::{
    arch::{Errata, KeptLoads, Sharing, SizeChange, Tag, errata},
    error::Error,
};

/// How a machine is operated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What the boot CPU has. A flag cleared here is not used on any CPU, and what is set here every CPU must have. So a
    /// kernel that changes no blocks of [`crate::contig`], or has CPUs that differ in it, clears [`Features::bbm`].
    pub features: Features,
    /// `TCR_EL1` as read back after it was written, the same on every CPU. [`Tlb::online`](crate::Tlb::online)
    /// refuses a CPU whose register has another `A1` or `AS`; nothing compares the rest.
    pub tcr: u64,
    /// Physical address, in bytes, of a table without valid entries: a CPU that runs no space walks it.
    pub reserved_root: u64,
    /// Whether CPUs may share entries: `Shared` sets CnP.
    pub sharing: Sharing,
    /// How many ASIDs a tag has.
    pub pairing: Pairing,
    /// Which register holds the ASID.
    pub asid_in: AsidIn,
}

/// How many ASIDs a tag has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// One.
    Single,
    /// Two, for kernels that hide their mappings from user mode: `2t` for the kernel and `2t + 1`
    /// for user mode. See [the trampoline](crate::arch::aarch64#the-trampoline).
    #[doc(alias = "KPTI")]
    #[doc(alias = "USER_ASID_FLAG")]
    Paired,
}

/// Which register holds the ASID (`TCR_EL1.A1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsidIn {
    /// `TTBR0_EL1`: one write changes table and tag together.
    Ttbr0,
    /// `TTBR1_EL1`, which otherwise names the kernel's table.
    Ttbr1 {
        /// Physical address in bytes of the kernel's table.
        table: u64,
        /// That of the table which the trampoline leaves in the register in user mode, with
        /// [`Pairing::Paired`]; otherwise equal to `table`.
        #[doc(alias = "tramp_pg_dir")]
        user_table: u64,
    },
}

impl Pairing {
    /// The ASIDs of `tag`, of which the first [`Self::width`] count.
    pub(super) const fn asids(self, tag: Tag) -> [u16; 2] {
        match self {
            Self::Single => [tag.0, tag.0],
            Self::Paired => [tag.0 << 1, tag.0 << 1 | 1],
        }
    }

    pub(super) const fn width(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Paired => 2,
        }
    }

    /// How many bits of an ASID are left for the tag.
    const fn tag_bits(self, asid_bits: u32) -> u32 {
        match self {
            Self::Single => asid_bits,
            Self::Paired => asid_bits - 1,
        }
    }
}

impl Config {
    /// A kernel with one ASID for each space, in `TTBR0_EL1`, whose CPUs share no entries. Others change fields of this.
    #[must_use]
    pub const fn new(features: Features, tcr: u64, reserved_root: u64) -> Self {
        let (sharing, pairing, asid_in) = (Sharing::Private, Pairing::Single, AsidIn::Ttbr0);
        Self { features, tcr, reserved_root, sharing, pairing, asid_in }
    }

    /// Checks the configuration against the boot CPU.
    ///
    /// Returns how ranges of the lower and of the upper half are planned.
    pub(super) fn check(&self) -> Result<(Planner, Planner), Error> {
        let Some(geometry) = geometry_of(self.tcr) else {
            return Err(Error::Unsupported("a reserved granule in TCR_EL1.TG0"));
        };
        match (self.asid_in, self.tcr & TCR_A1 != 0) {
            (AsidIn::Ttbr0, false) | (AsidIn::Ttbr1 { .. }, true) => {}
            (AsidIn::Ttbr0, true) => {
                return Err(Error::Unsupported("tags in TTBR0_EL1 with TCR_EL1.A1 set"));
            }
            (AsidIn::Ttbr1 { .. }, false) => {
                return Err(Error::Unsupported("tags in TTBR1_EL1 with TCR_EL1.A1 clear"));
            }
        }
        self.admit(&self.features, None)?;
        self.check_table(self.reserved_root)?;
        if let AsidIn::Ttbr1 { table, user_table } = self.asid_in {
            for table in [table, user_table] {
                // `T1SZ` decides the alignment, and the kernel chose both; 64 bytes is what the
                // register can express.
                check_address(table, 64, pa_bits_of(self.tcr))?;
            }
        }
        let Features { range_ops, level_hints, .. } = self.features;
        let lower = Planner::new(geometry, range_ops, level_hints);
        let upper = match upper_geometry_of(self.tcr) {
            Some(geometry) => Planner::new(geometry, range_ops, level_hints),
            // The kernel says nothing about the upper half, so nothing is claimed about it: small
            // steps are right for every granule.
            None => Planner::new(Geometry::new(Granule::K4, AddressSize::Bits48), false, false),
        };
        Ok((lower, upper))
    }

    /// What a load that keeps what is held writes. More than one or two registers: where CPUs share entries, where a table's address
    /// is not what the register wants, and where a tag in `TTBR0` is two ASIDs.
    pub(super) fn kept_loads(&self) -> KeptLoads {
        match (self.asid_in, self.pairing) {
            _ if self.sharing == Sharing::Shared || self.root_bits() > 48 => KeptLoads::None,
            (AsidIn::Ttbr0, Pairing::Single) => KeptLoads::OneWrite,
            (AsidIn::Ttbr0, Pairing::Paired) => KeptLoads::None,
            (AsidIn::Ttbr1 { .. }, _) => KeptLoads::TwoRegisters,
        }
    }

    /// What `TTBR1` holds beside the ASID, and how far a tag is shifted to be one.
    pub(super) fn kernel_register(&self) -> (u64, u32) {
        let table = match self.asid_in {
            AsidIn::Ttbr0 => 0,
            AsidIn::Ttbr1 { table, .. } => ttbr(table, 0),
        };
        (table, TTBR_TAG_SHIFT + u32::from(self.pairing == Pairing::Paired))
    }

    pub(super) const fn tag_bits(&self) -> u32 {
        self.pairing.tag_bits(tag_bits_of(self.tcr))
    }

    pub(super) fn check_table(&self, table: u64) -> Result<(), Error> {
        // `check` has refused the reserved granule, for which there is no size.
        let bytes = root_bytes_of(self.tcr).unwrap_or(64);
        check_address(table, bytes, self.root_bits())
    }

    /// Of a CPU with these features, and this in its `TCR_EL1` if that is known.
    pub(super) fn admit(&self, cpu: &Features, tcr: Option<u64>) -> Result<Errata, Error> {
        let cpu = &cpu.corrected();
        let machine = self.tag_bits();
        let bits = self.pairing.tag_bits(cpu.asid_bits);
        if bits < machine {
            return Err(Error::FewerTagBits { machine, cpu: bits });
        }
        if cpu.pa_bits < pa_bits_of(self.tcr) {
            return Err(Error::MissingFeature("physical addresses as wide as TCR_EL1.IPS says"));
        }
        if let Some(geometry) = geometry_of(self.tcr)
            && !cpu.stage1.supports(geometry)
        {
            return Err(Error::MissingFeature("the granule and address size of TCR_EL1"));
        }
        if self.features.range_ops && !cpu.range_ops {
            return Err(Error::MissingFeature("range invalidation (FEAT_TLBIRANGE)"));
        }
        if self.features.level_hints && !cpu.level_hints {
            return Err(Error::MissingFeature("level hints (FEAT_TTL)"));
        }
        if self.sharing == Sharing::Shared && !cpu.cnp {
            return Err(Error::MissingFeature("common-not-private tables (FEAT_TTCNP) that work"));
        }
        // Some CPUs have the bits without saying so, and without doing well what they stand for.
        if self.tcr & TCR_HD != 0 && cpu.hardware_updates < HardwareUpdates::AccessedAndDirty {
            return Err(Error::MissingFeature("a hardware dirty state (FEAT_HAFDBS) that works"));
        }
        if self.tcr & TCR_HA != 0 && cpu.hardware_updates < HardwareUpdates::Accessed {
            return Err(Error::MissingFeature("a hardware access flag (FEAT_HAFDBS) that works"));
        }
        if matches!(self.features.size_change(), SizeChange::Free)
            && !matches!(cpu.size_change(), SizeChange::Free)
        {
            return Err(Error::MissingFeature(
                "changes of a block's size without a flush (FEAT_BBM)",
            ));
        }
        let errata = errata::of_arm(cpu.midr).errata;
        if matches!(self.pairing, Pairing::Paired) && errata.contains(errata::ICACHE_AFTER_LOAD) {
            // A trampoline changes the ASID, and flushes no instruction cache.
            return Err(Error::MissingFeature(
                "an instruction cache that broadcasts leave intact (Cavium 27456)",
            ));
        }
        if tcr.is_some_and(|tcr| (tcr ^ self.tcr) & (TCR_A1 | TCR_AS) != 0) {
            return Err(Error::MissingFeature("A1 and AS in TCR_EL1 as they were configured"));
        }
        Ok(errata)
    }

    /// How many bits of a table's address the register can hold.
    pub(super) fn root_bits(&self) -> u32 {
        match geometry_of(self.tcr) {
            Some(geometry) if geometry.addresses == AddressSize::Bits52 => pa_bits_of(self.tcr),
            _ => pa_bits_of(self.tcr).min(48),
        }
    }
}

/// Checks that a root register can hold `address`.
pub(in super::super) fn check_address(
    address: u64,
    alignment: u64,
    bits: u32,
) -> Result<(), Error> {
    if address & (alignment - 1) != 0 || address >> bits != 0 {
        return Err(Error::BadRoot { address });
    }
    Ok(())
}
