//! How Linux shoots down translations on x86 by interrupts: before, with and after the proposal that
//! the CPUs do it at the same time.
//!
//! After N. Amit, "x86/mm: Flush remote and local TLBs concurrently" and "x86: Flush remote TLBs
//! concurrently and async" (RFC v1 and v2, May 2019). A space has a generation, which every flush
//! raises, and the set of CPUs that run it; each CPU knows up to which generation of its space it has
//! flushed. A CPU that missed more than the requested flush flushes everything.
//!
//! The strategies keep no translations over a switch: the programs that use them do not switch.

use core::cell::{Cell, RefCell};

use lookaside::{
    Platform as _,
    arch::{Errata, Held, Invalidation, Mmu, Root, Scope, Sharing, TableChange, Tag, x86_64::X86},
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::timed::{self, Arena, KERNEL, Platform, Word, x86};
use lookaside_terminal::Refused;

use super::{
    super::{
        Entry, Flush, Place, SpaceId, Strategy, flush_range,
        hardware::{self, Hardware, X86Cpu},
    },
    requests::{Asked, Calls, Layout},
};
use crate::data::Isa;

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "remote-then-local",
        about: "Linux before Amit's RFC of 2019: other CPUs first, then this one",
        isas: &[Isa::X86_64],
        build: |place| Ok(Box::new(Linux::new(place, Kind::SERIAL)?)),
    },
    Entry {
        name: "concurrent",
        about: "Amit's RFC v1 of 2019: this CPU flushes while the others do",
        isas: &[Isa::X86_64],
        build: |place| Ok(Box::new(Linux::new(place, Kind::CONCURRENT)?)),
    },
    Entry {
        name: "early-ack",
        about: "Amit's RFC v2 of 2019: as v1; the request is in the call itself, and targets acknowledge before they flush",
        isas: &[Isa::X86_64],
        build: |place| Ok(Box::new(Linux::new(place, Kind::EARLY)?)),
    },
    Entry {
        name: "page-by-page",
        about: "Linux of 2014 while the limit of ranged flushes was looked for: one INVLPG for each page, however many",
        isas: &[Isa::X86_64],
        build: |place| Ok(Box::new(Linux::new(place, Kind::UNLIMITED)?)),
    },
];

/// More pages than this are flushed as everything.
const CEILING: u64 = 33;

/// Differences between the strategies of this module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// Whether this CPU flushes while the others do.
    concurrent: bool,
    layout: Layout,
    /// Whether the state that other CPUs read is apart from the state that a CPU writes at each flush.
    apart: bool,
    /// More pages than this are flushed as everything.
    ceiling: u64,
}

impl Kind {
    const SERIAL: Self = Self {
        concurrent: false,
        layout: Layout { inlined: false, early: false },
        apart: false,
        ceiling: CEILING,
    };
    const CONCURRENT: Self = Self { concurrent: true, ..Self::SERIAL };
    const EARLY: Self =
        Self { layout: Layout { inlined: true, early: true }, apart: true, ..Self::CONCURRENT };
    const UNLIMITED: Self = Self { ceiling: u64::MAX, ..Self::SERIAL };
    /// The version merged in 2021.
    pub(super) const MERGED: Self = Self { apart: true, ..Self::CONCURRENT };
}

/// State of a CPU.
#[repr(align(64))]
struct State {
    /// One more than the number of the space that it runs; 0 for none.
    loaded: Word,
    /// The generation up to which it has flushed that space.
    generation: Word,
    /// Whether it runs no user code.
    lazy: Word,
}

#[repr(align(64))]
struct Line(Word);

/// A space.
#[derive(Clone, Copy)]
struct Mm<'a> {
    root: u64,
    generation: &'a Line,
    /// `tlb_flush_pending`: the number of flushes begun and not complete, read by a CPU that finds a page
    /// absent.
    pending: &'a Line,
    /// The CPUs that run it, a bit for each.
    cpus: &'a [Word],
    /// The tag that it has on all CPUs, or is being given: see [`READY`]; 0 for none.
    global: &'a Line,
}

/// The tag of every space that has none of its own.
const LOCAL: Tag = Tag(1);

/// Every CPU that runs the space has loaded its tag, so that broadcasts reach its entries. Before that,
/// the space is flushed by interrupts.
const READY: u64 = 1 << 16;

/// Linux, with interrupts.
pub(super) struct Linux<'a> {
    platform: Platform<'static, X86<x86::Insn>>,
    arena: &'a Arena,
    kind: Kind,
    states: &'a [State],
    /// Whether CPUs are lazy, where that is kept apart.
    lazy: &'a [Line],
    /// The tag under which each CPU runs its space. Only its own.
    tags: Vec<Cell<Tag>>,
    calls: Calls<'a>,
    spaces: RefCell<Vec<Mm<'a>>>,
}

impl<'a> Linux<'a> {
    pub(super) fn new(place: Place<'a>, kind: Kind) -> Result<Self, Refused> {
        let Place { arena, machine, cpus } = place;
        let mmu = X86Cpu::mmu(machine).map_err(Refused::because)?;
        let costs = hardware::costs(machine, mmu.properties().typical_costs);
        let state = |_| State { loaded: Word::ZERO, generation: Word::ZERO, lazy: Word::ZERO };
        let new = Self {
            platform: Platform::new(mmu, costs),
            arena,
            kind,
            states: arena.fill(cpus, state),
            lazy: arena.fill(if kind.apart { cpus } else { 0 }, |_| Line(Word::ZERO)),
            tags: vec![Cell::new(LOCAL); cpus],
            calls: Calls::new(arena, cpus, kind.layout),
            spaces: RefCell::default(),
        };
        timed::name(new.states, "spaces that CPUs run");
        timed::name(new.lazy, "lazy CPUs");
        Ok(new)
    }

    pub(super) fn mmu(&self) -> &X86<x86::Insn> {
        self.platform.mmu()
    }

    fn mm(&self, space: u32) -> Mm<'a> {
        self.spaces.borrow()[space as usize]
    }

    fn state(&self) -> &'a State {
        &self.states[timed::cpu().index()]
    }

    fn lazy_word(&self, cpu: CpuId) -> &'a Word {
        match self.lazy.get(cpu.index()) {
            Some(line) => &line.0,
            None => &self.states[cpu.index()].lazy,
        }
    }

    /// Loads a space on this CPU, and drops the entries under its tag.
    fn load(&self, mm: Mm<'_>) {
        let tag = match mm.global.0.load(Ordering::Acquire) & !READY {
            _ if self.mmu().properties().tag_bits == 0 => Tag::RESERVED,
            0 => LOCAL,
            tag => Tag(tag as u16),
        };
        self.tags[timed::cpu().index()].set(tag);
        // SAFETY: the timed machine walks this root, and nothing is kept.
        unsafe {
            self.mmu().load(Errata::NONE, Root::new(mm.root), tag, Held::Drop, Sharing::Private)
        };
    }

    /// The tag that a space has on all CPUs, if all run it under that.
    pub(super) fn global(&self, space: SpaceId) -> Option<Tag> {
        let tag = self.mm(space.0).global.0.load(Ordering::Acquire);
        (tag & READY != 0).then_some(Tag(tag as u16))
    }

    /// Gives a space a tag on all CPUs and makes the CPUs that run the space load it; returns false if
    /// another CPU is already doing so.
    pub(super) fn make_global(&self, space: SpaceId, tag: Tag) -> bool {
        let (global, new) = (&self.mm(space.0).global.0, u64::from(tag.0));
        if global.compare_exchange(0, new, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        let asked = Asked { space: Some(space.0), first: 0, pages: 0, generation: 0, reload: true };
        let targets = self.running(self.mm(space.0));
        self.calls.ask(&targets, asked, |group| self.platform.send_ipi(group));
        timed::interrupts_off(|| self.act(&asked));
        self.calls.wait(&targets);
        global.store(new | READY, Ordering::Release);
        true
    }

    /// Begins a flush of a space, and raises its generation: the one that the flush begins.
    pub(super) fn begin(&self, space: SpaceId) -> u64 {
        self.mm(space.0).pending.0.fetch_add(1, Ordering::Relaxed);
        self.mm(space.0).generation.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Ends a flush of a space.
    pub(super) fn end(&self, space: SpaceId) {
        self.mm(space.0).pending.0.fetch_add(u64::MAX, Ordering::Relaxed);
    }

    /// How many CPUs run a space.
    pub(super) fn runners(&self, space: SpaceId) -> u32 {
        self.mm(space.0).cpus.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// The other CPUs that run a space.
    fn running(&self, mm: Mm<'_>) -> Vec<CpuId> {
        let me = timed::cpu();
        let mut all = Vec::new();
        for (index, word) in mm.cpus.iter().enumerate() {
            let mut left = word.load(Ordering::SeqCst);
            while left != 0 {
                let cpu = CpuId(index as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
                if cpu != me {
                    all.push(cpu);
                }
            }
        }
        all
    }

    /// Performs a request on this CPU. Interrupts are off.
    fn act(&self, asked: &Asked) {
        let Some(space) = asked.space else {
            let ranges = [flush_range(KERNEL + (asked.first << 12), asked.pages)];
            self.mmu().flush(
                Errata::NONE,
                Invalidation::kernel(&ranges, TableChange::LastLevel),
                Scope::Local,
            );
            return;
        };
        let state = self.state();
        if state.loaded.load(Ordering::Relaxed) != u64::from(space) + 1 {
            return;
        }
        let mm = self.mm(space);
        if asked.reload {
            return self.load(mm);
        }
        let reached = state.generation.load(Ordering::Relaxed);
        let latest = mm.generation.0.load(Ordering::Acquire);
        if reached >= latest {
            return;
        }
        let next = asked.generation == reached + 1 && latest == asked.generation;
        if next && asked.pages != 0 && asked.pages <= self.kind.ceiling {
            let ranges = [flush_range(asked.first << 12, asked.pages)];
            let tag = self.tags[timed::cpu().index()].get();
            self.mmu().flush(
                Errata::NONE,
                Invalidation::ranges(tag, &ranges, TableChange::LastLevel),
                Scope::Local,
            );
        } else {
            // As Linux does it: a load of the root that drops the tag's entries.
            self.load(mm);
        }
        state.generation.store(latest, Ordering::Relaxed);
    }

    /// Performs a request on this CPU and on `targets`.
    fn spread(&self, targets: &[CpuId], asked: &Asked) {
        let ask = || self.calls.ask(targets, *asked, |group| self.platform.send_ipi(group));
        let here = || timed::interrupts_off(|| self.act(asked));
        if self.kind.concurrent {
            ask();
            here();
            self.calls.wait(targets);
        } else {
            ask();
            self.calls.wait(targets);
            here();
        }
    }

    /// Flushes a space whose generation was raised.
    pub(super) fn flush_space(&self, space: SpaceId, flush: &Flush, generation: u64) {
        let mut targets = self.running(self.mm(space.0));
        if !flush.tables {
            targets.retain(|&cpu| self.lazy_word(cpu).load(Ordering::Relaxed) == 0);
        }
        let pages = if flush.everything || flush.tables { 0 } else { flush.pages };
        let first = flush.first;
        let asked = Asked { space: Some(space.0), first, pages, generation, reload: false };
        self.spread(&targets, &asked);
    }
}

impl Strategy for Linux<'_> {
    fn online(&self) {
        timed::interrupts_off(|| X86Cpu::set_up(self.platform.mmu()));
    }

    fn add(&self, space: SpaceId, root: u64) {
        let line = |name| {
            let line = self.arena.put(Line(Word::ZERO));
            timed::name(line, name);
            line
        };
        let cpus = self.arena.fill(self.states.len().div_ceil(64), |_| Word::ZERO);
        timed::name(cpus, "CPUs of spaces");
        let generation = line("generations of spaces");
        let pending = line("flushes under way");
        let global = line("tags of spaces");
        let mut spaces = self.spaces.borrow_mut();
        assert_eq!(spaces.len(), space.0 as usize, "spaces are numbered in ascending order");
        spaces.push(Mm { root, generation, pending, cpus, global });
    }

    fn switch(&self, next: SpaceId) {
        let cpu = timed::cpu();
        let (word, bit) = (cpu.index() / 64, 1 << (cpu.0 % 64));
        let state = self.state();
        let old = state.loaded.load(Ordering::Relaxed);
        self.lazy_word(cpu).store(0, Ordering::Relaxed);
        if old != u64::from(next.0) + 1 {
            if old != 0 {
                self.mm(old as u32 - 1).cpus[word].fetch_and(!bit, Ordering::SeqCst);
            }
            self.mm(next.0).cpus[word].fetch_or(bit, Ordering::SeqCst);
        } else {
            Word::fence(Ordering::SeqCst);
        }
        let mm = self.mm(next.0);
        let generation = mm.generation.0.load(Ordering::SeqCst);
        if old != u64::from(next.0) + 1 || state.generation.load(Ordering::Relaxed) < generation {
            self.load(mm);
        }
        state.generation.store(generation, Ordering::Relaxed);
        state.loaded.store(u64::from(next.0) + 1, Ordering::Release);
    }

    fn idle(&self) {
        self.lazy_word(timed::cpu()).store(1, Ordering::Release);
    }

    fn flush(&self, flush: &Flush) {
        match flush.space {
            Some(space) => {
                self.flush_space(space, flush, self.begin(space));
                self.end(space);
            }
            None => {
                let me = timed::cpu();
                let all = (0..self.states.len() as u32).map(CpuId);
                let targets: Vec<_> = all.filter(|&cpu| cpu != me).collect();
                let (first, pages) = (flush.first, flush.pages);
                let asked = Asked { space: None, first, pages, generation: 0, reload: false };
                self.spread(&targets, &asked);
            }
        }
    }

    fn handle_ipi(&self) {
        self.calls.handle_ipi(|asked| self.act(asked));
    }

    fn remove(&self, _: SpaceId) {}
}
