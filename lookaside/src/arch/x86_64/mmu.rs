//! [`X86`]: which instructions, in which order, on the machine at hand.

use super::{
    Config, Instructions, Levels, Pcid, Tables, Use, UserFlush, costs,
    cr3::{self, Cr3},
    features::Features,
    invlpgb::{Operands, PageLimit},
};
use crate::{
    arch::{
        Errata, Held, Invalidation, KernelEntriesLeft, Mmu, Properties, Root, Scope, SeparateRoots,
        Sharing, TableChange, Tag, Wait, errata,
    },
    error::Error,
    range::{UserPage, VaRange},
};

const CR4_PCIDE: u64 = 1 << 17;

/// The translation hardware of x86-64.
#[derive(Debug)]
pub struct X86<I> {
    pub(super) insn: I,
    pub(super) has_invpcid: bool,
    pub(super) levels: Levels,
    /// `Some` if `INVLPGB` is in use.
    pub(super) invlpgb: Option<PageLimit>,
    /// Whether one entry of a kernel address serves all PCIDs.
    pub(super) kernel_is_global: bool,
    has_pcids: bool,
    tables: Tables,
    /// How many bits a tag has.
    tag_bits: u32,
    /// The bits that no tag has.
    surplus: u16,
    /// What a value of `CR3` needs so that entries are kept: nothing does it without PCIDs, where
    /// every load flushes and bit 63 would fault.
    keep: u64,
    physical_bits: u32,
    reserved_root: u64,
    /// The ranges that are one page of 4 KiB in the lower half.
    pub(super) user_pages: UserPage,
}

impl<I: Instructions> X86<I> {
    /// The hardware of a machine whose boot CPU is `boot`. Every other CPU must be
    /// [admitted](Mmu::admit), and every CPU [set up](Self::set_up_cpu).
    ///
    /// # Errors
    ///
    /// * [`Error::BadRoot`] if `CR3` cannot hold [`Config::reserved_root`].
    /// * [`Error::Unsupported`] if the CPU lacks five levels of tables that `config` asks for, or
    ///   has neither `INVPCID` nor `CR4.PGE`, so that nothing removes global entries.
    pub fn new(insn: I, boot: &Features, config: Config) -> Result<Self, Error> {
        let boot = &boot.corrected();
        if config.levels == Levels::Five && !boot.la57 {
            return Err(Error::Unsupported("five levels of tables"));
        }
        if !boot.invpcid && !boot.pge {
            return Err(Error::Unsupported("INVPCID or CR4.PGE"));
        }
        cr3::check_root(config.reserved_root, boot.physical_bits)?;
        let has_pcids = boot.pcid && config.pcids == Use::WherePresent;
        let tag_bits = match (has_pcids, config.tables) {
            (false, _) => 0,
            (true, Tables::One) => 12,
            (true, Tables::Separate(_)) => 11,
        };
        Ok(Self {
            insn,
            has_invpcid: boot.invpcid,
            levels: config.levels,
            invlpgb: match config.invlpgb {
                Use::WherePresent => boot.invlpgb,
                Use::Never => None,
            },
            kernel_is_global: false,
            has_pcids,
            tables: config.tables,
            tag_bits,
            surplus: u16::MAX << tag_bits,
            keep: if has_pcids { cr3::KEEP } else { 0 },
            physical_bits: boot.physical_bits,
            reserved_root: config.reserved_root,
            user_pages: UserPage::new(12, config.levels.linear_bits() - 1),
        })
    }

    /// The same hardware, of a kernel that maps all of its own addresses globally: with the `G` bit in
    /// every leaf entry, and `CR4.PGE` set on every CPU. [`Invalidation::Kernel`] may then go by address
    /// with PCIDs in use. Without this promise it removes everything, and [`Mmu::flush_kernel_under`] leaves entries to be dropped
    /// with the tags of other spaces; if the promise is wrong, entries stay that nothing drops.
    ///
    /// Changes nothing with separate user tables, which exist to keep kernel entries out of user
    /// mode.
    #[must_use]
    pub fn with_global_kernel(self) -> Self {
        Self { kernel_is_global: matches!(self.tables, Tables::One), ..self }
    }

    /// Brings the calling CPU into the state that all other methods rely on: `CR4.PCIDE` is set if
    /// and only if PCIDs are in use, the current root is under PCID 0 if the bit had to change, and no translation is cached
    /// from before. [`Mmu::admit`] calls it, unless `CR4.PCIDE` is as it should be.
    pub fn set_up_cpu(&self) {
        let cr4 = self.insn.read_cr4();
        let wanted = if self.has_pcids { cr4 | CR4_PCIDE } else { cr4 & !CR4_PCIDE };
        if wanted != cr4 {
            // Setting the bit faults unless CR3[11:0] is zero; after clearing it, what was a PCID
            // would be read as PWT and PCD (SDM vol. 3, 4.10.1).
            self.insn.write_cr3(self.insn.read_cr3() & cr3::ROOT_MASK);
            self.insn.write_cr4(wanted);
        }
        // Firmware or another kernel may have left anything under any PCID.
        self.drop_everything();
    }

    /// Whether `CR3` of the calling CPU names the kernel's table of `root` under `tag`.
    ///
    /// A record of what each CPU has loaded is right only while nobody else writes the register; a
    /// driver that saves and restores it without the PCID breaks that silently. This is the check.
    pub fn hardware_matches(&self, root: Root, tag: Tag) -> bool {
        let now = Cr3::decode(self.insn.read_cr3());
        now.root == root.table && now.pcid == self.kernel_pcid(tag)
    }

    /// The value of `CR3` with which the calling CPU leaves for user mode under separate tables;
    /// otherwise that of [`Mmu::load`].
    ///
    /// `held` is about the entries of the user half on this CPU. With [`UserFlush::AtExit`] it is
    /// [`Held::Drop`] at the first exit after [`Mmu::load`] was called with [`Held::Drop`], or
    /// [`Mmu::flush_kernel_under`] has left entries in the user half, and [`Held::Keep`] at the next ones. The value must be loaded before interrupts come on again:
    /// a flush that arrives in between would find the half already promised clean.
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Properties::tag_bits`].
    #[must_use]
    pub const fn user_cr3(&self, root: Root, tag: Tag, held: Held) -> u64 {
        let kernel = self.kernel_pcid(tag);
        match (self.tables, self.user_pcid(tag)) {
            (Tables::One, _) => self.cr3(root.table, kernel, held),
            (Tables::Separate(_), Some(user)) => self.cr3(root.user_table, user, held),
            // Without PCIDs: both tables under PCID 0, each load flushing.
            (Tables::Separate(_), None) => self.cr3(root.user_table, kernel, held),
        }
    }

    /// The value of `CR3` with which the calling CPU comes back from user mode, under separate
    /// tables. It keeps what is cached: the kernel's half was dealt with when the root was loaded.
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Properties::tag_bits`].
    #[must_use]
    pub const fn kernel_cr3(&self, root: Root, tag: Tag) -> u64 {
        self.cr3(root.table, self.kernel_pcid(tag), Held::Keep)
    }

    /// Removes every entry that is not global of the user half of `tag`, now. Does nothing where
    /// tags have no halves.
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Properties::tag_bits`].
    pub fn flush_user_half(&self, tag: Tag) {
        if let Some(user) = self.user_pcid(tag) {
            // Never the current PCID: it is named only in user mode and on the way there.
            self.drop_other(user);
        }
    }

    /// Removes every entry of every tag, global entries too.
    pub fn flush_all_and_global(&self) {
        self.drop_everything();
    }

    /// The PCID of `tag` in the kernel; PCID 0 where PCIDs are not in use.
    #[inline]
    pub(super) const fn kernel_pcid(&self, tag: Tag) -> Pcid {
        // A tag that is too wide would be another space's PCID. That must not pass, in any build.
        assert!(tag.0 & self.surplus == 0, "the tag does not fit");
        Pcid::of_checked(tag.0)
    }

    /// The PCID of `tag` in user mode, if it has one of its own.
    pub(super) const fn user_pcid(&self, tag: Tag) -> Option<Pcid> {
        if !self.has_pcids || matches!(self.tables, Tables::One) {
            return None;
        }
        match self.kernel_pcid(tag).twin() {
            Ok(user) => Some(user),
            Err(_) => panic!("a tag that fits is a lower half"),
        }
    }

    /// Whether `INVLPG` removes what this CPU holds under `tag` for an address: the PCID that `CR3` names is all that the
    /// tag has.
    #[inline]
    pub(super) fn invlpg_reaches(&self, tag: Tag) -> bool {
        !self.has_pcids
            || matches!(self.tables, Tables::One) && self.is_current(self.kernel_pcid(tag))
    }

    /// Whether what a load drops of the user's half is left to the exit to user mode.
    pub(super) fn defers_user_flush(&self) -> bool {
        self.tables == Tables::Separate(UserFlush::AtExit)
    }

    /// Whether PCIDs are in use.
    pub(super) const fn has_pcids(&self) -> bool {
        self.has_pcids
    }

    /// Whether `pcid` is the one that `CR3` names.
    #[inline]
    pub(super) fn is_current(&self, pcid: Pcid) -> bool {
        Pcid::of_cr3(self.insn.read_cr3()) == pcid
    }

    /// Names the reserved root under PCID 0. One instruction names it and drops what is held, as in [`Mmu::load`].
    fn load_reserved(&self, held: Held) {
        // FENCE F-X86-PARK (pairs with reads that no CPU runs the space): serialising, so no
        // walk of the previous root starts after it, and its tables can be freed.
        self.insn.write_cr3(self.cr3(self.reserved_root, Pcid::RESERVED, held));
    }

    #[inline]
    const fn cr3(&self, root: u64, pcid: Pcid, held: Held) -> u64 {
        debug_assert!(
            cr3::check_root(root, self.physical_bits).is_ok(),
            "the root was not checked"
        );
        // `check_root` has accepted the root, so that there is nothing to cut off.
        let drops = root | pcid.get() as u64;
        match held {
            Held::Keep => drops | self.keep,
            Held::Drop => drops,
        }
    }
}

/// # Panics
///
/// Every method that takes a tag panics if it does not fit [`Properties::tag_bits`]: cut off, it would be
/// the tag of another space. [`Mmu::load`] panics in debug builds if [`Mmu::check_root`] would
/// refuse the root.
impl<I: Instructions> Mmu for X86<I> {
    type Features = Features;

    /// The errata of local flushes are about kernel addresses.
    const PAGE_FLUSHES_HAVE_ERRATA: bool = false;
    const LOADS_HAVE_ERRATA: bool = false;

    /// Broadcasting by tag is meaningful only under an allocator that gives a space the same tag on all CPUs.
    /// Where each CPU numbers the spaces that it ran recently, the same PCID is another space's elsewhere, and
    /// the one that is meant is missed.
    #[inline]
    fn properties(&self) -> Properties {
        Properties {
            broadcasts: self.invlpgb.is_some(),
            faults_forget: true,
            reaches_other_tags: self.has_invpcid || !self.has_pcids,
            has_user_tables: matches!(self.tables, Tables::Separate(_)),
            defers_user_flush: matches!(self.tables, Tables::Separate(UserFlush::AtExit)),
            prefers_per_cpu_tags: true,
            ..Properties::plain(self.tag_bits, &costs::TYPICAL)
        }
    }

    fn admit(&self, cpu: &Features) -> Result<Errata, Error> {
        let cpu = &cpu.corrected();
        if self.has_pcids && !cpu.pcid {
            return Err(Error::FewerTagBits { machine: self.tag_bits, cpu: 0 });
        }
        if self.has_invpcid && !cpu.invpcid {
            return Err(Error::MissingFeature("INVPCID"));
        }
        if !self.has_invpcid && !cpu.pge {
            return Err(Error::MissingFeature("CR4.PGE"));
        }
        if self.levels == Levels::Five && !cpu.la57 {
            return Err(Error::MissingFeature("five levels of tables"));
        }
        if cpu.physical_bits < self.physical_bits {
            return Err(Error::MissingFeature("physical addresses as wide as the boot CPU's"));
        }
        // `None` is less than any limit.
        if cpu.invlpgb < self.invlpgb {
            return Err(Error::MissingFeature("INVLPGB of as many pages as the boot CPU"));
        }
        if (self.insn.read_cr4() & CR4_PCIDE != 0) != self.has_pcids {
            self.set_up_cpu();
        }
        Ok(errata::of_x86(cpu).errata)
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        cr3::check_root(root.table, self.physical_bits)?;
        cr3::check_root(root.user_table, self.physical_bits)
    }

    /// Executes nothing: what publishes is a locked operation, and the write of `CR3` is serialising. All invalidations
    /// of this CPU but `INVLPGB` are complete when the next instruction executes.
    #[inline]
    fn settle(&self) {}

    /// Executes nothing: an initiator raises the generation of a space before it reads which CPUs run it, by a locked
    /// operation. That drains the store buffer, and later loads come after it (SDM vol. 3, "Memory
    /// Ordering": loads and stores are not reordered with locked instructions).
    fn publish(&self, _: Wait) {}

    /// With [`UserFlush::AtExit`] this does less than the contract says: see there.
    #[inline]
    unsafe fn load(&self, _errata: Errata, root: Root, tag: Tag, held: Held, _sharing: Sharing) {
        // State here: this CPU is recorded as running the space, interrupts are off, so no request
        // to flush comes between the record of what is up to date and this write.
        //
        // FENCE F-X86-LOAD (pairs with the revoker's barrier between its stores and its look at who
        // runs, walks): serialising, so that record is in memory before the first walk of this root.
        // It also ends all walks of the previous root. One instruction names the root and drops the
        // entries of its PCID; flushing first would let the previous root make new ones in between
        // (XSA-292).
        self.insn.write_cr3(self.cr3(root.table, self.kernel_pcid(tag), held));
        // The reserved tag, which is all where there are no PCIDs, has no user half.
        if held == Held::Drop
            && tag != Tag::RESERVED
            && self.tables == Tables::Separate(UserFlush::OnLoad)
        {
            // After or before makes no difference: nothing is cached under the user half until the
            // exit to user mode names it.
            self.flush_user_half(tag);
        }
    }

    /// What is held under PCID 0 is of the reserved root, by the contract of `Native::new`, and so of the kernel's half. It is kept:
    /// a flush of kernel addresses removes it under every PCID, or says that [`Mmu::park_and_drop`] comes next.
    fn park(&self, _errata: Errata) {
        self.load_reserved(Held::Keep);
    }

    fn park_and_drop(&self, _errata: Errata) {
        self.load_reserved(Held::Drop);
    }

    fn flush_kernel_under(
        &self,
        errata: Errata,
        tag: Tag,
        ranges: &[VaRange],
        change: TableChange,
    ) -> KernelEntriesLeft {
        self.flush_current_kernel(errata, tag, ranges, change)
    }

    /// A range with an address that is not canonical takes the whole tag with it, and so does on this CPU a tag
    /// whose PCIDs no instruction can reach: see the table in [this module](super). Kernel addresses go one by
    /// one where there are no PCIDs, or where the kernel [says](X86::with_global_kernel) that its entries are
    /// global and no table was unlinked; otherwise everything goes, unless the allocator calls [`Self::flush_kernel_under`].
    #[inline(always)] // What is flushed, and where, is known to the caller.
    fn flush(&self, errata: Errata, entries: Invalidation<'_>, scope: Scope) {
        match scope {
            Scope::Local => self.flush_here(errata, entries),
            Scope::Broadcast => {
                self.begin_broadcast(errata, entries);
                self.complete();
            }
        }
    }

    fn begin_broadcast(&self, _errata: Errata, entries: Invalidation<'_>) {
        match entries {
            Invalidation::All => self.begin([Operands::ALL_BUT_GLOBAL]),
            Invalidation::Tag(tag) => self.begin_tag(tag),
            Invalidation::Ranges { tag, ranges, change } => self.begin_ranges(tag, ranges, change),
            Invalidation::Kernel { ranges, change } => self.begin_kernel(ranges, change),
        }
    }

    /// Waits for the `INVLPGB`s of the CPU that executes it, and for no others.
    fn complete_broadcast(&self, _errata: Errata) {
        if self.invlpgb.is_some() {
            self.complete();
        }
    }

    /// On this CPU, for the tag that `CR3` names; another one may be removed as a whole.
    #[inline]
    fn operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        self.count(range, change, scope)
    }

    fn kernel_operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        match scope {
            Scope::Local => self.count_kernel(range, change),
            Scope::Broadcast => self.count(range, change, scope),
        }
    }

    fn is_loaded(&self, root: Root, tag: Tag) -> bool {
        self.hardware_matches(root, tag)
    }
}

impl<I: Instructions> SeparateRoots for X86<I> {
    fn user_root(&self, root: Root, tag: Tag, held: Held, _: Sharing) -> u64 {
        self.user_cr3(root, tag, held)
    }

    fn kernel_root(&self, root: Root, tag: Tag, _: Sharing) -> u64 {
        self.kernel_cr3(root, tag)
    }
}
