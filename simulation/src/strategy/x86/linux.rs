//! Common parts of the Linux strategies of x86: the choice of targets, the request format, and invalidations
//! of kernel addresses.

use core::cell::RefCell;

use lookaside::{
    arch::{
        Mmu,
        x86_64::{Instructions as _, X86},
    },
    platform::{CpuId, Ordering, Targets, Word as _},
};
use lookaside_machine::timed::{self, Arena, KERNEL, Platform, Word, x86::Insn};
use lookaside_terminal::Refused;
use lookaside_traces::Pages;

use super::call::{Calls, Mask, all_others};
use crate::strategy::{
    Flush, Place, SpaceId,
    hardware::{self, Hardware},
};

/// The space number of a request for kernel addresses.
pub(super) const KERNEL_SPACE: u64 = 0;

/// The value of `pages` for a full flush.
const EVERYTHING: u64 = u64::MAX;

/// A request as one CPU reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The number of the space and one more, or [`KERNEL_SPACE`].
    pub(super) space: u64,
    /// The generation that the flush brought the space to.
    pub(super) generation: u64,
    first: u64,
    pages: u64,
}

impl Request {
    /// The flush as Linux classifies it: by page up to `ceiling` pages, else full.
    fn new(flush: &Flush, generation: u64, ceiling: u64) -> Self {
        let space = flush.space.map_or(KERNEL_SPACE, |space| u64::from(space.0) + 1);
        let all = flush.everything || flush.pages > ceiling;
        let pages = if all { EVERYTHING } else { flush.pages };
        Self { space, generation, first: flush.first, pages }
    }

    /// Whether it names pages.
    pub(super) const fn is_range(&self) -> bool {
        self.pages != EVERYTHING
    }

    /// How many pages it names, as Linux counts them.
    pub(super) fn pages(&self) -> Pages {
        match self.is_range() {
            true => Pages::Some(u32::try_from(self.pages).unwrap_or(u32::MAX)),
            false => Pages::Everything,
        }
    }

    /// Invalidates its pages under the tag that the root register names.
    pub(super) fn flush_pages(&self) {
        for page in self.first..self.first + self.pages {
            Insn.invlpg(page << 12);
        }
    }

    /// Invalidates kernel addresses.
    pub(super) fn flush_kernel(&self) {
        if self.is_range() {
            for page in self.first..self.first + self.pages {
                Insn.invlpg(KERNEL + (page << 12));
            }
        } else {
            flush_globally();
        }
    }
}

/// Invalidates everything on this CPU, global entries too.
pub(super) fn flush_globally() {
    const GLOBAL_PAGES: u64 = 1 << 7;
    let cr4 = Insn.read_cr4();
    Insn.write_cr4(cr4 & !GLOBAL_PAGES);
    Insn.write_cr4(cr4 | GLOBAL_PAGES);
}

/// The cache line on a CPU's stack that holds its request.
#[repr(align(64))]
struct Slip {
    space: Word,
    generation: Word,
    first: Word,
    pages: Word,
}

impl Slip {
    fn write(&self, request: &Request) {
        self.space.store(request.space, Ordering::Relaxed);
        self.generation.store(request.generation, Ordering::Relaxed);
        self.first.store(request.first, Ordering::Relaxed);
        self.pages.store(request.pages, Ordering::Relaxed);
    }

    fn read(&self) -> Request {
        Request {
            space: self.space.load(Ordering::Relaxed),
            generation: self.generation.load(Ordering::Relaxed),
            first: self.first.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
        }
    }
}

/// A word in a line of its own.
#[repr(align(64))]
pub(super) struct Line(pub(super) Word);

/// Linux's state of an address space.
#[repr(align(64))]
pub(super) struct Mm<'a> {
    pub(super) root: u64,
    /// The context id, never reused.
    pub(super) context: u64,
    /// The TLB generation: the number of flushes requested.
    pub(super) generation: Word,
    /// The number of its flushes under way, since August 2017; read by a CPU that finds a page absent
    /// ("mm: migrate: prevent racy access to tlb_flush_pending").
    pub(super) pending: &'a Line,
    /// `mm_cpumask`: the CPUs to interrupt.
    pub(super) cpus: Mask<'a>,
}

/// State of the machine that both strategies share.
pub(super) struct Common<'a, H: Hardware> {
    arena: &'a Arena,
    pub(super) platform: Platform<'static, H::Mmu>,
    calls: Calls<'a>,
    slips: &'a [Slip],
    spaces: RefCell<Vec<&'a Mm<'a>>>,
    cpus: usize,
    ceiling: u64,
}

impl<'a, H: Hardware<Mmu = X86<Insn>>> Common<'a, H> {
    pub(super) fn new(place: Place<'a>) -> Result<Self, Refused> {
        let Place { arena, machine, cpus } = place;
        let mmu = H::mmu(machine).map_err(Refused::because)?;
        let costs = hardware::costs(machine, mmu.properties().typical_costs);
        let slip = |_| Slip {
            space: Word::ZERO,
            generation: Word::ZERO,
            first: Word::ZERO,
            pages: Word::ZERO,
        };
        let slips = arena.fill(cpus, slip);
        timed::name(slips, "requests");
        Ok(Self {
            arena,
            platform: Platform::new(mmu, costs),
            calls: Calls::new(arena, cpus),
            slips,
            spaces: RefCell::new(Vec::new()),
            cpus,
            ceiling: machine.features.flush_ceiling.into(),
        })
    }

    /// The request for a flush.
    pub(super) fn request(&self, flush: &Flush, generation: u64) -> Request {
        Request::new(flush, generation, self.ceiling)
    }

    /// Brings this CPU up.
    pub(super) fn online(&self) {
        use lookaside::Platform as _;
        timed::interrupts_off(|| H::set_up(self.platform.mmu()));
    }

    /// Adds a space with its state. Its context is its number plus one, since numbers are never reused.
    pub(super) fn add(&self, space: SpaceId, root: u64) {
        let cpus = Mask::new(self.arena, self.cpus, "CPUs of spaces");
        let context = u64::from(space.0) + 1;
        let pending = self.arena.put(Line(Word::ZERO));
        timed::name(pending, "flushes under way");
        let mm = Mm { root, context, generation: Word::ZERO, pending, cpus };
        let mm = self.arena.put(mm);
        timed::name(&mm.generation, "generations of spaces");
        let mut spaces = self.spaces.borrow_mut();
        assert_eq!(spaces.len(), space.0 as usize, "spaces are numbered in ascending order");
        spaces.push(mm);
    }

    pub(super) fn space(&self, space: SpaceId) -> &'a Mm<'a> {
        self.spaces.borrow()[space.0 as usize]
    }

    /// The space that a request or a CPU names.
    pub(super) fn named(&self, context: u64) -> &'a Mm<'a> {
        self.spaces.borrow()[context as usize - 1]
    }

    /// Sends `request` to the other CPUs of a mask and waits for the acknowledgements. Calls `meanwhile`
    /// between sending and waiting.
    pub(super) fn send(&self, cpus: Mask<'_>, request: &Request, meanwhile: impl FnOnce()) {
        self.send_to(cpus.others(timed::cpu()), request, meanwhile);
    }

    /// As [`Self::send`], to these CPUs, which do not include this one.
    pub(super) fn send_to(
        &self,
        cpus: impl IntoIterator<Item = Targets>,
        request: &Request,
        meanwhile: impl FnOnce(),
    ) {
        let mut groups = cpus.into_iter().peekable();
        if groups.peek().is_none() {
            return meanwhile();
        }
        self.slips[timed::cpu().index()].write(request);
        let targets = self.calls.send(&self.platform, groups);
        meanwhile();
        self.calls.wait(&self.platform, &targets);
    }

    /// Flushes kernel addresses on every CPU.
    pub(super) fn flush_kernel(&self, flush: &Flush) {
        let me = timed::cpu();
        let request = self.request(flush, 0);
        self.slips[me.index()].write(&request);
        let targets = self.calls.send(&self.platform, all_others(self.cpus, me));
        timed::interrupts_off(|| request.flush_kernel());
        self.calls.wait(&self.platform, &targets);
    }

    /// Whether requests to this CPU are pending. Takes no time: the reader has the line in its cache.
    pub(super) fn has_requests(&self) -> bool {
        self.calls.are_queued()
    }

    /// Processes and acknowledges pending requests to this CPU.
    pub(super) fn handle_ipi(&self, process: impl Fn(&Request)) {
        self.calls.handle_ipi(|from| {
            let request = self.slips[from].read();
            if request.space == KERNEL_SPACE {
                request.flush_kernel();
            } else {
                process(&request);
            }
        });
    }
}

/// The CPU that runs.
pub(super) fn me() -> CpuId {
    timed::cpu()
}
