//! Which CPUs there are, from ACPI's tables (*ACPI Specification*, 5.2).

use super::firmware::{bytes, number};

/// Length of the header that all tables but the first begin with.
const HEADER: usize = 36;

/// The numbers of all local APICs whose CPUs can be used, given the address of the root pointer.
/// Without one, or without the table, there are none.
///
/// # Safety
///
/// The tables are there and nobody changes them.
pub(super) unsafe fn cpus(pointer: Option<u64>) -> impl Iterator<Item = u32> {
    // SAFETY: the caller promises it, of all tables that name each other.
    let madt = pointer.and_then(|pointer| unsafe { madt(pointer) });
    let mut entries = madt.map_or(&[][..], |table| &table[HEADER + 8..]);
    core::iter::from_fn(move || {
        let (entry, rest) = entries.split_at_checked(usize::from(*entries.get(1)?))?;
        entries = rest;
        Some(entry)
    })
    // A local APIC: type, length, processor, APIC, flags; the first says that it is enabled.
    .filter(|entry| entry[0] == 0 && entry.len() >= 8 && entry[4] & 1 == 1)
    .map(|entry| u32::from(entry[3]))
}

/// The multiple APIC description table.
///
/// # Safety
///
/// As for [`cpus`].
unsafe fn madt(pointer: u64) -> Option<&'static [u8]> {
    // SAFETY: the caller promises it.
    let pointer = unsafe { bytes(pointer, 36) };
    // From revision 2 on there is a table of 64-bit addresses beside the one of 32-bit ones.
    let (root, width) = match pointer[15] {
        0 => (number(&pointer[16..20]), 4),
        _ => (number(&pointer[24..32]), 8),
    };
    // SAFETY: as above.
    let mut tables = unsafe { table(root) }[HEADER..].chunks_exact(width).map(|address| unsafe {
        // SAFETY: as above.
        table(number(address))
    });
    tables.find(|table| table.starts_with(b"APIC"))
}

/// A table whose length is in its header.
///
/// # Safety
///
/// There is one at `address`.
unsafe fn table(address: u64) -> &'static [u8] {
    // SAFETY: the caller promises it.
    let length = number(&unsafe { bytes(address, HEADER) }[4..8]);
    // SAFETY: as above.
    unsafe { bytes(address, length as usize) }
}
