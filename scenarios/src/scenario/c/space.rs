//! A space of such a kernel: its struct, its tables and what they map.

use core::{cell::UnsafeCell, mem::MaybeUninit};

use lookaside::platform::{Ordering, Word as _};
use lookaside_c::{Instance, Machine, Space};
use lookaside_machine::adversary::{Access, Frame, Word, leak, name, tables};

/// The pages that every space maps, below one table.
pub(super) const PAGES: [u64; 2] = [0x1000, 0x2000];
/// Where a page is mapped that was not there.
pub(super) const FILLED: u64 = 0x4000;
/// A page of the kernel's, below a table that all roots share.
pub(super) const KERNEL: u64 = 0x1_0000;
/// A large page, in an entry of the table above.
pub(super) const LARGE: u64 = 0x2_0000;
/// The binary logarithm of its size.
pub(super) const LARGE_SHIFT: u32 = 16;

/// A space.
pub(super) struct Cell<I: Instance> {
    /// What C has as `struct lookaside_space`.
    pub(super) space: &'static UnsafeCell<MaybeUninit<Space<I>>>,
    pub(super) root: Frame,
    pub(super) last_table: Frame,
    pub(super) frames: [Frame; 2],
    pub(super) entries: [&'static Word; 2],
    pub(super) large: Frame,
    pub(super) large_entry: &'static Word,
    pub(super) filled: &'static Word,
}

impl<I: Instance<Platform: lookaside::Platform<Word = Word>>> Cell<I> {
    pub(super) fn new(machine: &'static Machine<I>, number: usize, kernel: u64) -> Self {
        let (root, last_table) = (tables::allocate(), tables::allocate());
        // Relaxed: the world is being built.
        tables::word(root, 0).store(tables::table(last_table), Ordering::Relaxed);
        share_kernel(root, kernel);
        // Low numbers have contents, which user code can store to.
        let frames = [0, 1].map(|page| Frame(1 + 2 * number as u64 + page));
        for (va, frame) in PAGES.into_iter().zip(frames) {
            tables::map(root, va, frame, Access::WRITE);
        }
        let large = Frame(0x800 + 16 * number as u64);
        tables::map_block(root, LARGE, 1, large, Access::WRITE);
        let space = leak(UnsafeCell::new(MaybeUninit::zeroed()));
        let cell = Self {
            space,
            root,
            last_table,
            frames,
            entries: PAGES.map(|va| tables::pte(root, va)),
            large,
            large_entry: tables::entry(root, LARGE, 1),
            filled: tables::pte(root, FILLED),
        };
        // SAFETY: the struct is this cell's.
        let made = unsafe { machine.space_init(cell.at(), root.0 << 12, 0) };
        assert_eq!(made, 0, "{:?}", lookaside_c::error::sentence(made));
        let letter = char::from(b'A' + number as u8);
        for (page, entry) in cell.entries.into_iter().enumerate() {
            name(entry, format!("{letter}.pte{page}"));
        }
        cell
    }

    /// What C passes.
    pub(super) fn at(&self) -> *mut Space<I> {
        self.space.get().cast()
    }
}

/// The kernel's page: the top-level entry that every root has, and the page's own.
pub(super) fn kernel() -> (u64, &'static Word) {
    let top = tables::allocate();
    tables::map(top, KERNEL, Frame(0x600), Access::GLOBAL);
    (tables::entry(top, KERNEL, 1).peek(), tables::pte(top, KERNEL))
}

/// Has a root map the kernel.
pub(super) fn share_kernel(root: Frame, kernel: u64) {
    // Relaxed: the world is being built.
    tables::word(root, (KERNEL >> 16) as usize).store(kernel, Ordering::Relaxed);
}
