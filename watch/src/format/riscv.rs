//! RISC-V: the privileged specification, 12.3 to 12.6 (Sv39, Sv48, Sv57) and Svnapot.

use super::{Entry, Rights};

const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;
const G: u64 = 1 << 5;
/// Svnapot: the entry is one of a group of 16 that translate 64 KiB.
const N: u64 = 1 << 63;

/// How many pages a Svnapot group has, as a power of two. The specification has no other size.
const NAPOT_ORDER: u8 = 4;

/// The levels of a mode of `satp`; nothing if translation is off or the mode is not one of the three.
pub(super) const fn levels(satp: u64) -> Option<u8> {
    match satp >> 60 {
        8 => Some(3),
        9 => Some(4),
        10 => Some(5),
        _ => None,
    }
}

pub(super) const fn read(entry: u64, level: u8) -> Entry {
    let frame = entry >> 10 & ((1 << 44) - 1);
    if entry & V == 0 || entry & (R | W) == W {
        return Entry::Invalid;
    }
    if entry & (R | W | X) == 0 {
        return if level == 0 {
            Entry::Invalid
        } else {
            Entry::Table { table: frame << 12, global: entry & G != 0 }
        };
    }
    // A large page whose frame is not aligned faults (12.3.2, step 6).
    if frame & ((1 << (9 * level as u32)) - 1) != 0 {
        return Entry::Invalid;
    }
    let rights = Rights(0)
        .with(Rights::READ, entry & R != 0)
        .with(Rights::WRITE, entry & W != 0)
        .with(Rights::EXECUTE, entry & X != 0)
        .with(Rights::USER, entry & U != 0);
    let grouped = entry & N != 0 && level == 0;
    let group_order = if grouped { NAPOT_ORDER } else { 0 };
    Entry::Leaf { frame, rights, global: entry & G != 0, group_order }
}
