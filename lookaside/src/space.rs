//! One address space: its root, its tag, the CPUs that may hold its translations, and its generation.

use core::{fmt, marker::PhantomPinned, mem::ManuallyDrop};

use crate::{
    arch::{Mmu, Root},
    ids::{CpuId, TlbId},
    platform::Platform,
    range::VaRange,
    request::MissedFlush,
    residency::Residents,
    word::{Ordering, Word},
};

/// The generation and, if it was a small one, the range of the latest flush.
///
/// A CPU that missed just that flush can flush by page instead of by tag. A CPU that cannot use the record flushes
/// the whole tag.
struct Latest<W> {
    /// The generation that `range` belongs to, or [`BUSY`] while an initiator writes `range`.
    generation: W,
    /// The page number, a bit for pages of several sizes, and 11 bits of page count; zero for
    /// "everything".
    range: W,
}

/// No generation: the counter would need 2^64 flushes to come here.
const BUSY: u64 = u64::MAX;

/// An address space: the top page tables, which it owns, and which CPUs may hold translations that came from them.
///
/// [`crate::Tlb::space`] makes one. It has no lifetime, so it may live in an `Arc` or a static, as a field of the
/// kernel's process for example. It may be moved before the first switch to it. From then on it is shared by reference
/// and stays where it is, until [`crate::CurrentCpu::release`] has made every CPU leave it; [`Self::into_tables`] then
/// hands the tables back, and to drop it drops them. No type keeps a kernel from moving a space that CPUs run, as `core::mem::swap` does: it is
/// among the promises of [`Platform`]. A space that is dropped without `release` after a CPU has run it leaks its
/// tables, and says so by [`Platform::unreleased`], which panics.
///
/// Where many CPUs flush one space at once, the cache lines that they write bounce. So what a flush only reads comes first, with the
/// generation, which is written only where each CPU has tags of its own, and what each flush writes last: a space that begins a cache line has
/// the two in different ones, up to 64 CPUs.
#[doc(alias = "mm_struct")]
#[doc(alias = "pmap")]
#[repr(C)] // The order of the fields is that of memory.
pub struct AddressSpace<P: Platform> {
    resident_words: P::ResidentWords,
    pub(crate) cookie: P::Word,
    pub(crate) pins: P::Word,
    /// Flushes that are over as far as their gathers go, and not complete: in the lower bits the worst of them
    /// ([`Unfinished`]), above how many there were.
    unfinished: P::Word,
    residency: P::Word,
    /// The number of a CPU that ran the space when a flush looked for one, plus one; or 0. A guess.
    last_running: P::Word,
    pub(crate) generation: P::Word,
    id: u64,
    pub(crate) tlb: TlbId,
    tables: ManuallyDrop<P::Tables>,
    latest: Latest<P::Word>,
    /// How many gathers are under way (Linux: `tlb_flush_pending`).
    pub(crate) gathers: P::Word,
    /// CPUs that run the space, or are lazy in it, have its address.
    _stays: PhantomPinned,
}

/// The identifier of a space whose tables were taken out of it.
const NO_TABLES: u64 = 0;

impl<P: Platform> Drop for AddressSpace<P> {
    fn drop(&mut self) {
        if self.id == NO_TABLES {
            return;
        }
        if self.is_released() {
            // SAFETY: `into_tables` has not taken them.
            unsafe { ManuallyDrop::drop(&mut self.tables) }
        } else {
            P::unreleased(self.id);
        }
    }
}

/// Why a flush is not complete although its gather is over. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unfinished {
    /// Its targets have acknowledged, and perhaps not invalidated yet.
    Acknowledged = 1,
    /// It is part of a batch. Nothing tells the space when that is complete.
    Deferred = 2,
    /// Its gather was dropped. A bit of its own, which each flush of one page looks at.
    Dropped = 4,
}

/// Room for [`Unfinished`] below a count, which has 61 bits then.
const UNFINISHED_BITS: u32 = 3;
const UNFINISHED: u64 = (1 << UNFINISHED_BITS) - 1;

/// The flushes of others that are not complete, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnfinishedFlushes {
    pub(crate) worst: Unfinished,
    /// The word that says so, never 0; it changes with every flush that is left incomplete.
    pub(crate) word: u64,
}

impl<P: Platform> AddressSpace<P> {
    pub(crate) fn with_id(
        tables: P::Tables,
        id: u64,
        tlb: TlbId,
        resident_words: P::ResidentWords,
    ) -> Self {
        Self {
            tables: ManuallyDrop::new(tables),
            id,
            tlb,
            cookie: P::Word::ZERO,
            pins: P::Word::ZERO,
            generation: P::Word::ZERO,
            latest: Latest { generation: P::Word::ZERO, range: P::Word::ZERO },
            resident_words,
            gathers: P::Word::ZERO,
            unfinished: P::Word::ZERO,
            residency: P::Word::ZERO,
            last_running: P::Word::ZERO,
            _stays: PhantomPinned,
        }
    }

    /// The top tables.
    #[must_use]
    pub fn tables(&self) -> &P::Tables {
        &self.tables
    }

    /// The top tables of a space that never ran and was never pinned, or that was released.
    ///
    /// # Panics
    ///
    /// If a CPU or a device may walk the tables: [`crate::CurrentCpu::release`] comes first. The tables are then leaked.
    #[must_use]
    #[track_caller]
    pub fn into_tables(mut self) -> P::Tables {
        let released = self.is_released();
        self.id = NO_TABLES;
        assert!(released, "the space was not released");
        // SAFETY: nobody takes them a second time: `Drop` does not, by the identifier.
        unsafe { ManuallyDrop::take(&mut self.tables) }
    }

    /// Whether no CPU and no device may walk the tables.
    fn is_released(&self) -> bool {
        // With one tag on all CPUs, one that became absent, and a device, leave a tag behind, or in the last epoch a note.
        self.residents().iter().next().is_none()
            && !self.has_tag()
            && !self.absent_may_hold_entries()
    }

    /// The value of the root register for the top tables.
    #[must_use]
    #[inline]
    pub fn root(&self) -> Root {
        P::root(&self.tables)
    }

    /// The value of the root register of `cpu` ([`Platform::root_on`]).
    #[must_use]
    #[inline]
    pub fn root_on(&self, cpu: CpuId) -> Root {
        P::root_on(&self.tables, cpu)
    }

    /// The identifier of this space, which no other space of the same [`crate::Tlb`] has had or
    /// will have.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The word in which the ASID allocator keeps the tag of this space: [`crate::GlobalAsids`] a
    /// [`Cookie`](crate::tags::Cookie), [`crate::PerCpuAsids`] nothing.
    ///
    /// # Safety
    ///
    /// Only the ASID allocator writes it.
    #[must_use]
    pub const unsafe fn tag_word(&self) -> &P::Word {
        &self.cookie
    }

    /// The CPUs that may use translations of this space. Any other one that holds some flushes them when it switches to the space.
    #[must_use]
    #[inline]
    pub fn residents(&self) -> Residents<'_, P::Word> {
        Residents { words: self.resident_words.as_ref() }
    }

    /// How often translations of this space were revoked, where the allocator gives each CPU tags of its own
    /// ([`crate::PerCpuAsids`]); elsewhere nothing reads it, and only a gather that is dropped unflushed raises it.
    #[must_use]
    #[doc(alias = "tlb_gen")]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed) // Relaxed: a snapshot for people.
    }

    /// Makes a change of the tables visible to CPUs that load the root from now on, before the caller reads which CPUs
    /// must act; [`Mmu::publish`] was called before. Returns the generation that a CPU has reached when it has flushed, where the allocator keeps any
    /// (`tracked`, [`crate::tags::Tags::tracks_generations`]); elsewhere 0.
    #[inline]
    pub(crate) fn announce_flush(&self, tracked: bool) -> u64 {
        if tracked {
            return self.bump_generation();
        }
        if P::Mmu::PUBLISHES_BY_BARRIER {
            return 0;
        }
        // FENCE F-ANNOUNCE (pairs with O-ADOPT, O-MARK-PRESENT): the stores to the page table are visible before the caller
        // reads who is resident and whose root names the space. A CPU whose switch-in this reader misses walks the new
        // tables.
        P::Word::fence(Ordering::SeqCst);
        0
    }

    /// Obliges every CPU that holds translations of this space to flush, and returns the generation that a CPU has
    /// reached when it has done so.
    ///
    /// Comes *after* the page-table entries are written, and does not wait: CPUs that do not run the space flush
    /// before they load its root again, and those that run it must get a request.
    #[doc(alias = "inc_mm_tlb_gen")]
    #[inline]
    pub(crate) fn bump_generation(&self) -> u64 {
        // FENCE F-GENERATION (pairs with F-SWITCH, F-UNLAZY-RESUME, F-CLEAR-PENDING, O-PRESENT): the stores to the page table,
        // and then the generation, are visible before the caller reads who runs the space and who was
        // called. A CPU whose switch-in this reader misses reads the new generation and
        // flushes by itself; so does one whose IPI is found pending.
        self.generation.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether several gathers are under way. A guess, from which nothing is concluded.
    pub(crate) fn may_have_concurrent_flushes(&self) -> bool {
        self.gathers.load(Ordering::Relaxed) > 1 // Relaxed: nothing is concluded from it.
    }

    /// What a CPU must flush that has flushed up to generation `flushed_up_to`, now that it is `now`.
    pub(crate) fn missed_flush(&self, flushed_up_to: u64, now: u64) -> Option<MissedFlush> {
        if flushed_up_to >= now {
            return None;
        }
        // Two or more flushes were missed: their ranges are not all known.
        if flushed_up_to + 1 < now {
            return Some(MissedFlush::Everything);
        }
        // ORDER O-LATEST-READ (pairs with O-LATEST-WRITE, O-LATEST-BUSY): the range is that of `generation` if the
        // generation was there before it was read and still is afterwards.
        if self.latest.generation.load(Ordering::Acquire) != now {
            return Some(MissedFlush::Everything);
        }
        let range = self.latest.range.load(Ordering::Acquire); // O-LATEST-READ
        if self.latest.generation.load(Ordering::Relaxed) != now {
            return Some(MissedFlush::Everything); // Relaxed: ordered by the Acquire load of `range`.
        }
        Some(unpack(range))
    }

    /// Records the range of the flush of `generation`, unless another initiator is just writing one.
    pub(crate) fn record(&self, generation: u64, missed: MissedFlush) {
        let note = &self.latest;
        // Relaxed: the loser of the race writes nothing, and readers fall back to everything.
        let last = note.generation.load(Ordering::Relaxed);
        if last > generation {
            return; // A later one is there, or just being written: `BUSY` is above them all.
        }
        // ORDER O-LATEST-BUSY (pairs with O-LATEST-READ): readers of the new range see that the old
        // generation has gone.
        if note
            .generation
            .compare_exchange(last, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            // ORDER O-LATEST-WRITE (pairs with O-LATEST-READ): publishes `BUSY` before the range
            // and the range before its generation.
            note.range.store(pack(missed), Ordering::Release);
            note.generation.store(generation, Ordering::Release); // O-LATEST-WRITE
        }
    }

    /// Records that a gather is over whose flush is not complete.
    pub(crate) fn mark_unfinished(&self, why: Unfinished) {
        let mut now = self.unfinished.load(Ordering::Relaxed); // Relaxed: a guess.
        loop {
            let next = ((now >> UNFINISHED_BITS) + 1) << UNFINISHED_BITS
                | (now & UNFINISHED).max(why as u64);
            // ORDER O-UNFINISHED (pairs with O-FINISH): what was written to the tables, and what targets
            // have acknowledged, is visible to the CPU that completes the flush instead.
            let done =
                self.unfinished.compare_exchange(now, next, Ordering::Release, Ordering::Relaxed);
            match done {
                Ok(_) => return,
                Err(found) => now = found,
            }
        }
    }

    /// The flushes that are not complete, if there are any. A gather that relies on absent entries asks this after
    /// it has seen which gathers are over; a gather that is to complete them, before it flushes.
    pub(crate) fn unfinished_flushes(&self) -> Option<UnfinishedFlushes> {
        // ORDER O-FINISH (pairs with O-UNFINISHED, O-FINISHED): what is left, then what the caller asks of
        // the same targets; and what was completed, then what the caller concludes from that.
        let word = self.unfinished.load(Ordering::Acquire);
        let worst = match word & UNFINISHED {
            0 => return None,
            1 => Unfinished::Acknowledged,
            2 => Unfinished::Deferred,
            _ => Unfinished::Dropped,
        };
        Some(UnfinishedFlushes { worst, word })
    }

    /// Whether a gather was dropped unflushed and nothing has been flushed in its place. A quick look:
    /// [`Self::unfinished_flushes`] knows.
    #[inline]
    pub(crate) fn is_unfinished(&self) -> bool {
        // Relaxed: only a CPU that has seen the entries which the gather cleared needs this word, and it then sees it.
        self.unfinished.load(Ordering::Relaxed) & Unfinished::Dropped as u64 != 0
    }

    /// Records that the flushes which were incomplete when the caller looked and found `word` are complete. If another one was left
    /// incomplete since then, all of them stay so.
    pub(crate) fn complete(&self, word: u64) {
        let completed = word & !UNFINISHED;
        // ORDER O-FINISHED (pairs with O-FINISH): the flush is complete, and has waited for its targets.
        //
        // Relaxed if it fails: nothing is concluded from that.
        let _ =
            self.unfinished.compare_exchange(word, completed, Ordering::Release, Ordering::Relaxed);
    }

    /// Locks the residency of the space: its tag, and which CPUs are absent.
    pub(crate) fn lock_residency(&self, platform: &P) -> ResidencyLock<'_, P::Word> {
        loop {
            if let Some(residency) = self.try_lock_residency() {
                return residency;
            }
            platform.relax();
        }
    }

    pub(crate) fn try_lock_residency(&self) -> Option<ResidencyLock<'_, P::Word>> {
        let now = self.residency.load(Ordering::Relaxed); // Relaxed: a guess.
        if now & LOCKED != 0 {
            return None;
        }
        // ORDER O-RESIDENCY-LOCK (pairs with O-RESIDENCY-UNLOCK): what earlier holders wrote is visible.
        self.residency
            .compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|was| ResidencyLock { word: &self.residency, notes: was })
    }

    /// The CPU that [`Self::set_last_running`] has recorded last.
    pub(crate) fn last_running(&self) -> Option<CpuId> {
        // Relaxed: a guess, from which nothing is concluded.
        match self.last_running.load(Ordering::Relaxed) {
            0 => None,
            cpu => Some(CpuId((cpu - 1) as u32)),
        }
    }

    /// Records where the next initiator looks first for a CPU that runs the space.
    pub(crate) fn set_last_running(&self, cpu: CpuId) {
        self.last_running.store(u64::from(cpu.0) + 1, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Whether absent CPUs may hold entries under the space's tag.
    #[inline]
    pub(crate) fn absent_may_hold_entries(&self) -> bool {
        // ORDER O-STALE-READ (pairs with O-STALE): the note came before the CPU became absent.
        self.residency.load(Ordering::SeqCst) & STALE != 0
    }

    /// Whether CPUs may hold entries, or partial walks, under a tag that the space had before.
    pub(crate) fn held_under_older_tags(&self) -> bool {
        self.residency.load(Ordering::SeqCst) & OLDER != 0 // As O-STALE-READ.
    }
}

/// The residency is locked.
const LOCKED: u64 = 1;
/// Absent CPUs may hold something under the space's tag.
const STALE: u64 = 2;
/// CPUs may hold something under a tag that the space had before.
const OLDER: u64 = 4;
/// Above the flags: what was spent.
const SPENT_SHIFT: u32 = 3;

/// The right to make CPUs absent, and to give the space a tag. Held with interrupts off, for a bounded number of
/// steps. The holder waits at most until a rollover that is under way publishes its epoch, for which the rollover
/// needs no residency lock, and for its own broadcasts.
pub(crate) struct ResidencyLock<'s, W: Word> {
    word: &'s W,
    notes: u64,
}

impl<W: Word> ResidencyLock<'_, W> {
    /// The cost, in picoseconds, of the broadcasts that would have been spared if all other CPUs had been absent.
    pub(crate) const fn spent(&self) -> u64 {
        self.notes >> SPENT_SHIFT
    }

    /// Sets what was spent; the word has it at the latest when the lock is released.
    pub(crate) fn set_spent(&mut self, spent: u64) {
        let spent = spent.min(u64::MAX >> SPENT_SHIFT);
        self.notes = spent << SPENT_SHIFT | self.notes & (STALE | OLDER);
    }

    /// Sets whether absent CPUs may hold entries under the space's tag.
    pub(crate) fn set_stale(&mut self, stale: bool) {
        self.note(STALE, stale);
    }

    /// The space gets another tag, and CPUs may go on holding entries under the former one.
    pub(crate) fn note_former_tag(&mut self, walks_outlive_tags: bool) {
        if walks_outlive_tags {
            self.set_older(true);
        }
        self.set_stale(false);
    }

    /// Sets whether CPUs may hold entries, or partial walks, under a tag that the space had before.
    pub(crate) fn set_older(&mut self, older: bool) {
        self.note(OLDER, older);
    }

    fn note(&mut self, note: u64, set: bool) {
        let notes = if set { self.notes | note } else { self.notes & !note };
        if notes != self.notes {
            self.notes = notes;
            // ORDER O-STALE (pairs with O-STALE-READ): before a CPU becomes absent, and after
            // nothing is held any more.
            self.word.store(LOCKED | notes, Ordering::SeqCst);
        }
    }
}

impl<W: Word> Drop for ResidencyLock<'_, W> {
    fn drop(&mut self) {
        // ORDER O-RESIDENCY-UNLOCK (pairs with O-RESIDENCY-LOCK): what this holder wrote is visible to the next.
        self.word.store(self.notes, Ordering::Release);
    }
}

/// The largest number of pages that one record can name.
const MAX_NOTED: u64 = (1 << 11) - 1;

/// In a record: the entries had several sizes. A CPU that flushes later must not give a level hint, with which
/// hardware may keep entries of other sizes.
const MIXED: u64 = 1 << 11;

/// Page number, whether sizes are mixed, and page count. Only ranges in base pages fit; anything else is
/// "everything".
const fn pack(missed: MissedFlush) -> u64 {
    match missed {
        MissedFlush::Pages(range) if range.page_shift() == 12 && range.pages() <= MAX_NOTED => {
            let mixed = if range.is_uniform() { 0 } else { MIXED };
            (range.start() & !0xfff) | mixed | range.pages()
        }
        _ => 0,
    }
}

fn unpack(note: u64) -> MissedFlush {
    let pages = note & MAX_NOTED;
    match VaRange::new(note & !0xfff, pages << 12, 12) {
        Ok(range) => MissedFlush::Pages(if note & MIXED == 0 { range } else { range.mixed() }),
        Err(_) => MissedFlush::Everything,
    }
}

impl<P: Platform> fmt::Debug for AddressSpace<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressSpace")
            .field("id", &self.id)
            .field("root", &self.root())
            .field("cookie", &self.cookie())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
