//! RISC-V, in supervisor mode over SBI firmware, on QEMU's machine `virt`.
//!
//! # Registers of the kernel
//!
//! * `tp` points to what is this CPU's own ([`harts::Local`]); user mode has its own `tp`.
//! * `sscratch` is zero in the kernel, and the same pointer in user mode: that is how a trap finds
//!   the kernel, and knows whether it comes from there.
//! * `sstatus.SIE` stays clear: what is pending is looked for by [`idle`], and interrupts user mode.
//! * `sstatus.FS` and `VS` stay off, in user mode too. Nothing here computes with floating point, so
//!   nothing saves its registers; code that uses them takes a trap. Programs that are compiled for
//!   `riscv64gc` and use no `f32` and `f64` are fine.

mod boot;
mod context;
mod harts;
mod paging;
mod sbi;
mod time;
mod tlb;
mod trap;
mod tree;

use core::{arch::asm, hint, ptr};

pub(crate) use context::Context;
pub(crate) use harts::{cpu, interrupt_cpu, set_kernel_stack, start_others};
pub(crate) use paging::{
    LEVELS, OFFSET, USER, address_of, blocks, fill_root, flags, hardware_sets_flags, is_page,
    is_present, kernel_page, page, protection, size_change, table, vmap_table, vmap_window, with,
    without,
};
pub(crate) use sbi::sync_code;
pub(crate) use time::{now, start_ticks};
pub(crate) use tlb::{Mmu, features, mmu};
pub(crate) use trap::{TrapFrame, probe, return_to_user};

/// The serial console, an NS16550A: what is sent, and the state of the line.
const SERIAL: usize = 0x1000_0000;
const LINE_STATUS: usize = SERIAL + 5;
const CAN_SEND: u8 = 1 << 5;

/// What ends the emulator, with a code in the upper half.
const TEST_DEVICE: usize = 0x10_0000;
const PASS: u32 = 0x5555;
const FAIL: u32 = 0x3333;

/// The supervisor's interrupts, as bits of `sie` and `sip`.
const SOFTWARE: usize = 1 << 1;
const TIMER: usize = 1 << 5;

pub(crate) fn write_byte(byte: u8) {
    // SAFETY: the device is mapped, and reading its status changes nothing.
    while unsafe { ptr::read_volatile(LINE_STATUS as *const u8) } & CAN_SEND == 0 {
        relax();
    }
    // SAFETY: it has room for a byte.
    unsafe { ptr::write_volatile(SERIAL as *mut u8, byte) };
}

pub(crate) fn exit(code: u8) -> ! {
    let value = if code == 0 { PASS } else { u32::from(code) << 16 | FAIL };
    // SAFETY: the device is mapped; nothing after this matters.
    unsafe { ptr::write_volatile(TEST_DEVICE as *mut u32, value) };
    halt()
}

pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: with no interrupt enabled this CPU does nothing more.
        unsafe { asm!("csrw sie, zero", "wfi", options(nomem, nostack)) };
    }
}

/// Takes the interrupt by a look at what is pending, and not by a trap.
pub(crate) fn idle() {
    // SAFETY: it waits. It ends when an interrupt is pending that `sie` enables, whatever SIE says, so
    // that none can come between a look and the wait.
    unsafe { asm!("wfi", options(nostack)) };
    trap::take_pending();
}

pub(crate) fn relax() {
    hint::spin_loop();
}
