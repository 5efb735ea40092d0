//! Entries of page tables, and which part of them is the kernel's (SDM vol. 3, 4.5).

use core::{ops::Range, sync::atomic::Ordering};

use lookaside::{
    contig::{SizeChange, Svnapot},
    flush::Flags,
};

use super::boot::{kernel_root, vmap_table as the_vmap_table};
use crate::arch::{Protection, Table};

/// Virtual addresses are physical ones.
pub(crate) const OFFSET: usize = 0;

/// All of the lower half but the first entry of the root, which is the kernel's.
pub(crate) const USER: Range<usize> = 0x80_0000_0000..0x7f00_0000_0000;

/// How many levels of tables are under a root.
pub(crate) const LEVELS: u32 = 4;

/// There are no blocks, so any format will do.
pub(crate) type Blocks = Svnapot;

const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER_MODE: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
/// A page, in a table that is not of the last level.
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// A root that maps the kernel and nothing else: the one that CPUs start with.
pub(crate) fn reserved_root() -> u64 {
    (&raw const kernel_root) as u64
}

/// Puts the kernel's entry into a new root.
pub(crate) fn fill_root(root: &Table) {
    // SAFETY: boot code put it there, for good, and it is seen as atomic words only.
    let kernel = unsafe { &kernel_root };
    // Relaxed: the entry never changes, and loading the root orders its stores before walks.
    root[0].store(kernel[0].load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Where kernel addresses start that [`vmap_table`] maps: above all that is mapped one to one.
pub(crate) fn vmap_window() -> usize {
    8 << 30
}

/// The last-level table of the window. It is in every root, below the kernel's entry.
pub(crate) fn vmap_table() -> &'static Table {
    // SAFETY: as in `fill_root`.
    unsafe { &the_vmap_table }
}

/// An entry for a page of user mode.
pub(crate) fn page(address: u64, level: u32, protection: Protection) -> u64 {
    let write = if protection.write { WRITE } else { 0 };
    let execute = if protection.execute { 0 } else { NO_EXECUTE };
    let large = if level > 0 { LARGE } else { 0 };
    address | PRESENT | USER_MODE | write | execute | large
}

/// An entry for a page of the kernel's window.
pub(crate) fn kernel_page(address: u64) -> u64 {
    address | PRESENT | WRITE | GLOBAL | NO_EXECUTE
}

/// An entry for a table: permissions are set in the entries below.
pub(crate) fn table(address: u64) -> u64 {
    address | PRESENT | WRITE | USER_MODE
}

pub(crate) fn is_present(entry: u64) -> bool {
    entry & PRESENT != 0
}

/// Whether an entry of a table of this level maps a page.
pub(crate) fn is_page(entry: u64, level: u32) -> bool {
    is_present(entry) && (level == 0 || entry & LARGE != 0)
}

pub(crate) fn address_of(entry: u64) -> u64 {
    entry & ADDRESS
}

pub(crate) fn protection(entry: u64) -> Protection {
    Protection { write: entry & WRITE != 0, execute: entry & NO_EXECUTE == 0 }
}

pub(crate) fn flags(entry: u64) -> Flags {
    Flags { accessed: entry & ACCESSED != 0, dirty: entry & DIRTY != 0 }
}

pub(crate) fn with(entry: u64, flags: Flags) -> u64 {
    entry | bits(flags)
}

pub(crate) fn without(entry: u64, flags: Flags) -> u64 {
    entry & !bits(flags)
}

fn bits(flags: Flags) -> u64 {
    let accessed = if flags.accessed { ACCESSED } else { 0 };
    let dirty = if flags.dirty { DIRTY } else { 0 };
    accessed | dirty
}

/// Walks set both flags, on every CPU.
pub(crate) fn hardware_sets_flags() -> bool {
    true
}

pub(crate) fn blocks() -> Option<Blocks> {
    None
}

pub(crate) fn size_change() -> SizeChange {
    SizeChange::Flushed
}

/// Instructions that were stored are fetched: caches of code are coherent.
pub(crate) fn sync_code(_: usize, _: usize) {}
