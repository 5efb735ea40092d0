//! Page-table entries, in the layout that [`contig::Arm`] describes: a page that may be written to has
//! `DBM`; it is clean while it is read-only. Where hardware knows the flags, a store makes it writable;
//! where it does not, a store faults and the kernel does the same.

use lookaside::{
    Platform as _,
    arch::aarch64::{
        AddressSize, Geometry, Granule, Level,
        descriptor::{
            self, ACCESSED, Attributes, DIRTY_BIT_MODIFIER, INNER_SHAREABLE,
            PRIVILEGED_EXECUTE_NEVER, READ_ONLY, TABLE_OR_PAGE, USER, USER_EXECUTE_NEVER, VALID,
        },
        registers::TCR_HD,
    },
    contig::{self, Format, Raw, SizeChange},
    flush::Flags,
};

use super::register::read_register;
use crate::{arch::Protection, tlb};

/// Entries that hardware may hold as one: 16 pages.
pub(crate) type Blocks = contig::Arm;

pub(super) const GEOMETRY: Geometry = Geometry::new(Granule::K4, AddressSize::Bits48);

/// Indices into `MAIR_EL1` are those of boot code.
pub(super) const NORMAL: Attributes = Attributes::memory(0).with(INNER_SHAREABLE);
pub(super) const DEVICE: Attributes =
    Attributes::memory(1).with(PRIVILEGED_EXECUTE_NEVER | USER_EXECUTE_NEVER);

const FORMAT: Blocks = contig::Arm::new(GEOMETRY);

/// A fresh page of user mode, neither accessed nor dirty; at level 1 one of 2 MiB.
///
/// # Panics
///
/// If the address is not a multiple of its size.
pub(crate) fn page(address: u64, level: u32, protection: Protection) -> u64 {
    let level = if level == 0 { Level::L3 } else { Level::L2 };
    let write = if protection.write { DIRTY_BIT_MODIFIER } else { 0 };
    let execute = if protection.execute { 0 } else { USER_EXECUTE_NEVER };
    let attributes = NORMAL.with(USER | READ_ONLY | PRIVILEGED_EXECUTE_NEVER | write | execute);
    let leaf = descriptor::user_leaf(GEOMETRY, level, address, attributes);
    leaf.expect("the address of a frame") & !ACCESSED
}

/// A page of the kernel's data.
///
/// # Panics
///
/// If the address is no multiple of the page size.
pub(crate) fn kernel_page(address: u64) -> u64 {
    let attributes = NORMAL.with(PRIVILEGED_EXECUTE_NEVER | USER_EXECUTE_NEVER);
    descriptor::kernel_leaf(GEOMETRY, Level::L3, address, attributes).expect("a frame's address")
}

/// An entry that names the next table.
///
/// # Panics
///
/// If the address is no multiple of the page size.
pub(crate) fn table(address: u64) -> u64 {
    descriptor::table(GEOMETRY, address, 0).expect("the address of a frame")
}

pub(crate) fn is_present(entry: u64) -> bool {
    entry & VALID != 0
}

/// Whether `entry`, from a table at this level, maps a page, and names no table.
pub(crate) fn is_page(entry: u64, level: u32) -> bool {
    is_present(entry) && (entry & TABLE_OR_PAGE != 0) == (level == 0)
}

pub(crate) fn address_of(entry: u64) -> u64 {
    descriptor::output_of(GEOMETRY, entry)
}

pub(crate) fn protection(entry: u64) -> Protection {
    Protection { write: FORMAT.is_writable(Raw(entry)), execute: entry & USER_EXECUTE_NEVER == 0 }
}

pub(crate) fn flags(entry: u64) -> Flags {
    FORMAT.flags(Raw(entry))
}

pub(crate) fn with(entry: u64, flags: Flags) -> u64 {
    FORMAT.with(Raw(entry), flags).0
}

pub(crate) fn without(entry: u64, flags: Flags) -> u64 {
    FORMAT.without(Raw(entry), flags).0
}

/// Whether walks set accessed and dirty, or the handler of faults does.
pub(crate) fn hardware_sets_flags() -> bool {
    // The same on all CPUs: the library refuses others.
    read_register!("tcr_el1") & TCR_HD != 0
}

/// Every Arm64 CPU has the contiguous bit.
#[allow(clippy::unnecessary_wraps, reason = "other architectures may have none")]
pub(crate) fn blocks() -> Option<Blocks> {
    Some(FORMAT)
}

/// What stands between a block and its pages.
pub(crate) fn size_change() -> SizeChange {
    tlb::TLB.platform().mmu().size_change()
}
