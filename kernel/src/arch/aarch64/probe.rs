//! Loads that may fault.

use core::arch::{asm, global_asm};

use super::register::{read_register, synchronise, write_register};

unsafe extern "C" {
    /// Vectors of which the one for faults of the kernel goes on after the instruction, and leaves 1 in `x9`.
    #[link_name = "probe_vectors"]
    static VECTORS: u8;
}

global_asm!(
    ".pushsection .text.probe, \"ax\"",
    ".global probe_vectors",
    ".balign 2048",
    "probe_vectors:",
    ".fill 4 * 128, 1, 0",
    "mrs x9, elr_el1",
    "add x9, x9, #4",
    "msr elr_el1, x9",
    "mov x9, #1",
    "eret",
    ".balign 128",
    ".fill 11 * 128, 1, 0",
    ".popsection",
);

pub(crate) fn probe(address: usize) -> Option<u64> {
    let vectors: u64 = read_register!("vbar_el1");
    let (value, faulted): (u64, u64);
    // SAFETY: interrupts are off, so nothing but the load traps, and its vector changes only `x9`. The load
    // reads what user mode can read.
    unsafe { write_register!("vbar_el1", (&raw const VECTORS).addr()) };
    synchronise();
    // SAFETY: as above.
    unsafe {
        asm!("mov x9, #0", "ldtr {value}, [{address}]", value = out(reg) value,
            address = in(reg) address, out("x9") faulted, options(nostack));
    }
    // SAFETY: the vectors of before.
    unsafe { write_register!("vbar_el1", vectors) };
    synchronise();
    (faulted == 0).then_some(value)
}
