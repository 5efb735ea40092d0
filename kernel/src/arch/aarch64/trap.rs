//! Traps. Nothing traps in the kernel but mistakes, so there is one way in and one way out: from user
//! mode, and back.

use core::{
    arch::{global_asm, naked_asm},
    mem::{offset_of, size_of},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    cpu, gic,
    register::{read_register, synchronise, write_register},
};
use crate::{
    arch::{Access, MAX_CPUS},
    trap,
};

/// The registers of a thread in user mode.
#[repr(C, align(16))]
#[derive(Clone, Debug, Default)]
pub(crate) struct TrapFrame {
    x: [usize; 31],
    stack: usize,
    counter: usize,
    /// `SPSR_EL1`; zero is user mode, 64 bits wide, interrupts on.
    state: usize,
    /// `TPIDR_EL0`, which is user mode's own.
    thread: usize,
}

/// The assembly below counts on these.
const _: () = assert!(offset_of!(TrapFrame, stack) == 248 && offset_of!(TrapFrame, state) == 264);
const _: () = assert!(size_of::<TrapFrame>() == 288);

impl TrapFrame {
    /// A thread that calls `entry` with two arguments.
    pub(crate) fn user(entry: usize, stack: usize, arguments: [usize; 2]) -> Self {
        let mut frame = Self { stack, counter: entry, ..Self::default() };
        frame.x[..2].copy_from_slice(&arguments);
        frame
    }

    /// The number of the system call, and its arguments.
    pub(crate) fn syscall(&self) -> (usize, [usize; 4]) {
        (self.x[8], [self.x[0], self.x[1], self.x[2], self.x[3]])
    }

    /// What the system call returns.
    pub(crate) fn set_result(&mut self, result: usize) {
        self.x[0] = result;
    }
}

/// Where each CPU's next trap begins.
static KERNEL_STACKS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// Where this CPU's next trap from user mode begins.
pub(crate) fn set_kernel_stack(top: usize) {
    KERNEL_STACKS[cpu()].store(top, Ordering::Relaxed); // Relaxed: this CPU's alone.
}

unsafe extern "C" {
    #[link_name = "trap_vectors"]
    static VECTORS: u8;
}

// The first eight vectors are for traps in the kernel, the last eight for those of user mode: each time
// synchronous ones, interrupts, fast interrupts and errors, twice.
global_asm!(
    ".pushsection .text.trap, \"ax\"",
    ".global trap_vectors",
    ".balign 2048",
    "trap_vectors:",
    ".set index, 0",
    ".rept 8",
    "    .balign 128",
    "    mov x0, #index",
    "    b {in_kernel}",
    "    .set index, index + 1",
    ".endr",
    ".rept 8",
    "    .balign 128",
    "    sub sp, sp, #{size}",
    "    stp x0, x1, [sp]",
    "    mov x1, #index",
    "    b 1f",
    "    .set index, index + 1",
    ".endr",
    ".balign 128",
    "1:  stp x2, x3, [sp, #16]",
    "    stp x4, x5, [sp, #32]",
    "    stp x6, x7, [sp, #48]",
    "    stp x8, x9, [sp, #64]",
    "    stp x10, x11, [sp, #80]",
    "    stp x12, x13, [sp, #96]",
    "    stp x14, x15, [sp, #112]",
    "    stp x16, x17, [sp, #128]",
    "    stp x18, x19, [sp, #144]",
    "    stp x20, x21, [sp, #160]",
    "    stp x22, x23, [sp, #176]",
    "    stp x24, x25, [sp, #192]",
    "    stp x26, x27, [sp, #208]",
    "    stp x28, x29, [sp, #224]",
    "    mrs x2, sp_el0",
    "    mrs x3, elr_el1",
    "    mrs x4, spsr_el1",
    "    mrs x5, tpidr_el0",
    "    stp x30, x2, [sp, #240]",
    "    stp x3, x4, [sp, #256]",
    "    str x5, [sp, #272]",
    "    mov x29, #0",
    "    mov x30, #0",
    "    mov x0, sp",
    "    bl {in_user}",
    "    mov x0, sp",
    "    b {return_to_user}",
    ".popsection",
    size = const size_of::<TrapFrame>(),
    in_kernel = sym in_kernel,
    in_user = sym in_user,
    return_to_user = sym return_to_user,
);

/// Goes to user mode. The stack of this CPU is empty then, up to what [`set_kernel_stack`] was told.
///
/// # Safety
///
/// The frame can be read, and control never returns to the functions on this stack.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn return_to_user(frame: *const TrapFrame) -> ! {
    // The frame may lie where the stack is empty afterwards: interrupts are off, so nobody writes
    // there before it has been read.
    naked_asm!(
        "mrs x1, tpidr_el1",
        "adrp x2, {stacks}",
        "add x2, x2, :lo12:{stacks}",
        "ldr x1, [x2, x1, lsl #3]",
        "mov sp, x1",
        "ldp x30, x2, [x0, #240]",
        "ldp x3, x4, [x0, #256]",
        "ldr x5, [x0, #272]",
        "msr sp_el0, x2",
        "msr elr_el1, x3",
        "msr spsr_el1, x4",
        "msr tpidr_el0, x5",
        "ldp x2, x3, [x0, #16]",
        "ldp x4, x5, [x0, #32]",
        "ldp x6, x7, [x0, #48]",
        "ldp x8, x9, [x0, #64]",
        "ldp x10, x11, [x0, #80]",
        "ldp x12, x13, [x0, #96]",
        "ldp x14, x15, [x0, #112]",
        "ldp x16, x17, [x0, #128]",
        "ldp x18, x19, [x0, #144]",
        "ldp x20, x21, [x0, #160]",
        "ldp x22, x23, [x0, #176]",
        "ldp x24, x25, [x0, #192]",
        "ldp x26, x27, [x0, #208]",
        "ldp x28, x29, [x0, #224]",
        "ldp x0, x1, [x0]",
        "eret",
        stacks = sym KERNEL_STACKS,
    )
}

/// Makes this CPU trap to the vectors.
pub(super) fn open() {
    // SAFETY: they are vectors, and stay where they are. Floating point traps at both levels.
    unsafe {
        write_register!("vbar_el1", (&raw const VECTORS).addr());
        write_register!("cpacr_el1", 0u64);
    }
    synchronise();
}

extern "C" fn in_kernel(vector: usize) -> ! {
    panic!(
        "trap {vector} in the kernel: ESR {:#x}, ELR {:#x}, FAR {:#x}, SPSR {:#x}",
        read_register!("esr_el1"),
        read_register!("elr_el1"),
        read_register!("far_el1"),
        read_register!("spsr_el1"),
    );
}

extern "C" fn in_user(frame: &mut TrapFrame, vector: usize) {
    match vector {
        8 => synchronous(frame),
        9 => gic::handle(true),
        _ => panic!("trap {vector} of user mode: ESR {:#x}, {frame:x?}", read_register!("esr_el1")),
    }
}

/// `ESR_EL1`: the class in bits 31:26; for aborts, whether it was a write in bit 6
/// and the kind of fault in bits 5:2.
fn synchronous(frame: &mut TrapFrame) {
    let syndrome = read_register!("esr_el1");
    let class = syndrome >> 26 & 0x3f;
    // A walk found nothing (1), an access flag that is clear (2), or no permission (3).
    let is_page_fault = matches!(syndrome >> 2 & 0xf, 1..=3);
    match class {
        0x15 => trap::syscall(frame),
        0x20 | 0x24 if is_page_fault => {
            let access = match (class, syndrome >> 6 & 1) {
                (0x20, _) => Access::Execute,
                (_, 0) => Access::Read,
                (_, _) => Access::Write,
            };
            trap::page_fault(frame, read_register!("far_el1") as usize, access);
        }
        0x00 => trap::bad_program(frame, "an undefined instruction"),
        0x07 => trap::bad_program(frame, "floating point"),
        0x18 => trap::bad_program(frame, "a system instruction"),
        0x20 | 0x24 => trap::bad_program(frame, "an abort that is no page fault"),
        0x22 => trap::bad_program(frame, "a misaligned program counter"),
        0x26 => trap::bad_program(frame, "a misaligned stack pointer"),
        0x3c => trap::bad_program(frame, "a breakpoint"),
        _ => trap::bad_program(frame, "an exception of another kind"),
    }
}
