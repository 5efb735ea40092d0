//! Last-level entries that hardware may hold as one block, where a machine has any.

use core::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use lookaside::{
    contig::{Entries, Format, Full, Locked, Raw},
    flush::Flags,
};

use crate::{
    arch::{self, PAGE, Table},
    tables::{LARGE, Taken},
    tlb::{self, AddressSpace},
};

/// What the entry in a slot says of its own page, if it is one of a block.
pub(crate) fn plain(entry: u64, slot: &AtomicU64) -> u64 {
    match arch::blocks() {
        Some(format) if format.is_folded(Raw(entry)) => {
            let place = core::ptr::from_ref(slot).addr() / 8;
            format.unfold(Raw(entry), place % format.shape().block_pages()).0
        }
        _ => entry,
    }
}

/// Maps consecutive frames to some slots, in blocks where that is possible; says whether it could.
pub(crate) fn set(table: &'static Table, slots: Range<usize>, address: usize, first: u64) -> bool {
    arch::blocks()
        .is_some_and(|format| locked(format, table, address).set(slots, Raw(first)).is_ok())
}

fn locked<F: Format>(
    format: F,
    table: &'static Table,
    address: usize,
) -> Locked<'static, AtomicU64, F> {
    let start = (address & !(LARGE - 1)) as u64;
    let entries = Entries::new(format, table, start).expect("a whole table");
    // SAFETY: the lock of the memory is held, and all flushes are the library's.
    unsafe { entries.locked(arch::size_change()) }
}

/// Takes the pages of some slots out, and gives each to `each`. Blocks that are cut through become pages,
/// with a flush in between.
pub(crate) fn take(
    table: &'static Table,
    slots: Range<usize>,
    address: usize,
    space: &AddressSpace,
    each: &mut impl FnMut(Taken),
) -> Flags {
    let mut found = Flags::NONE;
    let mut tell = |place: usize, entry| {
        if arch::is_present(entry) {
            found |= arch::flags(entry);
            each(Taken { address: address + place * PAGE, entry, level: 0 });
        }
    };
    match arch::blocks() {
        None => {
            for (place, slot) in table[slots].iter().enumerate() {
                tell(place, slot.swap(0, Ordering::AcqRel));
            }
        }
        Some(format) => {
            let mut locked = locked(format, table, address);
            for (place, slot) in slots.clone().enumerate() {
                tell(place, locked.get(slot).map_or(0, |page| page.bits()));
            }
            let cleared = locked
                .get_and_clear(slots, Full::No, &mut tlb::this_cpu().flush_blocks(space))
                .expect("in the table");
            found |= cleared.flags;
        }
    }
    found
}

/// Takes the permission to write from whole blocks, and makes pages of those that are cut through.
pub(crate) fn write_protect(
    table: &'static Table,
    slots: Range<usize>,
    address: usize,
    space: &AddressSpace,
) -> bool {
    arch::blocks().is_some_and(|format| {
        let mut locked = locked(format, table, address);
        locked.write_protect(slots, &mut tlb::this_cpu().flush_blocks(space)).expect("in the table")
    })
}

/// Makes pages of the blocks that some slots belong to.
pub(crate) fn unfold(
    table: &'static Table,
    slots: Range<usize>,
    address: usize,
    space: &AddressSpace,
) {
    if let Some(format) = arch::blocks() {
        let mut locked = locked(format, table, address);
        for slot in slots {
            let unfolded = locked.unfold(slot, &mut tlb::this_cpu().flush_blocks(space));
            let _ = unfolded.expect("in the table");
        }
    }
}
