//! Into the kernel and out of it.
//!
//! A trap begins on the stack that [`super::set_kernel_stack`] has named, with the registers of what
//! was interrupted just below its top. In the kernel itself there is none that anybody comes back
//! from: interrupts are off, and everything else is a mistake. So a trap of the kernel may write over
//! the beginning of the stack, and a bad `sp` still makes a readable report.

use core::{
    arch::{asm, global_asm, naked_asm},
    mem::offset_of,
};

use super::{SOFTWARE, TIMER, harts::Local, time};
use crate::{arch::Access, trap};

/// The registers of a thread in user mode: `x1` to `x31`, each in its place, and the program counter
/// in the place of `x0`.
#[derive(Clone, Debug)]
#[repr(C, align(16))]
pub(crate) struct TrapFrame([usize; 32]);

const PC: usize = 0;
const SP: usize = 2;
const A0: usize = 10;
const A7: usize = 17;

impl TrapFrame {
    /// A thread that calls `entry` with two arguments.
    pub(crate) fn user(entry: usize, stack: usize, arguments: [usize; 2]) -> Self {
        let mut registers = [0; 32];
        (registers[PC], registers[SP]) = (entry, stack);
        registers[A0..A0 + 2].copy_from_slice(&arguments);
        Self(registers)
    }

    /// The number of the call, and its arguments.
    pub(crate) fn syscall(&self) -> (usize, [usize; 4]) {
        let [a0, a1, a2, a3, ..] = self.0[A0..] else { unreachable!("it has 32 registers") };
        (self.0[A7], [a0, a1, a2, a3])
    }

    pub(crate) fn set_result(&mut self, result: usize) {
        self.0[A0] = result;
    }
}

unsafe extern "C" {
    /// Where `stvec` points.
    pub(super) fn trap_entry();
}

global_asm!(
    ".balign 4", // The low bits of `stvec` mean something else.
    ".globl trap_entry",
    "trap_entry:",
    // From user mode `sscratch` has the kernel's `tp`, and from the kernel it has zero.
    "csrrw tp, sscratch, tp",
    "bnez tp, 1f",
    "csrr tp, sscratch",
    "1:",
    "sd sp, {scratch}(tp)",
    "ld sp, {stack}(tp)",
    "addi sp, sp, -{frame}",
    "sd x1, 1*8(sp)",
    "sd x3, 3*8(sp)",
    "sd x5, 5*8(sp)",
    "sd x6, 6*8(sp)",
    "sd x7, 7*8(sp)",
    "sd x8, 8*8(sp)",
    "sd x9, 9*8(sp)",
    "sd x10, 10*8(sp)",
    "sd x11, 11*8(sp)",
    "sd x12, 12*8(sp)",
    "sd x13, 13*8(sp)",
    "sd x14, 14*8(sp)",
    "sd x15, 15*8(sp)",
    "sd x16, 16*8(sp)",
    "sd x17, 17*8(sp)",
    "sd x18, 18*8(sp)",
    "sd x19, 19*8(sp)",
    "sd x20, 20*8(sp)",
    "sd x21, 21*8(sp)",
    "sd x22, 22*8(sp)",
    "sd x23, 23*8(sp)",
    "sd x24, 24*8(sp)",
    "sd x25, 25*8(sp)",
    "sd x26, 26*8(sp)",
    "sd x27, 27*8(sp)",
    "sd x28, 28*8(sp)",
    "sd x29, 29*8(sp)",
    "sd x30, 30*8(sp)",
    "sd x31, 31*8(sp)",
    "ld t0, {scratch}(tp)",
    "sd t0, 2*8(sp)",
    "csrrw t0, sscratch, zero",
    "sd t0, 4*8(sp)",
    "csrr t0, sepc",
    "sd t0, 0(sp)",
    "mv a0, sp",
    "call {handle}",
    "mv a0, sp",
    "tail {return_to_user}",
    scratch = const offset_of!(Local, scratch),
    stack = const offset_of!(Local, stack),
    frame = const size_of::<TrapFrame>(),
    handle = sym handle,
    return_to_user = sym return_to_user,
);

/// Goes on in user mode.
///
/// # Safety
///
/// * The stack of this CPU's next trap is set, and what is on it is done with, unless this CPU
///   switches to it again.
/// * The root that is loaded is that of the thread's space.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn return_to_user(frame: *const TrapFrame) -> ! {
    naked_asm!(
        "csrw sscratch, tp",
        // What LR has reserved here, another thread's SC must not use. This one ends it.
        "addi t0, tp, {scratch}",
        ".option push",
        ".option arch, +a", // The assembler does not know what the target has.
        "sc.d zero, zero, (t0)",
        ".option pop",
        "ld t0, 0(a0)",
        "csrw sepc, t0",
        "li t0, {spp}",
        "csrc sstatus, t0",
        "ld x1, 1*8(a0)",
        "ld x2, 2*8(a0)",
        "ld x3, 3*8(a0)",
        "ld x4, 4*8(a0)",
        "ld x5, 5*8(a0)",
        "ld x6, 6*8(a0)",
        "ld x7, 7*8(a0)",
        "ld x8, 8*8(a0)",
        "ld x9, 9*8(a0)",
        "ld x11, 11*8(a0)",
        "ld x12, 12*8(a0)",
        "ld x13, 13*8(a0)",
        "ld x14, 14*8(a0)",
        "ld x15, 15*8(a0)",
        "ld x16, 16*8(a0)",
        "ld x17, 17*8(a0)",
        "ld x18, 18*8(a0)",
        "ld x19, 19*8(a0)",
        "ld x20, 20*8(a0)",
        "ld x21, 21*8(a0)",
        "ld x22, 22*8(a0)",
        "ld x23, 23*8(a0)",
        "ld x24, 24*8(a0)",
        "ld x25, 25*8(a0)",
        "ld x26, 26*8(a0)",
        "ld x27, 27*8(a0)",
        "ld x28, 28*8(a0)",
        "ld x29, 29*8(a0)",
        "ld x30, 30*8(a0)",
        "ld x31, 31*8(a0)",
        "ld x10, 10*8(a0)",
        "sret",
        scratch = const offset_of!(Local, scratch),
        spp = const SPP,
    )
}

/// `sstatus.SPP`: the trap came from the kernel, or `sret` goes there.
const SPP: usize = 1 << 8;

/// `scause`: the sign tells interrupts from what an instruction has done.
const INTERRUPT: usize = 1 << 63;

extern "C" fn handle(frame: &mut TrapFrame) {
    let (cause, value, status): (usize, usize, usize);
    // SAFETY: it reads registers that the trap has written.
    unsafe {
        asm!("csrr {}, scause", "csrr {}, stval", "csrr {}, sstatus",
            out(reg) cause, out(reg) value, out(reg) status, options(nomem, nostack));
    }
    if status & SPP != 0 {
        panic!("a trap in the kernel: cause {cause:#x}, value {value:#x}, {frame:#x?}");
    }
    match cause {
        8 => {
            frame.0[PC] += 4; // The call is done.
            trap::syscall(frame);
        }
        12 => trap::page_fault(frame, value, Access::Execute),
        13 => trap::page_fault(frame, value, Access::Read),
        15 => trap::page_fault(frame, value, Access::Write),
        0 | 4 | 6 => trap::bad_program(frame, "a misaligned access"),
        1 | 5 | 7 => trap::bad_program(frame, "an access to nothing"),
        2 => trap::bad_program(frame, "an illegal instruction"),
        3 => trap::bad_program(frame, "a breakpoint"),
        _ if cause & INTERRUPT != 0 => interrupt(1 << (cause & !INTERRUPT), true),
        _ => trap::bad_program(frame, "an unknown trap"),
    }
}

/// Takes one interrupt, if one is pending that is enabled.
pub(super) fn take_pending() {
    let (pending, enabled): (usize, usize);
    // SAFETY: it reads registers.
    unsafe {
        asm!("csrr {}, sip", "csrr {}, sie", out(reg) pending, out(reg) enabled, options(nostack));
    }
    let pending = pending & enabled;
    if pending != 0 {
        interrupt(1 << pending.trailing_zeros(), false);
    }
}

/// Takes one interrupt, and no more: the kernel's handler may switch threads.
fn interrupt(which: usize, from_user: bool) {
    match which {
        SOFTWARE => {
            // FENCE (pairs with `fence w, o` in `sbi::call`): that it is not pending any more, a write
            // to a register, comes before the look at what other CPUs want. Whoever asks after that
            // look makes it pending again.
            //
            // SAFETY: it acknowledges the interrupt, and fences.
            unsafe { asm!("csrc sip, {}", "fence io, rw", in(reg) SOFTWARE, options(nostack)) };
            trap::message(from_user);
        }
        TIMER => {
            time::next_tick();
            trap::tick(from_user);
        }
        _ => panic!("an interrupt that nobody has enabled: {which:#x}"),
    }
}
