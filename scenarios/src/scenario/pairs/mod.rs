//! Scenarios of kernels that run user mode under another root or tag than themselves: a trampoline writes
//! the root register at the exit to user mode and at a trap from it.
//!
//! What is of interest is what a CPU holds under the tag that its root register does *not* name: under user
//! mode's while the kernel flushes, and under the kernel's while user code runs. The oracle takes neither
//! for an offence until a root is loaded that lets it be used. And neither mode may reach a page of the
//! other's root.

mod kind;

use core::cell::UnsafeCell;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, KernelGather, Platform as _, Tlb, VaRange,
    arch::{Mmu, Root, SeparateRoots},
    flush::{Acknowledged, Batch, Flushed},
    platform::{CpuId, Ordering, Word as _},
    tags::{Switched, Tags},
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Platform, Scenario, Word, access, access_store, as_cpu, irq_off, irq_on,
    leak, milestone, name, oracle, outcome, relax, saw, tables,
};

use self::kind::Shape;
pub(super) use self::kind::{
    Arm, ArmRecent, ArmShared, ArmSharedLast, ArmTtbr1, AtExit, AtExitNoInvpcid, Broadcast,
    Described, Kind, NoInvpcid, OnLoad, One, Rv, RvLast, RvPlain, RvRecent, RvSbi,
};

type At<'h, M, T> = &'h CurrentCpu<'h, Platform<M>, T>;

/// The pages that every space maps, below one table.
const PAGES: [u64; 2] = [0x1000, 0x2000];

/// What the kernel's own root maps at the address of the first page.
const KERNEL_PAGE: Frame = Frame(14);
/// What the foreign root maps there.
const FOREIGN_PAGE: Frame = Frame(15);

/// A page that only the kernel's tables map, where there are any beside user mode's.
const KERNEL: u64 = 0x1_0000;
const KERNEL_FRAME: Frame = Frame(0x600);

/// A page that the kernel's tables and user mode's map at the same address, for the trampoline: a trap frame.
const TRAP: u64 = 0x2_0000;
const TRAP_FRAME: Frame = Frame(0x601);

/// One act of a CPU's script. Spaces are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// Switch to a space, in the kernel.
    Run(usize),
    /// Run kernel code only, and leave the root register as it is.
    Lazy,
    /// Run no space.
    Park,
    /// Read the page under a foreign root, as in a call of firmware.
    Firmware,
    /// Tell the other CPUs that this one has come here.
    Signal,
    /// Wait until another CPU has signalled.
    Await,
    /// Release a space that no thread runs any more, and free its table.
    Release(usize),
    /// Leave for user mode, read the page, and come back.
    Visit,
    /// Leave for user mode, write to the page, and come back.
    Write,
    /// Read the page from the kernel, as a system call does.
    Copy,
    /// Unmap a page of a space, make everybody let go of it, and free the frame.
    Unmap(usize, usize),
    /// Make the first page of a space read-only.
    Protect(usize),
    /// Unlink the table of a space that maps both pages, and free it.
    FreeTable(usize),
    /// Unmap both pages of a space, make everybody let go of everything of it, and free the frames.
    Clear(usize),
    /// Unmap the first page of a space with early acknowledgement.
    Early(usize),
    /// Unmap both pages of a space in one batch, and free the frames.
    Batch(usize),
    /// Unmap the page that only the kernel has, flush it on all CPUs, and free the frame.
    UnmapKernel,
    /// Unmap the trap frame, flush it on all CPUs as an address of the kernel, and free it.
    UnmapTrap,
    /// The same, and the table that maps it.
    FreeTrapTable,
}

impl Act {
    /// The act of this name: about a space and one of its pages, where it is about any.
    pub(crate) fn named(name: &str, space: usize, page: usize) -> Option<Self> {
        Some(match name {
            "Run" => Self::Run(space),
            "Lazy" => Self::Lazy,
            "Park" => Self::Park,
            "Firmware" => Self::Firmware,
            "Signal" => Self::Signal,
            "Await" => Self::Await,
            "Release" => Self::Release(space),
            "Visit" => Self::Visit,
            "Write" => Self::Write,
            "Copy" => Self::Copy,
            "Unmap" => Self::Unmap(space, page),
            "Protect" => Self::Protect(space),
            "FreeTable" => Self::FreeTable(space),
            "Clear" => Self::Clear(space),
            "Early" => Self::Early(space),
            "Batch" => Self::Batch(space),
            "UnmapKernel" => Self::UnmapKernel,
            "UnmapTrap" => Self::UnmapTrap,
            "FreeTrapTable" => Self::FreeTrapTable,
            _ => return None,
        })
    }

    /// The space that it names.
    pub(crate) const fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Unmap(space, _)
            | Self::Protect(space)
            | Self::FreeTable(space)
            | Self::Clear(space)
            | Self::Early(space)
            | Self::Batch(space)
            | Self::Release(space) => Some(space),
            Self::Lazy
            | Self::Park
            | Self::Firmware
            | Self::Signal
            | Self::Await
            | Self::Visit
            | Self::Write
            | Self::UnmapKernel
            | Self::UnmapTrap
            | Self::FreeTrapTable
            | Self::Copy => None,
        }
    }
}

/// A space, its tables and what lies below them.
struct Pair<M: Mmu + 'static> {
    space: UnsafeCell<AddressSpace<Platform<M>>>,
    /// The table that the library is given, and user mode's if that is another.
    roots: Vec<Frame>,
    frames: [Frame; 2],
    entries: [&'static Word; 2],
    last_table: Frame,
}

impl<M: Mmu + 'static> Pair<M> {
    fn space(&self) -> &AddressSpace<Platform<M>> {
        // SAFETY: the only exclusive reference is that of `World::release`, when no script uses the space
        // any more.
        unsafe { &*self.space.get() }
    }
}

/// The trap frame of a kernel.
#[derive(Clone, Copy)]
struct Trap {
    /// The entry that maps it.
    entry: &'static Word,
    /// The table of that entry, and the root of the kernel's that names the table; so do those of all spaces.
    table: Frame,
    root: Frame,
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
pub(super) struct World<M: Mmu + 'static, T: Tags<Platform<M>> + 'static> {
    kind: Described<M, T>,
    tlb: Tlb<'static, Platform<M>, T>,
    pairs: Vec<Pair<M>>,
    /// Which space each CPU runs, plus one. Private to the CPU.
    runs: Vec<Word>,
    /// Whether it is in user mode. Private to the CPU.
    out: Vec<Word>,
    /// What the trampoline writes at a trap. Private to the CPU.
    way_in: Vec<Word>,
    /// Whether a CPU has signalled.
    signal: Word,
    foreign: Frame,
    /// The entry of the page that only the kernel has, if the scripts unmap it.
    kernel: Option<&'static Word>,
    /// The trap frame, if the scripts unmap it.
    trap: Option<Trap>,
    /// Storage for the batch of each space.
    batch_words: Vec<UnsafeCell<Word>>,
}

impl<M: SeparateRoots + 'static, T: Tags<Platform<M>> + 'static> World<M, T> {
    fn new(
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

    fn name_words(&'static self) {
        for (number, pair) in self.pairs.iter().enumerate() {
            let letter = char::from(b'A' + number as u8);
            for (page, entry) in pair.entries.into_iter().enumerate() {
                name(entry, format!("{letter}.pte{page}"));
            }
        }
    }

    fn this_cpu(&self) -> CurrentCpu<'_, Platform<M>, T> {
        self.tlb.this_cpu(&())
    }

    /// The space that the calling CPU runs.
    fn own(&self, this_cpu: At<'_, M, T>) -> &Pair<M> {
        &self.pairs[self.runs[this_cpu.id().index()].get() as usize - 1]
    }

    fn act(&self, act: Act) {
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

    /// Leaves for user mode and comes back. Interrupts are on there.
    fn visit(&self, this_cpu: At<'_, M, T>, run: impl FnOnce()) {
        self.leave(this_cpu);
        irq_on();
        run();
        irq_off();
        self.enter(this_cpu);
    }

    /// The last thing before user mode.
    fn leave(&self, this_cpu: At<'_, M, T>) {
        let (me, space) = (this_cpu.id().index(), self.own(this_cpu).space());
        self.out[me].set(1);
        self.way_in[me].set(this_cpu.kernel_root(space));
        (self.kind.write_root)(this_cpu.mmu(), this_cpu.user_root(space));
    }

    /// The first thing after it.
    fn enter(&self, this_cpu: At<'_, M, T>) {
        let me = this_cpu.id().index();
        (self.kind.write_root)(this_cpu.mmu(), self.way_in[me].get());
        self.out[me].set(0);
    }

    fn call_firmware(&self) {
        let foreign = Root::new(self.foreign.0 << 12);
        let called = self.this_cpu().with_root(&foreign, || {
            irq_on();
            reaches(FOREIGN_PAGE, access(PAGES[0]));
            irq_off();
        });
        called.expect("a root that fits");
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

    /// The handler of the interrupt that an initiator sends: it runs in the kernel's table.
    fn interrupt(&self) {
        let this_cpu = self.this_cpu();
        let was_out = self.out[this_cpu.id().index()].get() != 0;
        if was_out {
            self.enter(&this_cpu);
        }
        this_cpu.handle_ipi();
        if was_out {
            self.leave(&self.this_cpu());
        }
    }

    fn unmap(&self, this_cpu: At<'_, M, T>, number: usize, page: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        // Release: who finds the entry empty knows of the gather.
        pair.entries[page].store(0, Ordering::Release);
        gather.revoke(page_at(PAGES[page]));
        let _: Flushed = this_cpu.flush(gather);
        oracle::frame_freed(pair.frames[page]);
    }

    fn clear(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        for entry in pair.entries {
            entry.store(0, Ordering::Release); // Release: as above.
        }
        gather.revoke_everything();
        let _: Flushed = this_cpu.flush(gather);
        pair.frames.into_iter().for_each(oracle::frame_freed);
    }

    fn unmap_early(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        pair.entries[0].store(0, Ordering::Release); // Release: as above.
        gather.revoke(page_at(PAGES[0]));
        let _: Acknowledged = this_cpu.flush_early(gather);
        oracle::frame_quiet(pair.frames[0]);
    }

    fn batch(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        // SAFETY: a page goes once, so one CPU does this once in each execution, and what an execution has left behind
        // is not used by the next.
        let words = core::slice::from_mut(unsafe { &mut *self.batch_words[number].get() });
        let mut batch = Batch::new(&self.tlb, words).expect("room for the CPUs");
        for (entry, va) in pair.entries.into_iter().zip(PAGES) {
            let mut gather = Gather::new(pair.space());
            entry.store(0, Ordering::Release); // Release: as above.
            gather.revoke(page_at(va));
            this_cpu.defer(gather, &mut batch);
        }
        let _: Flushed = this_cpu.flush_batch(batch);
        pair.frames.into_iter().for_each(oracle::frame_freed);
    }

    fn unmap_kernel(&self, this_cpu: At<'_, M, T>) {
        // Relaxed: the flush makes it visible.
        self.kernel.expect("a page of the kernel's").store(0, Ordering::Relaxed);
        let mut gather = KernelGather::new(&self.tlb);
        gather.revoke(page_at(KERNEL));
        let _ = this_cpu.flush_kernel(gather);
        oracle::kernel_revoked(KERNEL);
        oracle::frame_freed(KERNEL_FRAME);
    }

    /// Reads the trap frame, in either mode.
    fn touch_trap(&self) {
        if self.trap.is_some() {
            reaches(TRAP_FRAME, access(TRAP));
        }
    }

    fn unmap_trap(&self, this_cpu: At<'_, M, T>, table: bool) {
        let trap = self.trap.expect("a trap frame");
        let mut gather = KernelGather::new(&self.tlb);
        // Relaxed: the flush makes it visible.
        if table {
            let spaces = self.pairs.iter().flat_map(|pair| pair.roots.iter().copied());
            for root in spaces.chain([trap.root]) {
                tables::entry(root, TRAP, 1).store(0, Ordering::Relaxed);
            }
            gather.unlink_table(page_at(TRAP));
        } else {
            trap.entry.store(0, Ordering::Relaxed);
            gather.revoke(page_at(TRAP));
        }
        let _ = this_cpu.flush_kernel(gather);
        oracle::kernel_revoked(TRAP);
        oracle::frame_freed(TRAP_FRAME);
        if table {
            oracle::table_freed(trap.table);
        }
    }

    fn protect(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        // Release: as above.
        pair.entries[0].store(tables::page(pair.frames[0], Access::READ), Ordering::Release);
        gather.revoke(page_at(PAGES[0]));
        let _: Flushed = this_cpu.flush(gather);
        for &root in &pair.roots {
            oracle::revoked(root, PAGES[0]);
        }
    }

    fn free_table(&self, this_cpu: At<'_, M, T>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(pair.space());
        for &root in &pair.roots {
            // Release: as above.
            tables::word(root, 0).store(0, Ordering::Release);
        }
        gather.unlink_table(VaRange::new(PAGES[0], 2 * 4096, 12).expect("two pages"));
        let _: Flushed = this_cpu.flush(gather);
        pair.frames.into_iter().for_each(oracle::frame_freed);
        oracle::table_freed(pair.last_table);
    }
}

/// Fails unless an access that may fault has reached no page but `frame`.
fn reaches(frame: Frame, reached: Option<Frame>) {
    let fits = reached.is_none_or(|reached| reached == frame);
    oracle::check(fits, "an access reaches a page of another root");
}

fn page_at(va: u64) -> VaRange {
    VaRange::new(va, 4096, 12).expect("one page")
}

/// Scripts for the CPUs of a kernel on translation hardware `M`, with the ASID allocator `T`.
pub(super) struct Script<M: Mmu, T> {
    /// Its name.
    pub(super) name: String,
    /// What each CPU does.
    pub(super) cpus: Vec<Vec<Act>>,
    /// On what.
    pub(super) kind: Described<M, T>,
    /// Whether loads may be satisfied early.
    pub(super) early: bool,
}

impl<M: SeparateRoots + 'static, T: Tags<Platform<M>> + 'static> Scenario for Script<M, T> {
    type World = World<M, T>;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn config(&self) -> Config {
        let config = (self.kind.config)(self.cpus.len()).with_interrupts().with_levels(2);
        if self.early { config.with_early_loads() } else { config }
    }

    fn build(&self) -> &'static World<M, T> {
        let acts = self.cpus.iter().flatten();
        let spaces = acts.filter_map(|act| act.space()).max().map_or(0, |last| last + 1);
        let some = |acts: &[Act]| self.cpus.iter().flatten().any(|act| acts.contains(act));
        let has = [some(&[Act::UnmapKernel]), some(&[Act::UnmapTrap, Act::FreeTrapTable])];
        let world = leak(World::new(self.kind, self.cpus.len(), spaces, has));
        world.name_words();
        world
    }

    fn run(&self, world: &'static World<M, T>, cpu: CpuId) {
        for &act in &self.cpus[cpu.index()] {
            world.act(act);
            // A script remembers nothing but how far it has come.
            milestone();
        }
    }

    fn interrupt(&self, world: &'static World<M, T>, _: CpuId) {
        world.interrupt();
    }

    fn finish(&self, _: &'static World<M, T>) {
        outcome(0);
    }
}
