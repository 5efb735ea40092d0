//! Flushes of kernel addresses, where a CPU may hold entries of them under each of its tags: x86-64 with PCIDs in a kernel
//! whose entries are not global, with KPTI for example.
//!
//! Hardware removes an address cheaply under the tag that the root register names, and the others only all at once. It uses
//! no entry but global ones, and no cached upper level, of a tag that the register does not name (SDM vol. 3, 4.10.1; APM vol. 2,
//! 5.5). So a flush removes the addresses under the present tag, and *notes* that each other tag must be dropped before the
//! register names it again. The idea is that of Linux (`invalidate_other`):
//!
//! | the tag is | the note | what drops its entries |
//! | --- | --- | --- |
//! | that of another slot | the slot becomes empty | the switch to any space that no slot holds loads its root with [`Held::Drop`](crate::arch::Held::Drop), both halves of a pair |
//! | the user's half of the present one | `user_needs_flush`, if the flush did not remove the addresses there | the exit to user mode |
//! | that of the reserved root | `reserved_is_stale` | the next park |
//! | that of foreign roots | none | it holds nothing: entries are dropped when a foreign root is loaded, and again when it goes |
//!
//! A switch executes nothing more for it: it may find no slot anyway. The present slot stays, because initiators of
//! flushes read there how far this CPU has flushed. On a parked CPU no slot is the present one, and all become empty. While a
//! foreign root is loaded the register names neither the present tag nor the reserved one; then the hardware removes
//! everything, as it does where it cannot do this at all.
//!
//! Interrupts are off from the first removal until the note is made, and this CPU alone reads the note. An NMI in between
//! runs under the present tag.

use super::{HasPerCpuAsids, PerCpuAsids, Replacement};
use crate::{
    arch::{Mmu, Tag},
    platform::Platform,
    request::FlushRanges,
    tlb::AllocatorCpu,
    word::Word,
};

impl<const SLOTS: usize, R: Replacement> PerCpuAsids<SLOTS, R> {
    /// Removes kernel addresses under the tag that the register names, and notes what is left under others.
    pub(super) fn flush_kernel_addresses<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        ranges: &FlushRanges,
    ) {
        let (cpu, tag) = (T::per_cpu(this_cpu.cpu), this_cpu.tag());
        let (errata, change) = (this_cpu.errata(), ranges.change());
        let left = this_cpu.mmu().flush_kernel_under(errata, tag, ranges.kernel_ranges(), change);
        let present = (tag != Tag::RESERVED).then(|| cpu.slots.current());
        if left.under_other_tags {
            cpu.slots.empty_all_but(present);
            if present.is_some() {
                cpu.reserved_is_stale.set(1);
            }
        }
        if left.in_user_half {
            cpu.slots.user_needs_flush(cpu.slots.current());
        }
    }

    /// Loads the reserved root, and drops what is held under its tag if a flush of kernel addresses has left entries there.
    /// While a foreign root is loaded, the register and the note stay as they are.
    pub(super) fn park_register<P: Platform, T: HasPerCpuAsids<P, SLOTS>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
    ) {
        let is_stale = &T::per_cpu(this_cpu.cpu).reserved_is_stale;
        if is_stale.get() != 0 && !this_cpu.has_foreign_root() {
            this_cpu.park_register_and_drop();
            is_stale.set(0);
        } else {
            this_cpu.park_register();
        }
    }
}
