//! Into the kernel and out of it: interrupts, faults and `int 0x80` (SDM vol. 3, chapter 6).
//!
//! All gates turn interrupts off. From user mode the CPU takes the stack that its task state segment
//! names; an interrupt of `idle` goes on with the stack in use. The CPU pushes the end of a
//! [`TrapFrame`], and the rest is pushed here.

use core::{
    arch::{asm, global_asm, naked_asm},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    apic,
    descriptors::{CODE, EMERGENCY, Pointer, USER_CODE, USER_DATA},
};
use crate::{arch::Access, trap};

const NON_MASKABLE: u64 = 2;
const DOUBLE_FAULT: u64 = 8;
const PAGE_FAULT: u64 = 14;
const MACHINE_CHECK: u64 = 18;
/// The timer.
pub(super) const TICK: u64 = 32;
/// The interrupt between CPUs.
pub(super) const MESSAGE: u64 = 33;
/// What a local APIC sends when an interrupt went away while it was being delivered.
pub(super) const SPURIOUS: u64 = 47;
const SYSCALL: u64 = 0x80;
const VECTORS: usize = 0x81;

/// What exceptions are called.
const NAMES: [&str; 22] = [
    "divide error",
    "debug exception",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "floating point used",
    "double fault",
    "coprocessor overrun",
    "invalid task state segment",
    "segment not present",
    "stack fault",
    "general protection fault",
    "page fault",
    "reserved exception",
    "floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point error",
    "virtualization exception",
    "control protection exception",
];

/// The registers of a thread in user mode, or of `idle`.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct TrapFrame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error: u64,
    // From here on the CPU's.
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

impl TrapFrame {
    /// A thread that calls `entry` with two arguments.
    pub(crate) fn user(entry: usize, stack: usize, arguments: [usize; 2]) -> Self {
        /// Interrupts on; the bit beside is always set.
        const RFLAGS: u64 = 1 << 9 | 1 << 1;
        Self {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rbp: 0,
            rdi: arguments[0] as u64,
            rsi: arguments[1] as u64,
            rdx: 0,
            rcx: 0,
            rbx: 0,
            rax: 0,
            vector: 0,
            error: 0,
            rip: entry as u64,
            cs: u64::from(USER_CODE),
            rflags: RFLAGS,
            // As if called: functions expect a return address there.
            rsp: (stack as u64 & !15).wrapping_sub(8),
            ss: u64::from(USER_DATA),
        }
    }

    /// The number and the arguments of a system call.
    pub(crate) fn syscall(&self) -> (usize, [usize; 4]) {
        (self.rax as usize, [self.rdi, self.rsi, self.rdx, self.r10].map(|word| word as usize))
    }

    /// What the system call returns.
    pub(crate) fn set_result(&mut self, result: usize) {
        self.rax = result as u64;
    }

    fn is_from_user(&self) -> bool {
        self.cs & 3 == 3
    }
}

// Sixteen bytes for each vector. The CPU pushes an error code for some exceptions; the others get a
// 0 in its place.
global_asm!(
    r#"
    .section .text.traps, "ax", @progbits
    .balign 16
    .global traps, trap_return
traps:
    .set vector, 0
    .rept {VECTORS}
    .balign 16
    .if (vector != 8) && ((vector < 10) || (vector > 14)) && (vector != 17) && (vector != 21)
    push 0
    .endif
    push vector
    jmp trap_entry
    .set vector, vector + 1
    .endr

trap_entry:
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    cld
    mov rdi, rsp
    call {dispatch}
trap_return:
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rbp
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rbx
    pop rax
    add rsp, 16
    iretq
    "#,
    VECTORS = const VECTORS,
    dispatch = sym dispatch,
);

unsafe extern "C" {
    /// The code for vector 0; the others follow.
    static traps: [[u8; 16]; VECTORS];
}

/// Continues in user mode. What is on this stack is forgotten.
///
/// # Safety
///
/// Interrupts are off, the frame is of user mode, and this CPU runs the space that it belongs to.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn return_to_user(frame: *const TrapFrame) -> ! {
    naked_asm!("mov rsp, rdi", "jmp trap_return")
}

/// Two words for each gate. All CPUs share them.
static IDT: [[AtomicU64; 2]; VECTORS] = [const { [AtomicU64::new(0), AtomicU64::new(0)] }; VECTORS];

/// Fills the table of gates, once.
pub(super) fn fill_idt() {
    for (vector, gate) in IDT.iter().enumerate() {
        let vector = vector as u64;
        let address = (&raw const traps).addr() as u64 + 16 * vector;
        let stack = match vector {
            NON_MASKABLE | DOUBLE_FAULT | MACHINE_CHECK => u64::from(EMERGENCY),
            _ => 0,
        };
        let privilege = if vector == SYSCALL { 3 } else { 0 };
        // An interrupt gate, which turns interrupts off.
        let kind = 0x8e | privilege << 5;
        let low = address & 0xffff
            | u64::from(CODE) << 16
            | stack << 32
            | kind << 40
            | (address >> 16 & 0xffff) << 48;
        // Relaxed: before it is loaded.
        gate[0].store(low, Relaxed);
        gate[1].store(address >> 32, Relaxed);
    }
}

pub(super) fn load_idt() {
    let pointer = Pointer::to(&IDT);
    // SAFETY: the gates are right.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags)) }
}

/// What every trap comes to. It may return much later, and on another CPU.
extern "C" fn dispatch(frame: &mut TrapFrame) {
    let from_user = frame.is_from_user();
    match frame.vector {
        TICK => {
            apic::end_of_interrupt();
            trap::tick(from_user);
        }
        MESSAGE => {
            apic::end_of_interrupt();
            trap::message(from_user);
        }
        SPURIOUS => {}
        SYSCALL if from_user => trap::syscall(frame),
        PAGE_FAULT if from_user && frame.error & RESERVED_BIT == 0 => {
            let (address, access) = (fault_address(), access(frame.error));
            trap::page_fault(frame, address, access);
        }
        vector @ (NON_MASKABLE | DOUBLE_FAULT | MACHINE_CHECK | PAGE_FAULT) => die(vector, frame),
        vector if from_user => trap::bad_program(frame, name(vector)),
        vector => die(vector, frame),
    }
}

/// An entry on the way has a bit that must be clear: the kernel's fault, whoever walks.
const RESERVED_BIT: u64 = 1 << 3;

fn access(error: u64) -> Access {
    if error & 1 << 4 != 0 {
        Access::Execute
    } else if error & 1 << 1 != 0 {
        Access::Write
    } else {
        Access::Read
    }
}

fn die(vector: u64, frame: &TrapFrame) -> ! {
    panic!("{} about {:#x}: {frame:#x?}", name(vector), fault_address());
}

fn name(vector: u64) -> &'static str {
    NAMES.get(vector as usize).copied().unwrap_or("stray interrupt")
}

/// The address that the last page fault of this CPU was about.
fn fault_address() -> usize {
    let address;
    // SAFETY: it only reads.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) }
    address
}
