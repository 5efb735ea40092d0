//! Page tables of three levels (Sv39).
//!
//! The kernel is where memory is: the lower part of every root maps all memory and devices, in pages
//! of 1 GiB, at their own addresses, for the supervisor alone. Above that lies one area of small pages
//! whose tables all roots share, and above that is user mode's part.
//!
//! ```text
//!  63 62  61 60      54 53                                 10 9   8 7 6 5 4 3 2 1 0
//! +--+------+----------+-------------------------------------+-----+-+-+-+-+-+-+-+-+
//! | N| PBMT | reserved |                 PPN                 | RSW |D|A|G|U|X|W|R|V|
//! +--+------+----------+-------------------------------------+-----+-+-+-+-+-+-+-+-+
//! ```
//!
//! Hardware may set A and D by itself (Svadu) or fault so that the kernel does (Svade), and the
//! firmware may have chosen; with neither named in the device tree nothing is known. The handler of
//! page faults repairs both in any case. The kernel's own pages have both set for good.

use core::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use lookaside::{
    arch::riscv64::Extensions,
    contig::{SizeChange, Svnapot},
    flush::Flags,
};

use super::harts;
use crate::arch::{Protection, Table};

pub(crate) const OFFSET: usize = 0;
pub(crate) const LEVELS: u32 = 3;
pub(crate) const USER: Range<usize> = 0x10_0000_0000..0x3f_0000_0000;

/// The end of what is mapped at its own address.
pub(super) const MAPPED: u64 = VMAP as u64;

/// Where the area of small kernel pages begins.
const VMAP: usize = 0x8_0000_0000;

/// How much an entry of a root covers: 1 GiB.
const ROOT_SHIFT: u32 = 30;
const VMAP_SLOT: usize = VMAP >> ROOT_SHIFT;

const _: () = assert!(USER.start >> ROOT_SHIFT > VMAP_SLOT && USER.end >> ROOT_SHIFT <= 256);

const V: u64 = 1 << 0;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;
const G: u64 = 1 << 5;
const A: u64 = 1 << 6;
const D: u64 = 1 << 7;
const PPN_SHIFT: u32 = 10;
const PPN_MASK: u64 = (1 << 44) - 1;
const PAGE_SHIFT: u32 = 12;

#[repr(C, align(4096))]
pub(super) struct Aligned(Table);

/// The reserved root, and the one that every hart begins with. The others have its entries, too.
pub(super) static ROOT: Aligned = Aligned(identity());
/// The tables of the area of small pages, which all roots share.
static VMAP_MIDDLE: Aligned = Aligned([const { AtomicU64::new(0) }; 512]);
static VMAP_LAST: Aligned = Aligned([const { AtomicU64::new(0) }; 512]);

const fn identity() -> Table {
    let mut table = [const { AtomicU64::new(0) }; 512];
    let mut slot = 0;
    while slot < VMAP_SLOT {
        let page = entry((slot as u64) << ROOT_SHIFT) | V | R | W | X | G | A | D;
        table[slot] = AtomicU64::new(page);
        slot += 1;
    }
    table
}

/// Puts in what the linker cannot. The boot CPU, alone.
pub(super) fn open() {
    // Relaxed: other harts are not started yet, and each fences when it loads the root.
    VMAP_MIDDLE.0[0].store(table(address(&VMAP_LAST)), Ordering::Relaxed);
    ROOT.0[VMAP_SLOT].store(table(address(&VMAP_MIDDLE)), Ordering::Relaxed);
}

fn address(table: &'static Aligned) -> u64 {
    (&raw const table.0).addr() as u64
}

pub(crate) fn reserved_root() -> u64 {
    address(&ROOT)
}

pub(crate) fn fill_root(root: &Table) {
    for (new, kernel) in root.iter().zip(&ROOT.0[..=VMAP_SLOT]) {
        // Relaxed: they have not changed since `open`, and no hart walks the new root yet.
        new.store(kernel.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

pub(crate) fn vmap_window() -> usize {
    VMAP
}

pub(crate) fn vmap_table() -> &'static Table {
    &VMAP_LAST.0
}

/// The address in its place.
const fn entry(address: u64) -> u64 {
    address >> PAGE_SHIFT << PPN_SHIFT
}

/// All levels have the same pages, but for the size.
pub(crate) fn page(address: u64, _level: u32, protection: Protection) -> u64 {
    let write = if protection.write { W } else { 0 };
    let execute = if protection.execute { X } else { 0 };
    entry(address) | V | R | U | write | execute
}

pub(crate) fn kernel_page(address: u64) -> u64 {
    entry(address) | V | R | W | G | A | D
}

pub(crate) fn table(address: u64) -> u64 {
    entry(address) | V
}

pub(crate) fn is_present(entry: u64) -> bool {
    entry & V != 0
}

pub(crate) fn is_page(entry: u64, _level: u32) -> bool {
    is_present(entry) && entry & (R | W | X) != 0
}

/// Not for the entries of a block, whose lowest bits are its size: those [`lookaside::contig`] reads.
pub(crate) fn address_of(entry: u64) -> u64 {
    (entry >> PPN_SHIFT & PPN_MASK) << PAGE_SHIFT
}

pub(crate) fn protection(entry: u64) -> Protection {
    Protection { write: entry & W != 0, execute: entry & X != 0 }
}

pub(crate) fn flags(entry: u64) -> Flags {
    Flags { accessed: entry & A != 0, dirty: entry & D != 0 }
}

pub(crate) fn with(entry: u64, flags: Flags) -> u64 {
    entry | bits(flags)
}

pub(crate) fn without(entry: u64, flags: Flags) -> u64 {
    entry & !bits(flags)
}

fn bits(flags: Flags) -> u64 {
    let accessed = if flags.accessed { A } else { 0 };
    let dirty = if flags.dirty { D } else { 0 };
    accessed | dirty
}

/// Some harts do, but no report of it is reliable.
pub(crate) fn hardware_sets_flags() -> bool {
    false
}

/// Svnapot's blocks.
pub(crate) type Blocks = Svnapot;

pub(crate) fn blocks() -> Option<Blocks> {
    harts::all().all(|hart| hart.extensions.contains(Extensions::SVNAPOT)).then_some(Svnapot)
}

/// Hardware that meets a block and pages for the same addresses uses either.
pub(crate) fn size_change() -> SizeChange {
    SizeChange::Free
}
