//! The kernel, its spaces and their tables: how they are built, and what an act does.

use core::cell::UnsafeCell;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Platform as _, Tlb,
    arch::{Mmu, Root, SeparateRoots},
    platform::{CpuId, Ordering, Word as _},
    tags::{Switched, Tags},
};
use lookaside_machine::adversary::{
    Access, Frame, Platform, Word, access, access_store, as_cpu, irq_off, irq_on, name, oracle,
    relax, saw, tables,
};

use super::{Act, Described, kind::Shape};

pub(super) type At<'h, M, T> = &'h CurrentCpu<'h, Platform<M>, T>;

/// The pages that every space maps, below one table.
pub(super) const PAGES: [u64; 2] = [0x1000, 0x2000];

/// What the kernel's own root maps at the address of the first page.
const KERNEL_PAGE: Frame = Frame(14);
/// What the foreign root maps there.
pub(super) const FOREIGN_PAGE: Frame = Frame(15);

/// A page that only the kernel's tables map, where there are any beside user mode's.
pub(super) const KERNEL: u64 = 0x1_0000;
pub(super) const KERNEL_FRAME: Frame = Frame(0x600);

/// A page that the kernel's tables and user mode's map at the same address, for the trampoline: a trap frame.
pub(super) const TRAP: u64 = 0x2_0000;
pub(super) const TRAP_FRAME: Frame = Frame(0x601);

/// A space, its tables and what lies below them.
pub(super) struct Pair<M: Mmu + 'static> {
    space: UnsafeCell<AddressSpace<Platform<M>>>,
    /// The table that the library is given, and user mode's if that is another.
    pub(super) roots: Vec<Frame>,
    pub(super) frames: [Frame; 2],
    pub(super) entries: [&'static Word; 2],
    pub(super) last_table: Frame,
}

impl<M: Mmu + 'static> Pair<M> {
    pub(super) fn space(&self) -> &AddressSpace<Platform<M>> {
        // SAFETY: the only exclusive reference is that of `World::release`, when no script uses the space
        // any more.
        unsafe { &*self.space.get() }
    }
}

/// The trap frame of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Trap {
    /// The entry that maps it.
    pub(super) entry: &'static Word,
    /// The table of that entry, and the root of the kernel's that names the table; so do those of all spaces.
    pub(super) table: Frame,
    pub(super) root: Frame,
}

impl Trap {
    /// Maps it below `root` and those of all spaces.
    fn new<M: Mmu>(root: Frame, pairs: &[Pair<M>]) -> Self {
        let table = tables::allocate();
        for &root in pairs.iter().flat_map(|pair| &pair.roots).chain([&root]) {
            // Relaxed: the world is being built.
            tables::entry(root, TRAP, 1).store(tables::table(table), Ordering::Relaxed);
        }
        tables::map(root, TRAP, TRAP_FRAME, Access::WRITE);
        Self { entry: tables::pte(root, TRAP), table, root }
    }
}

/// What the CPUs share.
pub(in crate::scenario) struct World<M: Mmu + 'static, T: Tags<Platform<M>> + 'static> {
    pub(super) kind: Described<M, T>,
    pub(super) tlb: Tlb<'static, Platform<M>, T>,
    pub(super) pairs: Vec<Pair<M>>,
    /// Which space each CPU runs, plus one. Private to the CPU.
    runs: Vec<Word>,
    /// Whether it is in user mode. Private to the CPU.
    pub(super) out: Vec<Word>,
    /// What the trampoline writes at a trap. Private to the CPU.
    pub(super) way_in: Vec<Word>,
    /// Whether a CPU has signalled.
    signal: Word,
    pub(super) foreign: Frame,
    /// The entry of the page that only the kernel has, if the scripts unmap it.
    pub(super) kernel: Option<&'static Word>,
    /// The trap frame, if the scripts unmap it.
    pub(super) trap: Option<Trap>,
    /// Storage for the batch of each space.
    pub(super) batch_words: Vec<UnsafeCell<Word>>,
}

impl<M: SeparateRoots + 'static, T: Tags<Platform<M>> + 'static> World<M, T> {
    pub(super) fn new(
        kind: Described<M, T>,
        cpus: usize,
        spaces: usize,
        [has_kernel, has_trap]: [bool; 2],
    ) -> Self {
        let reserved = if kind.shape == Shape::OwnRoot {
            let own = tables::allocate();
            tables::map(own, PAGES[0], KERNEL_PAGE, Access::WRITE);
            own
        } else {
            tables::allocate_reserved()
        };
        let foreign = tables::allocate();
        tables::map(foreign, PAGES[0], FOREIGN_PAGE, Access::WRITE);
        let platform = Platform::new((kind.mmu)(reserved).expect("hardware"));
        let tags = (kind.tags)(&platform).expect("tags");
        let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("storage that is large enough");
        let pairs: Vec<_> =
            (0..spaces).map(|number| Self::pair(kind.shape, &tlb, number)).collect();
        let kernel = has_kernel.then(|| {
            let access = Access { global: kind.shape == Shape::TwoTags, ..Access::WRITE };
            tables::map(reserved, KERNEL, KERNEL_FRAME, access);
            let table = tables::entry(reserved, KERNEL, 1).peek();
            if kind.shape != Shape::OwnRoot {
                for pair in &pairs {
                    // Relaxed: the world is being built.
                    tables::entry(pair.roots[0], KERNEL, 1).store(table, Ordering::Relaxed);
                }
            }
            tables::pte(reserved, KERNEL)
        });
        let trap = has_trap.then(|| Trap::new(reserved, &pairs));
        let words = || (0..cpus).map(|_| Word::ZERO).collect();
        let (runs, out, way_in) = (words(), words(), words());
        let batch_words = (0..spaces).map(|_| UnsafeCell::new(Word::ZERO)).collect();
        let signal = Word::ZERO;
        let world = Self {
            kind,
            tlb,
            pairs,
            runs,
            out,
            way_in,
            signal,
            foreign,
            kernel,
            trap,
            batch_words,
        };
        for cpu in 0..cpus {
            as_cpu(CpuId(cpu as u32), || {
                (kind.set_up)(world.tlb.platform().mmu());
                world.tlb.online(&(), &(kind.features)()).expect("a CPU that fits");
            });
        }
        world
    }

    fn pair(shape: Shape, tlb: &Tlb<'static, Platform<M>, T>, number: usize) -> Pair<M> {
        let count = if shape == Shape::TwoTables { 2 } else { 1 };
        let roots: Vec<_> = (0..count).map(|_| tables::allocate()).collect();
        let last_table = tables::allocate();
        for &root in &roots {
            // Relaxed: the world is being built.
            tables::word(root, 0).store(tables::table(last_table), Ordering::Relaxed);
        }
        // Low numbers have contents, which user code can store to.
        let frames = [0, 1].map(|page| Frame(1 + 2 * number as u64 + page));
        for (va, frame) in PAGES.into_iter().zip(frames) {
            tables::map(roots[0], va, frame, Access::WRITE);
        }
        let residents = Box::new([Word::ZERO]);
        let root = Root { table: roots[0].0 << 12, user_table: roots[count - 1].0 << 12 };
        let space = UnsafeCell::new(tlb.space(root, residents).expect("a space"));
        let entries = PAGES.map(|va| tables::pte(roots[0], va));
        Pair { space, roots, frames, entries, last_table }
    }

    pub(super) fn name_words(&'static self) {
        for (number, pair) in self.pairs.iter().enumerate() {
            let letter = char::from(b'A' + number as u8);
            for (page, entry) in pair.entries.into_iter().enumerate() {
                name(entry, format!("{letter}.pte{page}"));
            }
        }
    }

    pub(super) fn this_cpu(&self) -> CurrentCpu<'_, Platform<M>, T> {
        self.tlb.this_cpu(&())
    }

    /// The space that the calling CPU runs.
    pub(super) fn own(&self, this_cpu: At<'_, M, T>) -> &Pair<M> {
        &self.pairs[self.runs[this_cpu.id().index()].get() as usize - 1]
    }

    pub(super) fn act(&self, act: Act) {
        irq_off();
        let this_cpu = self.this_cpu();
        match act {
            Act::Run(number) => {
                let switched = this_cpu.switch(self.pairs[number].space());
                if switched == Switched::RolledOver {
                    saw("a rollover");
                }
                self.runs[this_cpu.id().index()].set(number as u64 + 1);
                oracle::wakes();
            }
            Act::Lazy => {
                oracle::rests();
                this_cpu.lazy();
            }
            Act::Park => {
                oracle::rests();
                let _ = this_cpu.park();
            }
            Act::Firmware => self.call_firmware(),
            // Release: it comes after what this CPU did.
            Act::Signal => self.signal.store(1, Ordering::Release),
            Act::Await => self.wait(),
            Act::Release(number) => self.release(&this_cpu, number),
            Act::Visit => {
                let own = self.own(&this_cpu).frames[0];
                self.visit(&this_cpu, || {
                    reaches(own, access(PAGES[0]));
                    self.touch_trap();
                    let separate = [Shape::TwoTables, Shape::OwnRoot].contains(&self.kind.shape);
                    if self.kernel.is_some() && separate {
                        let hidden = access(KERNEL).is_none();
                        oracle::check(hidden, "user mode reaches a page of the kernel's");
                    }
                });
            }
            Act::Write => {
                let own = self.own(&this_cpu).frames[0];
                self.visit(&this_cpu, || reaches(own, access_store(PAGES[0], 1)));
            }
            Act::Copy => {
                let user = self.own(&this_cpu).frames[0];
                irq_on();
                reaches(
                    if self.kind.shape == Shape::OwnRoot { KERNEL_PAGE } else { user },
                    access(PAGES[0]),
                );
                if self.kernel.is_some() {
                    reaches(KERNEL_FRAME, access(KERNEL));
                }
                self.touch_trap();
                irq_off();
            }
            Act::Early(number) => self.unmap_early(&this_cpu, number),
            Act::Batch(number) => self.batch(&this_cpu, number),
            Act::UnmapKernel => self.unmap_kernel(&this_cpu),
            Act::UnmapTrap => self.unmap_trap(&this_cpu, false),
            Act::FreeTrapTable => self.unmap_trap(&this_cpu, true),
            Act::Unmap(number, page) => self.unmap(&this_cpu, number, page),
            Act::Protect(number) => self.protect(&this_cpu, number),
            Act::FreeTable(number) => self.free_table(&this_cpu, number),
            Act::Clear(number) => self.clear(&this_cpu, number),
        }
        irq_on();
    }

    fn wait(&self) {
        // Acquire: what is done after it comes after what the other CPU did before.
        while self.signal.load(Ordering::Acquire) == 0 {
            irq_on();
            relax();
            irq_off();
        }
    }

    fn release(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let runs = &self.runs[this_cpu.id().index()];
        if runs.get() == number as u64 + 1 {
            runs.set(0); // Its thread was the last one.
        }
        // SAFETY: no script uses the space from here on.
        let _ = this_cpu.release(unsafe { &mut *pair.space.get() });
        pair.frames.into_iter().for_each(oracle::frame_freed);
        pair.roots.iter().copied().chain([pair.last_table]).for_each(oracle::table_freed);
    }

    /// Reads the trap frame, in either mode.
    fn touch_trap(&self) {
        if self.trap.is_some() {
            reaches(TRAP_FRAME, access(TRAP));
        }
    }
}

/// Fails unless an access that may fault has reached no page but `frame`.
pub(super) fn reaches(frame: Frame, reached: Option<Frame>) {
    let fits = reached.is_none_or(|reached| reached == frame);
    oracle::check(fits, "an access reaches a page of another root");
}
