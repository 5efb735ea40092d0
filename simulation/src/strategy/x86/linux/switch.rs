//! Switches between spaces, and CPUs that have nothing to run.

use lookaside::{
    arch::x86_64::Instructions as _,
    platform::{Ordering, Word as _},
};
use lookaside_machine::timed::{self, x86::Insn};

use super::{
    Linux,
    cpu::{Cpu, KEEP, KERNEL_CONTEXT, SWITCHING},
    me,
    patches::Patch,
    space::Mm,
};
use crate::strategy::hardware::RESERVED;

impl Linux<'_> {
    /// Loads a space and returns whether its entries were flushed. `generation` was read after this CPU was
    /// set in the space's mask.
    pub(super) fn load(&self, cpu: &Cpu, mm: &Mm<'_>, generation: u64) -> bool {
        if let Some(tag) = self.tag_on_all(mm) {
            cpu.share(tag, mm.context, generation);
            Insn.write_cr3(mm.root | tag | KEEP);
            return false;
        }
        self.load_slot(cpu, mm.root, mm.context, generation)
    }

    fn load_slot(&self, cpu: &Cpu, root: u64, context: u64, generation: u64) -> bool {
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

    /// The generation of a space, where there is one.
    fn generation(&self, mm: &Mm<'_>) -> u64 {
        if self.has(Patch::Generations) { mm.generation.load(Ordering::SeqCst) } else { 0 }
    }

    /// Switches to a space. Returns whether it was flushed, or `None` where Linux reports nothing because the
    /// space stays loaded.
    pub(super) fn switch_to(&self, next: &Mm<'_>) -> Option<bool> {
        self.resume_vcpu();
        self.leave_idle_loop();
        let cpu = self.cpu();
        let lazy = self.lazy(me());
        let was_lazy = lazy.get() != 0;
        if was_lazy || cpu.loaded.peek() != next.context {
            self.until_seen();
        }
        if was_lazy {
            lazy.store(0, Ordering::Relaxed);
        }
        let previous = cpu.loaded.get();
        if previous == next.context {
            return self.resume(cpu, next, was_lazy);
        }
        let keeps = self.has(Patch::MaskKept);
        if previous != KERNEL_CONTEXT && !keeps {
            self.leave_mask(self.named(previous));
        }
        cpu.loaded.store(SWITCHING, Ordering::Relaxed);
        if keeps && next.cpus.has(me()) {
            // The store above comes before the load of the generation.
            self.barrier();
        } else {
            next.cpus.add(me());
        }
        self.until_read();
        let generation = self.generation(next);
        let flushed = self.load(cpu, next, generation);
        self.until_found();
        cpu.loaded.store(next.context, Ordering::Release);
        Some(flushed)
    }

    /// Other CPUs see that this one is not lazy any more, or is, or that it switches. That is between the two moments of
    /// [`SWITCH_LOOK`](super::SWITCH_LOOK) and before the generation is read. Nothing says when, so the distances are
    /// taken to be equal.
    fn until_seen(&self) {
        if self.look > 0 {
            timed::pause(self.look, |length| length / 3);
        }
    }

    /// The generation of the space is read.
    fn until_read(&self) {
        timed::pause(self.look, |length| 2 * length / 3);
    }

    /// The kernel has said what the TLB holds, and other CPUs see that the space is loaded.
    fn until_found(&self) {
        if self.look > 0 {
            timed::pause(self.look, |length| length);
        }
    }

    /// Goes on with the space that is loaded.
    fn resume(&self, cpu: &Cpu, mm: &Mm<'_>, was_lazy: bool) -> Option<bool> {
        if self.has(Patch::LazySkipped) {
            if self.has_to_reload(cpu, mm) {
                return Some(self.load(cpu, mm, self.generation(mm)));
            }
            if !was_lazy || cpu.is_shared() {
                return None;
            }
            // An initiator that skipped this CPU as lazy has raised the generation before it looked.
            self.barrier();
            self.until_read();
        } else {
            if mm.cpus.has(me()) {
                return None;
            }
            mm.cpus.add(me());
        }
        let generation = self.generation(mm);
        let is_behind = !self.has(Patch::Generations) || cpu.generation() < generation;
        is_behind.then(|| self.load(cpu, mm, generation))
    }

    /// Takes this CPU out of the mask of a space, unless an initiator or the idle loop already did.
    fn leave_mask(&self, mm: &Mm<'_>) {
        if self.has(Patch::LazySkipped) || mm.cpus.has(me()) {
            mm.cpus.remove(me());
        }
    }

    /// Leaves the space that this CPU has loaded and does not run.
    pub(super) fn drop_space(&self, cpu: &Cpu, mm: &Mm<'_>) {
        if !self.has(Patch::LazySkipped) {
            // What is loaded is said by the mask alone.
            if mm.cpus.has(me()) {
                mm.cpus.remove(me());
                Insn.write_cr3(RESERVED);
            }
            return;
        }
        self.lazy(me()).store(0, Ordering::Relaxed);
        if !self.has(Patch::MaskKept) {
            mm.cpus.remove(me());
        }
        cpu.loaded.store(SWITCHING, Ordering::Relaxed);
        self.load_slot(cpu, RESERVED, KERNEL_CONTEXT, 0);
        cpu.loaded.store(KERNEL_CONTEXT, Ordering::Release);
    }

    /// Switches to the idle loop or a kernel thread.
    pub(super) fn go_idle(&self) {
        self.begun[me().index()].set(true);
        self.resume_vcpu();
        self.leave_idle_loop();
        let loaded = self.cpu().loaded.get();
        if loaded == KERNEL_CONTEXT {
            return;
        }
        if self.has(Patch::IdleLeaves) {
            self.leave_mask(self.named(loaded));
        } else {
            self.until_seen();
            self.lazy(me()).store(1, Ordering::Release);
        }
    }

    /// The idle loop handles pending requests before it switches to a thread, and does not wait for their
    /// interrupt.
    fn leave_idle_loop(&self) {
        let was_idle = self.idles[me().index()].replace(false);
        if was_idle && self.has(Patch::IdleCalls) && self.calls.are_queued() {
            self.handle_calls();
        }
    }

    /// Resumes this vCPU: its host first performs the flushes that were requested of it.
    pub(super) fn resume_vcpu(&self) {
        if let Some(host) = &self.host {
            host.resume_vcpu();
        }
    }
}
