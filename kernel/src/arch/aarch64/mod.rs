//! Arm64, as QEMU's `virt` machine has it: Armv8.0 or later, GICv2, generic timer, PSCI.
//!
//! The kernel lives in the upper half (`TTBR1_EL1`), which all spaces share without an entry of their
//! own; `TTBR0_EL1` belongs to user mode. "The manual" is the Arm Architecture Reference Manual, DDI
//! 0487.

// Neither user mode nor the kernel uses floating-point registers: they are not saved.
#[cfg(target_feature = "neon")]
compile_error!("build for aarch64-unknown-none-softfloat");

mod boot;
mod code;
mod context;
mod device_tree;
mod entry;
mod gic;
#[cfg(any(feature = "no-remote", feature = "one-tag"))]
mod no_remote;
#[cfg(any(feature = "no-remote", feature = "one-tag"))]
use no_remote::Alone as Native;
mod probe;
mod psci;
mod register;
mod semihosting;
mod tables;
mod timer;
mod tlb;
mod trap;
mod uart;

use core::{arch::asm, ops::Range};

#[cfg(not(any(feature = "no-remote", feature = "one-tag")))]
use lookaside::arch::aarch64::Native;

pub(crate) use code::sync_code;
pub(crate) use context::Context;
pub(crate) use entry::{
    address_of, blocks, flags, hardware_sets_flags, is_page, is_present, kernel_page, page,
    protection, size_change, table, with, without,
};
pub(crate) use gic::interrupt_cpu;
pub(crate) use probe::probe;
pub(crate) use psci::start_others;
use register::read_register;
pub(crate) use semihosting::exit;
pub(crate) use tables::{reserved_root, vmap_table, vmap_window};
pub(crate) use timer::{now, start_ticks};
pub(crate) use tlb::{Mmu, features, mmu};
pub(crate) use trap::{TrapFrame, return_to_user, set_kernel_stack};
pub(crate) use uart::write_byte;

use super::Table;

/// Physical address `p` is at `OFFSET + p`. As in `link/aarch64.ld`.
pub(crate) const OFFSET: usize = 0xffff_0000_0000_0000;

/// Where user mode may have pages.
pub(crate) const USER: Range<usize> = 0x10_0000..0x7f00_0000_0000;

/// A root, and three tables below it.
pub(crate) const LEVELS: u32 = 4;

/// The kernel has a root register of its own: nothing to fill in.
pub(crate) fn fill_root(_: &Table) {}

/// The number of this CPU. Boot code has put it there.
pub(crate) fn cpu() -> usize {
    read_register!("tpidr_el1") as usize
}

/// Waits for an interrupt, and handles it. One that is masked ends the wait, too (manual, `WFI`):
/// so nothing in the kernel is ever interrupted.
pub(crate) fn idle() {
    // SAFETY: it waits. The barrier: the CPU that interrupts this one may be waiting for its stores.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
    gic::handle(false);
}

/// Once around a waiting loop.
pub(crate) fn relax() {
    core::hint::spin_loop();
}

/// Stops this CPU for good.
pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: interrupts stay masked; those that end the wait are not answered.
        unsafe { asm!("msr daifset, #0xf", "wfi", options(nomem, nostack, preserves_flags)) };
    }
}

/// The physical address of something in the kernel's image.
fn physical<T>(of: &'static T) -> u64 {
    (&raw const *of as usize - OFFSET) as u64
}
