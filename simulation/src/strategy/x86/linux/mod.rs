//! Linux on x86, from 2014 to 2025: one model, and the published [`Patch`]es in which its kernels differ.
//!
//! Built from the texts that [`Patch`] names and, where those say nothing, from knowledge of the behaviour of Linux.
//! `ipi` of 2025 is validated by replaying traces and comparing the counts of live kernels (`docs/replay.md`,
//! "Validation"); that was done with Linux 6.18. What is counted are the terms of Linux's event `tlb_flush`.
//!
//! A strategy is a constant set of patches, so that two strategies which are compared differ in those that the
//! comparison is about and in nothing else.

mod broadcast;
mod calls;
mod cpu;
mod flush;
mod host;
mod mask;
mod patches;
mod request;
mod space;
mod switch;
#[cfg(test)]
mod tests;

use core::cell::{Cell, RefCell};

use lookaside::{
    Platform as _,
    arch::{Mmu as _, x86_64::X86},
    platform::{CpuId, Ordering, Word as _},
};
use lookaside_machine::timed::{self, Arena, Platform, Ps, Word, x86::Insn};
use lookaside_terminal::Refused;
use lookaside_traces::{KernelCounts, Pages, Reason};

pub use host::INTERRUPT_HOLD;

use self::{
    calls::Calls,
    cpu::{Cpu, KERNEL_CONTEXT, SLOTS},
    host::Host,
    patches::{Patch, Patches},
    space::{Line, Mm},
};
use super::super::{
    Entry, Flush, Place, SpaceId, Strategy,
    hardware::{self, Hardware, X86Cpu, X86Plain},
};
use crate::data::Isa;

/// The path of a machine file that says how long it takes from a switch of threads until the switch of spaces has found
/// out what the TLB holds. In between other CPUs see that this one is about to run the space, and after that it reads
/// the space's generation: what is flushed between these two is flushed by the switch, and its request comes when
/// nothing is left to do.
pub const SWITCH_LOOK: &str = "switch_look";

/// The path of a machine file that says how long it takes from the rise of a space's generation by a flush until it queues
/// its first request. In between it looks which CPUs are lazy.
pub const FLUSH_ASK: &str = "flush_ask";

/// The strategy of Linux on CPUs with `INVLPGB`.
pub(crate) const BROADCAST: &str = "linux-invlpgb-2025";

const fn entry(
    name: &'static str,
    about: &'static str,
    build: for<'a> fn(Place<'a>) -> Result<Box<dyn Strategy + 'a>, Refused>,
) -> Entry {
    Entry { name, about, isas: &[Isa::X86_64], build }
}

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    entry(
        "page-by-page",
        "Linux of 2014 while the limit of ranged flushes was looked for: one INVLPG for each page, however many",
        |place| build(place, Patches::PAGE_BY_PAGE),
    ),
    entry(
        "cr3-flush",
        "Linux before PCIDs (July 2017): a switch flushes, a flush interrupts lazy CPUs once",
        |place| build(place, Patches::CR3_FLUSH),
    ),
    entry(
        "pcid-2017",
        "Linux with PCIDs as first merged (July 2017): six slots a CPU, generations, no interrupts for lazy CPUs",
        |place| build(place, Patches::PCID_2017),
    ),
    entry(
        "pcid-2017-off",
        "the same with `nopcid`: the state is kept, and every switch flushes",
        |place| build(place, Patches::PCID_2017_OFF),
    ),
    entry(
        "linux-ipi-2019",
        "Linux before Amit's RFC of 2019: this CPU flushes first, then the others",
        |place| build(place, Patches::LINUX_2019),
    ),
    entry("concurrent", "Amit's RFC v1 of 2019: this CPU flushes while the others do", |place| {
        build(place, Patches::CONCURRENT)
    }),
    entry(
        "early-ack",
        "Amit's RFC v2 of 2019: as v1; the request is in the call itself, and targets acknowledge before they flush",
        |place| build(place, Patches::EARLY_ACK),
    ),
    entry(
        "linux-ipi-2022-promote",
        "Linux 5.17: RFC v1 as merged, lazy CPUs say so in a line of their own; flushes when more is allowed, too",
        |place| build(place, Patches::PROMOTIONS_FLUSHED),
    ),
    entry(
        "linux-ipi-2022",
        "the same without the flush when more is allowed (March 2022)",
        |place| build(place, Patches::LINUX_2022),
    ),
    entry(
        "linux-ipi-2025",
        "Linux 6.14 and later without INVLPGB: interrupts, masks are trimmed once a second",
        |place| build(place, Patches::LINUX_2025),
    ),
    entry(
        "linux-ipi-2025-kvm",
        "the same in a guest of KVM, whose halted CPUs are not interrupted: the host flushes",
        |place| build(place, Patches::GUEST),
    ),
    entry(
        BROADCAST,
        "the same with INVLPGB (van Riel) for spaces that 4 or more CPUs run, interrupts for others",
        |place| build(place, Patches::BROADCAST),
    ),
];

/// Linux.
struct Linux<'a> {
    arena: &'a Arena,
    platform: Platform<'static, X86<Insn>>,
    patches: Patches,
    /// More pages than this are flushed as everything.
    ceiling: u64,
    calls: Calls<'a>,
    cpus: &'a [Cpu],
    /// For each CPU 1 while it runs no user code; empty unless that is kept apart.
    lazy: &'a [Line],
    /// For each CPU a line of its stack.
    stacks: &'a [Line],
    spaces: RefCell<Vec<&'a Mm<'a>>>,
    /// The host, of a guest of KVM.
    host: Option<Host<'a>>,
    /// The next tag for a space that is to have one on all CPUs.
    next_tag: Cell<u64>,
    /// For each CPU whether it is in the idle loop.
    idles: Vec<Cell<bool>>,
    /// For each CPU whether it has run anything: its first thread was not switched to.
    begun: Vec<Cell<bool>>,
    /// Slots in use: 1 without PCIDs, where the slot is loaded anew with each space.
    slots: usize,
    /// See [`SWITCH_LOOK`].
    look: Ps,
    /// See [`FLUSH_ASK`].
    ask: Ps,
    tally: RefCell<KernelCounts>,
}

fn build(place: Place<'_>, patches: Patches) -> Result<Box<dyn Strategy + '_>, Refused> {
    let Place { arena, machine, cpus } = place;
    let has_pcids = patches.has(Patch::Pcids) && machine.features.tag_bits > 0;
    let mmu = if has_pcids { X86Cpu::mmu(machine) } else { X86Plain::mmu(machine) };
    let mmu = mmu.map_err(Refused::because)?;
    let costs = hardware::costs(machine, mmu.properties().typical_costs);
    let own = arena.fill(cpus, |_| Cpu::new());
    timed::name(own, "CPUs");
    let apart = if patches.has(Patch::LazyApart) { cpus } else { 0 };
    let lazy = arena.fill(apart, |_| Line::new());
    timed::name(lazy, "lazy CPUs");
    let is_guest = patches.has(Patch::HostFlushes);
    Ok(Box::new(Linux {
        arena,
        platform: Platform::new(mmu, costs),
        patches,
        ceiling: machine.features.flush_ceiling.into(),
        calls: Calls::new(arena, cpus, patches),
        cpus: own,
        lazy,
        stacks: arena.fill(cpus, |_| Line::new()),
        spaces: RefCell::default(),
        host: Host::of(arena, machine, cpus, is_guest),
        next_tag: Cell::new(broadcast::FIRST),
        idles: vec![Cell::new(false); cpus],
        begun: vec![Cell::new(false); cpus],
        slots: if has_pcids { SLOTS } else { 1 },
        look: machine.path_or_none(SWITCH_LOOK),
        ask: machine.path_or_none(FLUSH_ASK),
        tally: RefCell::default(),
    }))
}

/// The CPU that runs.
fn me() -> CpuId {
    timed::cpu()
}

impl<'a> Linux<'a> {
    fn has(&self, patch: Patch) -> bool {
        self.patches.has(patch)
    }

    fn cpu(&self) -> &'a Cpu {
        &self.cpus[me().index()]
    }

    /// Whether a CPU runs no user code.
    fn lazy(&self, cpu: CpuId) -> &'a Word {
        match self.lazy.get(cpu.index()) {
            Some(line) => &line.0,
            None => &self.cpus[cpu.index()].lazy,
        }
    }

    /// Orders stores before it with loads after it, as `smp_mb` does: by an atomic operation on the stack.
    fn barrier(&self) {
        let _ = self.stacks[me().index()].0.fetch_add(0, Ordering::SeqCst);
    }

    fn mm(&self, space: SpaceId) -> &'a Mm<'a> {
        self.spaces.borrow()[space.0 as usize]
    }

    /// The space that a request or a CPU names.
    fn named(&self, context: u64) -> &'a Mm<'a> {
        self.spaces.borrow()[context as usize - 1]
    }

    fn count(&self, reason: Reason, pages: Pages) {
        *self.tally.borrow_mut().flushes.entry((reason, pages)).or_default() += 1;
    }

    /// Counts a switch as Linux reports it, except for the first of this CPU. Returns whether it was counted.
    fn count_switch(&self, flushed: bool) -> bool {
        let counts = self.begun[me().index()].replace(true);
        if counts {
            self.count(Reason::Switch, if flushed { Pages::Everything } else { Pages::Some(0) });
        }
        counts
    }
}

impl Strategy for Linux<'_> {
    fn online(&self) {
        timed::interrupts_off(|| self.platform.mmu().set_up_cpu());
        self.cpu().start(self.slots);
    }

    fn add(&self, space: SpaceId, root: u64) {
        let mut spaces = self.spaces.borrow_mut();
        assert_eq!(spaces.len(), space.0 as usize, "spaces are numbered in ascending order");
        // Numbers are never reused, and so neither are contexts.
        let context = u64::from(space.0) + 1;
        spaces.push(Mm::new(self.arena, root, context, self.cpus.len()));
    }

    fn is_older(&self, space: SpaceId) {
        self.mm(space).make_due();
    }

    fn switch(&self, next: SpaceId) {
        if let Some(flushed) = self.switch_to(self.mm(next))
            && self.count_switch(flushed)
        {
            let mut tally = self.tally.borrow_mut();
            *(if flushed { &mut tally.misses } else { &mut tally.hits }) += 1;
        }
    }

    fn switch_uncounted(&self, next: SpaceId) {
        self.begun[me().index()].set(true);
        self.switch_to(self.mm(next));
    }

    fn execute(&self, next: SpaceId) {
        // Linux reports the same as at a switch, but no thread was switched.
        if let Some(flushed) = self.switch_to(self.mm(next)) {
            self.count_switch(flushed);
        }
    }

    fn idle(&self) {
        self.go_idle();
    }

    fn leave(&self) {
        let cpu = self.cpu();
        if self.lazy(me()).get() != 0 && cpu.loaded.get() != KERNEL_CONTEXT {
            self.drop_space(cpu, self.named(cpu.loaded.get()));
        }
    }

    fn halt(&self) {
        self.go_idle();
        self.idles[me().index()].set(true);
        if let Some(host) = &self.host {
            host.halt();
        }
    }

    fn flush(&self, flush: &Flush) {
        match flush.space {
            Some(space) => self.flush_space(self.mm(space), flush),
            None => self.flush_kernel(flush),
        }
    }

    fn handle_ipi(&self) {
        self.handle_calls();
    }

    fn remove(&self, _: SpaceId) {
        // Context numbers are never reused, so that slots of the space are never found again.
    }

    fn flushes_promotions(&self) -> bool {
        !self.has(Patch::PromotionsKept)
    }

    fn observed(&self) -> Option<KernelCounts> {
        // What is counted, and where, is validated for these.
        let validated = [Patches::LINUX_2025, Patches::GUEST].contains(&self.patches);
        validated.then(|| self.tally.borrow().clone())
    }
}
