//! A space of a scenario: its pages and its tables.

use core::cell::UnsafeCell;

use lookaside::{
    AddressSpace, Tlb, VaRange,
    arch::Root,
    platform::{CpuId, Ordering, Word as _},
    tags::{Residents, Tags},
};
use lookaside_machine::adversary::{Access, Flags, Frame, Word, name, tables};

use super::claims::{Pte, Writers};

/// The pages that every space maps.
pub(super) const PAGES: [u64; 2] = [0x1000, 0x2000];
/// Where a page is moved to.
pub(super) const ELSEWHERE: u64 = 0x3000;
/// Where one is mapped that was not there.
pub(super) const FILLED: u64 = 0x4000;
/// All of them: the slots of a space.
pub(super) const VAS: [u64; SLOTS] = [PAGES[0], PAGES[1], ELSEWHERE, FILLED];
/// How many there are.
pub(super) const SLOTS: usize = 4;
/// The kernel's pages, below a table that all roots share.
pub(super) const KERNEL: [u64; 2] = [0x1_0000, 0x1_1000];
/// What they map. The first has contents.
pub(super) const KERNEL_FRAMES: [Frame; 2] = [Frame(13), Frame(0x600)];
/// How many pages that table can map.
const KERNEL_PAGES: u64 = 16;

/// A page that each CPU maps to a frame of its own, where CPUs have top tables of their own.
pub(super) const OWN: u64 = 0x3_0000;
/// The frame of CPU 0 there; those of the others follow.
const OWN_FRAMES: u64 = 0x580;

/// What a CPU maps at [`OWN`].
pub(super) const fn own_frame(cpu: CpuId) -> Frame {
    Frame(OWN_FRAMES + cpu.0 as u64)
}

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

/// The range of the kernel's table.
pub(super) fn whole_kernel() -> VaRange {
    VaRange::new(KERNEL[0], KERNEL_PAGES * 4096, 12).expect("whole pages")
}

/// The range of all slots, which one table maps.
pub(super) fn all_pages() -> VaRange {
    VaRange::new(VAS[0], SLOTS as u64 * 4096, 12).expect("some pages")
}

/// A space, its pages and its tables.
pub(super) struct SpaceCell<P: lookaside::Platform<Word = Word>> {
    pub(super) space: UnsafeCell<AddressSpace<P>>,
    /// The top table, that of CPU 0 where each CPU has one.
    pub(super) root: Frame,
    /// How many top tables there are.
    tops: usize,
    pub(super) frames: [Frame; 2],
    /// The last-level entries. Looked up once: a CPU of a real kernel would hold a lock that keeps
    /// others from unlinking the table meanwhile.
    pub(super) entries: [Pte; SLOTS],
    /// What they hold in the beginning.
    pub(super) initial: [u64; SLOTS],
    /// Which CPUs change them.
    pub(super) writers: [Writers; SLOTS],
    /// The entry of the large page and its first frame, if there is one.
    pub(super) large: Option<(Pte, Frame)>,
    /// Which CPUs free the table whose entries map the pages, and that table.
    pub(super) takers: Writers,
    pub(super) last_table: Frame,
    /// How many CPUs have removed a page from each entry and not flushed it, where others might map a page
    /// meanwhile and must not.
    pub(super) busy: [Option<Word>; SLOTS],
    /// How many CPUs are busy with the space, where one may release it meanwhile.
    pub(super) users: Option<Word>,
}

impl<P: lookaside::Platform<Word = Word, Tables = Root, ResidentWords = Box<[Word]>>> SpaceCell<P> {
    pub(super) fn new<T: Tags<P>>(
        tlb: &Tlb<'static, P, T>,
        number: usize,
        kernel: Option<Kernel>,
        has_large: bool,
        tops: usize,
    ) -> Self {
        let root = tables::allocate();
        tables::one_for_each_cpu(root, tops);
        let last_table = tables::allocate();
        for cpu in (0..tops as u32).map(CpuId) {
            let top = tables::top(root, cpu);
            // Relaxed: the world is being built.
            tables::word(top, 0).store(tables::table(last_table), Ordering::Relaxed);
            if let Some(kernel) = kernel {
                kernel.share(top);
            }
            if tops > 1 {
                tables::map(top, OWN, own_frame(cpu), Access::WRITE);
            }
        }
        // Low numbers have contents, which user code can store to.
        let frames = [0, 1].map(|page| Frame(1 + 2 * number as u64 + page));
        for (va, frame) in PAGES.into_iter().zip(frames) {
            tables::map(root, va, frame, Access::WRITE);
        }
        let entries = VAS.map(|va| tables::pte(root, va));
        let large = has_large.then(|| {
            let frame = Frame(0x800 + LARGE_PAGES * number as u64);
            tables::map_block(root, LARGE, 1, frame, Access::WRITE);
            (tables::entry(root, LARGE, 1), frame)
        });
        let words = Residents::<Word>::words_for(64); // the most that a machine has
        let residents = (0..words).map(|_| Word::ZERO).collect();
        let space = tlb.space(Root::new(root.0 << 12), residents).expect("a space");
        Self {
            space: UnsafeCell::new(space),
            root,
            tops,
            frames,
            entries,
            initial: entries.map(Word::peek),
            writers: [Writers::Several; SLOTS],
            large,
            takers: Writers::Several,
            last_table,
            busy: [const { None }; SLOTS],
            users: None,
        }
    }

    /// The top tables of the CPUs.
    pub(super) fn tops(&self) -> impl Iterator<Item = Frame> {
        (0..self.tops as u32).map(|cpu| tables::top(self.root, CpuId(cpu)))
    }

    /// Has hardware write the descriptor of the first page, which was not accessed so far.
    pub(super) fn note_accesses(&mut self) {
        let entry = self.entries[0];
        // Relaxed: the world is being built.
        entry.store(tables::with_flags(entry.peek(), Flags::NONE), Ordering::Relaxed);
        tables::hardware_writes(entry);
        self.initial[0] = entry.peek();
    }

    pub(super) fn name_words(&self, number: usize) {
        let letter = char::from(b'A' + number as u8);
        // SAFETY: the world is being built, and no other CPU has the space.
        let space = unsafe { &*self.space.get() };
        // SAFETY: it is named.
        name(unsafe { space.tag_word() }, format!("{letter}.cookie"));
        for (entry, slot) in self.entries.into_iter().zip(["pte0", "pte1", "moved", "filled"]) {
            name(entry, format!("{letter}.{slot}"));
        }
        for (slot, busy) in self.busy.iter().enumerate() {
            if let Some(busy) = busy {
                name(busy, format!("{letter}.busy{slot}"));
            }
        }
        if let Some(users) = &self.users {
            name(users, format!("{letter}.users"));
        }
    }
}

/// The kernel's part of every space.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// The table that all roots share, and the entry of the top tables that names it.
    pub(super) table: Frame,
    descriptor: u64,
    /// The entries of its pages.
    pub(super) entries: [Pte; 2],
}

impl Kernel {
    pub(super) fn new() -> Self {
        let (top, table) = (tables::allocate(), tables::allocate());
        let descriptor = tables::table(table);
        // Relaxed: the world is being built.
        Self::entry_of(top).store(descriptor, Ordering::Relaxed);
        for (va, frame) in KERNEL.into_iter().zip(KERNEL_FRAMES) {
            tables::map(top, va, frame, Access::GLOBAL);
        }
        Self { table, descriptor, entries: KERNEL.map(|va| tables::pte(top, va)) }
    }

    /// Has a root map the kernel.
    pub(super) fn share(&self, root: Frame) {
        // Relaxed: the world is being built.
        Self::entry_of(root).store(self.descriptor, Ordering::Relaxed);
    }

    /// The entry of a top table that names the kernel's table.
    pub(super) fn entry_of(root: Frame) -> Pte {
        tables::word(root, (KERNEL[0] >> 16) as usize)
    }
}
