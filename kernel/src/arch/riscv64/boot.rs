//! How each hart comes into the kernel.

use core::{arch::naked_asm, mem::offset_of};

use super::{
    harts::{self, LOCALS, Local},
    paging::{self, ROOT},
    time, trap,
    tree::Tree,
};
use crate::arch::Machine;

/// `satp.MODE`, in its place.
const SV39: u64 = 8 << 60;

/// Fields of `sstatus`: interrupts, vectors, floating point, access to users' pages, reading of what
/// may be executed.
const OFF: u64 = 1 << 1 | 0b11 << 9 | 0b11 << 13 | 1 << 18 | 1 << 19;

/// Where the firmware enters, on any one hart: `a0` is its number, `a1` the device tree. Translation
/// and interrupts are off.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.start")]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("la tp, {locals}", "la t1, {first}", "j {enter}",
        locals = sym LOCALS, first = sym first, enter = sym enter)
}

/// Where it enters on the harts that [`harts::start_others`] starts: `a1` is what is the CPU's own.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn start_other() -> ! {
    naked_asm!("mv tp, a1", "la t1, {other}", "j {enter}",
        other = sym other, enter = sym enter)
}

/// Sets up what the kernel relies on, and goes on at `t1`. `tp` is set; `a0` and `a1` are kept.
#[unsafe(naked)]
unsafe extern "C" fn enter() -> ! {
    naked_asm!(
        "csrw sie, zero",
        "li t0, {off}",
        "csrc sstatus, t0",
        "csrw sscratch, zero",
        "la t0, {trap}",
        "csrw stvec, t0",
        // What is executed here stays where it is.
        "la t0, {root}",
        "srli t0, t0, 12",
        "li t2, {sv39}",
        "or t0, t0, t2",
        "csrw satp, t0",
        "sfence.vma",
        "ld sp, {stack}(tp)",
        "jr t1",
        off = const OFF, trap = sym trap::trap_entry, root = sym ROOT, sv39 = const SV39,
        stack = const offset_of!(Local, stack),
    )
}

extern "C" fn first(hart: u64, tree: *const u8) -> ! {
    paging::open();
    // SAFETY: what the firmware passed, in memory that is mapped and that nobody takes.
    let tree = unsafe { Tree::new(tree) };
    time::open(tree.timebase());
    let cpus = harts::open(hart, tree.harts());
    harts::take_interrupts();
    crate::start(Machine { memory: tree.memory(), cpus, command_line: tree.command_line() })
}

extern "C" fn other() -> ! {
    harts::take_interrupts();
    crate::start_other()
}
