//! x86-64: SDM vol. 3, 4.5 (4-level and 5-level paging).

use super::{Entry, Rights};

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;

/// Rights of upper levels are not combined: a kernel that takes rights away there is not seen to do so.
pub(super) const fn read(entry: u64, level: u8, globals: bool) -> Entry {
    if entry & PRESENT == 0 {
        return Entry::Invalid;
    }
    let address = entry & 0x000f_ffff_ffff_f000;
    if level > 0 && entry & LARGE == 0 {
        return Entry::Table { table: address, global: false };
    }
    if level > 2 {
        return Entry::Invalid;
    }
    let rights = Rights(0)
        .with(Rights::READ, true)
        .with(Rights::WRITE, entry & WRITE != 0)
        .with(Rights::EXECUTE, entry & NO_EXECUTE == 0)
        .with(Rights::USER, entry & USER != 0);
    Entry::Leaf {
        frame: address >> 12,
        rights,
        global: globals && entry & GLOBAL != 0,
        group_order: 0,
    }
}
