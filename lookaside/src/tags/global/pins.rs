//! Pinned tags: a device walks the tables of a space under the CPUs' tag, so the tag must not change.

use super::{GlobalAsids, HasGlobalAsids, switch_in::NeedsLock};
use crate::{
    arch::{Invalidation, Mmu, Scope, Tag},
    error::Error,
    platform::Platform,
    space::AddressSpace,
    tlb::CurrentCpu,
    word::{Ordering, Word},
};

/// In `AddressSpace::pins`, beside the number of pins: the space was pinned in the last epoch, and keeps its tag until
/// it is released. CPUs may run it under that tag, and nothing would bring them to the shared one.
const PINNED_IN_LAST_EPOCH: u64 = 1 << 63;

/// The pins of a space that has so many in its word.
pub(super) const fn pins(word: u64) -> u64 {
    word & !PINNED_IN_LAST_EPOCH
}

/// Whether a device may use the tag of `space`.
#[inline]
pub(super) fn is_pinned<P: Platform>(space: &AddressSpace<P>) -> bool {
    space.pins.load(Ordering::Relaxed) != 0 // Relaxed: as `Tags::is_pinned`.
}

impl<P: Platform> CurrentCpu<'_, P, GlobalAsids<'_, P>> {
    /// Pins the tag of `space` and returns it: the space keeps it through rollovers until [`Self::unpin`] was
    /// called as often as this.
    ///
    /// While it is pinned, a device may hold translations under the tag: flushes of the space must
    /// reach the device too, for which the kernel is responsible.
    ///
    /// A full barrier of the driver (on Arm a `DSB`, as before every write to a device) comes between this and the write that
    /// gives the device the tag: without it a flush may not see the pin and not reach the device.
    #[doc(alias = "arm64_mm_context_get")]
    ///
    /// # Errors
    ///
    /// * [`Error::PinCap`] if [`crate::tags::GlobalAsidsConfig::pins`] spaces are pinned.
    /// * [`Error::IdsExhausted`] in the last epoch, when spaces have no tags of their own, if the space has not been pinned
    ///   before.
    /// * [`Error::OtherTlb`] if the space is of another [`crate::Tlb`].
    pub fn pin(&self, space: &AddressSpace<P>) -> Result<Tag, Error> {
        self.tlb.tags.pin(self, space)
    }

    /// Undoes one [`Self::pin`]. After the last one the tag lasts as long as any other; in the last epoch, until the
    /// space is released. No device that got the tag for this pin uses it any more: the implementer of
    /// [`Platform`] promises it. Where hardware broadcasts, and the device takes part in that, its entries go here;
    /// elsewhere the kernel has removed them before.
    ///
    /// # Errors
    ///
    /// * [`Error::NotPinned`] if the space is not pinned.
    /// * [`Error::OtherTlb`] if the space is of another [`crate::Tlb`].
    pub fn unpin(&self, space: &AddressSpace<P>) -> Result<(), Error> {
        self.tlb.tags.unpin(self, space)
    }
}

impl<P: Platform> GlobalAsids<'_, P> {
    /// See [`CurrentCpu::pin`].
    pub(in crate::tags) fn pin<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &CurrentCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> Result<Tag, Error> {
        let (this_cpu, tags) = (&this_cpu.for_allocator(), self);
        if space.tlb != this_cpu.tlb.id {
            return Err(Error::OtherTlb);
        }
        let platform = this_cpu.tlb.platform();
        let lock = tags.lock(this_cpu.tlb);
        // Relaxed, here and below: pins are written under the lock only.
        let pins = space.pins.load(Ordering::Relaxed);
        if pins == 0 {
            if tags.epoch() == tags.config.last_epoch {
                return Err(Error::IdsExhausted);
            }
            let pinned = tags.turn.pins.load(Ordering::Relaxed);
            if pinned >= u64::from(tags.config.pins) {
                return Err(Error::PinCap { cap: tags.config.pins });
            }
            loop {
                // This CPU does not switch to the space: the first CPU that does finds itself absent.
                match tags.assign_asid(this_cpu, space, tags.epoch(), false, Some(&lock)) {
                    Ok(_) => break,
                    Err(NeedsLock) if tags.epoch() + 1 == tags.config.last_epoch => {
                        return Err(Error::IdsExhausted);
                    }
                    Err(NeedsLock) => tags.rollover(this_cpu, &lock),
                };
            }
            // Under the residency lock no other CPU gives the space another tag, and the next holder sees
            // the pin.
            let mut residency = space.lock_residency(platform);
            // The device counts as an absent CPU that holds entries.
            residency.set_stale(true);
            let tag = space.cookie().tag();
            tags.pinned[usize::from(tag.0) / 64].fetch_or(1 << (tag.0 % 64), Ordering::Relaxed);
            tags.turn.pins.store(pinned + 1, Ordering::Relaxed);
            space.pins.store(1, Ordering::Relaxed);
        } else {
            space.pins.store(pins + 1, Ordering::Relaxed);
        }
        Ok(space.cookie().tag())
    }

    /// See [`CurrentCpu::unpin`].
    pub(in crate::tags) fn unpin<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &CurrentCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> Result<(), Error> {
        if space.tlb != this_cpu.tlb.id {
            return Err(Error::OtherTlb);
        }
        let tags = self;
        let _lock = tags.lock(this_cpu.tlb);
        // Relaxed, here and below: as in `pin`.
        let word = space.pins.load(Ordering::Relaxed);
        if pins(word) == 0 {
            return Err(Error::NotPinned);
        }
        // Before the pin is given up: then a CPU may give the space another tag.
        let tag = space.cookie().tag();
        let mut left = word - 1;
        if left == 0 && tags.epoch() == tags.config.last_epoch {
            left = PINNED_IN_LAST_EPOCH;
        } else if left == 0 {
            // The tag stays in this epoch's map. A CPU that still reads the pin renews the cookie within this epoch,
            // where no other space has the tag. From the next epoch on it reads the pin as gone.
            tags.pinned[usize::from(tag.0) / 64].fetch_and(!(1 << (tag.0 % 64)), Ordering::Relaxed);
            let pinned = tags.turn.pins.load(Ordering::Relaxed);
            tags.turn.pins.store(pinned - 1, Ordering::Relaxed);
        }
        space.pins.store(left, Ordering::Relaxed);
        let mmu = this_cpu.tlb.platform.mmu();
        if pins(left) == 0 && mmu.properties().broadcasts {
            // The device uses the tag no more, and what it holds goes, before the tag is another space's.
            // The lock keeps the next rollover away until then.
            mmu.flush(this_cpu.errata(), Invalidation::Tag(tag), Scope::Broadcast);
        }
        Ok(())
    }
}
