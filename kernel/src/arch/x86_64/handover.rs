//! The data of a boot loader: where memory is, where ACPI's tables are, and the command line.

use core::{ffi::CStr, ops::Range};

use super::firmware::{bytes, number};
use crate::{arch::PAGE, lock::Once};

/// The boot loader's data.
pub(super) struct Handover {
    /// The largest range of unused memory.
    pub(super) memory: Range<u64>,
    /// Where ACPI's root pointer is.
    pub(super) acpi: Option<u64>,
    pub(super) command_line: &'static str,
}

/// Memory is used up to here: beyond are devices, or nothing.
const LIMIT: u64 = 3 << 30;

/// Memory that is free to be used, in either map.
const FREE: u64 = 1;

/// Reads what the loader left, given two registers and where the kernel ends.
///
/// # Safety
///
/// The registers are as the loader left them, and so is memory.
pub(super) unsafe fn read(magic: u32, information: u32, kernel_end: u64) -> Handover {
    let information = u64::from(information);
    if magic == 0x36d7_6289 {
        // SAFETY: a Multiboot 2 loader says so.
        unsafe { multiboot(information, kernel_end) }
    } else {
        // SAFETY: there is no other way to get here.
        unsafe { pvh(information, kernel_end) }
    }
}

/// # Safety
///
/// The structure of PVH is there.
unsafe fn pvh(information: u64, kernel_end: u64) -> Handover {
    // SAFETY: the caller promises it, and it names the others.
    let start = unsafe { bytes(information, 56) };
    assert!(number(&start[..4]) == 0x336e_c578, "an unknown boot loader");
    let [words, acpi, map] = [24, 32, 40].map(|at| number(&start[at..at + 8]));
    let length = 24 * number(&start[48..52]) as usize;
    // SAFETY: as above.
    let map = unsafe { bytes(map, length) };
    // SAFETY: as above.
    let words = unsafe { CStr::from_ptr(words as *const _) };
    Handover {
        memory: largest(map.chunks_exact(24), kernel_end),
        acpi: (acpi != 0).then_some(acpi),
        command_line: keep(words.to_bytes()),
    }
}

/// # Safety
///
/// The structure of Multiboot 2 is there.
unsafe fn multiboot(information: u64, kernel_end: u64) -> Handover {
    // SAFETY: the caller promises it.
    let length = number(&unsafe { bytes(information, 8) }[..4]);
    // SAFETY: as above.
    let mut tags = &unsafe { bytes(information, length as usize) }[8..];
    let mut handover = Handover { memory: 0..0, acpi: None, command_line: "" };
    // Type, length, contents; each begins at a multiple of eight.
    while let Some(length) = tags.get(4..8).map(|length| number(length) as usize) {
        let contents = &tags[8..length];
        match number(&tags[..4]) {
            1 => handover.command_line = keep(contents),
            6 => {
                let size = number(&contents[..4]) as usize;
                handover.memory = largest(contents[8..].chunks_exact(size), kernel_end);
            }
            // A copy of ACPI's root pointer, of the first revision or later.
            14 | 15 => handover.acpi = Some(contents.as_ptr().addr() as u64),
            _ => {}
        }
        tags = tags.get(length.next_multiple_of(8)..).unwrap_or(&[]);
    }
    handover
}

/// The largest range of free memory above the kernel. Entries hold an address, a length and a kind.
fn largest<'m>(map: impl Iterator<Item = &'m [u8]>, kernel_end: u64) -> Range<u64> {
    let page = PAGE as u64;
    let free = map.filter(|entry| number(&entry[16..20]) == FREE).map(|entry| {
        let (start, length) = (number(&entry[..8]), number(&entry[8..16]));
        let end = (start + length).min(LIMIT) & !(page - 1);
        start.max(kernel_end).next_multiple_of(page)..end
    });
    let largest = free.max_by_key(|range| range.end.saturating_sub(range.start));
    largest.expect("there is memory")
}

/// Keeps a command line: where it is now may soon be something else.
fn keep(words: &[u8]) -> &'static str {
    static KEPT: Once<([u8; 512], usize)> = Once::new();
    let words = words.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut kept = [0; 512];
    let length = words.len().min(kept.len());
    kept[..length].copy_from_slice(&words[..length]);
    KEPT.set((kept, length));
    let (kept, length) = KEPT.get();
    str::from_utf8(&kept[..*length]).unwrap_or("")
}
