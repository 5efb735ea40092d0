//! Into the kernel and out of it.
//!
//! A trap begins on the stack that [`super::set_kernel_stack`] has named, with the registers of what
//! was interrupted just below its top. In the kernel itself there is none that anybody comes back
//! from: interrupts are off, and everything else is a mistake. So a trap of the kernel may write over
//! the beginning of the stack, and a bad `sp` still makes a readable report.

use core::{
    arch::{asm, global_asm, naked_asm},
    fmt,
    mem::offset_of,
};

use lookaside::arch::riscv64::clint;

use super::{SOFTWARE, TIMER, harts::Local, time};
use crate::{arch::Access, trap};

/// The registers of a thread in user mode: `x1` to `x31`, each in its place, and the program counter
/// in the place of `x0`.
#[derive(Clone)]
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

impl fmt::Debug for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, value) in self.0.iter().enumerate() {
            let end = if number % 4 == 3 { '\n' } else { ' ' };
            match number {
                PC => write!(f, "\npc  {value:#018x}{end}")?,
                _ => write!(f, "x{number:<2} {value:#018x}{end}")?,
            }
        }
        Ok(())
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
    ".irp n, 1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, \
        27, 28, 29, 30, 31",
    "sd x\\n, \\n*8(sp)",
    ".endr",
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
        "li t0, {cleared}",
        "csrc sstatus, t0",
        // a0 comes last.
        ".irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, \
            26, 27, 28, 29, 30, 31, 10",
        "ld x\\n, \\n*8(a0)",
        ".endr",
        "sret",
        scratch = const offset_of!(Local, scratch),
        cleared = const SPP | SUM,
    )
}

/// `sstatus.SPP`: the trap came from the kernel, or `sret` goes there.
const SPP: usize = 1 << 8;

/// `sstatus.SUM`: the kernel may access pages of user mode. Only [`probe`] sets it, until the next return to user mode.
const SUM: usize = 1 << 18;

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
        panic!("a trap in the kernel: cause {cause:#x}, value {value:#x}{frame:?}");
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

/// A load from a page of user mode, or none if it faults. Interrupts are off.
pub(crate) fn probe(address: usize) -> Option<u64> {
    let (value, faulted): (u64, u64);
    // SAFETY: nothing but the load traps, to the label, where `stvec` is as before. The trap changes
    // `sepc`, `scause`, `stval` and `sstatus`, of which the kernel relies on nothing while it runs. SUM
    // stays set until then: QEMU forgets all translations when it changes, and the test is about what is kept.
    unsafe {
        asm!(
            "la {vector}, 2f",
            "csrrw {vector}, stvec, {vector}",
            "csrs sstatus, {sum}",
            "li {faulted}, 1",
            "ld {value}, ({address})",
            "li {faulted}, 0",
            ".balign 4",
            "2:",
            "csrw stvec, {vector}",
            vector = out(reg) _,
            sum = in(reg) SUM,
            faulted = out(reg) faulted,
            value = out(reg) value,
            address = in(reg) address,
            options(nostack),
        );
    }
    (faulted == 0).then_some(value)
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
            clint::acknowledge();
            trap::message(from_user);
        }
        TIMER => {
            time::next_tick();
            trap::tick(from_user);
        }
        _ => panic!("an interrupt that nobody has enabled: {which:#x}"),
    }
}

// The library's part of a handler in machine mode, for kernels without SBI. This kernel has SBI: here it is only assembled, and the
// linker leaves it out.
global_asm!(
    ".pushsection .lookaside.forward, \"e\", @progbits",
    lookaside::arch::riscv64::clint::forward!("0x2000000", "78f"),
    "78:",
    ".popsection",
);
