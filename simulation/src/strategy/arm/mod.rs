//! Arm64: how kernels kept TLBs coherent there before, and proposals.
//!
//! Written from published descriptions: FreeBSD's review D21922 of October 2019, "A patch for using
//! ASIDs in the arm64 pmap", and Andrea Arcangeli's "arm64: tlb: skip tlbi broadcast" of February
//! 2020 (linux-arm-kernel). The state is that of the publications; the instructions are executed by
//! the library's own [`Aarch64`], as for the library's strategies.

mod asids;
mod freebsd;
mod linux;
mod spaces;
mod stale;
mod untagged;

use lookaside::{
    VaRange,
    arch::{
        Errata, Invalidation, Mmu as _, Scope, TableChange, Tag,
        aarch64::{self, Aarch64},
    },
};
use lookaside_machine::timed::{KERNEL, arm};
use lookaside_terminal::Refused;

use super::{Entry, Flush, flush_range, hardware};
use crate::data::{Isa, Machine};

/// All of them.
pub(super) const STRATEGIES: &[Entry] = &[
    Entry {
        name: "broadcast-at-switch",
        about: "FreeBSD arm64 before D21922 (2019): no tags, each switch empties every CPU",
        isas: &[Isa::Aarch64],
        build: untagged::build,
    },
    Entry {
        name: "freebsd-asids",
        about: "FreeBSD D21922 (2019): a tag for each space, one lock, epochs; broadcast flushes",
        isas: &[Isa::Aarch64],
        build: freebsd::build,
    },
    Entry {
        name: "linux-broadcast",
        about: "Linux arm64 of 2020: tags with generations; every flush of a user is broadcast",
        isas: &[Isa::Aarch64],
        build: |place| linux::build(place, linux::Reach::Everywhere),
    },
    Entry {
        name: "local-mm-users",
        about: "the same, flushes of single-threaded processes stay local; no others (Arcangeli, 3 Feb 2020)",
        isas: &[Isa::Aarch64],
        build: |place| linux::build(place, linux::Reach::OneUser),
    },
    Entry {
        name: "local-active",
        about: "the same, flushes of spaces that one CPU runs stay local (Arcangeli, 23 Feb 2020)",
        isas: &[Isa::Aarch64],
        build: |place| linux::build(place, linux::Reach::OneActive),
    },
];

/// These kernels have no work-arounds: the cost of an erratum has no published price.
const NO_ERRATA: Errata = Errata::NONE;

/// The library's Arm, on simulated CPUs.
type Hardware = Aarch64<arm::Insn>;

fn mmu(machine: &Machine) -> Result<Hardware, Refused> {
    <hardware::Arm as hardware::Hardware>::mmu(machine).map_err(Refused::because)
}

/// Brings a CPU up: it leaves the firmware's tables and is parked.
fn come_up(mmu: &Hardware, machine: &Machine) {
    let features: aarch64::Features = <hardware::Arm as hardware::Hardware>::features(machine);
    mmu.admit(&features).expect("all CPUs are alike");
    mmu.park(NO_ERRATA);
}

/// The operands of a flush, in the form of the instructions.
struct Named {
    range: VaRange,
    depth: TableChange,
}

impl Named {
    /// The pages of a flush, which has some.
    fn of(flush: &Flush) -> Self {
        let base = if flush.space.is_some() { 0 } else { KERNEL };
        Self {
            range: flush_range(base + (flush.first << 12), flush.pages, flush.order),
            depth: if flush.tables { TableChange::FreedTables } else { TableChange::LastLevel },
        }
    }
}

/// Whether the whole tag is removed: if the flush is of everything, or of more than `limit` entries that are no batch.
const fn is_full(flush: &Flush, limit: u64) -> bool {
    flush.everything || !flush.batch && flush.entries() > limit
}

/// Removes pages, or the whole tag, on every CPU, and waits. Pages of a batch are named one by one, as they were taken away.
fn flush_broadcast(mmu: &Hardware, tag: Tag, flush: &Flush, limit: u64) {
    if flush.batch {
        for page in flush.first..flush.first + flush.pages {
            let Named { range, depth } = Named::of(&Flush { first: page, pages: 1, ..*flush });
            mmu.begin_broadcast(NO_ERRATA, Invalidation::ranges(tag, &[range], depth));
        }
        mmu.complete_broadcast(NO_ERRATA);
    } else if is_full(flush, limit) {
        mmu.flush(NO_ERRATA, Invalidation::Tag(tag), Scope::Broadcast);
    } else {
        let Named { range, depth } = Named::of(flush);
        mmu.flush(NO_ERRATA, Invalidation::ranges(tag, &[range], depth), Scope::Broadcast);
    }
}

/// The same on this CPU alone.
fn flush_here(mmu: &Hardware, tag: Tag, flush: &Flush, limit: u64) {
    if is_full(flush, limit) {
        mmu.flush(NO_ERRATA, Invalidation::Tag(tag), Scope::Local);
    } else {
        let Named { range, depth } = Named::of(flush);
        mmu.flush(NO_ERRATA, Invalidation::ranges(tag, &[range], depth), Scope::Local);
    }
}

/// Removes kernel pages on every CPU, or everything if they are more than `limit`.
fn flush_kernel(mmu: &Hardware, flush: &Flush, limit: u64) {
    if flush.pages > limit {
        mmu.flush(NO_ERRATA, Invalidation::kernel(&[], TableChange::FreedTables), Scope::Broadcast);
    } else {
        let Named { range, depth } = Named::of(flush);
        mmu.flush(NO_ERRATA, Invalidation::kernel(&[range], depth), Scope::Broadcast);
    }
}
