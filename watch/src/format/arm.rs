//! Arm64: Arm ARM (DDI 0487), D8.2 and D8.3, stage 1 of EL1&0 with the 4 KiB granule.

use lookaside_hardware::arm as rules;

use super::{Entry, Regime, Rights, Root};

const VALID: u64 = 1;
const TABLE_OR_PAGE: u64 = 1 << 1;
const USER: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
/// `AF`.
pub(super) const ACCESSED: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
/// `DBM`: hardware may clear `READ_ONLY` at the first store.
const DIRTY_BY_HARDWARE: u64 = 1 << 51;
const CONTIGUOUS: u64 = 1 << 52;
const NO_EXECUTE_KERNEL: u64 = 1 << 53;
const NO_EXECUTE_USER: u64 = 1 << 54;

/// A contiguous group of the 4 KiB granule has 16 entries at levels 3 and 2 (table D8-91).
const CONTIGUOUS_ORDER: u8 = 4;

/// Bit 55 of an address chooses `TTBR1`.
const UPPER: u64 = 1 << 55;

/// The levels that translate so many bits.
pub(super) const fn levels(bits: u8) -> u8 {
    (bits - 12).div_ceil(9)
}

/// The bits of a page number that index the top table.
pub(super) const fn top_mask(bits: u8) -> u64 {
    let below = 9 * (levels(bits) - 1);
    (1 << (bits - 12 - below)) - 1
}

/// The root of one half of the addresses.
pub(super) const fn root(ttbr0: u64, ttbr1: u64, tcr: u64, address: u64) -> Option<Root> {
    let upper = address & UPPER != 0;
    let half = rules::half(ttbr0, ttbr1, tcr, upper);
    if !half.walks || !half.small_granule {
        return None;
    }
    let regime = Regime::Arm { bits: half.bits };
    Some(Root { base: half.base, regime })
}

pub(super) const fn read(entry: u64, level: u8) -> Entry {
    if entry & VALID == 0 {
        return Entry::Invalid;
    }
    let address = entry & 0x0000_ffff_ffff_f000;
    if entry & TABLE_OR_PAGE != 0 && level > 0 {
        return Entry::Table { table: address, global: false };
    }
    // Blocks are of levels 2 and 1, pages of level 3.
    if (entry & TABLE_OR_PAGE == 0) != (level > 0) || level > 2 {
        return Entry::Invalid;
    }
    let writable = entry & READ_ONLY == 0 || entry & DIRTY_BY_HARDWARE != 0;
    let user = entry & USER != 0;
    let no_execute = if user { NO_EXECUTE_USER } else { NO_EXECUTE_KERNEL };
    let rights = Rights(0)
        .with(Rights::READ, true)
        .with(Rights::WRITE, writable)
        .with(Rights::EXECUTE, entry & no_execute == 0)
        .with(Rights::USER, user);
    let grouped = entry & CONTIGUOUS != 0 && level < 2;
    let group_order = if grouped { CONTIGUOUS_ORDER } else { 0 };
    Entry::Leaf { frame: address >> 12, rights, global: entry & NOT_GLOBAL == 0, group_order }
}
