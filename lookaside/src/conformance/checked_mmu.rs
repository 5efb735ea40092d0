//! Hardware that records which root's translations each CPU may hold under each tag, and refuses a load that would mix two.

use core::{fmt, ops::Deref};

use crate::{
    arch::{
        Errata, Held, Invalidation, KeptLoads, KernelEntriesLeft, Mmu, Properties, Root, Scope,
        SeparateRoots, Sharing, TableChange, Tag, Wait,
    },
    error::Error,
    ids::CpuId,
    range::VaRange,
    word::{Ordering, Word},
};

/// Relaxed: a CPU that is given a tag after a flush, or a table after it was freed, has synchronised with the CPU that has recorded
/// it, or the library or the kernel is wrong.
const ORDER: Ordering = Ordering::Relaxed;

/// Nothing is held.
const NOTHING: u64 = 0;
/// Translations of a root are held whose table was freed.
const FREED: u64 = 1;

/// The [`Mmu`] of a debug build: it does what `M` does, and panics when a CPU loads a root under a tag under which it may still hold
/// translations of another one.
///
/// For each CPU and tag it records the root that was loaded, until a flush removes all entries of that tag and the CPU no longer walks the
/// root's tables. So it finds a tag that is
/// given out twice, a rollover without a flush, and a CPU that misses one, on hardware and on emulators whose TLBs have no tags, at the
/// load and not when somebody reads the wrong memory. It does not find flushes of addresses that are missing: translations
/// of the same root under the same tag are all one to it. Nor does it check [`Tag::RESERVED`], which on some hardware many roots share.
///
/// A kernel names it as its [`crate::Platform::Mmu`] in builds with debug assertions, and tells it by [`Self::root_freed`] of page tables
/// whose memory may become another root. A load takes a few loads and stores more.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use lookaside::{arch::{Held, Mmu, Root, Sharing, Errata, Tag}, conformance::CheckedMmu, platform::CpuId};
/// # use lookaside_testkit::TestMmu;
/// # const HARDWARE: TestMmu<()> = TestMmu(());
///
/// // Four CPUs, tags of 12 bits.
/// let words = [const { AtomicU64::new(0) }; CheckedMmu::<TestMmu<()>, AtomicU64>::words_for(4, 12)];
/// let mmu = CheckedMmu::new(HARDWARE, &words, || CpuId(0));
/// // SAFETY: there is no hardware.
/// unsafe { mmu.load(Errata::NONE, Root::new(0x1000), Tag(2), Held::Keep, Sharing::Private) };
/// assert_eq!(mmu.checked_loads(), 1);
/// ```
pub struct CheckedMmu<'w, M, W> {
    mmu: M,
    /// For each CPU a [`Row`].
    words: &'w [W],
    tags: usize,
    cpu: fn() -> CpuId,
}

impl<'w, M: Mmu, W: Word> CheckedMmu<'w, M, W> {
    /// How many words it takes for so many CPUs and bits of a tag ([`Properties::tag_bits`]).
    #[must_use]
    pub const fn words_for(cpus: usize, tag_bits: u32) -> usize {
        cpus * words_of_one(tag_bits)
    }

    /// This hardware, with nothing in its TLBs. `words` are zeros, as many as [`Self::words_for`] says for the machine's CPUs or for more
    /// of them, and `cpu` is [`crate::Platform::cpu`].
    ///
    /// # Panics
    ///
    /// If the words are not enough for one CPU.
    #[must_use]
    pub fn new(mmu: M, words: &'w [W], cpu: fn() -> CpuId) -> Self {
        let tag_bits = mmu.properties().tag_bits;
        assert!(words.len() >= words_of_one(tag_bits), "too few words for the tags of one CPU");
        Self { mmu, words, tags: 1 << tag_bits, cpu }
    }

    /// The table's memory may become another root, or something else: what is held of it under any tag must not be used any more.
    /// After [`crate::CurrentCpu::release`], before the memory is used again. It looks at every word.
    pub fn root_freed(&self, table: u64) {
        let words = self.rows().flat_map(|row| row.held);
        for word in words.filter(|word| word.load(ORDER) == table) {
            // A flush may clear it meanwhile, and then it stays so.
            let _ = word.compare_exchange(table, FREED, ORDER, ORDER);
        }
    }

    /// How many loads were checked, on all CPUs.
    #[must_use]
    pub fn checked_loads(&self) -> u64 {
        self.rows().map(|row| row.loads.load(ORDER)).sum()
    }

    /// That of each CPU.
    fn rows(&self) -> impl Iterator<Item = Row<'w, W>> {
        self.words.chunks_exact(self.tags + OTHERS).map(Row::new)
    }

    /// That of the CPU that executes the call.
    fn this_row(&self) -> Row<'w, W> {
        let words = (self.cpu)().0 as usize * (self.tags + OTHERS);
        Row::new(&self.words[words..][..self.tags + OTHERS])
    }

    /// Refuses a load that would mix translations, and records it.
    #[track_caller]
    fn check(&self, root: Root, tag: Tag, held: Held, sharing: Sharing) {
        self.this_row().leave();
        if tag == Tag::RESERVED {
            return;
        }
        let this = (self.cpu)().0;
        for (row, cpu) in self.rows().zip(0..) {
            let is_this = cpu == this;
            let other = row.word(tag).load(ORDER);
            let is_used = if is_this { held == Held::Keep } else { sharing == Sharing::Shared };
            assert!(
                !is_used || other == NOTHING || other == root.table,
                "CPU {this} loads the root {:#x} under tag {} and may use what CPU {cpu} holds under it, of {}",
                root.table,
                tag.0,
                Owner(other),
            );
            if is_this {
                row.enter(root.table, tag);
            }
        }
    }

    /// Records that entries are gone.
    fn removed(&self, entries: Invalidation<'_>, scope: Scope) {
        match scope {
            Scope::Local => self.this_row().remove(entries),
            Scope::Broadcast => self.rows().for_each(|row| row.remove(entries)),
        }
    }
}

/// The words of one CPU beside those of its tags.
const OTHERS: usize = 2;

/// How many words one CPU takes.
const fn words_of_one(tag_bits: u32) -> usize {
    (1 << tag_bits) + OTHERS
}

/// What is known of one CPU.
struct Row<'w, W> {
    /// How many loads were checked.
    loads: &'w W,
    /// For each tag but the reserved one [`NOTHING`], [`FREED`], or the address of the table whose translations are held.
    held: &'w [W],
    /// The table and the tag that the register names, or zeros. This CPU alone uses them.
    loaded: &'w [W],
}

impl<'w, W: Word> Row<'w, W> {
    fn new(words: &'w [W]) -> Self {
        let (tags, loaded) = words.split_at(words.len() - OTHERS);
        Self { loads: &tags[0], held: &tags[1..], loaded }
    }

    fn word(&self, tag: Tag) -> &'w W {
        &self.held[usize::from(tag.0) - 1]
    }

    /// This CPU loads a root.
    fn enter(&self, table: u64, tag: Tag) {
        self.word(tag).store(table, ORDER);
        self.loads.fetch_add(1, ORDER);
        self.loaded[0].set(table);
        self.loaded[1].set(tag.0.into());
    }

    /// This CPU no longer names the root that it has loaded. It has walked its tables until now, since the last flush too.
    fn leave(&self) {
        if let Ok(tag @ 1..) = u16::try_from(self.loaded[1].get()) {
            self.word(Tag(tag)).store(self.loaded[0].get(), ORDER);
        }
        self.forget_loaded();
    }

    /// Nothing is loaded.
    fn forget_loaded(&self) {
        self.loaded[1].set(0);
    }

    /// Entries of this CPU are gone.
    fn remove(&self, entries: Invalidation<'_>) {
        match entries {
            Invalidation::All | Invalidation::Kernel { ranges: [], .. } => {
                self.held.iter().for_each(|word| word.store(NOTHING, ORDER));
            }
            Invalidation::Tag(tag @ Tag(1..)) => self.word(tag).store(NOTHING, ORDER),
            Invalidation::Tag(_) | Invalidation::Ranges { .. } | Invalidation::Kernel { .. } => {}
        }
    }
}

/// The root that translations are held of, in words.
struct Owner(u64);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FREED => f.write_str("a root that was freed"),
            table => write!(f, "the root {table:#x}"),
        }
    }
}

impl<M, W> Deref for CheckedMmu<'_, M, W> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.mmu
    }
}

impl<M: fmt::Debug, W> fmt::Debug for CheckedMmu<'_, M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedMmu").field("mmu", &self.mmu).finish_non_exhaustive()
    }
}

impl<M: Mmu, W: Word> Mmu for CheckedMmu<'_, M, W> {
    type Features = M::Features;

    const PAGE_FLUSHES_HAVE_ERRATA: bool = M::PAGE_FLUSHES_HAVE_ERRATA;
    const LOADS_HAVE_ERRATA: bool = M::LOADS_HAVE_ERRATA;
    const HAS_TWO_REGISTERS: bool = M::HAS_TWO_REGISTERS;
    const PUBLISHES_BY_BARRIER: bool = M::PUBLISHES_BY_BARRIER;

    fn properties(&self) -> Properties {
        self.mmu.properties()
    }

    fn admit(&self, cpu: &Self::Features) -> Result<Errata, Error> {
        // It comes up: whatever it had loaded when it stopped it has no longer.
        self.this_row().forget_loaded();
        self.mmu.admit(cpu)
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        self.mmu.check_root(root)
    }

    fn settle(&self) {
        self.mmu.settle();
    }

    fn publish(&self, broadcasts: Wait) {
        self.mmu.publish(broadcasts);
    }

    unsafe fn load(&self, errata: Errata, root: Root, tag: Tag, held: Held, sharing: Sharing) {
        self.check(root, tag, held, sharing);
        // SAFETY: the caller promises it.
        unsafe { self.mmu.load(errata, root, tag, held, sharing) };
    }

    unsafe fn load_kept(&self, writes: KeptLoads, root: Root, tag: Tag) {
        self.check(root, tag, Held::Keep, Sharing::Private);
        // SAFETY: the caller promises it.
        unsafe { self.mmu.load_kept(writes, root, tag) };
    }

    unsafe fn load_foreign(&self, errata: Errata, root: Root) {
        // Nothing is kept under its tag, and no space has it.
        self.this_row().leave();
        // SAFETY: the caller promises it.
        unsafe { self.mmu.load_foreign(errata, root) };
    }

    fn park(&self, errata: Errata) {
        self.this_row().leave();
        self.mmu.park(errata);
    }

    fn park_and_drop(&self, errata: Errata) {
        self.this_row().leave();
        self.mmu.park_and_drop(errata);
    }

    fn flush_kernel_under(
        &self,
        errata: Errata,
        tag: Tag,
        ranges: &[VaRange],
        change: TableChange,
    ) -> KernelEntriesLeft {
        // Early: this CPU loads nothing before it returns.
        self.removed(Invalidation::kernel(ranges, change), Scope::Local);
        self.mmu.flush_kernel_under(errata, tag, ranges, change)
    }

    fn flush(&self, errata: Errata, entries: Invalidation<'_>, scope: Scope) {
        self.mmu.flush(errata, entries, scope);
        self.removed(entries, scope);
    }

    fn begin_broadcast(&self, errata: Errata, entries: Invalidation<'_>) {
        self.mmu.begin_broadcast(errata, entries);
        // Early: that nobody loads the tag before the broadcast is complete is not checked.
        self.removed(entries, Scope::Broadcast);
    }

    fn complete_broadcast(&self, errata: Errata) {
        self.mmu.complete_broadcast(errata);
    }

    fn operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        self.mmu.operations(range, change, scope)
    }

    fn kernel_operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        self.mmu.kernel_operations(range, change, scope)
    }

    fn is_loaded(&self, root: Root, tag: Tag) -> bool {
        self.mmu.is_loaded(root, tag)
    }
}

impl<M: SeparateRoots, W: Word> SeparateRoots for CheckedMmu<'_, M, W> {
    fn user_root(&self, root: Root, tag: Tag, held: Held, sharing: Sharing) -> u64 {
        self.mmu.user_root(root, tag, held, sharing)
    }

    fn kernel_root(&self, root: Root, tag: Tag, sharing: Sharing) -> u64 {
        self.mmu.kernel_root(root, tag, sharing)
    }
}
