//! The IPI handler for generation-tracked flushes, and how the initiator observes completion.
//!
//! If one initiator has sent an IPI, its inline request names the page, or its described request says what to flush.
//! If several have, the generation of the space says that flushes were missed, and one flush of the whole tag does for
//! all of them.
//!
//! The acknowledgement is the CPU's slot, which it writes anyway: the identifier of a space, and the
//! generation up to which that space was flushed. Identifiers and generations are never used again, so the
//! acknowledgement stays true for ever, and it does not matter where the CPU flushed: in the IPI handler, at
//! switch-in, or for a request of its own.
//!
//! A lazy CPU gets an IPI if a table is freed, or for break-before-make. It does not flush but leaves the
//! space (Linux: `leave_mm`): then it gets no IPI for the next flush, and if it switches back to the space it
//! flushes what it has missed.

use super::{
    DROPPED, HasPerCpuAsids, LAZY, PerCpuAsids, PerCpuAsidsCpu, Replacement, SWITCHING, id_of,
    running,
};
use crate::{
    arch::{Invalidation, Mmu, Scope, Tag},
    ids::CpuId,
    platform::Platform,
    request::{Mapped, ReceivedRequest},
    tlb::AllocatorCpu,
    word::{Ordering, Word},
};

impl<const SLOTS: usize, R: Replacement> PerCpuAsids<SLOTS, R> {
    /// Does a flush of the generations from `first` to `last` of the space in a slot, by `flush`, which is given what was
    /// mapped under the tag; or, where flushes before it were missed, whose ranges are not known here, of the whole tag.
    /// Returns whether it was needed.
    #[inline(always)] // Out of line, what `flush` captures would be in memory.
    pub(super) fn flush_generations<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        (slot, tag): (usize, Tag),
        (first, last): (u64, u64),
        flush: impl FnOnce(&Mapped),
    ) -> bool {
        let cpu = T::per_cpu(this_cpu.cpu);
        let done = cpu.slots.flushed_up_to(slot);
        if done >= last {
            return false;
        }
        if done + 1 >= first {
            flush(&cpu.mapped[slot]);
        } else {
            this_cpu.mmu().flush(this_cpu.errata(), Invalidation::Tag(tag), Scope::Local);
            cpu.mapped[slot].set(0);
        }
        // Recorded after the flush: what is recorded was flushed.
        cpu.slots.set_flushed_up_to(slot, last);
        true
    }
}

impl<W: Word, const SLOTS: usize> PerCpuAsidsCpu<W, SLOTS> {
    /// As an initiator: the generation of the space with this context id up to which this CPU has flushed;
    /// `u64::MAX` if it need not act. A lazy CPU must act if `lazily`.
    pub(super) fn local_generation(&self, context: u64, lazily: bool) -> u64 {
        // ORDER O-CAUGHT-UP-READ (pairs with O-CAUGHT-UP, O-SWITCHED, O-LAZY, O-PARKED): this CPU is seen to
        // have flushed, or to run another space, before the frame is used anew; and the identifier in a slot
        // is read before its generation. A slot that was given to another space meanwhile was given when
        // this CPU left the former one.
        let active = self.active.load(Ordering::Acquire);
        // Most of them run the space, and nothing else is to be asked.
        if active != running(context) {
            // A CPU that is switching may have loaded the root of either.
            let runs = active & SWITCHING != 0 || id_of(active) == context;
            let rests = active & LAZY != 0 && !lazily;
            if !runs || rests {
                return u64::MAX;
            }
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

/// Up to where this CPU has flushed the space that it runs.
#[derive(Clone, Copy)]
pub(super) struct CatchUp {
    pub(super) context: u64,
    lazy: bool,
    slot: usize,
    /// The generation up to which this CPU has flushed the space.
    pub(super) flushed_up_to: u64,
}

impl CatchUp {
    /// Of the CPU that runs this; `None` if it runs no space.
    pub(super) fn of<P: Platform, const SLOTS: usize, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
    ) -> Option<Self> {
        let cpu = T::per_cpu(this_cpu.cpu);
        // Relaxed: this CPU's own word.
        let active = cpu.active.load(Ordering::Relaxed);
        let slot = cpu.slots.current();
        if active == 0 {
            return None;
        }
        Some(Self {
            context: id_of(active),
            lazy: active & LAZY != 0,
            slot,
            flushed_up_to: cpu.slots.flushed_up_to(slot),
        })
    }

    /// As [`Self::of`], of a CPU that is not lazy. One that is leaves its space instead.
    ///
    /// # Errors
    ///
    /// How many flushes it has done by that: one if it has left its space, none if it runs no space.
    #[inline]
    pub(super) fn unless_lazy<P: Platform, const SLOTS: usize, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
    ) -> Result<Self, u64> {
        match Self::of(this_cpu) {
            Some(Self { lazy: true, .. }) => {
                let _ = T::park(this_cpu);
                Err(1)
            }
            missed => missed.ok_or(0),
        }
    }

    /// Records that everything was flushed that was revoked up to generation `now`.
    pub(super) fn note_flushed<P: Platform, const SLOTS: usize, T: HasPerCpuAsids<P, SLOTS>>(
        self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        now: u64,
    ) {
        if now > self.flushed_up_to {
            T::per_cpu(this_cpu.cpu).slots.set_flushed_up_to(self.slot, now);
        }
    }

    /// Removes the page of the inline request, if that is the next flush of the space. It may be of another space, which
    /// this CPU has left before it got the IPI. Returns how many flushes this did.
    #[inline]
    pub(super) fn flush_inline_page<
        P: Platform,
        const SLOTS: usize,
        T: HasPerCpuAsids<P, SLOTS>,
    >(
        self,
        this_cpu: &AllocatorCpu<'_, P, T>,
    ) -> u64 {
        let (next, pending) = (self.flushed_up_to + 1, &this_cpu.cpu.queue.posted.pending_ipi);
        let Some(page) = pending.inline_page(self.context, next) else { return 0 };
        this_cpu.invalidate_page(this_cpu.cpu.tag(), page);
        T::per_cpu(this_cpu.cpu).slots.set_flushed_up_to(self.slot, next);
        pending.set_removed_page();
        1
    }

    /// As [`Self::flush_inline_page`], of the request that `initiator` has described.
    #[inline(never)]
    pub(super) fn flush_request<P: Platform, const SLOTS: usize, T: HasPerCpuAsids<P, SLOTS>>(
        self,
        this_cpu: AllocatorCpu<'_, P, T>,
        initiator: CpuId,
    ) -> u64 {
        let next = self.flushed_up_to + 1;
        let initiator = this_cpu.tlb.queue(initiator);
        let received = initiator.and_then(|queue| queue.own_request.read_flush(self.context, next));
        received.map_or(0, |received| self.flush_missed(&this_cpu, Some(&received), next))
    }

    /// Flushes up to generation `now`: the ranges of the request, or the whole tag if there is none. Returns
    /// how many flushes this did.
    pub(super) fn flush_missed<P: Platform, const SLOTS: usize, T: HasPerCpuAsids<P, SLOTS>>(
        self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        received: Option<&ReceivedRequest>,
        now: u64,
    ) -> u64 {
        let (slots, tag) = (&*T::per_cpu(this_cpu.cpu).slots, this_cpu.tag());
        if now <= self.flushed_up_to {
            return 0;
        }
        let early = received.is_some_and(|received| received.early);
        if early {
            this_cpu.nmi_uaccess_disable();
            slots.set_flushed_up_to(self.slot, now);
        }
        match received {
            Some(received) => {
                let mapped = &T::per_cpu(this_cpu.cpu).mapped[self.slot];
                this_cpu.flush_ranges(tag, &received.ranges, Some(mapped));
            }
            None => {
                this_cpu.mmu().flush(this_cpu.errata(), Invalidation::Tag(tag), Scope::Local);
                T::per_cpu(this_cpu.cpu).mapped[self.slot].set(0);
            }
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
