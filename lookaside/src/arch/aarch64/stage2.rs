//! Stage 2: VMIDs, a set of tags of its own with its own root register and its own flushes.
//!
//! **Guests are not supported yet.** What is here are instructions, tested one by one. Whatever is unmapped
//! from one guest flushes *every* guest on every CPU, no scenario of the explorer runs it, and no kernel does:
//! do not count on it.
//!
//! The library runs at EL2 here, with `HCR_EL2.TGE = 0` while it executes, so that the invalidations
//! mean the guests' regime and not the hypervisor's.

use super::{
    barriers::{complete, publish, revoke, settle},
    costs,
    features::Features,
    instructions::{Dsb, Instructions, Tlbi, TlbiOp},
    mmu::check_address,
    registers::{
        TTBR_CNP, stage2_geometry_of, stage2_pa_bits_of, stage2_root_bytes_of, ttbr, vmid_bits_of,
    },
    tlbi::AddressSize,
};
use crate::{
    arch::{Errata, Held, Invalidation, Mmu, Properties, Root, Scope, Sharing, Tag, Wait, errata},
    error::Error,
};

/// How a hypervisor operates stage 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage2Config {
    /// What the boot CPU has.
    pub features: Features,
    /// `VTCR_EL2` as read back after it was written, the same on every CPU.
    pub vtcr: u64,
    /// A stage-2 table without valid entries, by its physical address in bytes.
    pub reserved_root: u64,
    /// Whether CPUs may share entries: `Shared` sets CnP.
    pub sharing: Sharing,
}

/// The translation of guest-physical addresses: the instructions, and not yet support for guests. Each
/// unmap flushes every guest, and no scenario runs it; see the table in the README. It is operated through the instructions `I`, whose
/// `write_ttbr0` is `MSR VTTBR_EL2`.
///
/// The architecture invalidates by VMID only for the VMID that is in the register
/// (`VMALLS12E1`, manual C5.5). [`Instructions`] cannot read the register, so:
///
/// * [`Held::Drop`] is exact, because the VMID is about to be loaded anyway;
/// * [`Self::flush_current_broadcast`] is exact, for a caller that has the VMID loaded;
/// * [`Mmu::flush`], which may not disturb the register, invalidates *every* VMID (`ALLE1`): too much, but
///   never too little. A hypervisor frees VMIDs at the rollover and not one by one.
#[derive(Clone, Copy, Debug)]
pub struct Stage2<I> {
    insn: I,
    config: Stage2Config,
}

impl<I: Instructions> Stage2<I> {
    /// The hardware of a hypervisor that is configured so.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if `VTCR_EL2` holds reserved codes of `TG0` or `SL0`.
    /// * [`Error::FewerTagBits`] if `VTCR_EL2.VS` promises more than the boot CPU has.
    /// * [`Error::MissingFeature`] if `VTCR_EL2` or the configuration asks for something else that
    ///   the boot CPU lacks.
    /// * [`Error::BadRoot`] if the reserved root is no table address.
    pub fn new(insn: I, config: Stage2Config) -> Result<Self, Error> {
        if stage2_root_bytes_of(config.vtcr).is_none() {
            return Err(Error::Unsupported("a reserved granule or level in VTCR_EL2"));
        }
        let stage2 = Self { insn, config };
        stage2.admit(&config.features)?;
        stage2.check_root(Root::new(config.reserved_root))?;
        Ok(stage2)
    }

    /// Removes every entry of the VMID that this CPU has loaded, on every CPU, and waits for
    /// completion.
    pub fn flush_current_broadcast(&self, errata: Errata) {
        self.remove(errata, TlbiOp::Vmalls12, Scope::Broadcast);
    }

    fn remove(&self, errata: Errata, op: TlbiOp, scope: Scope) {
        self.begin(op, scope);
        complete(&self.insn, errata, scope);
    }

    fn begin(&self, op: TlbiOp, scope: Scope) {
        publish(&self.insn, scope);
        self.insn.tlbi(Tlbi { op, scope, operand: 0 });
    }

    fn write(&self, errata: Errata, value: u64) {
        // FENCE F-ARM-GUEST-ROOT (pairs with the MSR before it, F-ARM-GUEST-DROP): walks begin with
        // the new root and VMID only, as F-ARM-ROOT for stage 1.
        self.insn.set_ttbr0(value);
        if errata.contains(errata::ICACHE_AFTER_LOAD) {
            // Falkor 1003 speaks of TTBRn_EL1 alone, Cavium 27456 of ASIDs. Whether VMIDs are
            // concerned is not published; we do not know, and a switch of guests is rare.
            self.insn.ic_iallu();
            // As F-ARM-ICACHE.
            self.insn.dsb(Dsb::Nsh);
            self.insn.isb();
        }
    }
}

impl<I: Instructions> Mmu for Stage2<I> {
    type Features = Features;

    fn properties(&self) -> Properties {
        Properties {
            sharing: self.config.sharing,
            broadcasts: true,
            walks_outlive_tags: true,
            breaks_before_making: true,
            ..Properties::plain(vmid_bits_of(self.config.vtcr), &costs::STAGE_2)
        }
    }

    fn admit(&self, cpu: &Features) -> Result<Errata, Error> {
        let cpu = &cpu.corrected();
        let machine = self.properties().tag_bits;
        if cpu.vmid_bits < machine {
            return Err(Error::FewerTagBits { machine, cpu: cpu.vmid_bits });
        }
        if cpu.pa_bits < stage2_pa_bits_of(self.config.vtcr) {
            return Err(Error::MissingFeature("physical addresses as wide as VTCR_EL2.PS says"));
        }
        if let Some(geometry) = stage2_geometry_of(self.config.vtcr)
            && !cpu.stage2.supports(geometry)
        {
            return Err(Error::MissingFeature("the granule and address size of VTCR_EL2"));
        }
        if self.config.sharing == Sharing::Shared && !cpu.cnp {
            return Err(Error::MissingFeature("common-not-private tables (FEAT_TTCNP) that work"));
        }
        Ok(errata::of_arm(cpu.midr).errata)
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        let vtcr = self.config.vtcr;
        // `new` has refused the codes for which there is no size.
        let bytes = stage2_root_bytes_of(vtcr).unwrap_or(64);
        let bits = match stage2_geometry_of(vtcr) {
            Some(geometry) if geometry.addresses == AddressSize::Bits52 => stage2_pa_bits_of(vtcr),
            _ => stage2_pa_bits_of(vtcr).min(48),
        };
        check_address(root.table, bytes, bits)
    }

    fn settle(&self) {
        settle(&self.insn);
    }

    fn publish(&self, broadcasts: Wait) {
        revoke(&self.insn, broadcasts);
    }

    unsafe fn load(&self, errata: Errata, root: Root, tag: Tag, held: Held, sharing: Sharing) {
        debug_assert!(
            u32::from(tag.0) >> self.properties().tag_bits == 0,
            "VMID {} is too wide",
            tag.0
        );
        if held == Held::Drop {
            // The VMID over a table that maps nothing: it can be named, and produces no entries.
            self.write(errata, ttbr(self.config.reserved_root, tag.0));
            self.insn.tlbi(Tlbi { op: TlbiOp::Vmalls12, scope: Scope::Local, operand: 0 });
            // FENCE F-ARM-GUEST-DROP (pairs with F-ARM-GUEST-ROOT of the write that follows,
            // F-ARM-SETTLE): the entries are gone before the first walk of the new root; as
            // F-ARM-DROP for stage 1.
            self.insn.dsb(Dsb::Nsh);
            self.insn.isb();
        }
        let cnp = match (self.config.sharing, sharing) {
            (Sharing::Shared, Sharing::Shared) => TTBR_CNP,
            _ => 0,
        };
        self.write(errata, ttbr(root.table, tag.0) | cnp);
    }

    fn park(&self, errata: Errata) {
        self.write(errata, ttbr(self.config.reserved_root, Tag::RESERVED.0));
    }

    /// Removes the entries of all VMIDs, whatever `entries` are: what is cached by guest-physical address can be
    /// named only for the VMID in the register, and what is cached by the guest's own addresses not at all. The
    /// kernel's own translations are those of another regime: its [`super::Aarch64`] flushes them.
    fn flush(&self, errata: Errata, _: Invalidation<'_>, scope: Scope) {
        self.remove(errata, TlbiOp::Alle1, scope);
    }

    fn begin_broadcast(&self, _: Errata, _: Invalidation<'_>) {
        self.begin(TlbiOp::Alle1, Scope::Broadcast);
    }

    fn complete_broadcast(&self, errata: Errata) {
        complete(&self.insn, errata, Scope::Broadcast);
    }
}
