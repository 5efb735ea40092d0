//! Code that was just written.

use core::arch::asm;

use super::register::read_register;

/// Makes user mode of all CPUs execute what was written from `address` on, by kernel
/// address: instruction caches see no stores (manual B2.7.4). A CPU that is in user mode already executes what
/// it fetched before.
pub(crate) fn sync_code(address: usize, bytes: usize) {
    // CTR_EL0.DminLine: of the smallest line of data, in words.
    let line = 4 << (read_register!("ctr_el0") >> 16 & 0xf);
    for at in (address & !(line - 1)..address + bytes).step_by(line) {
        // SAFETY: memory of the kernel's; its contents do not change.
        unsafe { asm!("dc cvau, {}", in(reg) at, options(nostack, preserves_flags)) };
    }
    // All instruction caches, whole: one that goes by virtual addresses holds user mode's, not ours.
    // SAFETY: barriers, and instructions that are fetched again.
    unsafe { asm!("dsb ish", "ic ialluis", "dsb ish", "isb", options(nostack, preserves_flags)) };
}
