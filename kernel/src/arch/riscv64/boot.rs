//! How each hart comes into the kernel.

use core::{
    arch::naked_asm,
    mem::{offset_of, size_of},
    sync::atomic::AtomicU32,
};

use super::{
    harts::{self, LOCALS, Local},
    paging::{self, ROOT},
    time, trap,
    tree::Tree,
};
use crate::arch::{MAX_CPUS, Machine};

/// `satp.MODE`, in its place.
const SV39: u64 = 8 << 60;

/// Fields of `sstatus`: interrupts, vectors, floating point, access to users' pages, reading of what
/// may be executed.
const OFF: u64 = 1 << 1 | 0b11 << 9 | 0b11 << 13 | 1 << 18 | 1 << 19;

/// How many harts have entered.
static ENTERED: AtomicU32 = AtomicU32::new(0);

/// Where the firmware enters: first on any one hart, then on those that [`harts::start_others`] starts.
/// `a0` is the hart's number, `a1` the device tree on the first. Translation and interrupts are off.
///
/// All enter here because OpenSBI before 1.3 may start a hart at the address of the boot, whichever it was
/// told: it marks the hart as started before it stores the address (mended by its commit e8e9ed37, "Set the
/// state of a hart to START_PENDING after the hart is ready"). So each finds by its number what is its own.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.start")]
pub(super) unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        "la tp, {locals}",
        "la t1, {first}",
        "la t0, {entered}",
        "li t2, 1",
        // The assembler of a naked function knows the base instructions only.
        ".option push",
        ".option arch, +a",
        "amoadd.w t2, t2, (t0)",
        ".option pop",
        "beqz t2, 4f",
        "la t1, {other}",
        "li t0, {size}",
        "li t2, {cpus}",
        "2:",
        "ld t3, {hart}(tp)",
        "beq t3, a0, 4f",
        "add tp, tp, t0",
        "addi t2, t2, -1",
        "bnez t2, 2b",
        // No CPU of the kernel.
        "csrw sie, zero",
        "3:",
        "wfi",
        "j 3b",
        "4:",
        "j {enter}",
        locals = sym LOCALS, first = sym first, other = sym other, entered = sym ENTERED,
        enter = sym enter, size = const size_of::<Local>(), cpus = const MAX_CPUS,
        hart = const offset_of!(Local, hart_id),
    )
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
