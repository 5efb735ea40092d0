//! Scenarios of tables in pairs: a kernel that runs each space with one table, and leaves for user mode with
//! another, which does not map the kernel. Each tag stands for two PCIDs.
//!
//! What is of interest is what a CPU holds under the PCID that its root register does *not* name: under user mode's
//! while the kernel flushes, and under the kernel's while user code runs. The oracle takes neither for an offence
//! until a root is loaded that lets it be used.

use core::marker::PhantomData;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, Gather, GlobalAsids, PerCpuAsids, Platform as _, Tlb,
    VaRange,
    arch::{
        Held, Root,
        x86_64::{Config as Hardware, Instructions as _, Levels, Tables, Use, UserFlush, X86},
    },
    flush::Flushed,
    platform::{CpuId, Ordering, Word as _},
    tags::Tags,
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Platform, Scenario, Word, access, access_store, as_cpu, irq_off, irq_on,
    leak, milestone, name, oracle, outcome, tables, x86,
};

use super::{
    hardware::x86_features,
    script::{Few, epochs},
};

type Machine = Platform<X86<x86::Insn>>;
type At<'h, T> = &'h CurrentCpu<'h, Machine, T>;

/// The pages that every space maps, below one table.
const PAGES: [u64; 2] = [0x1000, 0x2000];

/// One act of a CPU's script. Spaces are named by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Switch to a space, in the kernel.
    Run(usize),
    /// Run kernel code only, and leave the root register as it is.
    Lazy,
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
}

impl Act {
    const fn space(self) -> Option<usize> {
        match self {
            Self::Run(space)
            | Self::Unmap(space, _)
            | Self::Protect(space)
            | Self::FreeTable(space)
            | Self::Clear(space) => Some(space),
            Self::Lazy | Self::Visit | Self::Write | Self::Copy => None,
        }
    }
}

/// A kind of kernel that keeps tables in pairs.
pub(super) trait Kind: 'static {
    /// How it gives tags.
    type Tags: Tags<Machine> + 'static;

    /// PCIDs, `INVPCID`, `INVLPGB`.
    const HAS: [bool; 3];
    /// When it flushes the user's half.
    const FLUSH: UserFlush;

    /// Makes what gives tags.
    ///
    /// # Errors
    ///
    /// What the library says.
    fn tags(platform: &Machine) -> Result<Self::Tags, Error>;

    /// The value of `CR3` for user mode.
    fn user_cr3(this_cpu: At<'_, Self::Tags>, space: &AddressSpace<Machine>) -> u64;

    /// The value of `CR3` for the kernel.
    fn kernel_cr3(this_cpu: At<'_, Self::Tags>, space: &AddressSpace<Machine>) -> u64;
}

macro_rules! by_recency {
    ($($(#[doc = $doc:literal])* $name:ident: $has:expr, $flush:expr;)*) => {$(
        $(#[doc = $doc])*
        pub(super) enum $name {}

        impl Kind for $name {
            type Tags = PerCpuAsids<2>;

            const HAS: [bool; 3] = $has;
            const FLUSH: UserFlush = $flush;

            fn tags(_: &Machine) -> Result<Self::Tags, Error> {
                Ok(PerCpuAsids::new())
            }

            fn user_cr3(this_cpu: At<'_, Self::Tags>, space: &AddressSpace<Machine>) -> u64 {
                this_cpu.user_cr3(space)
            }

            fn kernel_cr3(this_cpu: At<'_, Self::Tags>, space: &AddressSpace<Machine>) -> u64 {
                this_cpu.kernel_cr3(space)
            }
        }
    )*};
}

by_recency! {
    /// The user's half is flushed where the root is loaded.
    OnLoad: [true, true, false], UserFlush::OnLoad;
    /// It is flushed on the way to user mode.
    AtExit: [true, true, false], UserFlush::AtExit;
    /// The same without `INVPCID`: a PCID that `CR3` does not name goes with all others.
    NoInvpcid: [true, false, false], UserFlush::OnLoad;
}

/// Tags that are the same on all CPUs, and `INVLPGB`.
pub(super) enum Broadcast {}

impl Kind for Broadcast {
    type Tags = GlobalAsids<'static, Machine>;

    const HAS: [bool; 3] = [true, true, true];
    const FLUSH: UserFlush = UserFlush::OnLoad;

    fn tags(platform: &Machine) -> Result<Self::Tags, Error> {
        epochs(
            platform,
            Few { usable: 3, pins: 0, last_epoch: lookaside::tags::Cookie::LAST_EPOCH },
        )
    }

    fn user_cr3(this_cpu: At<'_, Self::Tags>, space: &AddressSpace<Machine>) -> u64 {
        this_cpu.mmu().user_cr3(space.root(), space.cookie().tag(), Held::Keep)
    }

    fn kernel_cr3(this_cpu: At<'_, Self::Tags>, space: &AddressSpace<Machine>) -> u64 {
        this_cpu.mmu().kernel_cr3(space.root(), space.cookie().tag())
    }
}

/// A space, its pair of tables and what lies below both.
struct Pair {
    space: AddressSpace<Machine>,
    /// The kernel's table and user mode's.
    roots: [Frame; 2],
    frames: [Frame; 2],
    entries: [&'static Word; 2],
    last_table: Frame,
}

/// What the CPUs share.
pub(super) struct World<K: Kind> {
    tlb: Tlb<'static, Machine, K::Tags>,
    pairs: Vec<Pair>,
    /// Which space each CPU runs, plus one. Private to the CPU.
    runs: Vec<Word>,
    /// Whether it is in user mode. Private to the CPU.
    out: Vec<Word>,
}

impl<K: Kind> World<K> {
    fn new(cpus: usize, spaces: usize) -> Self {
        let reserved = tables::allocate_reserved();
        let features = x86_features(K::HAS);
        let config = Hardware {
            pcids: Use::WherePresent,
            invlpgb: Use::WherePresent,
            tables: Tables::Separate(K::FLUSH),
            levels: Levels::Four,
            reserved_root: reserved.0 << 12,
        };
        let mmu = X86::new(x86::Insn, &features, config).expect("hardware");
        let platform = Platform::new(mmu);
        let tags = K::tags(&platform).expect("tags");
        let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
        let tlb = Tlb::new(platform, tags, storage).expect("storage that is large enough");
        let pairs = (0..spaces).map(|number| Self::pair(&tlb, number)).collect();
        let words = || (0..cpus).map(|_| Word::ZERO).collect();
        let world = Self { tlb, pairs, runs: words(), out: words() };
        for cpu in 0..cpus {
            as_cpu(CpuId(cpu as u32), || {
                world.tlb.platform().mmu().set_up_cpu();
                world.tlb.online(&(), &features).expect("a CPU that fits");
            });
        }
        world
    }

    fn pair(tlb: &Tlb<'static, Machine, K::Tags>, number: usize) -> Pair {
        let roots = [tables::allocate(), tables::allocate()];
        let last_table = tables::allocate();
        for root in roots {
            // Relaxed: the world is being built.
            tables::word(root, 0).store(tables::table(last_table), Ordering::Relaxed);
        }
        // Low numbers have contents, which user code can store to.
        let frames = [0, 1].map(|page| Frame(1 + 2 * number as u64 + page));
        for (va, frame) in PAGES.into_iter().zip(frames) {
            tables::map(roots[0], va, frame, Access::WRITE);
        }
        let residents = Box::new([Word::ZERO]);
        let root = Root { table: roots[0].0 << 12, user_table: roots[1].0 << 12 };
        let space = tlb.space(root, residents).expect("a space");
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

    fn this_cpu(&self) -> CurrentCpu<'_, Machine, K::Tags> {
        self.tlb.this_cpu(&())
    }

    /// The space that the calling CPU runs.
    fn own(&self, this_cpu: At<'_, K::Tags>) -> &Pair {
        &self.pairs[self.runs[this_cpu.id().index()].get() as usize - 1]
    }

    fn act(&self, act: Act) {
        irq_off();
        let this_cpu = self.this_cpu();
        match act {
            Act::Run(number) => {
                let _ = this_cpu.switch(&self.pairs[number].space);
                self.runs[this_cpu.id().index()].set(number as u64 + 1);
                oracle::wakes();
            }
            Act::Lazy => {
                oracle::rests();
                this_cpu.lazy();
            }
            Act::Visit => self.visit(&this_cpu, || {
                let _ = access(PAGES[0]);
            }),
            Act::Write => self.visit(&this_cpu, || {
                let _ = access_store(PAGES[0], 1);
            }),
            Act::Copy => {
                irq_on();
                let _ = access(PAGES[0]);
                irq_off();
            }
            Act::Unmap(number, page) => self.unmap(&this_cpu, number, page),
            Act::Protect(number) => self.protect(&this_cpu, number),
            Act::FreeTable(number) => self.free_table(&this_cpu, number),
            Act::Clear(number) => self.clear(&this_cpu, number),
        }
        irq_on();
    }

    /// Leaves for user mode and comes back. Interrupts are on there.
    fn visit(&self, this_cpu: At<'_, K::Tags>, run: impl FnOnce()) {
        self.leave(this_cpu);
        irq_on();
        run();
        irq_off();
        self.enter(this_cpu);
    }

    /// The last thing before user mode.
    fn leave(&self, this_cpu: At<'_, K::Tags>) {
        self.out[this_cpu.id().index()].set(1);
        x86::Insn.write_cr3(K::user_cr3(this_cpu, &self.own(this_cpu).space));
    }

    /// The first thing after it.
    fn enter(&self, this_cpu: At<'_, K::Tags>) {
        x86::Insn.write_cr3(K::kernel_cr3(this_cpu, &self.own(this_cpu).space));
        self.out[this_cpu.id().index()].set(0);
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

    fn unmap(&self, this_cpu: At<'_, K::Tags>, number: usize, page: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(&pair.space);
        // Release: who finds the entry empty knows of the gather.
        pair.entries[page].store(0, Ordering::Release);
        gather.revoke(page_at(PAGES[page]));
        let _: Flushed = this_cpu.flush(gather);
        oracle::frame_freed(pair.frames[page]);
    }

    fn clear(&self, this_cpu: At<'_, K::Tags>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(&pair.space);
        for entry in pair.entries {
            entry.store(0, Ordering::Release); // Release: as above.
        }
        gather.revoke_everything();
        let _: Flushed = this_cpu.flush(gather);
        pair.frames.into_iter().for_each(oracle::frame_freed);
    }

    fn protect(&self, this_cpu: At<'_, K::Tags>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(&pair.space);
        // Release: as above.
        pair.entries[0].store(tables::page(pair.frames[0], Access::READ), Ordering::Release);
        gather.revoke(page_at(PAGES[0]));
        let _: Flushed = this_cpu.flush(gather);
        for root in pair.roots {
            oracle::revoked(root, PAGES[0]);
        }
    }

    fn free_table(&self, this_cpu: At<'_, K::Tags>, number: usize) {
        let pair = &self.pairs[number];
        let mut gather = Gather::new(&pair.space);
        for root in pair.roots {
            // Release: as above.
            tables::word(root, 0).store(0, Ordering::Release);
        }
        gather.unlink_table(VaRange::new(PAGES[0], 2 * 4096, 12).expect("two pages"));
        let _: Flushed = this_cpu.flush(gather);
        pair.frames.into_iter().for_each(oracle::frame_freed);
        oracle::table_freed(pair.last_table);
    }
}

fn page_at(va: u64) -> VaRange {
    VaRange::new(va, 4096, 12).expect("one page")
}

/// Scripts for the CPUs of a kernel of kind `K`.
pub(super) struct Script<K> {
    /// Its name.
    pub(super) name: &'static str,
    /// What each CPU does.
    pub(super) cpus: &'static [&'static [Act]],
    pub(super) kind: PhantomData<K>,
}

impl<K: Kind> Scenario for Script<K> {
    type World = World<K>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn config(&self) -> Config {
        Config::x86(self.cpus.len()).with_interrupts().with_levels(2)
    }

    fn build(&self) -> &'static World<K> {
        let acts = self.cpus.iter().copied().flatten();
        let spaces = acts.filter_map(|act| act.space()).max().map_or(0, |last| last + 1);
        let world = leak(World::new(self.cpus.len(), spaces));
        world.name_words();
        world
    }

    fn run(&self, world: &'static World<K>, cpu: CpuId) {
        for &act in self.cpus[cpu.index()] {
            world.act(act);
            // A script remembers nothing but how far it has come.
            milestone();
        }
    }

    fn interrupt(&self, world: &'static World<K>, _: CpuId) {
        world.interrupt();
    }

    fn finish(&self, _: &'static World<K>) {
        outcome(0);
    }
}
