//! Flushes, on the CPU that requests them and on those that are interrupted.

use lookaside::{
    arch::{Errata, Invalidation, Mmu as _, Scope, x86_64::Instructions as _},
    platform::{CpuId, Ordering, Platform as _, Targets, Word as _},
};
use lookaside_machine::timed::{self, Next, x86::Insn};
use lookaside_traces::{Pages, Reason};

use super::{
    Linux,
    cpu::{KERNEL_CONTEXT, SWITCHING},
    mask::all_others,
    me,
    patches::Patch,
    request::Request,
    space::Mm,
};
use crate::strategy::Flush;

/// The outcome of a request to flush, in the order of [`lookaside_traces::KernelCounts::fates`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Flushed,
    Dropped,
    Elsewhere,
    Nothing,
}

impl Linux<'_> {
    fn ceiling(&self) -> u64 {
        if self.has(Patch::Ceiling) { self.ceiling } else { u64::MAX }
    }

    /// Flushes pages of a space.
    pub(super) fn flush_space(&self, mm: &Mm<'_>, flush: &Flush) {
        // The mask is in a cache line that others write: only a batch asks it here.
        let is_put_off = || self.has(Patch::Batches) && mm.cpus.others(me()).next().is_some();
        if flush.batch && !is_put_off() {
            for page in flush.first..flush.first + flush.pages {
                self.flush_space(mm, &Flush { first: page, pages: 1, batch: false, ..*flush });
            }
            return;
        }
        let count = |change: u64| {
            if self.has(Patch::Counted) {
                let _ = mm.pending.0.fetch_add(change, Ordering::Relaxed);
            }
        };
        count(1);
        let has_generations = self.has(Patch::Generations);
        let generation =
            if has_generations { mm.generation.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
        timed::reached();
        let request = Request::new(flush, generation, self.ceiling());
        if flush.batch && self.has(Patch::Broadcast) {
            // Whatever tag the space has.
            self.platform.mmu().flush(Errata::NONE, Invalidation::All, Scope::Broadcast);
        } else if let Some(tag) = self.tag_on_all(mm) {
            self.flush_by_broadcast(mm, tag, flush, &request);
        } else {
            self.flush_by_interrupts(mm, &request, flush.tables);
            self.consider_tag(mm);
        }
        count(1_u64.wrapping_neg());
    }

    fn flush_by_interrupts(&self, mm: &Mm<'_>, request: &Request, tables: bool) {
        let is_loaded = self.cpu().loaded.get() == mm.context;
        let has_others = || mm.cpus.others(me()).next().is_some();
        if self.has(Patch::Concurrent) {
            if has_others() {
                self.request(mm, request, tables, true);
            } else if is_loaded {
                self.process_here(request);
            }
            return;
        }
        if is_loaded {
            self.process_here(request);
        } else if !self.has(Patch::Generations) {
            // The change of the tables comes before the load of the mask.
            self.barrier();
        }
        if has_others() {
            self.request(mm, request, tables, false);
        }
    }

    fn process_here(&self, request: &Request) {
        timed::interrupts_off(|| {
            if self.process(request, true) == Fate::Dropped {
                // No thread was switched here.
                self.tally.borrow_mut().patching += 1;
            }
        });
    }

    /// Sends a request to the CPUs that need it, performs it here meanwhile if `here`, and waits for the
    /// acknowledgements.
    pub(super) fn request(&self, mm: &Mm<'_>, request: &Request, tables: bool, here: bool) {
        self.count(Reason::Send, request.pages());
        // A batch goes to every CPU of the mask that is not lazy.
        let trims = request.is_batch() || self.has(Patch::MaskKept) && mm.is_due();
        let all = tables || !self.has(Patch::LazySkipped) || self.is_in_transition(mm);
        let wanted = |cpu: CpuId| all || self.is_running(cpu, mm, trims);
        let mut groups: Vec<Targets> = mm.cpus.others(me()).collect();
        if let Some(host) = &self.host {
            for group in &mut groups {
                host.withdraw(group);
            }
        }
        if !all && self.ask > 0 {
            // It looks which CPUs are lazy before its first request, and nothing says when.
            timed::pause(self.ask, |length| length / 2);
        }
        let send_and_flush = || {
            let sends = self.send(groups, wanted, request);
            if here && mm.cpus.has(me()) && wanted(me()) {
                // Where sending takes long, as in guests, interrupts of other CPUs arrive meanwhile. Their
                // requests are handled before this CPU's own flush, and may leave it nothing to do.
                timed::take_interrupts();
                if let Some(host) = &self.host
                    && sends.iter().any(|group| group.mask != 0)
                {
                    host.resume_after_send();
                }
                self.process_here(request);
            }
            sends
        };
        let sends = match timed::next_after_send() {
            Some(Next::Own) => timed::interrupts_off(send_and_flush),
            Some(Next::Interrupt) | None => send_and_flush(),
        };
        self.calls.wait(&self.platform, &sends);
    }

    fn send(
        &self,
        groups: Vec<Targets>,
        wanted: impl Fn(CpuId) -> bool,
        request: &Request,
    ) -> Vec<Targets> {
        let wanted = |cpu| {
            let wanted = wanted(cpu);
            if let Some(host) = self.host.as_ref().filter(|_| wanted) {
                host.begin_send(cpu);
            }
            wanted
        };
        let called = self.calls.send(&self.platform, groups.into_iter(), wanted, request);
        let sends = called.iter().map(|group| u64::from(group.mask.count_ones())).sum::<u64>();
        self.tally.borrow_mut().sends += sends;
        called
    }

    /// Whether a CPU of the mask has to act before it runs user code of the space again, or is to leave the mask.
    fn is_running(&self, cpu: CpuId, mm: &Mm<'_>, trims: bool) -> bool {
        let loaded = self
            .has(Patch::MaskKept)
            .then(|| self.cpus[cpu.index()].loaded.load(Ordering::Relaxed));
        if self.lazy(cpu).load(Ordering::Relaxed) != 0 {
            return false;
        }
        loaded.is_none_or(|loaded| trims || loaded == SWITCHING || loaded == mm.context)
    }

    /// Flushes kernel addresses on every CPU.
    pub(super) fn flush_kernel(&self, flush: &Flush) {
        let request = Request::new(flush, 0, self.ceiling());
        if self.has(Patch::Broadcast) {
            return self.broadcast_kernel(flush, &request);
        }
        let groups = all_others(self.cpus.len(), me()).collect();
        let called = self.send(groups, |_| true, &request);
        let here = || timed::interrupts_off(|| request.flush_kernel());
        if self.has(Patch::Concurrent) {
            here();
            self.calls.wait(&self.platform, &called);
        } else {
            self.calls.wait(&self.platform, &called);
            here();
        }
    }

    /// Executes a flush request on this CPU, counts it as Linux does, and returns its outcome. Interrupts are
    /// off.
    fn process(&self, request: &Request, here: bool) -> Fate {
        let Some(context) = request.context() else {
            request.flush_kernel();
            return Fate::Flushed;
        };
        if request.is_batch() {
            return self.process_batch(request, here);
        }
        let (cpu, mm) = (self.cpu(), self.named(context));
        if cpu.loaded.get() != context {
            if self.has(Patch::MaskKept) {
                mm.cpus.remove(me());
            }
            self.count(Reason::WrongSpace, Pages::Some(0));
            return Fate::Elsewhere;
        }
        if self.lazy(me()).get() != 0 {
            self.drop_space(cpu, mm);
            return Fate::Dropped;
        }
        if self.has_to_reload(cpu, mm) {
            let generation = mm.generation.load(Ordering::SeqCst);
            self.load(cpu, mm, generation);
        }
        if self.has(Patch::Broadcast) && cpu.is_shared() {
            // What is under this tag is flushed by broadcasts.
            return Fate::Flushed;
        }
        let pages = if self.has(Patch::Generations) {
            let caught_up = cpu.generation();
            if self.has(Patch::ReachedSkipped) && request.generation <= caught_up {
                return Fate::Nothing;
            }
            // Read before the flush, so that no more is recorded than was flushed.
            let latest = mm.generation.load(Ordering::SeqCst);
            // A CPU that is not in the mask catches up when it comes back.
            let is_away = self.has(Patch::IdleLeaves) && !mm.cpus.has(me());
            if caught_up >= latest || is_away {
                return Fate::Nothing;
            }
            let next = request.generation == caught_up + 1 && request.generation == latest;
            let pages = self.invalidate(request, mm, next);
            cpu.reached(latest);
            pages
        } else {
            self.invalidate(request, mm, true)
        };
        self.count(if here { Reason::LocalSpace } else { Reason::Remote }, pages);
        Fate::Flushed
    }

    /// Flushes everything of the space that this CPU has loaded, whichever that is, if it missed a flush of that space.
    fn process_batch(&self, request: &Request, here: bool) -> Fate {
        let cpu = self.cpu();
        let loaded = cpu.loaded.get();
        if loaded == KERNEL_CONTEXT {
            return Fate::Nothing;
        }
        let mm = self.named(loaded);
        if self.lazy(me()).get() != 0 {
            self.drop_space(cpu, mm);
            return Fate::Dropped;
        }
        if self.has(Patch::Broadcast) && cpu.is_shared() {
            return Fate::Flushed;
        }
        let latest = mm.generation.load(Ordering::SeqCst);
        let pages = if self.has(Patch::Generations) && cpu.generation() >= latest {
            Pages::Some(0)
        } else {
            let pages = self.invalidate(request, mm, false);
            cpu.reached(latest);
            pages
        };
        self.count(if here { Reason::Local } else { Reason::Remote }, pages);
        Fate::Flushed
    }

    /// Invalidates the pages of a request, or everything of the space that is loaded if that is requested or `alone` is
    /// false.
    fn invalidate(&self, request: &Request, mm: &Mm<'_>, alone: bool) -> Pages {
        if request.is_range() && alone {
            request.flush_pages();
            request.pages()
        } else {
            Insn.write_cr3(mm.root | self.cpu().pcid());
            Pages::Everything
        }
    }

    /// Executes the calls of others.
    pub(super) fn handle_calls(&self) {
        let sleeping = self.host.as_ref().filter(|host| host.is_halted());
        if let Some(host) = &self.host {
            host.handle_ipi();
        }
        self.resume_vcpu();
        self.calls.handle_ipi(|request| {
            let fate = self.process(request, false);
            if request.context().is_some() {
                let mut tally = self.tally.borrow_mut();
                tally.fates[fate as usize] += 1;
                tally.dropped += u64::from(fate == Fate::Dropped);
            }
        });
        if let Some(host) = sleeping {
            // The interrupt came while it was halted; it halts again.
            host.halt();
        }
    }
}
