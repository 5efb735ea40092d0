//! Threads in the kernel.

use core::arch::naked_asm;

/// Where the stack of a thread is, that waits in [`Context::switch`]. All else is on that stack.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Context {
    stack: usize,
}

/// How many registers a function must leave as they were, beside the stack pointer.
const KEPT: usize = 6;

impl Context {
    /// Of a thread that has not waited yet.
    pub(crate) const NEW: Self = Self { stack: 0 };

    /// A thread that begins with `entry`, on an empty stack.
    pub(crate) fn new(stack_top: usize, entry: extern "C" fn() -> !) -> Self {
        // As if `entry` had been called, by 0, from a stack that is aligned as calls want it.
        let mut frame = [0; KEPT + 2];
        frame[KEPT] = entry as usize;
        let stack = (stack_top & !15) - size_of_val(&frame);
        // SAFETY: the stack is the new thread's, and nobody uses it yet.
        unsafe { (stack as *mut [usize; KEPT + 2]).write(frame) }
        Self { stack }
    }

    /// Leaves this thread in `from` and goes on with the one in `to`. Interrupts are off.
    ///
    /// # Safety
    ///
    /// `to` is a thread that waits here or is new, and nobody else goes on with it. When `from` is
    /// gone on with, its stack is as it was.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn switch(from: *mut Self, to: *const Self) {
        naked_asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "mov [rdi], rsp",
            "mov rsp, [rsi]",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            "ret",
        )
    }
}
