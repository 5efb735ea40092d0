//! A kernel in miniature: spaces, a shootdown by interrupt, and the oracle told of every promise.

use core::cell::UnsafeCell;

use lookaside::{
    Cpu, CpuId, Error, Gather, Here, Ordering, Platform as _, Released, Space, Tags, Tlb, VaRange,
    Word as _, arch::Root,
};
use lookaside_machine::adversary::{
    Access, Frame, Platform, Word, access, as_cpu, irq_off, irq_on, leak, name, oracle, relax,
    tables,
};

use super::{act::Act, hardware::Hardware};

/// The pages that every space maps.
const PAGES: [u64; 2] = [0x1000, 0x2000];

/// What a strategy can do beyond [`Tags`].
pub(super) trait Strategy<P: lookaside::Platform>: Tags<P> + 'static {
    /// Gives the numbers that prove freshness to the oracle, after `here` switched to `space`.
    fn witness(here: &Here<'_, P, Self>, space: &Space<'_, P>);

    /// How far an execution came, for [`lookaside_machine::adversary::outcome`].
    fn progress(&self) -> u64;

    /// Pins the tag of a space.
    ///
    /// # Errors
    ///
    /// What the library says.
    fn pin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<(), Error>;

    /// Unpins it.
    ///
    /// # Errors
    ///
    /// What the library says.
    fn unpin(here: &Here<'_, P, Self>, space: &Space<'_, P>) -> Result<(), Error>;
}

/// The platform of a kind of hardware.
pub(super) type PlatformOf<H> = Platform<<H as Hardware>::Mmu>;

/// What the CPUs of a scenario share.
pub(super) struct World<H: Hardware, T: Strategy<PlatformOf<H>>> {
    tlb: Tlb<'static, PlatformOf<H>, T>,
    spaces: Vec<SpaceCell<PlatformOf<H>>>,
    firmware: Frame,
    /// Which space each CPU runs, plus one. Private to the CPU.
    runs: Vec<Word>,
    /// Whether a CPU has told.
    told: Word,
}

/// A space, its pages and its tables.
struct SpaceCell<P: lookaside::Platform<Word = Word>> {
    space: UnsafeCell<Space<'static, P>>,
    root: Frame,
    frames: [Frame; 2],
    /// The last-level entries. Looked up once: a CPU of a real kernel would hold a lock that keeps
    /// others from unlinking the table under its hands.
    entries: [&'static Word; 2],
    /// The table whose entries map the pages.
    last_table: Frame,
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> World<H, T> {
    /// A world with `cpus` CPUs that are up and parked, and `spaces` spaces that never ran.
    ///
    /// # Panics
    ///
    /// If the library refuses what the scenario asks for.
    pub(super) fn new(
        cpus: usize,
        spaces: usize,
        tags: impl FnOnce(&PlatformOf<H>) -> Result<T, Error>,
    ) -> Self {
        let platform = Platform::new(H::mmu(tables::allocate_reserved()).expect("hardware"));
        let tags = tags(&platform).expect("tags");
        let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("books");
        let firmware = tables::allocate();
        tables::map(firmware, PAGES[0], Frame(0x500), Access::WRITE);
        let spaces = (0..spaces).map(|number| SpaceCell::new(&tlb, number)).collect();
        let runs = (0..cpus).map(|_| Word::ZERO).collect();
        let world = Self { tlb, spaces, firmware, runs, told: Word::ZERO };
        for cpu in 0..cpus {
            as_cpu(CpuId(cpu as u32), || {
                H::set_up(world.tlb.platform().mmu());
                world.here().online(&H::features()).expect("a CPU like the others");
            });
        }
        world
    }

    /// Names the words of the world for reports. The world stays where it is from here on.
    pub(super) fn name_words(&'static self) {
        for (number, cell) in self.spaces.iter().enumerate() {
            let letter = char::from(b'A' + number as u8);
            name(self.space(number).tag_word(), format!("{letter}.cookie"));
            for (page, entry) in cell.entries.into_iter().enumerate() {
                name(entry, format!("{letter}.pte{page}"));
            }
        }
    }

    /// How far an execution came.
    pub(super) fn progress(&self) -> u64 {
        self.tlb.tags().progress()
    }

    /// Does one act on the CPU that runs.
    pub(super) fn act(&'static self, act: Act) {
        irq_off();
        let here = self.here();
        match act {
            Act::Run(number) => {
                let space = self.space(number);
                let _ = here.switch(space);
                self.runs[here.id().index()].set(number as u64 + 1);
                oracle::wakes();
                T::witness(&here, space);
            }
            Act::Lazy => {
                oracle::rests();
                here.lazy();
            }
            Act::Park => {
                let _ = here.park();
                self.runs[here.id().index()].set(0);
            }
            Act::Firmware => self.call_firmware(here),
            Act::Restart => {
                here.offline();
                H::set_up(here.mmu());
                self.runs[here.id().index()].set(0);
                told(here.online(&H::features()));
            }
            Act::Release(number) => self.release(&here, number),
            Act::Pin(number) => told(T::pin(&here, self.space(number))),
            Act::Unpin(number) => told(T::unpin(&here, self.space(number))),
            // Release and Acquire: what was done before is seen by those who waited.
            Act::Tell => self.told.store(1, Ordering::Release),
            Act::Await => {
                while self.told.load(Ordering::Acquire) == 0 {
                    relax();
                }
            }
            Act::Unmap(number) => self.unmap(&here, number, 0),
            Act::UnmapOther(number) => self.unmap(&here, number, 1),
            Act::FreeTable(number) => self.free_table(&here, number),
        }
        irq_on();
    }

    /// The handler of the interrupt that a revoker sends.
    pub(super) fn interrupt(&'static self) {
        self.here().serve();
    }

    fn here(&self) -> Here<'_, PlatformOf<H>, T> {
        // SAFETY: interrupts are off in every act and handler, and a program never moves.
        unsafe { self.tlb.here() }.expect("every CPU has storage")
    }

    fn space(&self, number: usize) -> &Space<'static, PlatformOf<H>> {
        // SAFETY: scripts release a space only when no other CPU uses it.
        unsafe { &*self.spaces[number].space.get() }
    }

    fn call_firmware(&self, mut here: Here<'_, PlatformOf<H>, T>) {
        let root = Root::new(self.firmware.0 << 12);
        // SAFETY: the firmware's tables are like any space's.
        match unsafe { here.borrow(root) } {
            Ok(borrowed) => drop(borrowed),
            Err(error) => oracle::fail(error.to_string()),
        }
        // Nothing of the firmware's is left, and the CPU runs what it ran.
        let own = match self.runs[here.id().index()].get() {
            0 => None,
            number => Some(self.spaces[number as usize - 1].frames[0]),
        };
        let found = access(PAGES[0]);
        oracle::check(found.is_none() || found == own, "firmware left its root behind");
    }

    fn release(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize) {
        let cell = &self.spaces[number];
        let cookie = self.space(number).tag_word().peek();
        // SAFETY: scripts release a space only when no other CPU uses it.
        let released = here.release(unsafe { &mut *cell.space.get() });
        // A CPU that only just went elsewhere may still be seen; a kernel tries again.
        if released == Ok(Released::AtOnce) && cookie != 0 {
            oracle::identity_ended("cookie", cookie);
        }
    }

    fn unmap(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize, page: usize) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        // Release: who finds the entry empty knows of the gather.
        cell.entries[page].store(0, Ordering::Release);
        gather.revoke(VaRange::new(PAGES[page], 4096, 12).expect("one page"));
        let held = gather.hold_page(cell.frames[page]);
        oracle::frame_freed(released(held.release(&here.flush(gather))));
    }

    fn free_table(&self, here: &Here<'_, PlatformOf<H>, T>, number: usize) {
        let cell = &self.spaces[number];
        let mut gather = Gather::new(self.space(number));
        // Release: as above.
        tables::entry(cell.root, PAGES[0], 1).store(0, Ordering::Release);
        gather.unlink_table(VaRange::new(PAGES[0], 2 * 4096, 12).expect("two pages"));
        let (pages, table) = (gather.hold_page(cell.frames), gather.hold_table(cell.last_table));
        let flushed = here.flush(gather);
        for frame in released(pages.release(&flushed)) {
            oracle::frame_freed(frame);
        }
        oracle::table_freed(released(table.release(&flushed)));
    }
}

fn released<T, H>(result: Result<T, (H, Error)>) -> T {
    result.map_err(|(_, error)| error).expect("the proof is that of the gather")
}

impl<P: lookaside::Platform<Word = Word>> SpaceCell<P> {
    fn new<T: Tags<P>>(tlb: &Tlb<'static, P, T>, number: usize) -> Self {
        let (root, last_table) = (tables::allocate(), tables::allocate());
        // Relaxed: the world is being built.
        tables::word(root, 0).store(tables::table(last_table), Ordering::Relaxed);
        let frames = [0, 1].map(|page| Frame(0x100 + 2 * number as u64 + page));
        for (va, frame) in PAGES.into_iter().zip(frames) {
            tables::map(root, va, frame, Access::WRITE);
        }
        let entries = PAGES.map(|va| tables::pte(root, va));
        let residents = Vec::leak((0..1).map(|_| Word::ZERO).collect());
        // SAFETY: the adversary walks these tables, and they are tables of its format.
        let space = unsafe { tlb.space(Root::new(root.0 << 12), residents) }.expect("a space");
        Self { space: UnsafeCell::new(space), root, frames, entries, last_table }
    }
}

/// A refusal that no script provokes is a failure.
fn told(result: Result<(), Error>) {
    if let Err(error) = result {
        oracle::fail(error.to_string());
    }
}

/// Keeps a world for ever.
pub(super) fn keep<H: Hardware, T: Strategy<PlatformOf<H>>>(
    world: World<H, T>,
) -> &'static World<H, T> {
    let world = leak(world);
    world.name_words();
    world
}
