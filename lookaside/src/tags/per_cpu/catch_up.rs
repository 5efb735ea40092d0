//! Paying when called: what a CPU does that others have called, and how they learn that it has paid.
//!
//! If one has called, his request says what is owed. If several have, the generation of the space says
//! that something is, and one payment in full does for all of them.
//!
//! The answer is what the CPU's books say anyway: a slot holds a space, and up to which generation that
//! was paid. Both are never used again, so it is true for ever, and it does not matter how the CPU came
//! to pay: called, on its way in, or by a flush of its own.
//!
//! A lazy CPU is called because a table goes, or because break comes before make. It does not pay, it leaves:
//! then nobody asks it for what goes next, and what it owes it pays if it comes back.

use super::{DROPPED, LAZY, PerCpuAsids, PerCpuAsidsCpu, SWITCHING, Slots, id_of, running};
use crate::{
    arch::Mmu,
    current_cpu::StrategyCpu,
    flush::ReceivedRequest,
    platform::{Ordering, Platform, Word},
    tags::{Replacement, Tags as _},
};

impl<W: Word, const SLOTS: usize> Slots<W, SLOTS> {
    /// As the owner: the slot of the space that the register names.
    #[inline]
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) as usize // Relaxed: this CPU's own word.
    }

    /// As the owner: up to which generation the space of a slot was paid.
    #[inline]
    pub(super) fn flushed_up_to(&self, slot: usize) -> u64 {
        self.flushed_up_to[slot].load(Ordering::Relaxed) // Relaxed: this CPU's own word.
    }

    /// As the owner: the space of a slot was paid up to `generation`.
    #[inline]
    pub(super) fn set_flushed_up_to(&self, slot: usize, generation: u64) {
        // ORDER O-CAUGHT-UP (pairs with O-CAUGHT-UP-READ): the flush is complete, and what this CPU did through
        // the old translations has been done.
        self.flushed_up_to[slot].store(generation, Ordering::Release);
    }
}

impl<W: Word, const SLOTS: usize> PerCpuAsidsCpu<W, SLOTS> {
    /// As a revoker: up to which generation of the space with this label this CPU has paid; all, if it
    /// need not act. One that is lazy must if `lazily`.
    pub(super) fn local_generation(&self, context: u64, lazily: bool) -> u64 {
        // ORDER O-CAUGHT-UP-READ (pairs with O-CAUGHT-UP, O-SWITCHED, O-LAZY, O-PARKED): the payment, or that the
        // CPU runs another space, then the new use of the frame; and the space of a slot before its
        // number. A slot that was given to another space meanwhile was given when this one was left.
        let active = self.active.load(Ordering::Acquire);
        // A CPU that is switching may have loaded the root of either.
        let runs = active & SWITCHING != 0 || id_of(active) == context;
        let rests = active & LAZY != 0 && !lazily;
        if !runs || rests {
            return u64::MAX;
        }
        let slot = self.slots.current.load(Ordering::Acquire) as usize; // As O-CAUGHT-UP-READ.
        let who = self.slots.id[slot].load(Ordering::Acquire); // As O-CAUGHT-UP-READ.
        if who & !DROPPED == running(context) {
            self.slots.flushed_up_to[slot].load(Ordering::Acquire) // As O-CAUGHT-UP-READ.
        } else {
            0
        }
    }
}

/// Leaves the space in which this CPU is lazy, and says whether it is.
pub(super) fn leave_if_lazy<P: Platform, const SLOTS: usize, R: Replacement>(
    this_cpu: &StrategyCpu<'_, P, PerCpuAsids<SLOTS, R>>,
) -> bool {
    // Relaxed: this CPU's own word.
    let lazy = this_cpu.cpu().active.load(Ordering::Relaxed) & LAZY != 0;
    if lazy {
        let _ = PerCpuAsids::park(this_cpu);
    }
    lazy
}

/// What this CPU may owe on the space that it runs.
#[derive(Clone, Copy)]
pub(super) struct CatchUp {
    pub(super) context: u64,
    slot: usize,
    /// Up to which generation it has paid.
    pub(super) flushed_up_to: u64,
}

impl CatchUp {
    /// Of the CPU that runs this; `None` if it runs no space.
    pub(super) fn of<P: Platform, const SLOTS: usize, R: Replacement>(
        this_cpu: &StrategyCpu<'_, P, PerCpuAsids<SLOTS, R>>,
    ) -> Option<Self> {
        let cpu = this_cpu.cpu();
        // Relaxed: this CPU's own word.
        let active = cpu.active.load(Ordering::Relaxed);
        let slot = cpu.slots.current();
        let stale =
            || Self { context: id_of(active), slot, flushed_up_to: cpu.slots.flushed_up_to(slot) };
        (active != 0).then(stale)
    }

    /// Notes that everything was removed that was owed up to generation `now`.
    pub(super) fn note_flushed<P: Platform, const SLOTS: usize, R: Replacement>(
        self,
        this_cpu: &StrategyCpu<'_, P, PerCpuAsids<SLOTS, R>>,
        now: u64,
    ) {
        if now > self.flushed_up_to {
            this_cpu.cpu().slots.set_flushed_up_to(self.slot, now);
        }
    }

    /// Pays up to generation `now` what is asked, or everything if that is not known. Says how many
    /// flushes were paid.
    pub(super) fn flush_missed<P: Platform, const SLOTS: usize, R: Replacement>(
        self,
        this_cpu: &StrategyCpu<'_, P, PerCpuAsids<SLOTS, R>>,
        asked: Option<ReceivedRequest>,
        now: u64,
    ) -> u64 {
        let (slots, tag) = (&*this_cpu.cpu().slots, this_cpu.tag());
        if now <= self.flushed_up_to {
            return 0;
        }
        let early = asked.is_some_and(|asked| asked.early);
        if early {
            this_cpu.nmi_uaccess_disable();
            slots.set_flushed_up_to(self.slot, now);
        }
        match asked {
            Some(asked) => asked.ranges.flush(this_cpu.tlb().platform(), this_cpu.errata(), tag),
            None => this_cpu.mmu().flush_tag(this_cpu.errata(), tag),
        }
        // Recorded after the flush: what is recorded was flushed.
        if early {
            this_cpu.nmi_uaccess_enable();
        } else {
            slots.set_flushed_up_to(self.slot, now);
        }
        now - self.flushed_up_to
    }
}
