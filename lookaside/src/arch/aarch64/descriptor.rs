//! Stage-1 descriptors: tables, blocks and pages.
//!
//! ```text
//! 63      55 54  53  52   51  50            n  12 11 10 9  8 7  6 5  4    2 1 0
//! |upper    |UXN|PXN|CONT|DBM|   output address  |nG|AF| SH |  AP |NS|AttrIndx|T|V|
//! ```
//!
//! Source: manual D8.3, VMSAv8-64 descriptor formats. `T` is 0 for a block and 1 for a table or
//! a page. With 52-bit addresses, bits 51:48 of the output stand in bits 15:12 (64 KiB granule), or
//! bits 51:50 in bits 9:8, where shareability then is not (4 KiB, 16 KiB).
//!
//! The library writes no page tables; this is for kernels that set up what a switch relies on: user
//! entries are *never* global, also not blocks and not the identity map of the boot. A global entry
//! in the lower half matches under every tag, and no flush of a tag removes it.

use super::tlbi::{AddressSize, Geometry, Granule, Level};
use crate::error::Error;

/// The entry is valid.
pub const VALID: u64 = 1 << 0;
/// A table or a page, not a block.
pub const TABLE_OR_PAGE: u64 = 1 << 1;
/// `AP[1]`: user mode may access.
pub const USER: u64 = 1 << 6;
/// `AP[2]`: read-only.
pub const READ_ONLY: u64 = 1 << 7;
/// `SH`: inner shareable. Part of the address, and left out, with 52 bits and small granules.
pub const INNER_SHAREABLE: u64 = 0b11 << 8;
/// `AF`: accessed. An entry without it faults and is never cached.
pub const ACCESSED: u64 = 1 << 10;
/// `nG`: belongs to one tag.
pub const NOT_GLOBAL: u64 = 1 << 11;
/// `DBM`: hardware may turn read-only into writable to record that the page is dirty.
pub const DIRTY_BIT_MODIFIER: u64 = 1 << 51;
/// `Contiguous`.
pub const CONTIGUOUS: u64 = 1 << 52;
/// `PXN`: the kernel may not execute.
pub const PRIVILEGED_EXECUTE_NEVER: u64 = 1 << 53;
/// `UXN`: user mode may not execute.
pub const USER_EXECUTE_NEVER: u64 = 1 << 54;

/// Bits 11:2, the lower attributes.
const LOWER: u64 = 0xffc;
/// Bits 63:50, the upper attributes: from `GP` on. No address has a bit there: with 52-bit addresses the highest are in
/// bits 9:8 or 15:12 (DDI 0487, "VMSAv8-64 descriptor formats").
const UPPER: u64 = !((1 << 50) - 1);

/// The attributes of a page or block, as they stand in the descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Bits 11:2. `AF` and `nG` are the builder's business.
    pub lower: u64,
    /// Bits 63:50.
    pub upper: u64,
}

impl Attributes {
    /// Attributes with this index into `MAIR_EL1`, which must be below 8.
    #[must_use]
    pub const fn memory(index: u8) -> Self {
        Self { lower: (index as u64 & 0b111) << 2, upper: 0 }
    }

    /// The same with more bits, each of which goes to the half it belongs to.
    #[must_use]
    pub const fn with(self, bits: u64) -> Self {
        Self { lower: self.lower | bits & LOWER, upper: self.upper | bits & UPPER }
    }
}

/// A page or block of a user, or of anything else that is translated through `TTBR0_EL1`: valid,
/// accessed, not global.
///
/// # Errors
///
/// * [`Error::Unsupported`] if the geometry has no page or block at `level`.
/// * [`Error::UnalignedRange`] if `output` is not a multiple of what it maps.
/// * [`Error::BadRoot`] if `output` has more bits than the geometry can hold.
pub const fn user_leaf(
    geometry: Geometry,
    level: Level,
    output: u64,
    attributes: Attributes,
) -> Result<u64, Error> {
    match kernel_leaf(geometry, level, output, attributes) {
        Ok(leaf) => Ok(leaf | NOT_GLOBAL),
        Err(error) => Err(error),
    }
}

/// A page or block of the kernel: valid, accessed, and global unless the attributes say otherwise.
///
/// # Errors
///
/// As [`user_leaf`].
pub const fn kernel_leaf(
    geometry: Geometry,
    level: Level,
    output: u64,
    attributes: Attributes,
) -> Result<u64, Error> {
    let Some(shift) = geometry.leaf_shift(level) else {
        return Err(Error::Unsupported("a page or block at that level"));
    };
    if output & ((1 << shift) - 1) != 0 {
        return Err(Error::UnalignedRange { start: output, bytes: 1 << shift, page_shift: shift });
    }
    let Some(address) = address_bits(geometry, output) else {
        return Err(Error::BadRoot { address: output });
    };
    let kind = match level {
        Level::L3 => TABLE_OR_PAGE,
        _ => 0,
    };
    let lower = match (geometry.addresses, geometry.granule) {
        (AddressSize::Bits52, Granule::K4 | Granule::K16) => LOWER & !INNER_SHAREABLE,
        _ => LOWER,
    };
    let attributes = attributes.lower & lower | attributes.upper & UPPER;
    Ok(VALID | kind | ACCESSED | attributes | address)
}

/// A descriptor that points to the next table, a physical address in bytes, with `upper` bits 63:59
/// (the limits that it puts on everything below).
///
/// # Errors
///
/// * [`Error::UnalignedRange`] if `next` is not aligned to the granule.
/// * [`Error::BadRoot`] if `next` has more bits than the geometry can hold.
pub const fn table(geometry: Geometry, next: u64, upper: u64) -> Result<u64, Error> {
    let shift = geometry.granule.shift();
    if next & ((1 << shift) - 1) != 0 {
        return Err(Error::UnalignedRange { start: next, bytes: 1 << shift, page_shift: shift });
    }
    match address_bits(geometry, next) {
        Some(address) => Ok(VALID | TABLE_OR_PAGE | address | upper & (0b1_1111 << 59)),
        None => Err(Error::BadRoot { address: next }),
    }
}

/// Fills `entries` with pages or blocks of `level` that map physical memory from `first` to itself:
/// the map under which a kernel turns translation on, and firmware runs. Through `TTBR0_EL1`, so
/// never global.
///
/// # Errors
///
/// As [`user_leaf`]; the entries before the one that failed are written.
pub fn identity_map(
    geometry: Geometry,
    level: Level,
    first: u64,
    attributes: Attributes,
    entries: &mut [u64],
) -> Result<(), Error> {
    let Some(shift) = geometry.leaf_shift(level) else {
        return Err(Error::Unsupported("a page or block at that level"));
    };
    for (i, entry) in entries.iter_mut().enumerate() {
        let output = first.wrapping_add((i as u64) << shift);
        *entry = user_leaf(geometry, level, output, attributes)?;
    }
    Ok(())
}

/// Whether `descriptor`, read at `level` of a table under `TTBR0_EL1`, is a page or block that
/// every tag would match: what must never be found there.
#[must_use]
pub const fn leaks_between_tags(level: Level, descriptor: u64) -> bool {
    let leaf = match level {
        Level::L3 => descriptor & (VALID | TABLE_OR_PAGE) == VALID | TABLE_OR_PAGE,
        _ => descriptor & (VALID | TABLE_OR_PAGE) == VALID,
    };
    leaf && descriptor & NOT_GLOBAL == 0
}

/// The physical address in a valid descriptor.
#[must_use]
pub const fn output_of(geometry: Geometry, descriptor: u64) -> u64 {
    let low = !((1 << geometry.granule.shift()) - 1);
    match (geometry.addresses, geometry.granule) {
        (AddressSize::Bits48, _) => descriptor & low & ((1 << 48) - 1),
        (AddressSize::Bits52, Granule::K64) => {
            descriptor & low & ((1 << 48) - 1) | (descriptor >> 12 & 0xf) << 48
        }
        (AddressSize::Bits52, _) => {
            descriptor & low & ((1 << 50) - 1) | (descriptor >> 8 & 0b11) << 50
        }
    }
}

/// Where the address stands in a descriptor; `None` if it is too large.
pub(crate) const fn address_bits(geometry: Geometry, address: u64) -> Option<u64> {
    match (geometry.addresses, geometry.granule) {
        (AddressSize::Bits48, _) if address >> 48 == 0 => Some(address),
        (AddressSize::Bits52, Granule::K64) if address >> 52 == 0 => {
            Some(address & ((1 << 48) - 1) | (address >> 48) << 12)
        }
        (AddressSize::Bits52, Granule::K4 | Granule::K16) if address >> 52 == 0 => {
            Some(address & ((1 << 50) - 1) | (address >> 50) << 8)
        }
        _ => None,
    }
}
