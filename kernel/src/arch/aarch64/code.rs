//! Code that was just written.

use core::arch::asm;

use super::{OFFSET, register::read_register};

/// Makes user mode of all CPUs execute what was written to the physical addresses from `address`:
/// instruction caches see no stores. A CPU that is in user mode already executes what
/// it fetched before.
pub(crate) fn sync_code(address: u64, bytes: usize) {
    // CTR_EL0.DminLine: of the smallest line of data, in words.
    let line = 4 << (read_register!("ctr_el0") >> 16 & 0xf);
    let start = (OFFSET + address as usize) & !(line - 1);
    for at in (start..OFFSET + address as usize + bytes).step_by(line) {
        // SAFETY: memory at OFFSET; its contents do not change.
        unsafe { asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags)) };
    }
    // All instruction caches, whole: one that goes by virtual addresses holds user mode's, not ours.
    // SAFETY: barriers, and instructions that are fetched again.
    unsafe { asm!("dsb ish", "ic ialluis", "dsb ish", "isb", options(nostack, preserves_flags)) };
}
