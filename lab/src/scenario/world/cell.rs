//! A space of a scenario: its pages and its tables.

use core::cell::UnsafeCell;

use lookaside::{Ordering, Space, Tags, Tlb, VaRange, Word as _, arch::Root};
use lookaside_machine::adversary::{Access, Flags, Frame, Word, name, tables};

/// The pages that every space maps.
pub(super) const PAGES: [u64; 2] = [0x1000, 0x2000];
/// Where a page is moved to.
pub(super) const ELSEWHERE: u64 = 0x3000;
/// A page of the kernel's, below a table that all roots share.
pub(super) const KERNEL: u64 = 0x1_0000;

/// A large page, in an entry of the table above.
const LARGE: u64 = 0x2_0000;
/// How many pages it is as large as.
const LARGE_PAGES: u64 = 16;

/// The range of the large page, in pages of the smallest size.
pub(super) fn large() -> VaRange {
    VaRange::new(LARGE, LARGE_PAGES * 4096, 12).expect("whole pages")
}

/// The range of one page.
pub(super) fn page_at(va: u64) -> VaRange {
    VaRange::new(va, 4096, 12).expect("one page")
}

/// A space, its pages and its tables.
pub(super) struct SpaceCell<P: lookaside::Platform<Word = Word>> {
    pub(super) space: UnsafeCell<Space<'static, P>>,
    pub(super) root: Frame,
    pub(super) frames: [Frame; 2],
    /// The last-level entries. Looked up once: a CPU of a real kernel would hold a lock that keeps
    /// others from unlinking the table under its hands.
    pub(super) entries: [&'static Word; 2],
    pub(super) elsewhere: &'static Word,
    /// The entry of the large page and its first frame, if there is one.
    pub(super) large: Option<(&'static Word, Frame)>,
    /// The table whose entries map the pages.
    pub(super) last_table: Frame,
}

impl<P: lookaside::Platform<Word = Word>> SpaceCell<P> {
    pub(super) fn new<T: Tags<P>>(
        tlb: &Tlb<'static, P, T>,
        number: usize,
        kernel: Option<u64>,
        has_large: bool,
    ) -> Self {
        let (root, last_table) = (tables::allocate(), tables::allocate());
        // Relaxed: the world is being built.
        tables::word(root, 0).store(tables::table(last_table), Ordering::Relaxed);
        share_kernel(root, kernel);
        // Low numbers have contents, which user code can store to.
        let frames = [0, 1].map(|page| Frame(1 + 2 * number as u64 + page));
        for (va, frame) in PAGES.into_iter().zip(frames) {
            tables::map(root, va, frame, Access::WRITE);
        }
        let entries = PAGES.map(|va| tables::pte(root, va));
        let elsewhere = tables::pte(root, ELSEWHERE);
        let large = has_large.then(|| {
            let frame = Frame(0x800 + LARGE_PAGES * number as u64);
            tables::map_block(root, LARGE, 1, frame, Access::WRITE);
            (tables::entry(root, LARGE, 1), frame)
        });
        let residents = Vec::leak((0..1).map(|_| Word::ZERO).collect());
        // SAFETY: the adversary walks these tables, and they are tables of its format.
        let space = unsafe { tlb.space(Root::new(root.0 << 12), residents) }.expect("a space");
        Self { space: UnsafeCell::new(space), root, frames, entries, elsewhere, large, last_table }
    }

    /// Has hardware write the descriptor of the first page, which was not accessed so far.
    pub(super) fn note_accesses(&self) {
        let entry = self.entries[0];
        // Relaxed: the world is being built.
        entry.store(tables::with_flags(entry.peek(), Flags::NONE), Ordering::Relaxed);
        tables::hardware_writes(entry);
    }

    pub(super) fn name_words(&self, number: usize) {
        let letter = char::from(b'A' + number as u8);
        // SAFETY: the world is being built, and nobody else has the space.
        let space = unsafe { &*self.space.get() };
        // SAFETY: it is named.
        name(unsafe { space.tag_word() }, format!("{letter}.cookie"));
        for (page, entry) in self.entries.into_iter().enumerate() {
            name(entry, format!("{letter}.pte{page}"));
        }
        name(self.elsewhere, format!("{letter}.moved"));
    }
}

/// The kernel's page: the top-level entry that every root has.
pub(super) fn kernel() -> (u64, &'static Word) {
    let top = tables::allocate();
    tables::map(top, KERNEL, Frame(0x600), Access::GLOBAL);
    (tables::entry(top, KERNEL, 1).peek(), tables::pte(top, KERNEL))
}

/// Has a root map the kernel.
pub(super) fn share_kernel(root: Frame, kernel: Option<u64>) {
    if let Some(descriptor) = kernel {
        let index = (KERNEL >> 16) as usize;
        // Relaxed: the world is being built.
        tables::word(root, index).store(descriptor, Ordering::Relaxed);
    }
}
