//! The end of an epoch and the beginning of the next.

use super::{Cookie, FIRST_TAG, GlobalAsids, ticket};
use crate::{
    arch::{Mmu, Sharing},
    current_cpu::StrategyCpu,
    platform::{Ordering, Platform, Word},
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Begins the next epoch and returns it. The lock is held, and in no epoch but the last are
    /// there fewer free tags afterwards than one.
    ///
    /// No CPU is stopped or interrupted: each one goes on with the root it has loaded, and pays for
    /// the new epoch when it next wants a tag.
    ///
    /// A worked example, with tags 2, 3 and 4. CPU 0 runs space A under tag 2, CPU 1 is switching
    /// from B (tag 3) to C, which has no tag, and finds none left:
    ///
    /// ```text
    ///                      active[0]   active[1]   kept[0]  kept[1]
    /// before               (1, J, 2)   (1, J, 3)   -        -
    /// passed both CPUs     (2, -, -)   (2, -, -)   (1, 2)   (1, 3)
    /// bitmap and publish   tags 2 and 3 are taken, 4 is free: C gets it
    /// CPU 1 joins          (2, -, -)   (2, J, 4)   (1, 2)   (1, 3)
    /// A is entered again   its cookie (1, 2) is kept since epoch 1: it becomes (2, 2)
    /// ```
    ///
    /// Tag 3 stays taken for all of epoch 2, although CPU 1 left B a moment later: while CPU 1
    /// emptied its TLB to join, its register still named B, so that entries under 3 came back.
    pub(super) fn rollover(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        held: &ticket::Held<'_, P::Word>,
    ) -> u64 {
        let cpus = this_cpu.tlb().cpus();
        // Relaxed: written under the lock only.
        let next = self.epoch.load(Ordering::Relaxed) + 1;

        // 1. Pass every CPU, this one included: from here on it cannot move to another tag of the
        //    old epoch, because its compare-exchange on `active` fails.
        for cpu in cpus {
            let cpu = &cpu.tags;
            // Whether a CPU is passed before or after it moved is settled by the order of the writes to
            // this one word.
            //
            // ORDER O-PASSES (pairs with O-ADOPT): a CPU that has said where it is going, then what its
            // register named when it said so. An older name could look like the new one.
            let left = Cookie::from_bits(
                cpu.active.cookie.swap(Cookie::flush_pending(next).bits(), Ordering::Acquire),
            );
            // A CPU that had not joined the old epoch still names what it named before.
            if left.adopted() {
                cpu.reserved.store(left.bits(), Ordering::Relaxed); // Relaxed: O-PUBLISH follows.
            }
        }

        self.note_mid_switch(this_cpu, held);

        // 2. What the registers name now cannot change to a tag that is free: mark it.
        for (index, word) in self.in_use.iter().enumerate() {
            let pinned = self.pinned[index].load(Ordering::Relaxed); // Relaxed: under the lock.
            // ORDER O-IN-USE (pairs with O-IN-USE-READ): whoever reads a bit of the new map also sees
            // that it has been passed, and knows that the map is not that of its epoch.
            word.store(pinned, Ordering::Release);
        }
        for cpu in cpus {
            // Relaxed: written above, or by an earlier holder of the lock.
            let tag = Cookie::from_bits(cpu.tags.reserved.load(Ordering::Relaxed)).tag();
            // O-IN-USE again: the map is in use by readers of the old epoch until they notice.
            self.in_use[usize::from(tag.0) / 64].fetch_or(1 << (tag.0 % 64), Ordering::Release);
        }
        self.turn.cursor.store(u64::from(FIRST_TAG), Ordering::Relaxed); // Relaxed: under the lock.

        // 3. Where CPUs use each other's entries, one that has joined could hit what another holds
        //    from the old epoch. Nobody makes such entries any more, except under tags that are
        //    kept; so one broadcast ends them all. Elsewhere each CPU empties its own TLB when it
        //    joins, without disturbing the others.
        if this_cpu.mmu().sharing() == Sharing::Shared {
            this_cpu.mmu().flush_all_broadcast(this_cpu.errata());
        }

        // ORDER O-PUBLISH (pairs with O-EPOCH, O-RUNS): whoever sees the epoch sees its map and what the
        // CPUs kept.
        self.epoch.store(next, Ordering::Release);
        next
    }
}
