//! CPUs that an epoch has passed between joining and loading.
//!
//! Such a CPU is about to load the tag that was kept for it. Its register still names the space that it
//! leaves, under a tag that was kept for nobody (E3). Should that space be given another tag now, then who
//! takes a table of it away, or ends it, would look for CPUs that name the new tag, and miss this one. So a
//! space leaves its tag only when all that were passed in this moment have loaded (E4).
//!
//! The moment is short: interrupts are off, and the CPU waits for nobody but those who hold a space's books.
//! That a turnover meets one in it is rare, and is noted, so that nobody looks for them without need.

use super::{Cookie, FIRST_TAG, GlobalAsids, ticket};
use crate::{
    arch::{Mmu, Sharing},
    cpu::Cpu,
    current_cpu::StrategyCpu,
    platform::{Ordering, Platform, Word},
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Notes whether an epoch, now or before, has passed a CPU that is late and still is. The lock is held,
    /// and every CPU was passed.
    pub(super) fn note_mid_switch(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        _held: &ticket::Held<'_, P::Word>,
    ) {
        // Where CPUs use each other's entries, the register is parked before its CPU joins (F-PARK).
        let parked = this_cpu.mmu().sharing() == Sharing::Shared;
        let mid_switch = !parked && this_cpu.tlb().cpus().iter().any(Self::is_mid_switch);
        self.turn.mid_switch.store(u64::from(mid_switch), Ordering::Relaxed); // Relaxed: O-PUBLISH follows.
    }

    /// Returns when no CPU is late that was passed by the epoch of the caller.
    #[inline]
    pub(super) fn wait_for_mid_switch(&self, this_cpu: &StrategyCpu<'_, P, Self>) {
        // Relaxed: the note of the caller's epoch is there by O-EPOCH, and a later one speaks of all that
        // are late still.
        if self.turn.mid_switch.load(Ordering::Relaxed) != 0 {
            Self::wait_for_each(this_cpu);
        }
    }

    #[cold]
    fn wait_for_each(this_cpu: &StrategyCpu<'_, P, Self>) {
        let tlb = this_cpu.tlb();
        for cpu in tlb.cpus() {
            // One that has stopped is parked as soon as somebody says so.
            while Self::is_mid_switch(cpu) {
                tlb.platform().relax();
            }
        }
    }

    /// Whether the register of a CPU that an epoch has passed names something else than what was kept for
    /// it. Who has joined since then has loaded that before.
    fn is_mid_switch(cpu: &Cpu<P, Self>) -> bool {
        // ORDER O-PASSED (pairs with O-ADOPT): whoever is seen to have joined has loaded what was kept.
        let active = Cookie::from_bits(cpu.tags.active.cookie.load(Ordering::Acquire));
        // Relaxed: written under the lock, which the caller holds or which was held before O-EPOCH.
        let kept = Cookie::from_bits(cpu.tags.reserved.load(Ordering::Relaxed));
        let names = cpu.loaded_tag();
        // A parked register names nobody's tables. Whoever names any has joined before, and keeps something.
        let named = u32::from(names.0) >= FIRST_TAG;
        !active.adopted() && named && names != kept.tag()
    }
}
