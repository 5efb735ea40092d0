//! x86-64: a PC with local APICs, as QEMU and Bochs have it.
//!
//! The kernel runs where it is loaded, at 1 MiB. Virtual addresses are physical ones in the first
//! entry of the root table, which is the kernel's and the same in every root; user mode has the
//! others of the lower half. [`boot`] has the tables and the way there.
//!
//! A CPU knows its number by its task register: each has a TSS of its own ([`descriptors`]). No
//! segment base is used for it, so nothing is swapped on the way in and out of the kernel.
//!
//! References: *Intel 64 and IA-32 Architectures Software Developer's Manual* (SDM), vol. 3; *ACPI
//! Specification*, 5.2; *Multiboot2 Specification*; Xen's `docs/misc/pvh.pandoc`.

mod acpi;
mod apic;
mod boot;
mod context;
mod descriptors;
mod firmware;
mod gates;
mod handover;
#[cfg(feature = "no-remote")]
mod no_remote;
#[cfg(feature = "no-remote")]
use no_remote::Deaf as Native;
#[cfg(feature = "no-remote")]
pub(crate) use no_remote::deaf;
mod others;
mod paging;
mod port;
mod serial;
mod time;
mod tlb;
mod trap;

use core::{arch::asm, hint};

#[cfg(not(feature = "no-remote"))]
use lookaside::arch::x86_64::Native;

pub(crate) use apic::{interrupt_cpu, start_ticks};
pub(crate) use context::Context;
pub(crate) use descriptors::{cpu, set_kernel_stack};
pub(crate) use gates::return_to_user;
pub(crate) use others::start_others;
pub(crate) use paging::*;
pub(crate) use serial::write_byte;
pub(crate) use time::now;
pub(crate) use tlb::{Mmu, features, mmu};
pub(crate) use trap::{TrapFrame, probe};

/// Waits for an interrupt with interrupts on, and returns with interrupts off.
pub(crate) fn idle() {
    // SAFETY: handlers are in place. `sti` lets nothing in before the next instruction is done, so
    // that no interrupt is missed between the two.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) }
}

/// Once around a waiting loop.
pub(crate) fn relax() {
    hint::spin_loop();
}

/// Stops this CPU for good.
pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: nothing goes on after it.
        unsafe { asm!("cli", "hlt", options(nostack)) }
    }
}

/// Leaves the emulator: QEMU with `code << 1 | 1`. Bochs has no codes; the program that started it reads the
/// line that is printed in either.
pub(crate) fn exit(code: u8) -> ! {
    /// QEMU's `isa-debug-exit`.
    const QEMU: u16 = 0xf4;
    /// Where Bochs waits for a word.
    const BOCHS: u16 = 0x8900;

    crate::console::print_anyway(format_args!("exit {code}\n"));
    serial::drain();
    // SAFETY: either port ends the emulator, or nobody listens.
    unsafe {
        port::write(QEMU, code);
        b"Shutdown".iter().for_each(|&letter| port::write(BOCHS, letter));
    }
    halt()
}
