//! CPUs that a rollover meets in mid-switch: between the write of `active` and the load of the root.
//!
//! Such a CPU is about to load the tag that the rollover has reserved for it. Its register still names the
//! space that it leaves, whose tag is not reserved (E3). Retagging that space now would hide this CPU:
//! a CPU that frees a table of the space next, or releases it, searches for CPUs that run the new tag. So a
//! space gets another tag only when all CPUs that a rollover met in mid-switch have loaded (E4).
//!
//! The moment is short: interrupts are off, and the CPU waits only for holders of a space's residency lock.
//! A rollover of a small machine rarely meets a CPU in it. A flag records that it did, so that CPUs are searched only then,
//! and until one search has found that all of them have loaded.

use super::{Cookie, FIRST_TAG, GlobalAsids, HasGlobalAsids, ticket};
use crate::{
    arch::{Mmu, Sharing},
    platform::Platform,
    tlb::{AllocatorCpu, Cpu},
    word::{Ordering, Word},
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Records whether the rollover to epoch `next` or an earlier one has met a CPU that is still in mid-switch. The lock is
    /// held, and a flush is pending on every CPU.
    pub(super) fn note_mid_switch<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: u64,
        _held: &ticket::Held<'_, P::Word>,
    ) {
        // Where CPUs use each other's entries, the register is parked before `active` is written (F-PARK).
        let parked = this_cpu.mmu().properties().sharing == Sharing::Shared;
        let mid_switch = !parked && this_cpu.tlb.cpus.iter().any(Self::is_mid_switch);
        // Relaxed: O-PUBLISH follows.
        self.turn.mid_switch.store(if mid_switch { next } else { 0 }, Ordering::Relaxed);
    }

    /// Returns when no CPU is in mid-switch any more that the rollover to the caller's epoch met there.
    #[inline]
    pub(super) fn wait_for_mid_switch<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
    ) {
        // The flag of the caller's epoch is visible by O-EPOCH, and a later one covers all CPUs that are still in mid-switch.
        //
        // ORDER O-ALL-PASSED-READ (pairs with O-ALL-PASSED): the flag is cleared, then this space leaves its tag.
        let met = self.turn.mid_switch.load(Ordering::Acquire);
        if met != 0 {
            self.wait_for_each(this_cpu, met);
        }
    }

    #[cold]
    fn wait_for_each<T: HasGlobalAsids<P>>(&self, this_cpu: &AllocatorCpu<'_, P, T>, met: u64) {
        let tlb = this_cpu.tlb;
        for cpu in tlb.cpus() {
            // A CPU that has stopped is parked as soon as the kernel reports it (`Tlb::stopped`).
            while Self::is_mid_switch(cpu) {
                tlb.platform().relax();
            }
        }
        // ORDER O-ALL-PASSED (pairs with O-ALL-PASSED-READ): this CPU has seen that all have loaded, then the flag. That of a
        // later rollover, which may have met others, is another number and stays.
        //
        // Relaxed if it fails: nothing is concluded from that.
        let _ = self.turn.mid_switch.compare_exchange(met, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether a flush is pending on the CPU and its register does not name the tag that is reserved for it.
    /// A CPU that has adopted the epoch since then had loaded that tag before.
    fn is_mid_switch<T: HasGlobalAsids<P>>(cpu: &Cpu<P, T>) -> bool {
        // ORDER O-PASSED (pairs with O-ADOPT): a CPU that is seen to have adopted the epoch has loaded the
        // reserved tag.
        let active = Cookie(T::global_cpu(cpu).active.cookie.load(Ordering::Acquire));
        if active.adopted() {
            return false; // Most CPUs, soon after a rollover: the other words are in lines of their own.
        }
        // Relaxed: written under the lock, which the caller holds or which was held before O-EPOCH.
        let kept = Cookie(T::global_cpu(cpu).reserved.load(Ordering::Relaxed));
        let names = cpu.loaded_tag();
        // A parked register names no space's tables. A CPU whose register names any has adopted an epoch
        // before, and has a reserved word.
        let named = u32::from(names.0) >= FIRST_TAG;
        named && names != kept.tag()
    }
}
