//! The translation hardware: what the library asks of it, and how three architectures answer.
//!
//! Each architecture has the same parts. Its *encoders* are pure functions, tested on every host.
//! Its `Instructions` trait lists the instructions themselves, one method each; `Native` executes
//! them in `asm!` on the bare metal, the adversarial machine executes them in software. Between the
//! two stands the architecture's own type ([`aarch64::Aarch64`], [`x86_64::X86`],
//! [`riscv64::Riscv`]), which implements [`Mmu`]: it knows which instructions, in which order.
//!
//! `Native` can change what every address means, so only its unsafe constructor makes one. The caller
//! of that constructor vouches for all uses of the value, through [`Mmu`] too.
//!
//! `README.md` beside this file has a table of what each method executes on each architecture.

pub mod aarch64;
pub mod errata;
mod measure;
pub mod riscv64;
mod size_change;
pub mod x86_64;

pub use size_change::SizeChange;

use crate::{costs::Costs, error::Error, range::VaRange};

/// A tag: what hardware calls an ASID (Arm, RISC-V), a VMID (Arm stage 2) or a PCID (x86).
///
/// Tag 0 is [`Tag::RESERVED`] on every architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

impl Tag {
    /// The permanent tag of everything that has no user translations: a parked CPU, kernel
    /// threads that borrow no space, firmware.
    pub const RESERVED: Self = Self(0);
}

/// The tag of foreign roots ([`crate::CurrentCpu::with_root`]), firmware's for example, where there are tags.
pub(crate) const FOREIGN_TAG: Tag = Tag(1);

/// The tag of foreign roots on hardware with so many bits for a tag. Without tags, every root has the reserved one,
/// and each load of a root drops all entries that are not global.
pub(crate) const fn foreign_tag(tag_bits: u32) -> Tag {
    if tag_bits == 0 { Tag::RESERVED } else { FOREIGN_TAG }
}

/// The top tables of one address space, as physical addresses in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// The table that the CPU walks while it runs in the kernel, and in user mode too unless the kernel
    /// keeps separate user tables. On RISC-V the table for user mode in any case: where the kernel has a
    /// root of its own, [`riscv64::Config::reserved`] names it.
    pub table: u64,
    /// The table for user mode, where x86 kernels keep a separate one; otherwise equal to `table`.
    pub user_table: u64,
}

impl Root {
    /// That of a parked CPU.
    pub(crate) const NONE: Self = Self::new(0);

    /// A root for kernels that use one table in both modes.
    #[must_use]
    pub const fn new(table: u64) -> Self {
        Self { table, user_table: table }
    }
}

/// What becomes of the entries that a CPU already holds under the tag that it loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// They belong to this space and are up to date: keep them.
    Keep,
    /// They are another space's, or out of date: they must be gone before the first walk.
    Drop,
}

/// Which CPUs may use a translation that one CPU has cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// That CPU alone.
    Private,
    /// Any CPU that has loaded its root as shared (Arm's CnP bit).
    Shared,
}

/// Which cached parts of walks must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableChange {
    /// Pages and blocks: enough as long as no table was unlinked.
    LastLevel,
    /// Tables too: the walk caches hold the address of a table that was unlinked.
    FreedTables,
}

/// Whether a flush waits until the entries are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It does.
    Now,
    /// [`Mmu::complete_broadcast`] does.
    Later,
}

/// The entries that a flush removes. It may remove more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation<'r> {
    /// Every entry that is not global, of every tag.
    All,
    /// Every entry that is not global, of one tag.
    Tag(Tag),
    /// Those of one tag for user addresses. A range with addresses that hardware cannot name takes the whole
    /// tag with it.
    Ranges {
        /// The tag.
        tag: Tag,
        /// The addresses.
        ranges: &'r [VaRange],
        /// Whether walk caches are concerned.
        change: TableChange,
    },
    /// Those for kernel addresses, global or not, of every tag.
    Kernel {
        /// The addresses. An empty slice means every entry there is.
        ranges: &'r [VaRange],
        /// Whether walk caches are concerned.
        change: TableChange,
    },
}

impl<'r> Invalidation<'r> {
    /// [`Self::Ranges`].
    #[must_use]
    #[inline]
    pub const fn ranges(tag: Tag, ranges: &'r [VaRange], change: TableChange) -> Self {
        Self::Ranges { tag, ranges, change }
    }

    /// [`Self::Kernel`].
    #[must_use]
    #[inline]
    pub const fn kernel(ranges: &'r [VaRange], change: TableChange) -> Self {
        Self::Kernel { ranges, change }
    }
}

/// What [`Mmu::flush_kernel_under`] may have left of the entries that it was called for, cached upper levels included. The
/// hardware does not use any of it before the root register names the tag in question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the CPU must drop what is left before it can use it"]
pub struct KernelEntriesLeft {
    /// Entries under every tag but the one that the register names. The next load of each of these tags, and the next park,
    /// must drop what is held: [`Mmu::load`] with [`Held::Drop`], [`Mmu::park_and_drop`].
    pub under_other_tags: bool,
    /// Entries under the user's half of the tag that the register names. The next value of [`SeparateRoots::user_root`] must
    /// have [`Held::Drop`]. True only where [`Properties::defers_user_flush`].
    pub in_user_half: bool,
}

/// What is known of the translation hardware of a machine, and does not change once its first CPU is online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// How many bits a tag has; 0 if the hardware has no tags. With paired tags (one for the kernel's table
    /// and one for the user's) this counts pairs.
    pub tag_bits: u32,
    /// The binary logarithm of the smallest page of user addresses, in bytes (Arm: of the granule).
    pub page_shift: u32,
    /// Whether CPUs may use each other's cached translations.
    pub sharing: Sharing,
    /// Whether a flush may have [`Scope::Broadcast`].
    pub broadcasts: bool,
    /// Whether a broadcast returns only when all CPUs have acted, so that [`Mmu::begin_broadcast`] leaves nothing to wait for
    /// (SBI, "Remote Fence Extension"). A batch then tells CPUs by IPIs, however many they are, unless the space is pinned or
    /// by the costs not even one IPI is cheaper.
    pub broadcasts_wait: bool,
    /// Whether freeing a page table obliges CPUs to act that hold entries of the space but whose root register
    /// does not name it.
    ///
    /// On x86 and RISC-V hardware walks for the current root only, and what a walk cached under another tag is
    /// dropped before that tag is used again. For Arm the maintainers of Linux hold that the walk caches of a
    /// CPU may be consulted for tags that it does not run, so that a table which is reused while they point to
    /// it breaks the rules of break-before-make (review of the local-only invalidation of 2020).
    pub walks_outlive_tags: bool,
    /// Whether a TLB may not come to hold an old and a new translation of one address: on Arm it then raises a
    /// conflict abort or yields a mixture of both, whatever runs (DDI 0487, "Using break-before-make when
    /// updating translation table entries"). A lazy CPU is then as good as one that runs the space, for its
    /// walker may find the new one at any time.
    pub breaks_before_making: bool,
    /// Whether a page fault itself removes what the CPU held for the address, so that a spurious fault does not
    /// come again (SDM vol. 3, 4.10.4.1).
    pub faults_forget: bool,
    /// Whether a TLB may remember that an entry was absent, so that an access goes on to fault after the entry
    /// was written (RISC-V, note in "Supervisor Memory-Management Fence Instruction"). Others never do (SDM vol.
    /// 3, 4.10.2.3; DDI 0487, D8.16).
    pub caches_absent: bool,
    /// Whether a page can be removed under another tag than the register names, without the loss of much else: not on
    /// x86 with PCIDs and without `INVPCID`.
    pub reaches_other_tags: bool,
    /// Whether switches may use [`Mmu::load_kept`], on CPUs without errata of loads ([`errata::AT_LOADS`]), and what it writes.
    pub kept_loads: KeptLoads,
    /// Whether several roots are loaded under [`Tag::RESERVED`], so that what is held under it is looked after by the loads
    /// that replace it (RISC-V).
    pub shares_reserved_tag: bool,
    /// What [`Mmu::load`] must be told when the CPU runs a space for the first time, and the tag is not known to
    /// be used up: [`Held::Keep`], unless the stores that built the tables are ordered before the walks by
    /// nothing but an invalidation (RISC-V).
    pub first_load: Held,
    /// Whether [`Mmu::load`] with [`Held::Drop`] leaves entries of user mode for [`SeparateRoots::user_root`] to
    /// drop ([`x86_64::UserFlush::AtExit`]). Only an allocator that passes it on in
    /// [`crate::tags::Tags::user_held`] may run on such hardware.
    pub defers_user_flush: bool,
    /// Whether tags of each CPU's own ([`crate::PerCpuAsids`]) serve this hardware better than tags that are the
    /// same on all CPUs, unless it [broadcasts](Self::broadcasts). Where a flush of another CPU is an IPI anyway,
    /// agreeing on tags gains little. [`crate::tags::Asids`] asks.
    pub prefers_per_cpu_tags: bool,
    /// Whether the register names a root of the kernel's own for as long as a CPU is in the kernel, and user memory does
    /// not translate there ([`riscv64::Tables::Separate`]).
    pub kernel_has_own_root: bool,
    /// Whether each space has a table of its own for user mode ([`Root::user_table`], [`x86_64::Tables::Separate`]).
    pub has_user_tables: bool,
    /// What the operations cost on a typical machine, with sources. A kernel that knows better says so in
    /// [`crate::Platform::costs`].
    pub typical_costs: &'static Costs,
}

/// What a load writes that keeps what is held ([`Mmu::load_kept`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptLoads {
    /// One register, which names table and tag.
    OneWrite,
    /// The table's register, the tag's, and the table's once more, with a barrier after each.
    TwoRegisters,
    /// More than a switch should have inlined: there is [`Mmu::load`] alone.
    None,
}

impl Properties {
    /// Of hardware without any of the peculiarities, with tags of so many bits.
    #[must_use]
    pub const fn plain(tag_bits: u32, typical_costs: &'static Costs) -> Self {
        Self {
            tag_bits,
            page_shift: 12,
            sharing: Sharing::Private,
            broadcasts: false,
            broadcasts_wait: false,
            walks_outlive_tags: false,
            breaks_before_making: false,
            faults_forget: false,
            caches_absent: false,
            reaches_other_tags: true,
            kept_loads: KeptLoads::OneWrite,
            shares_reserved_tag: false,
            first_load: Held::Keep,
            defers_user_flush: false,
            prefers_per_cpu_tags: false,
            kernel_has_own_root: false,
            has_user_tables: false,
            typical_costs,
        }
    }
}

/// Where an invalidation acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// On the CPU that executes it.
    Local,
    /// On every CPU.
    Broadcast,
}

/// Deviations of a CPU from its architecture, as bits that [`errata`] defines.
///
/// The set is filled from the ID registers when a CPU comes up and drives what is emitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Errata(pub u64);

impl Errata {
    /// No deviation.
    pub const NONE: Self = Self(0);

    /// Whether all of `bits` are in the set.
    #[must_use]
    #[inline]
    pub const fn contains(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Whether any of `bits` are in the set.
    #[must_use]
    #[inline]
    pub const fn intersects(self, bits: Self) -> bool {
        self.0 & bits.0 != 0
    }

    /// The errata of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The translation hardware of the CPU that executes the call, for one regime of translation.
///
/// The ASID allocators of this crate are written against this trait, so that any of them runs on any
/// architecture. Every method acts on the calling CPU unless it takes [`Scope::Broadcast`] or begins or completes a
/// broadcast, and is called with interrupts off.
///
/// # Obligations of callers
///
/// *Stores before tags.* The flushes take the tag as an argument, so the barrier inside them comes
/// too late to order the caller's own load of it. Where another CPU may give the space a new tag
/// meanwhile, the caller first makes its stores to the page tables visible, to page walks and to
/// other CPUs, and loads the tag then: [`Self::publish`] does the one (Arm's `DSB`), a `SeqCst`
/// fence the other. Otherwise a CPU may load the space under the new tag and walk the old entry,
/// and the flush goes to the old tag.
///
/// *Tags that fit.* A method that takes a tag may panic if it has more than [`Properties::tag_bits`]
/// bits: cut off, it would be another space's.
///
/// *Errata.* [`Self::load`] and [`Self::park`] are told the errata of the calling CPU, as
/// [`Self::admit`] found them; the flushes are told those together with the errata of every CPU of
/// the machine. What a flush waits for may happen late on another CPU, through that CPU's erratum.
pub trait Mmu {
    /// What one CPU says about itself in its ID registers.
    type Features;

    /// Whether [`Self::flush`] looks at the errata where it removes a page, and no table, under a tag from this CPU alone. If
    /// not, it may be told none.
    const PAGE_FLUSHES_HAVE_ERRATA: bool = true;

    /// Whether [`Self::load`] looks at the errata. If not, it may be given none.
    const LOADS_HAVE_ERRATA: bool = true;

    /// Whether [`Properties::kept_loads`] may be [`KeptLoads::TwoRegisters`].
    const HAS_TWO_REGISTERS: bool = false;

    /// Whether [`Self::publish`] is a barrier for loads and stores on this hardware, so that a fence after it orders no more.
    const PUBLISHES_BY_BARRIER: bool = false;

    /// What the library asks about the hardware. Inlined, it costs what the fields cost that are used.
    fn properties(&self) -> Properties;

    /// Admits a CPU that comes up: checks that it can do everything the machine runs with, and
    /// says what must be worked around on it.
    ///
    /// # Errors
    ///
    /// * [`Error::FewerTagBits`] if its tags are narrower than [`Properties::tag_bits`].
    /// * [`Error::MissingFeature`] if it lacks something else.
    fn admit(&self, cpu: &Self::Features) -> Result<Errata, Error>;

    /// Checks that the root register can hold `root`.
    ///
    /// # Errors
    ///
    /// [`Error::BadRoot`] otherwise.
    fn check_root(&self, root: Root) -> Result<(), Error>;

    /// Orders what this CPU has published and seen before the walks that follow, where that takes a barrier (Arm's
    /// `DSB`): later walks come after earlier stores. Nothing else may be concluded from it: words that CPUs share are
    /// ordered by their own accesses.
    ///
    /// Every switch begins with it, also one that changes nothing. Broadcasts that were begun with
    /// [`Self::begin_broadcast`] need [`Self::complete_broadcast`].
    fn settle(&self);

    /// Makes the stores of this CPU to page tables, and those that it has read, visible to the walks of every CPU, and orders
    /// them before its later loads: what stands between a change of the tables and the question which CPUs
    /// may have seen them before it. With [`Wait::Later`] it does not wait for broadcasts that this CPU has begun.
    fn publish(&self, broadcasts: Wait) {
        let _ = broadcasts;
        self.settle();
    }

    /// Names `root` and `tag`, which [`Self::check_root`] and [`Properties::tag_bits`] allow, in the root
    /// register. Returns when no walk from the previous root can start any more. With
    /// [`Held::Drop`], entries under `tag` are removed, after the previous root can no longer
    /// produce entries under it and before the new one does.
    ///
    /// `sharing` may narrow what [`Properties::sharing`] says, never widen it.
    ///
    /// # Safety
    ///
    /// * `root` is the physical address of a page table in the format of the machine, and under it the
    ///   running kernel is mapped where it is; where a trampoline loads the root, the trampoline is.
    /// * Nothing that this CPU holds under `tag`, and is not told to drop, is another root's.
    /// * The ASID allocator knows of it: on a machine with a [`crate::Tlb`] nobody else calls
    ///   this.
    unsafe fn load(&self, errata: Errata, root: Root, tag: Tag, held: Held, sharing: Sharing);

    /// As [`Self::load`] with [`Held::Keep`] and [`Sharing::Private`], on a CPU without errata of loads, under another tag
    /// than the register names: what most switches do, and have inlined. It does what [`Self::settle`] does, too, before it writes
    /// the register. `writes` is [`Properties::kept_loads`], as a constant, and not [`KeptLoads::None`].
    ///
    /// # Safety
    ///
    /// * As for [`Self::load`].
    /// * `tag` is neither [`Tag::RESERVED`] nor the tag that the register names.
    /// * Where [`Properties::shares_reserved_tag`], the register does not name [`Tag::RESERVED`].
    #[inline]
    unsafe fn load_kept(&self, writes: KeptLoads, root: Root, tag: Tag) {
        let _ = writes;
        self.settle();
        // SAFETY: the caller promises it.
        unsafe { self.load(Errata::NONE, root, tag, Held::Keep, Sharing::Private) };
    }

    /// Names a foreign root for kernel code ([`crate::CurrentCpu::with_root`]), under a tag that no space
    /// has, and drops what is held under it. [`Self::load`] or [`Self::park`] ends that.
    ///
    /// # Safety
    ///
    /// * As for [`Self::load`].
    /// * [`Self::load`] or [`Self::park`] comes before the CPU returns to user mode.
    unsafe fn load_foreign(&self, errata: Errata, root: Root) {
        let tag = foreign_tag(self.properties().tag_bits);
        // SAFETY: the caller promises it; nothing is kept under the tag.
        unsafe { self.load(errata, root, tag, Held::Drop, Sharing::Private) };
    }

    /// Names the reserved root, which maps nothing for user mode, under [`Tag::RESERVED`]. Returns
    /// when no walk from the previous root can start any more.
    fn park(&self, errata: Errata);

    /// As [`Self::park`], and removes what is held under [`Tag::RESERVED`] before the reserved root can use it. Needed after
    /// [`KernelEntriesLeft::under_other_tags`].
    fn park_and_drop(&self, errata: Errata) {
        self.flush(errata, Invalidation::Tag(Tag::RESERVED), Scope::Local);
        self.park(errata);
    }

    /// Removes the entries of this CPU for kernel addresses: as [`Self::flush`] of [`Invalidation::Kernel`], or at least those
    /// that are global or under `tag`, and says what it may have left. `tag` is the one that the root register names
    /// ([`Tag::RESERVED`] on a parked CPU); if the register names another one, because a foreign root is loaded, nothing is
    /// left.
    ///
    /// Only an allocator that has all of the rest dropped before the CPU can use it may call this: [`crate::PerCpuAsids`].
    fn flush_kernel_under(
        &self,
        errata: Errata,
        tag: Tag,
        ranges: &[VaRange],
        change: TableChange,
    ) -> KernelEntriesLeft {
        let _ = tag;
        self.flush(errata, Invalidation::kernel(ranges, change), Scope::Local);
        KernelEntriesLeft::default()
    }

    /// Removes entries, and waits for completion once, after the last. Called with [`Scope::Broadcast`] only if
    /// [`Properties::broadcasts`].
    ///
    /// It does as it is told, for a thousand pages with a thousand instructions. Whether that is cheaper than the
    /// tag is for the caller to find out, from [`Self::operations`] and costs.
    fn flush(&self, errata: Errata, entries: Invalidation<'_>, scope: Scope);

    /// Begins to remove entries on every CPU. They are gone once the same CPU has called
    /// [`Self::complete_broadcast`].
    fn begin_broadcast(&self, errata: Errata, entries: Invalidation<'_>) {
        self.flush(errata, entries, Scope::Broadcast);
    }

    /// Waits until every invalidation is complete that this CPU began by [`Self::begin_broadcast`].
    fn complete_broadcast(&self, errata: Errata) {
        let _ = errata;
        self.settle();
    }

    /// How many invalidations a flush of [`Invalidation::Ranges`] executes for one range of the space that the
    /// CPU runs, or `None` if it removes the whole tag instead. The answer takes a few steps, however long the
    /// range is.
    fn operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        let _ = (range, change, scope);
        None
    }

    /// As [`Self::operations`], of a flush of [`Invalidation::Kernel`], or on this CPU of [`Self::flush_kernel_under`].
    fn kernel_operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        self.operations(range, change, scope)
    }

    /// Whether the root register names what [`Self::load`] of `root` under `tag` leaves there. True where
    /// the register cannot be read.
    fn is_loaded(&self, root: Root, tag: Tag) -> bool {
        let _ = (root, tag);
        true
    }
}

/// Hardware that a kernel may run under another root register value than user mode: what its trampoline
/// writes there, on the way to user mode and back.
///
/// The register is the one that holds the tag: `CR3`, `satp`, and on Arm64 `TTBR0_EL1` or `TTBR1_EL1`, as
/// [`aarch64::Config::asid_in`] says.
pub trait SeparateRoots: Mmu {
    /// The value for user mode in the space of `root`, which was loaded under `tag` with the same
    /// `sharing`. With [`Held::Drop`] its load drops the entries of user mode, where
    /// [`Properties::defers_user_flush`].
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Properties::tag_bits`].
    fn user_root(&self, root: Root, tag: Tag, held: Held, sharing: Sharing) -> u64;

    /// The value for the kernel: that which [`Mmu::load`] left in the register.
    ///
    /// # Panics
    ///
    /// If `tag` does not fit [`Properties::tag_bits`].
    fn kernel_root(&self, root: Root, tag: Tag, sharing: Sharing) -> u64;
}
