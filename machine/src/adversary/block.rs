//! Contiguous entries: leaves that hold for the whole block they lie in.
//!
//! On Arm it is bit 52 that says so, on RISC-V bit 63 (Svnapot), whose page number ends in a one
//! and zeros that give the size of the block. A block of the machine has as many pages of the last
//! level as [`Config::block_bits`](super::Config::block_bits) says, as its tables are smaller than
//! real ones: 16 pages are one block on hardware, and a whole table here.
//!
//! A walk that ends at *any* entry of a block may cache translations for every page of it, built
//! from that one entry. The machine caches one for each page. That is the most: hardware that holds
//! one translation for the block loses it to the invalidation of any page, hardware that holds
//! pieces loses only the piece.

use super::config::{Arch, Config};

const CONTIGUOUS: u64 = 1 << 52;
const NAPOT: u64 = 1 << 63;

/// Makes a leaf of the last level one that holds for its block.
pub(crate) fn contiguous(config: &Config, leaf: u64) -> u64 {
    let bits = config.block_bits;
    match config.arch {
        Arch::Arm => leaf | CONTIGUOUS,
        Arch::Riscv if bits > 0 => {
            let low = ((1 << bits) - 1) << 10;
            leaf & !low | NAPOT | 1 << (10 + bits - 1)
        }
        Arch::X86 | Arch::Riscv => leaf,
    }
}

/// How many bits of the page number a leaf of the last level leaves open; nothing if it is reserved.
#[inline]
pub(crate) fn bits(config: &Config, leaf: u64) -> Option<u32> {
    match config.arch {
        Arch::Arm if leaf & CONTIGUOUS != 0 => Some(config.block_bits),
        Arch::Riscv if leaf & NAPOT != 0 => {
            let bits = config.block_bits;
            let low = leaf >> 10 & ((1 << bits) - 1);
            (bits > 0 && low == 1 << (bits - 1)).then_some(bits)
        }
        _ => Some(0),
    }
}

/// The leaf that stands for `page` alone and says what `leaf`, which holds for a block of
/// `1 << bits` pages, says of it. It still has the bit that makes it one of a block.
#[inline]
pub(crate) fn for_page(arch: Arch, bits: u32, leaf: u64, page: u64) -> u64 {
    let open = (1u64 << bits) - 1;
    match arch {
        Arch::X86 => leaf,
        Arch::Arm => leaf & !(open << 12) | (page & open) << 12,
        Arch::Riscv => leaf & !(open << 10) | (page & open) << 10,
    }
}

/// Whether a leaf of the last level is one of a block.
pub(crate) fn is_contiguous(arch: Arch, leaf: u64) -> bool {
    match arch {
        Arch::Arm => leaf & CONTIGUOUS != 0,
        Arch::Riscv => leaf & NAPOT != 0,
        Arch::X86 => false,
    }
}
