//! Linux with PCIDs as of 2025, the successor of [`super::pcid`]. Built from knowledge of the behaviour of
//! Linux 6.14 and later, not from a text of its authors; the changes named here document each part. It is
//! validated by replaying traces and comparing the counts of live kernels (`docs/replay.md`, "Validation");
//! that was done with Linux 6.18.
//!
//! A CPU that goes idle stays in the space's mask and publishes that it is lazy ("x86/mm/tlb: Make lazy TLB
//! mode even lazier", 2016 to 2018). It is interrupted only if page tables were freed, and then leaves the
//! space for the kernel's own, which takes a slot like any other; otherwise it compares generations when it
//! resumes. A switch no longer clears the CPU's bit in the mask of the space that it leaves ("x86/mm/tlb:
//! Update `mm_cpumask` lazily", 209954cbc7d0, 2024): once a second a flush goes to all CPUs of the mask, and
//! a CPU that has another space loaded clears its bit ("Only trim the `mm_cpumask` once a second",
//! 6db2526c1d69). Until then the initiator reads which space each CPU has loaded, and skips CPUs with another
//! one.
//!
//! Guests of KVM have their [`host`](super::host) as well.
//!
//! All of this is counted in Linux's own terms, those of its event `tlb_flush`.

use core::cell::{Cell, RefCell};

use lookaside::{
    arch::x86_64::{Instructions as _, X86},
    platform::{CpuId, Ordering, Targets, Word as _},
};
use lookaside_machine::timed::{self, Ps, Word, x86::Insn};
use lookaside_terminal::Refused;
use lookaside_traces::{KernelCounts, Pages, Reason};

use super::{
    host::Host,
    linux::{Common, Mm, Request, me},
    slots::{Cpu, KEEP, SLOTS},
};
use crate::{
    data::Isa,
    strategy::{
        Entry, Flush, Place, SpaceId, Strategy,
        hardware::{Hardware, RESERVED, X86Cpu},
    },
};

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "ipi-2025",
        about: "Linux 6.14 and later: CPUs without user code are lazy, masks are trimmed once a second",
        isas: &[Isa::X86_64],
        build: |place| Lazy::<X86Cpu>::build(place, false),
    },
    Entry {
        name: "ipi-2025-kvm",
        about: "the same in a guest of KVM, whose halted CPUs are not interrupted: the host flushes",
        isas: &[Isa::X86_64],
        build: |place| Lazy::<X86Cpu>::build(place, true),
    },
];

/// The path of a machine file that says how long a switch takes from the moment at which other CPUs see that this one is
/// about to run the space, until it reads the space's generation. What is flushed in between is flushed by the
/// switch, and its request comes when nothing is left to do.
pub const SWITCH_LOOK: &str = "switch_look";

/// The value of `loaded` while a CPU switches between two spaces.
const SWITCHING: u64 = u64::MAX;
/// The context of the kernel's own space, in which nothing is ever flushed.
const KERNEL_CONTEXT: u64 = u64::MAX - 1;

/// How often a flush goes to the whole mask.
const TRIM: Ps = 1_000_000_000_000;
/// The state that a CPU publishes for others, in a cache line of its own.
#[repr(align(64))]
struct Shared {
    /// 1 while it runs no user code.
    lazy: Word,
}

struct Lazy<'a, H: Hardware> {
    common: Common<'a, H>,
    cpus: &'a [Cpu],
    shared: &'a [Shared],
    /// The host, of a guest of KVM.
    host: Option<Host<'a>>,
    /// When the mask of each space is to be trimmed next, by number.
    trims: RefCell<Vec<Cell<Ps>>>,
    /// For each CPU whether it is in the idle loop.
    idles: Vec<Cell<bool>>,
    /// For each CPU whether it has run anything: its first thread was not switched to.
    begun: Vec<Cell<bool>>,
    slots: usize,
    /// See [`SWITCH_LOOK`].
    look: Ps,
    tally: RefCell<KernelCounts>,
}

impl<'a, H: Hardware<Mmu = X86<Insn>> + 'a> Lazy<'a, H> {
    fn build(place: Place<'a>, is_guest: bool) -> Result<Box<dyn Strategy + 'a>, Refused> {
        let Place { arena, machine, cpus } = place;
        let own = arena.fill(cpus, |_| Cpu::new());
        timed::name(own, "CPUs");
        let shared = arena.fill(cpus, |_| Shared { lazy: Word::ZERO });
        timed::name(shared, "lazy CPUs");
        Ok(Box::new(Self {
            common: Common::new(place)?,
            cpus: own,
            shared,
            host: is_guest.then(|| Host::new(arena, machine, cpus)),
            trims: RefCell::default(),
            idles: vec![Cell::new(false); cpus],
            begun: vec![Cell::new(false); cpus],
            slots: if machine.features.tag_bits == 0 { 1 } else { SLOTS },
            look: machine.path_or_none(SWITCH_LOOK),
            tally: RefCell::default(),
        }))
    }

    fn cpu(&self) -> &'a Cpu {
        &self.cpus[me().index()]
    }

    fn lazy(&self) -> &'a Word {
        &self.shared[me().index()].lazy
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

    fn tally(&self, f: impl FnOnce(&mut KernelCounts)) {
        f(&mut self.tally.borrow_mut());
    }

    /// Loads a space and returns whether its entries were flushed. `generation` was read after this CPU was
    /// set in the space's mask.
    fn load(&self, cpu: &Cpu, root: u64, context: u64, generation: u64) -> bool {
        let (slot, caught_up) = cpu.find(context, self.slots);
        // Without PCIDs each load flushes.
        let flush = self.slots == 1 || caught_up.is_none_or(|caught_up| caught_up < generation);
        if flush {
            cpu.give(slot, context, generation);
        }
        cpu.set_current(slot);
        Insn.write_cr3(root | slot as u64 | if flush { 0 } else { KEEP });
        flush
    }

    /// Switches to a space. Returns whether it was flushed, or `None` where Linux reports nothing because the
    /// space stays loaded.
    fn switch_to(&self, next: &Mm<'_>) -> Option<bool> {
        self.resume_vcpu();
        self.leave_idle_loop();
        let (cpu, lazy) = (self.cpu(), self.lazy());
        let was_lazy = lazy.load(Ordering::Relaxed) != 0;
        if was_lazy {
            lazy.store(0, Ordering::SeqCst);
        }
        if cpu.loaded.get() == next.context {
            if !was_lazy {
                return None;
            }
            // An initiator that skipped this CPU as lazy has raised the generation before it looked.
            Word::fence(Ordering::SeqCst);
            timed::pause(self.look);
            let latest = next.generation.load(Ordering::SeqCst);
            let is_behind = cpu.current().generation.get() < latest;
            return is_behind.then(|| self.load(cpu, next.root, next.context, latest));
        }
        cpu.loaded.store(SWITCHING, Ordering::SeqCst);
        if !next.cpus.has(me()) {
            next.cpus.add(me());
        }
        timed::pause(self.look);
        let generation = next.generation.load(Ordering::SeqCst);
        let flushed = self.load(cpu, next.root, next.context, generation);
        cpu.loaded.store(next.context, Ordering::Release);
        Some(flushed)
    }

    /// Leaves the space that this CPU has loaded lazily for the kernel's own.
    fn drop_space(&self, cpu: &Cpu) {
        cpu.loaded.store(SWITCHING, Ordering::SeqCst);
        self.load(cpu, RESERVED, KERNEL_CONTEXT, 0);
        cpu.loaded.store(KERNEL_CONTEXT, Ordering::Release);
    }

    /// Executes a flush request on this CPU, counts it as Linux does, and returns its outcome. Interrupts are
    /// off.
    fn process(&self, cpu: &Cpu, mm: &Mm<'_>, request: &Request, here: bool) -> Fate {
        if cpu.loaded.get() != mm.context {
            mm.cpus.remove(me());
            self.count(Reason::WrongSpace, Pages::Some(0));
            return Fate::Elsewhere;
        }
        if self.lazy().load(Ordering::Relaxed) != 0 {
            self.drop_space(cpu);
            return Fate::Dropped;
        }
        let slot = cpu.current();
        let caught_up = slot.generation.get();
        if request.generation <= caught_up {
            return Fate::Nothing;
        }
        // Read before the flush, so that no more is recorded than was flushed.
        let latest = mm.generation.load(Ordering::SeqCst);
        let next = request.generation == caught_up + 1 && request.generation == latest;
        let pages = if request.is_range() && next {
            request.flush_pages();
            request.pages()
        } else {
            Insn.write_cr3(mm.root | cpu.number());
            Pages::Everything
        };
        slot.generation.set(latest);
        self.count(if here { Reason::LocalSpace } else { Reason::Remote }, pages);
        Fate::Flushed
    }

    /// The CPUs of a mask that need a request, without this one.
    fn targets(&self, mm: &Mm<'_>, all: bool, tables: bool) -> Vec<Targets> {
        let must_act = |cpu: CpuId| {
            if self.host.as_ref().is_some_and(|host| host.is_away(cpu)) {
                return false;
            }
            if tables {
                return true;
            }
            if self.shared[cpu.index()].lazy.load(Ordering::SeqCst) != 0 {
                return false;
            }
            let loaded = self.cpus[cpu.index()].loaded.load(Ordering::SeqCst);
            all || loaded == SWITCHING || loaded == mm.context
        };
        let mut targets: Vec<Targets> = mm.cpus.others(me()).collect();
        for group in &mut targets {
            let Targets { first, mask } = *group;
            let bit = |cpu: CpuId| 1 << (cpu.0 - first.0);
            group.mask = Targets { first, mask }
                .iter()
                .filter(|&cpu| must_act(cpu))
                .fold(0, |mask, cpu| mask | bit(cpu));
        }
        targets.retain(|group| group.mask != 0);
        targets
    }

    /// The idle loop handles pending requests before it switches to a thread, and does not wait for their
    /// interrupt.
    fn leave_idle_loop(&self) {
        if self.idles[me().index()].replace(false) && self.common.has_requests() {
            self.handle_ipi();
        }
    }

    /// Resumes this vCPU: its host first performs the flushes that were requested of it.
    fn resume_vcpu(&self) {
        if let Some(host) = &self.host {
            host.resume_vcpu();
        }
    }

    /// Whether the mask of a space is due to be trimmed; starts the next period if so.
    fn is_due(&self, space: SpaceId) -> bool {
        let trims = self.trims.borrow();
        let next = &trims[space.0 as usize];
        let due = timed::now() >= next.get();
        if due {
            next.set(timed::now() + TRIM);
        }
        due
    }
}

/// The outcome of a request to flush, in the order of [`KernelCounts::fates`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Flushed,
    Dropped,
    Elsewhere,
    Nothing,
}

impl<'a, H: Hardware<Mmu = X86<Insn>> + 'a> Strategy for Lazy<'a, H> {
    fn online(&self) {
        self.common.online();
        let cpu = self.cpu();
        // The kernel's own space is in slot 0, where a CPU starts.
        cpu.start(self.slots).context.set(KERNEL_CONTEXT);
        cpu.loaded.set(KERNEL_CONTEXT);
    }

    fn add(&self, space: SpaceId, root: u64) {
        self.common.add(space, root);
        self.trims.borrow_mut().push(Cell::new(timed::now() + TRIM));
    }

    fn switch(&self, next: SpaceId) {
        if let Some(flushed) = self.switch_to(self.common.space(next))
            && self.count_switch(flushed)
        {
            self.tally(|tally| *(if flushed { &mut tally.misses } else { &mut tally.hits }) += 1);
        }
    }

    fn switch_uncounted(&self, next: SpaceId) {
        self.begun[me().index()].set(true);
        self.switch_to(self.common.space(next));
    }

    fn execute(&self, next: SpaceId) {
        // Linux reports the same as at a switch, but no thread was switched.
        if let Some(flushed) = self.switch_to(self.common.space(next)) {
            self.count_switch(flushed);
        }
    }

    fn idle(&self) {
        self.begun[me().index()].set(true);
        self.resume_vcpu();
        self.leave_idle_loop();
        if self.cpu().loaded.get() != KERNEL_CONTEXT {
            self.lazy().store(1, Ordering::Release);
        }
    }

    fn halt(&self) {
        self.idle();
        self.idles[me().index()].set(true);
        if let Some(host) = &self.host {
            host.halt();
        }
    }

    fn flush(&self, flush: &Flush) {
        let Some(space) = flush.space else { return self.common.flush_kernel(flush) };
        let (cpu, mm) = (self.cpu(), self.common.space(space));
        let generation = mm.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let request = self.common.request(flush, generation);
        let process = || {
            timed::interrupts_off(|| {
                if self.process(cpu, mm, &request, true) == Fate::Dropped {
                    // No thread was switched here.
                    self.tally(|tally| tally.patching += 1);
                }
            });
        };
        if mm.cpus.others(me()).next().is_none() {
            if cpu.loaded.get() == mm.context {
                process();
            }
            return;
        }
        self.count(Reason::Send, request.pages());
        let all = self.is_due(space);
        let targets = self.targets(mm, all, flush.tables);
        let sends = targets.iter().map(|group| u64::from(group.mask.count_ones())).sum::<u64>();
        self.tally(|tally| tally.sends += sends);
        let loaded = cpu.loaded.get() == mm.context;
        // This CPU acts under the same conditions as the others.
        let is_lazy = self.lazy().load(Ordering::Relaxed) != 0;
        let acts = mm.cpus.has(me()) && (flush.tables || !is_lazy && (loaded || all));
        if let Some(host) = &self.host {
            host.begin_send(&targets);
        }
        self.common.send_to(targets, &request, || {
            if acts {
                // Where sending takes long, as in guests, interrupts of other CPUs arrive meanwhile. Their
                // requests are handled before this CPU's own flush, and may leave it nothing to do.
                timed::take_interrupts();
                if let Some(host) = &self.host
                    && sends != 0
                {
                    host.resume_after_send();
                }
                process();
            }
        });
    }

    fn handle_ipi(&self) {
        let cpu = self.cpu();
        let sleeping = self.host.as_ref().filter(|host| host.is_halted());
        if let Some(host) = &self.host {
            host.handle_ipi();
        }
        self.resume_vcpu();
        self.common.handle_ipi(|request| {
            let fate = self.process(cpu, self.common.named(request.space), request, false);
            self.tally(|tally| {
                tally.fates[fate as usize] += 1;
                tally.dropped += u64::from(fate == Fate::Dropped);
            });
        });
        if let Some(host) = sleeping {
            // The interrupt came while it was halted; it halts again.
            host.halt();
        }
    }

    fn remove(&self, _: SpaceId) {
        // Context numbers are never reused, so that slots of the space are never found again.
    }

    fn observed(&self) -> Option<KernelCounts> {
        Some(self.tally.borrow().clone())
    }
}
