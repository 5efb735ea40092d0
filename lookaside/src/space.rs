//! One address space: its tables, its tag, who may hold its translations, and what is owed on it.

use crate::{
    arch::Root,
    cpuset::CpuSet,
    platform::{CpuId, Ordering, Platform, Word},
    range::VaRange,
    tags::Cookie,
};

/// The generation and, if it was a small one, the range of the latest flush.
///
/// A CPU that missed just that flush can pay by page instead of by tag. The record is a courtesy:
/// whoever cannot use it flushes more.
struct Latest<W> {
    /// The generation that `range` belongs to, or [`BUSY`] while a flusher writes `range`.
    generation: W,
    /// The page number above 12 bits of page count; zero for "everything".
    range: W,
}

/// No generation: the counter would need 2^64 flushes to come here.
const BUSY: u64 = u64::MAX;

/// An address space, as the library knows it: not the page tables, which are the kernel's, but who
/// may hold translations that came from them.
///
/// [`crate::Tlb::space`] makes one. It may be moved as long as no CPU uses it, and is shared by
/// reference from then on.
pub struct Space<'a, P: Platform> {
    root: Root,
    id: u64,
    pub(crate) cookie: P::Word,
    pub(crate) pins: P::Word,
    pub(crate) generation: P::Word,
    latest: Latest<P::Word>,
    pub(crate) residents: CpuSet<'a, P::Word>,
}

/// What a change to page tables obliges every CPU to forget that holds the old translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debt {
    /// Last-level entries for these addresses, at the page size of the range.
    Pages(VaRange),
    /// Everything: larger changes, other page sizes, and whenever a page table was freed.
    Everything,
}

impl<'a, P: Platform> Space<'a, P> {
    pub(crate) fn new(root: Root, id: u64, residents: CpuSet<'a, P::Word>) -> Self {
        Self {
            root,
            id,
            cookie: P::Word::ZERO,
            pins: P::Word::ZERO,
            generation: P::Word::ZERO,
            latest: Latest { generation: P::Word::ZERO, range: P::Word::ZERO },
            residents,
        }
    }

    /// The top tables.
    #[must_use]
    #[inline]
    pub const fn root(&self) -> Root {
        self.root
    }

    /// The identifier of this space, which no other space of the same [`crate::Tlb`] has had or
    /// will have.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The tag that the space was last given by [`crate::Epochs`], and in which epoch.
    #[must_use]
    pub fn cookie(&self) -> Cookie {
        Cookie::from_bits(self.cookie.load(Ordering::Relaxed)) // Relaxed: a snapshot for people.
    }

    /// The word in which the strategy keeps the tag of this space. For strategies; in it
    /// [`crate::Epochs`] keeps a [`Cookie`], and [`crate::Recent`] keeps nothing.
    #[must_use]
    pub const fn tag_word(&self) -> &P::Word {
        &self.cookie
    }

    /// The CPUs that may hold translations of this space.
    #[must_use]
    pub const fn residents(&self) -> &CpuSet<'a, P::Word> {
        &self.residents
    }

    /// How many flushes were ever owed on this space.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed) // Relaxed: a snapshot for people.
    }

    /// Records that every CPU that holds translations of this space owes a flush, and returns the
    /// generation that a CPU has reached when it has paid.
    ///
    /// Call it *after* the page-table entries are written. It waits for nobody: CPUs that do not
    /// run the space pay before they load its root again, and those that run it must be told
    /// ([`crate::Tlb::debtors`] names them).
    pub fn owe(&self, debt: Debt) -> u64 {
        // FENCE F-OWE (pairs with F-JOIN, F-RESUME): the stores to the page table, and then the generation,
        // are visible before the caller reads who runs the space. A CPU whose joining this reader
        // misses reads the new generation and pays by itself.
        let generation = self.generation.fetch_add(1, Ordering::SeqCst) + 1;
        self.record(generation, debt);
        generation
    }

    /// What a CPU that paid up to generation `paid` owes now that it is `now`.
    pub(crate) fn owed(&self, paid: u64, now: u64) -> Option<Debt> {
        if paid >= now {
            return None;
        }
        // Two or more flushes were missed: their ranges are not all known.
        if paid + 1 < now {
            return Some(Debt::Everything);
        }
        // ORDER O-LATEST-READ (pairs with O-LATEST-WRITE, O-LATEST-BUSY): the range is that of `generation` if the
        // generation was there before it was read and still is afterwards.
        if self.latest.generation.load(Ordering::Acquire) != now {
            return Some(Debt::Everything);
        }
        let range = self.latest.range.load(Ordering::Acquire); // O-LATEST-READ
        if self.latest.generation.load(Ordering::Relaxed) != now {
            return Some(Debt::Everything); // Relaxed: ordered by the Acquire load of `range`.
        }
        Some(unpack(range))
    }

    /// Whether `cpu` may hold translations of the space.
    #[inline]
    pub(crate) fn has_resident(&self, cpu: CpuId) -> bool {
        // Relaxed: once set the bit stays, and reading an old value only sets it again.
        self.residents.contains(cpu, Ordering::Relaxed)
    }

    /// Adds `cpu` to those that may hold translations of the space.
    pub(crate) fn reside(&self, cpu: CpuId) {
        // ORDER O-RESIDE (pairs with O-DEBTORS): before the CPU loads the root. A revoker that does
        // not see the mark has written the tables before the first walk of them here.
        self.residents.insert(cpu, Ordering::SeqCst);
    }

    /// Leaves a note of the latest flush, unless another flusher is just writing one.
    fn record(&self, generation: u64, debt: Debt) {
        let note = &self.latest;
        // Relaxed: whoever loses the race writes nothing, and readers fall back to everything.
        let last = note.generation.load(Ordering::Relaxed);
        if last == BUSY || last > generation {
            return;
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
            note.range.store(pack(debt), Ordering::Release);
            note.generation.store(generation, Ordering::Release); // O-LATEST-WRITE
        }
    }
}

/// The largest number of pages that one note can name.
const MAX_NOTED: u64 = (1 << 12) - 1;

/// Page number above page count. Only base pages fit; anything else is "everything".
const fn pack(debt: Debt) -> u64 {
    match debt {
        Debt::Pages(range) if range.page_shift() == 12 && range.pages() <= MAX_NOTED => {
            (range.start() & !0xfff) | range.pages()
        }
        _ => 0,
    }
}

fn unpack(note: u64) -> Debt {
    let pages = note & MAX_NOTED;
    match VaRange::new(note & !0xfff, pages << 12, 12) {
        Ok(range) => Debt::Pages(range),
        Err(_) => Debt::Everything,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive_the_packing() {
        for (start, pages) in [(0, 1), (0x7fff_ffff_f000, 1), (0x1000, 33), (1 << 40, MAX_NOTED)] {
            let debt = Debt::Pages(VaRange::new(start, pages << 12, 12).unwrap());
            assert_eq!(unpack(pack(debt)), debt);
        }
    }

    #[test]
    fn what_does_not_fit_a_note_is_everything() {
        let many = VaRange::new(0, (MAX_NOTED + 1) << 12, 12).unwrap();
        let large = VaRange::new(0, 1 << 21, 21).unwrap();
        for debt in [Debt::Everything, Debt::Pages(many), Debt::Pages(large)] {
            assert_eq!(unpack(pack(debt)), Debt::Everything);
        }
    }
}
