//! How FreeBSD shot down translations on x86 around 2016: with one counter that all targets
//! increment, and with one word for each CPU.
//!
//! After review D8041, "Reduce the cost of TLB invalidation on x86 by using per-CPU completion flags"
//! (2016). Both invalidate on their own CPU first, then take the one lock of the system, write the
//! request, and interrupt every CPU that runs the space; for kernel addresses that is
//! every CPU. A CPU that waits for the lock has interrupts on.
//!
//! Not modelled: FreeBSD interrupts all other CPUs with a single write of the interrupt controller. Here each
//! target is charged if the machine has a price for that.

use core::cell::{Cell, RefCell};

use lookaside::{
    Platform as _,
    arch::{Errata, Held, Invalidation, Mmu, Root, Scope, Sharing, TableChange, Tag},
    platform::{Ordering, Targets, Word as _},
};
use lookaside_machine::timed::{self, Arena, KERNEL, Platform, Word, x86};
use lookaside_terminal::Refused;

use super::super::{
    Entry, Flush, Place, SpaceId, Strategy, flush_range,
    hardware::{self, Hardware, X86Plain},
};
use crate::data::Isa;

use crate::line::Line;

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "shared-counter",
        about: "FreeBSD until 2016: one lock, and one counter that every target increments",
        isas: &[Isa::X86_64],
        build: |place| build(place, Completion::Counter),
    },
    Entry {
        name: "completion-flags",
        about: "FreeBSD from 2016 on (D8041): one lock, and a word for each target with the generation that it has reached",
        isas: &[Isa::X86_64],
        build: |place| build(place, Completion::Flags),
    },
];

/// How targets acknowledge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completion {
    Counter,
    Flags,
}

/// The request: one cache line, written by the holder of the lock.
#[repr(align(64))]
struct Operands {
    /// One more than the number of the space; 0 for the kernel.
    space: Word,
    first: Word,
    /// 0 for everything.
    pages: Word,
    generation: Word,
}

struct FreeBsd<'a> {
    platform: Platform<'static, lookaside::arch::x86_64::X86<x86::Insn>>,
    arena: &'a Arena,
    completion: Completion,
    lock: &'a Line,
    operands: &'a Operands,
    counter: &'a Line,
    /// For each CPU the generation that it has reached.
    done: &'a [Line],
    /// The space that each CPU runs. Accessed by that CPU only.
    current: Vec<Cell<Option<SpaceId>>>,
    /// For each space its page tables, and the CPUs that run it, a bit for each.
    spaces: RefCell<Vec<(u64, &'a [Word])>>,
}

fn build(place: Place<'_>, completion: Completion) -> Result<Box<dyn Strategy + '_>, Refused> {
    let Place { arena, machine, cpus } = place;
    let mmu = X86Plain::mmu(machine).map_err(Refused::because)?;
    let costs = hardware::costs(machine, mmu.properties().typical_costs);
    let line = || arena.put(Line(Word::ZERO));
    let operands = Operands {
        space: Word::ZERO,
        first: Word::ZERO,
        pages: Word::ZERO,
        generation: Word::ZERO,
    };
    let new = FreeBsd {
        platform: Platform::new(mmu, costs),
        arena,
        completion,
        lock: line(),
        operands: arena.put(operands),
        counter: line(),
        done: arena.fill(cpus, |_| Line(Word::ZERO)),
        current: vec![Cell::new(None); cpus],
        spaces: RefCell::new(Vec::new()),
    };
    timed::name(new.lock, "lock of shootdowns");
    timed::name(new.operands, "operands");
    timed::name(new.counter, "counter of acknowledgements");
    timed::name(new.done, "answers");
    Ok(Box::new(new))
}

impl FreeBsd<'_> {
    fn mmu(&self) -> &impl Mmu {
        self.platform.mmu()
    }

    fn active(&self, space: SpaceId) -> &[Word] {
        self.spaces.borrow()[space.0 as usize].1
    }

    /// Performs the request on this CPU. Above the number of the first page stands the order of the entries.
    fn invalidate(&self, kernel: bool, first: u64, pages: u64) {
        if pages == 0 {
            self.mmu().flush(Errata::NONE, Invalidation::Tag(Tag::RESERVED), Scope::Local);
            return;
        }
        let (first, order) = (first & ((1 << ORDER) - 1), (first >> ORDER) as u8);
        let start = if kernel { KERNEL + (first << 12) } else { first << 12 };
        let ranges = [flush_range(start, pages, order)];
        if kernel {
            self.mmu().flush(
                Errata::NONE,
                Invalidation::kernel(&ranges, TableChange::LastLevel),
                Scope::Local,
            );
        } else {
            self.mmu().flush(
                Errata::NONE,
                Invalidation::ranges(Tag::RESERVED, &ranges, TableChange::LastLevel),
                Scope::Local,
            );
        }
    }

    /// The CPUs that have to act besides this one.
    fn targets(&self, flush: &Flush) -> Vec<Targets> {
        let cpus = self.done.len() as u32;
        let me = timed::cpu().0;
        let active = flush.space.map(|space| self.active(space));
        let mut all = Vec::new();
        for first in (0..cpus).step_by(64) {
            let left = cpus - first;
            let mut mask = if left < 64 { (1 << left) - 1 } else { u64::MAX };
            if let Some(active) = active {
                mask &= active[first as usize / 64].load(Ordering::SeqCst);
            }
            if (first..first + 64).contains(&me) {
                mask &= !(1 << (me - first));
            }
            if mask != 0 {
                all.push(Targets { first: lookaside::platform::CpuId(first), mask });
            }
        }
        all
    }

    /// Sends the request and waits, with the lock taken and interrupts off.
    fn shoot(&self, targets: &[Targets], flush: &Flush, pages: u64) {
        let operands = self.operands;
        let space = flush.space.map_or(0, |space| u64::from(space.0) + 1);
        operands.space.store(space, Ordering::Relaxed);
        operands.first.store(named(flush), Ordering::Relaxed);
        operands.pages.store(pages, Ordering::Relaxed);
        // Only the holder of the lock writes it, so this need not be an atomic operation.
        let generation = operands.generation.load(Ordering::Relaxed) + 1;
        match self.completion {
            Completion::Counter => self.counter.0.store(0, Ordering::Release),
            Completion::Flags => operands.generation.store(generation, Ordering::Release),
        }
        for &group in targets {
            self.platform.send_ipi(group);
        }
        match self.completion {
            Completion::Counter => {
                let all = targets.iter().map(|group| u64::from(group.count())).sum();
                while self.counter.0.load(Ordering::Acquire) < all {
                    timed::relax();
                }
            }
            Completion::Flags => {
                for cpu in targets.iter().flat_map(|group| group.iter()) {
                    while self.done[cpu.index()].0.load(Ordering::Acquire) != generation {
                        timed::relax();
                    }
                }
            }
        }
        self.lock.0.store(0, Ordering::Release);
    }
}

/// Where the order of the entries stands in the operand `first`: no page number is so large.
const ORDER: u32 = 56;

/// The first page of a flush, with the order of its entries.
fn named(flush: &Flush) -> u64 {
    flush.first | u64::from(flush.order) << ORDER
}

impl Strategy for FreeBsd<'_> {
    fn online(&self) {
        timed::interrupts_off(|| X86Plain::set_up(self.platform.mmu()));
    }

    fn add(&self, space: SpaceId, root: u64) {
        let words = self.arena.fill(self.done.len().div_ceil(64), |_| Word::ZERO);
        timed::name(words, "CPUs of spaces");
        let mut spaces = self.spaces.borrow_mut();
        assert_eq!(spaces.len(), space.0 as usize, "spaces are numbered in ascending order");
        spaces.push((root, words));
    }

    fn switch(&self, next: SpaceId) {
        let cpu = timed::cpu().index();
        let old = self.current[cpu].replace(Some(next));
        if old == Some(next) {
            return;
        }
        let (word, bit) = (cpu / 64, 1 << (cpu % 64));
        if let Some(old) = old {
            self.active(old)[word].fetch_and(!bit, Ordering::SeqCst);
        }
        self.active(next)[word].fetch_or(bit, Ordering::SeqCst);
        let root = Root::new(self.spaces.borrow()[next.0 as usize].0);
        // SAFETY: the timed machine walks this root, and nothing is kept.
        unsafe { self.mmu().load(Errata::NONE, root, Tag::RESERVED, Held::Drop, Sharing::Private) };
    }

    fn idle(&self) {
        // The CPU keeps the space and goes on handling its requests.
    }

    fn flush(&self, flush: &Flush) {
        let pages = if flush.everything { 0 } else { flush.pages };
        // The thread is pinned to its CPU; interrupts stay on.
        let here = |space| self.current[timed::cpu().index()].get() == Some(space);
        if flush.space.is_none_or(here) {
            self.invalidate(flush.space.is_none(), named(flush), pages);
        }
        let targets = self.targets(flush);
        if targets.is_empty() {
            return;
        }
        loop {
            let had = timed::interrupts_off(|| {
                let lock = &self.lock.0;
                let mine = lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
                if mine.is_ok() {
                    self.shoot(&targets, flush, pages);
                }
                mine.is_ok()
            });
            if had {
                return;
            }
            while self.lock.0.load(Ordering::Relaxed) != 0 {
                timed::relax();
            }
        }
    }

    fn handle_ipi(&self) {
        let operands = self.operands;
        let space = operands.space.load(Ordering::Relaxed);
        let first = operands.first.load(Ordering::Relaxed);
        let pages = operands.pages.load(Ordering::Relaxed);
        let generation = operands.generation.load(Ordering::Acquire);
        self.invalidate(space == 0, first, pages);
        timed::during("answer", || match self.completion {
            Completion::Counter => {
                self.counter.0.fetch_add(1, Ordering::Release);
            }
            Completion::Flags => {
                self.done[timed::cpu().index()].0.store(generation, Ordering::Release);
            }
        });
    }

    fn remove(&self, _: SpaceId) {}
}
