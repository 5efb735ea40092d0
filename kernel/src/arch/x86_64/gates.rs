//! Into the kernel and out of it.
//!
//! All gates turn interrupts off. From user mode the CPU takes the stack that its task state segment
//! names; an interrupt of `idle` goes on with the stack in use. The CPU pushes the end of a
//! [`TrapFrame`], and the rest is pushed here.

use core::{
    arch::{asm, global_asm, naked_asm},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    descriptors::{CODE, EMERGENCY, Pointer},
    trap::{self, DOUBLE_FAULT, MACHINE_CHECK, NON_MASKABLE, SYSCALL, TrapFrame},
};

const VECTORS: usize = SYSCALL as usize + 1;

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
    dispatch = sym trap::dispatch,
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

/// Fills the table, once.
pub(super) fn fill() {
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

/// Loads the table on this CPU.
pub(super) fn load() {
    let pointer = Pointer::to(&IDT);
    // SAFETY: the gates are right.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(nostack, preserves_flags)) }
}
