//! Stage 1: which instructions a switch and a flush are made of.

mod config;
mod flush;

pub(super) use config::check_address;
pub use config::{AsidIn, Config, Pairing};
pub use flush::RangeFlush;

use super::{
    barriers::{complete, revoke, settle},
    costs,
    features::Features,
    instructions::{Dsb, Instructions, Tlbi, TlbiOp},
    range::{Asid, Planner},
    registers::{TTBR_CNP, TTBR_TAG_SHIFT, ttbr},
    tlbi::by_asid,
};
use crate::{
    arch::{
        Errata, Held, Invalidation, KeptLoads, Mmu, Properties, Root, Scope, SeparateRoots,
        Sharing, SizeChange, TableChange, Tag, Wait, errata,
    },
    error::Error,
    range::VaRange,
};

/// The translation of EL1 and EL0, operated through the instructions `I`.
///
/// With paired tags, tag `t` owns the ASIDs `2t`, under which the kernel runs and which this type
/// loads, and `2t + 1`, under which the kernel's exit code lets user mode run.
#[derive(Clone, Copy, Debug)]
pub struct Aarch64<I> {
    insn: I,
    config: Config,
    lower: Planner,
    upper: Planner,
    /// That of the lower half ([`Properties::page_shift`]).
    page_shift: u32,
    /// How many bits a tag has ([`Config::tag_bits`]).
    tag_bits: u32,
    kept_loads: KeptLoads,
    /// With the tag in `TTBR1`: what that register holds beside the ASID, and how far a tag is shifted to be one.
    kernel: (u64, u32),
}

impl<I: Instructions> Aarch64<I> {
    /// The hardware of a machine that is configured so.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if `TCR_EL1.A1` is not what [`Config::asid_in`] needs, or
    ///   `TCR_EL1.TG0` is reserved.
    /// * [`Error::FewerTagBits`] if `TCR_EL1.AS` promises more than the boot CPU has.
    /// * [`Error::MissingFeature`] if `TCR_EL1` or the configuration asks for something else that the
    ///   boot CPU lacks.
    /// * [`Error::BadRoot`] if the reserved root or the kernel's table is no table address.
    pub fn new(insn: I, config: Config) -> Result<Self, Error> {
        let (lower, upper) = config.check()?;
        let (page_shift, tag_bits) = (lower.page_shift(), config.tag_bits());
        let (kept_loads, kernel) = (config.kept_loads(), config.kernel_register());
        Ok(Self { insn, config, lower, upper, page_shift, tag_bits, kept_loads, kernel })
    }

    /// How a range that begins at `address` is turned into instructions on this machine. Bit 55
    /// selects the half of the address space, and the halves may have different granules.
    #[must_use]
    pub const fn planner(&self, address: u64) -> &Planner {
        if address >> 55 & 1 == 0 { &self.lower } else { &self.upper }
    }

    /// What must stand between a block's entries and plain ones on every CPU of this machine.
    #[must_use]
    pub const fn size_change(&self) -> SizeChange {
        self.config.features.size_change()
    }

    /// The ASID under which `tag` is loaded.
    ///
    /// # Panics
    ///
    /// In debug builds, as every method that takes a tag, if `tag` has more than
    /// [`Properties::tag_bits`] bits.
    #[must_use]
    pub const fn asid(&self, tag: Tag) -> u16 {
        self.check_width(tag);
        self.config.pairing.asids(tag)[0]
    }

    /// The ASID under which user mode runs in `tag`, and a device for which the tag is pinned: with
    /// [`Pairing::Paired`] not the one that is loaded in the kernel.
    ///
    /// # Panics
    ///
    /// As [`Self::asid`].
    #[must_use]
    pub const fn user_asid(&self, tag: Tag) -> u16 {
        self.check_width(tag);
        self.config.pairing.asids(tag)[1]
    }

    /// All ASIDs of `tag`.
    fn asids(&self, tag: Tag) -> impl Iterator<Item = u16> {
        self.check_width(tag);
        self.config.pairing.asids(tag).into_iter().take(self.config.pairing.width())
    }

    /// A tag that is too wide would be cut off, and name another space.
    const fn check_width(&self, tag: Tag) {
        debug_assert!(tag.0 as u32 >> self.tag_bits == 0, "the tag is too wide");
    }

    #[inline]
    fn cnp(&self, sharing: Sharing) -> u64 {
        if sharing == Sharing::Shared && self.config.sharing == Sharing::Shared {
            TTBR_CNP
        } else {
            0
        }
    }

    /// Follows each write that changes the tag, once it is in force.
    fn tag_changed(&self, errata: Errata) {
        if errata.contains(errata::ICACHE_AFTER_LOAD) {
            self.insn.ic_iallu();
            // FENCE F-ARM-ICACHE (pairs with the IC IALLU before it): lines of the former tag are
            // gone, and none of them is in the pipeline, before anything of the new space executes.
            self.insn.dsb(Dsb::Nsh);
            self.insn.isb();
        }
    }

    /// Stops walks of the lower half, and leaves the tag as it is where that is in `TTBR1`.
    fn stop_walks(&self, errata: Errata) {
        // FENCE F-ARM-ROOT (pairs with the MSR before it, F-ARM-DROP): the `ISB` in `set_ttbr0` and `set_ttbr1`, wherever
        // they are called. The new value is the only one that walks begin with. Without it a walk may still begin with the
        // old value, and with two registers, with the old of one and the new of the other.
        self.insn.set_ttbr0(ttbr(self.config.reserved_root, Tag::RESERVED.0));
        if self.config.asid_in == AsidIn::Ttbr0 {
            self.purge_reserved_tag(errata);
            self.tag_changed(errata);
        }
    }

    /// On Falkor, the write that changed table and tag at once may have left entries of the former
    /// table under the reserved tag, which must have none.
    fn purge_reserved_tag(&self, errata: Errata) {
        if errata.contains(errata::TAG_AND_ROOT_APART) {
            self.insn.tlbi(Tlbi {
                op: TlbiOp::Aside,
                scope: Scope::Local,
                operand: by_asid(self.asid(Tag::RESERVED)),
            });
            self.removed();
        }
    }

    /// Waits for local invalidations that stand between two writes of root registers.
    fn removed(&self) {
        // FENCE F-ARM-DROP (pairs with F-ARM-ROOT of the load that follows, F-ARM-SETTLE): the
        // entries are gone before the first walk of the new root. No store barrier precedes the
        // TLBI: every switch settles first, and the parked root gives walks nothing to read.
        self.insn.dsb(Dsb::Nsh);
        self.insn.isb();
    }

    fn load_one_register(
        &self,
        errata: Errata,
        table: u64,
        tag: Tag,
        held: Held,
        sharing: Sharing,
    ) {
        let apart = errata.contains(errata::TAG_AND_ROOT_APART);
        if held == Held::Drop || apart {
            self.park(errata);
        }
        if held == Held::Drop {
            self.invalidate_tag(tag, Scope::Local);
            self.removed();
        }
        if apart {
            // First the tag, then the table.
            self.insn.set_ttbr0(ttbr(self.config.reserved_root, self.asid(tag)));
        }
        self.insn.set_ttbr0(ttbr(table, self.asid(tag)) | self.cnp(sharing));
        self.tag_changed(errata);
    }

    fn load_two_registers(
        &self,
        errata: Errata,
        tables: (u64, u64),
        tag: Tag,
        held: Held,
        sharing: Sharing,
    ) {
        let (user, kernel) = tables;
        // Tag and table cannot change together, so walks of the lower half stop in between.
        match held {
            Held::Keep => self.stop_walks(errata),
            Held::Drop => {
                self.park(errata);
                self.invalidate_tag(tag, Scope::Local);
                self.removed();
            }
        }
        self.insn.set_ttbr1(ttbr(kernel, self.asid(tag)) | self.cnp(sharing));
        self.tag_changed(errata);
        self.insn.set_ttbr0(ttbr(user, 0) | self.cnp(sharing));
    }
}

impl<I: Instructions> Mmu for Aarch64<I> {
    type Features = Features;

    const PAGE_FLUSHES_HAVE_ERRATA: bool = false;
    const HAS_TWO_REGISTERS: bool = true;
    const PUBLISHES_BY_BARRIER: bool = true;

    #[inline]
    fn properties(&self) -> Properties {
        Properties {
            page_shift: self.page_shift,
            sharing: self.config.sharing,
            broadcasts: true,
            walks_outlive_tags: true,
            breaks_before_making: true,
            kept_loads: self.kept_loads,
            ..Properties::plain(self.tag_bits, &costs::TYPICAL)
        }
    }

    /// Also refuses a CPU whose `TCR_EL1` has another `A1` or `AS` than [`Config::tcr`]: the ASID would be that of the other
    /// register, or its upper half would be ignored, so that two spaces share one.
    fn admit(&self, cpu: &Features) -> Result<Errata, Error> {
        self.config.admit(cpu, self.insn.tcr_at_boot())
    }

    /// Only `root.table` is used: the kernel's table is the same for all spaces.
    fn check_root(&self, root: Root) -> Result<(), Error> {
        self.config.check_table(root.table)
    }

    #[inline]
    fn settle(&self) {
        settle(&self.insn);
    }

    unsafe fn load(&self, errata: Errata, root: Root, tag: Tag, held: Held, sharing: Sharing) {
        match self.config.asid_in {
            AsidIn::Ttbr0 => self.load_one_register(errata, root.table, tag, held, sharing),
            AsidIn::Ttbr1 { table, .. } => {
                self.load_two_registers(errata, (root.table, table), tag, held, sharing);
            }
        }
    }

    #[inline]
    unsafe fn load_kept(&self, writes: KeptLoads, root: Root, tag: Tag) {
        self.check_width(tag);
        self.insn.dsb(Dsb::Ish); // As F-ARM-SETTLE.
        // The ISB in `set_ttbr0` and `set_ttbr1` is F-ARM-ROOT, and the first of them F-ARM-SETTLE-SYNC, too.
        if writes == KeptLoads::TwoRegisters {
            // As in `load_two_registers`: walks of the lower half stop in between.
            let (register, shift) = self.kernel;
            self.insn.set_ttbr0(self.config.reserved_root);
            self.insn.set_ttbr1(u64::from(tag.0) << shift | register);
            self.insn.set_ttbr0(root.table);
        } else {
            self.insn.set_ttbr0(u64::from(tag.0) << TTBR_TAG_SHIFT | root.table);
        }
    }

    fn park(&self, errata: Errata) {
        self.stop_walks(errata);
        if let AsidIn::Ttbr1 { table, .. } = self.config.asid_in {
            self.insn.set_ttbr1(ttbr(table, Tag::RESERVED.0) | self.cnp(Sharing::Shared));
            self.tag_changed(errata);
        }
    }

    fn publish(&self, broadcasts: Wait) {
        revoke(&self.insn, broadcasts);
    }

    /// [`Invalidation::All`] removes global entries too: Arm64 has nothing that spares them. A range that no
    /// operand can name takes the whole tag with it: one that is not canonical (tagged pointers must lose their
    /// tags first) or reaches into both halves.
    #[inline(always)] // Out of line, an unmap of one page takes 16 instructions more.
    fn flush(&self, errata: Errata, entries: Invalidation<'_>, scope: Scope) {
        self.begin(entries, scope);
        complete(&self.insn, errata, scope);
    }

    fn begin_broadcast(&self, _: Errata, entries: Invalidation<'_>) {
        self.begin(entries, Scope::Broadcast);
    }

    fn complete_broadcast(&self, errata: Errata) {
        complete(&self.insn, errata, Scope::Broadcast);
    }

    /// The same on this CPU and on all.
    #[inline]
    fn operations(&self, range: &VaRange, change: TableChange, _: Scope) -> Option<u64> {
        let width = self.config.pairing.width() as u64;
        if change == TableChange::LastLevel && self.lower.user_page(range).is_some() {
            return Some(width);
        }
        let plan = self.planner_of(range)?.plan_range(range, Asid::Every, change, Scope::Local);
        Some(plan.operations() * width)
    }
}

impl<I: Instructions> SeparateRoots for Aarch64<I> {
    /// `held` changes nothing: [`Mmu::load`] has dropped the entries of both ASIDs.
    fn user_root(&self, root: Root, tag: Tag, _: Held, sharing: Sharing) -> u64 {
        let table = match self.config.asid_in {
            AsidIn::Ttbr0 => root.table,
            AsidIn::Ttbr1 { user_table, .. } => user_table,
        };
        self.check_width(tag);
        let [_, user] = self.config.pairing.asids(tag);
        ttbr(table, user) | self.cnp(sharing)
    }

    fn kernel_root(&self, root: Root, tag: Tag, sharing: Sharing) -> u64 {
        let table = match self.config.asid_in {
            AsidIn::Ttbr0 => root.table,
            AsidIn::Ttbr1 { table, .. } => table,
        };
        ttbr(table, self.asid(tag)) | self.cnp(sharing)
    }
}
