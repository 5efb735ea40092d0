//! Switch-in: finding the slot of a space, catching up with the flushes that this CPU has missed, and ending lazy mode.

use core::{ptr, sync::atomic::Ordering as Local};

use super::{DROPPED, HasPerCpuAsids, LAZY, PerCpuAsids, Replacement, running, slots::tag_of};
use crate::{
    arch::{Held, Invalidation, Mmu, Scope, Sharing, TableChange, Tag},
    counts::Event,
    platform::Platform,
    range::VaRange,
    request::MissedFlush,
    space::AddressSpace,
    tlb::{AllocatorCpu, Switched, Tags},
    word::{Ordering, Word},
};

impl<const SLOTS: usize, R: Replacement> PerCpuAsids<SLOTS, R> {
    /// Switch-in to a space in which this CPU was not present.
    #[cold]
    pub(super) fn switch_in_absent<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        // The generation tells what this CPU has missed.
        let _ = this_cpu.mark_present(next);
        Self::switch_in_present(&this_cpu, next, running(next.id()))
    }

    /// Switch-in after this CPU has published that it is switching to `next`, which is `who`.
    #[inline(always)] // As `Tags::switch_in`.
    pub(super) fn switch_in_present<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        who: u64,
    ) -> Switched {
        if this_cpu.mmu().properties().tag_bits == 0 {
            return Self::switch_in_tagless(this_cpu, next, who);
        }
        let slots = &*T::per_cpu(this_cpu.cpu).slots;
        let known = slots.holding(who);
        let generation = next.generation.load(Ordering::SeqCst); // As F-SWITCH.
        match known {
            Some(slot) if slots.flushed_up_to(slot) == generation => {
                slots.hit::<R>(slot);
                this_cpu.load(next, tag_of(slot), Held::Keep, Sharing::Private);
                slots.set_current(slot);
                Self::switched_in(this_cpu, next, who);
                Switched::Kept
            }
            known => Self::switch_in_stale(this_cpu.copied(), next, known, generation),
        }
    }

    /// Loads a space where nothing outlives a switch: one slot will do, and it never holds a space.
    #[inline(always)] // As above.
    fn switch_in_tagless<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        who: u64,
    ) -> Switched {
        let cpu = T::per_cpu(this_cpu.cpu);
        let generation = next.generation.load(Ordering::SeqCst); // As F-SWITCH.
        cpu.slots.user_needs_flush(0);
        cpu.mapped[0].set(0);
        this_cpu.load(next, Tag::RESERVED, Held::Drop, Sharing::Private);
        cpu.slots.give(0, who | DROPPED, generation);
        Self::switched_in(this_cpu, next, who);
        Switched::Fresh
    }

    /// After the load of the root, and after the present slot was noted ([`Slots::set_current`](super::slots::Slots::set_current)).
    #[inline]
    fn switched_in<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
        who: u64,
    ) {
        let slots = &*T::per_cpu(this_cpu.cpu).slots;
        // Relaxed: this CPU's own.
        slots.generation.store(ptr::from_ref(&space.generation).cast_mut(), Local::Relaxed);
        // ORDER O-SWITCHED (pairs with O-ACTIVE-READ, O-CAUGHT-UP-READ): when an initiator sees
        // that this CPU has left the former space, and sends it no IPI, the register no longer names that
        // space.
        T::per_cpu(this_cpu.cpu).active.store(who, Ordering::Release);
    }

    /// Loads a space of which this CPU has missed a flush, or which is in none of its slots.
    #[cold]
    fn switch_in_stale<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        known: Option<usize>,
        generation: u64,
    ) -> Switched {
        let slots = &*T::per_cpu(this_cpu.cpu).slots;
        let slot = known.unwrap_or_else(|| slots.victim::<R>());
        let tag = tag_of(slot);
        let mapped = &T::per_cpu(this_cpu.cpu).mapped[slot];
        let missed =
            known.and_then(|slot| next.missed_flush(slots.flushed_up_to(slot), generation));
        // Before the load, after which what is stale could be used. Where no instruction names the page under another tag than
        // the present one, to drop the tag costs nothing.
        let by_page = this_cpu.mmu().properties().reaches_other_tags;
        let held = match missed.map(|missed| missed.cheapest(&this_cpu.tlb.platform, mapped)) {
            Some(MissedFlush::Pages(pages)) if by_page => {
                remove(&this_cpu, tag, pages);
                Held::Keep
            }
            _ => Held::Drop,
        };
        if known.is_some() {
            slots.hit::<R>(slot);
        }
        if held == Held::Drop {
            slots.user_needs_flush(slot);
            mapped.set(0);
        }
        this_cpu.load(next, tag, held, Sharing::Private);
        slots.record(slot, running(next.id()), generation);
        slots.set_current(slot);
        Self::switched_in(&this_cpu, next, running(next.id()));
        if known.is_none() {
            return Switched::Fresh;
        }
        this_cpu.observe(Event::CaughtUp);
        Switched::Flushed
    }

    /// Switch-in to the space that the register names already.
    #[inline]
    pub(super) fn switch_in_again<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        active: u64,
    ) -> Switched {
        if active & LAZY == 0 {
            return Switched::Unchanged;
        }
        Self::resume(this_cpu.copied(), next)
    }

    /// Ends lazy mode.
    #[cold]
    fn resume<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        // FENCE F-UNLAZY-RESUME (pairs with F-GENERATION): this CPU is seen to run the space before it reads
        // generation.
        T::per_cpu(this_cpu.cpu).active.swap(running(next.id()), Ordering::SeqCst);
        if !this_cpu.is_present(next) {
            let _ = this_cpu.mark_present(next); // The generation tells what this CPU has missed.
        }
        Self::catch_up_after_lazy(&this_cpu, next)
    }

    /// Flushes what this CPU has missed of the space that its register names.
    fn catch_up_after_lazy<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> Switched {
        let (mmu, slots) = (this_cpu.mmu(), &*T::per_cpu(this_cpu.cpu).slots);
        let slot = slots.current();
        let tag = this_cpu.tag();
        // Read before the flush and recorded after it: what is recorded was flushed. As F-UNLAZY-RESUME.
        let generation = space.generation.load(Ordering::SeqCst);
        let mapped = &T::per_cpu(this_cpu.cpu).mapped[slot];
        let missed = |flushed_up_to| {
            let missed = space.missed_flush(flushed_up_to, generation)?;
            Some(missed.cheapest(&this_cpu.tlb.platform, mapped))
        };
        match missed(slots.flushed_up_to(slot)) {
            None => return Switched::Unchanged,
            Some(MissedFlush::Pages(pages)) => {
                remove(this_cpu, tag, pages);
            }
            Some(MissedFlush::Everything) => {
                mmu.flush(this_cpu.errata(), Invalidation::Tag(tag), Scope::Local);
                mapped.set(0);
            }
        }
        slots.set_flushed_up_to(slot, generation);
        this_cpu.observe(Event::CaughtUp);
        Switched::CaughtUp
    }
}

/// Removes what this CPU holds for `pages` under a tag.
fn remove<P: Platform, T: Tags<P>>(this_cpu: &AllocatorCpu<'_, P, T>, tag: Tag, pages: VaRange) {
    let entries = [pages];
    let entries = Invalidation::ranges(tag, &entries, TableChange::LastLevel);
    this_cpu.mmu().flush(this_cpu.errata(), entries, Scope::Local);
}
