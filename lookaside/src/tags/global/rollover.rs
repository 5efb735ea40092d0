//! Rollover: the end of an epoch and the beginning of the next.

use super::{Cookie, FIRST_TAG, GlobalAsids, HasGlobalAsids, ticket};
use crate::{
    arch::{Invalidation, Mmu, Scope, Sharing},
    platform::Platform,
    tlb::AllocatorCpu,
    word::{Ordering, Word},
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Begins the next epoch and returns it. The lock is held. Unless the new epoch is the last, at least one
    /// tag is free in it.
    ///
    /// No CPU is stopped or interrupted: each one goes on with the root that it has loaded, and flushes its
    /// TLB for the new epoch at its next switch-in.
    ///
    /// A worked example, with tags 2, 3 and 4. CPU 0 runs space A under tag 2, CPU 1 is switching
    /// from B (tag 3) to C, which has no tag, and finds none left:
    ///
    /// ```text
    ///                      active[0]   active[1]   reserved[0]  reserved[1]
    /// before               (1, A, 2)   (1, A, 3)   -            -
    /// flush pending        (2, -, -)   (2, -, -)   (1, 2)       (1, 3)
    /// map and publish      tags 2 and 3 are in use, 4 is free: C gets it
    /// CPU 1 adopts epoch   (2, -, -)   (2, A, 4)   (1, 2)       (1, 3)
    /// a switch to A        its cookie (1, 2) is reserved since epoch 1: it becomes (2, 2)
    /// ```
    ///
    /// Tag 3 stays in use for all of epoch 2, although CPU 1 left B a moment later: while CPU 1
    /// flushed its TLB for the new epoch, its register still named B, so that entries under 3 came back.
    pub(super) fn rollover<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        held: &ticket::Held<'_, P::Word>,
    ) -> u64 {
        let cpus = this_cpu.tlb.cpus();
        // Relaxed: written under the lock only.
        let next = self.epoch.load(Ordering::Relaxed) + 1;

        // 1. Mark a flush pending on every CPU, this one included: from here on the CPU cannot switch to
        //    another tag of the old epoch, because its compare-exchange on `active` fails.
        for cpu in cpus {
            let cpu = T::global_cpu(cpu);
            // The order of the writes to this one word decides whether this comes before or after a
            // CPU's switch.
            //
            // ORDER O-PASSES (pairs with O-ADOPT): a CPU's cookie is read before the record of what its
            // register names, which is then at least as new as the cookie. With an older record the CPU
            // could seem to have loaded the new tag.
            let left = Cookie(
                cpu.active.cookie.swap(Cookie::flush_pending(next).bits(), Ordering::Acquire),
            );
            // The register of a CPU that had not adopted the old epoch names what its reserved word says.
            if left.adopted() {
                cpu.reserved.store(left.bits(), Ordering::Relaxed); // Relaxed: O-PUBLISH follows.
            }
        }

        self.note_mid_switch(this_cpu, next, held);

        // 2. No register can be switched to a free tag now: mark the tags that registers name.
        for (index, word) in self.in_use.iter().enumerate() {
            let pinned = self.pinned[index].load(Ordering::Relaxed); // Relaxed: under the lock.
            // ORDER O-IN-USE (pairs with O-IN-USE-READ): a CPU that reads a bit of the new map also sees
            // that a flush is pending on it, and so that the map is not that of its epoch.
            word.store(pinned, Ordering::Release);
        }
        for cpu in cpus {
            // Relaxed: written above, or by an earlier holder of the lock.
            let tag = Cookie(T::global_cpu(cpu).reserved.load(Ordering::Relaxed)).tag();
            // O-IN-USE again: the map is in use by readers of the old epoch until they notice.
            self.in_use[usize::from(tag.0) / 64].fetch_or(1 << (tag.0 % 64), Ordering::Release);
        }
        self.turn.cursor.store(u64::from(FIRST_TAG), Ordering::Relaxed); // Relaxed: under the lock.

        // 3. Where CPUs use each other's entries, a CPU that has adopted the epoch could hit entries that
        //    another holds from the old epoch. No CPU makes such entries any more, except under reserved
        //    tags; so one broadcast removes them all. Elsewhere each CPU flushes its own TLB when it adopts
        //    the epoch, without disturbing the others.
        if this_cpu.mmu().properties().sharing == Sharing::Shared {
            this_cpu.mmu().flush(this_cpu.errata(), Invalidation::All, Scope::Broadcast);
        }

        // ORDER O-PUBLISH (pairs with O-EPOCH, O-RUNS, O-LAST): a CPU that sees the epoch sees its map and the
        // reserved words.
        self.epoch.store(next, Ordering::Release);
        next
    }
}
