//! Threads in the kernel.

use core::arch::naked_asm;

/// What a thread in the kernel keeps across a call: `x19` to `x30`, and the stack pointer.
#[repr(C)]
#[derive(Clone, Debug)]
pub(crate) struct Context {
    x19_to_x28: [usize; 10],
    frame: usize,
    link: usize,
    stack: usize,
}

impl Context {
    /// Of a thread that has not waited yet.
    pub(crate) const NEW: Self = Self { x19_to_x28: [0; 10], frame: 0, link: 0, stack: 0 };

    /// A thread that begins with `entry` on an empty stack.
    pub(crate) fn new(stack_top: usize, entry: extern "C" fn() -> !) -> Self {
        Self { link: entry as usize, stack: stack_top, ..Self::NEW }
    }

    /// Leaves the running thread in `from`, and goes on with `to`.
    ///
    /// # Safety
    ///
    /// `to` was made by [`Self::new`] on a stack that nobody else uses, or left by this function and
    /// not gone on with since. `from` may be written to.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn switch(from: *mut Self, to: *const Self) {
        naked_asm!(
            "mov x9, sp",
            "stp x19, x20, [x0]",
            "stp x21, x22, [x0, #16]",
            "stp x23, x24, [x0, #32]",
            "stp x25, x26, [x0, #48]",
            "stp x27, x28, [x0, #64]",
            "stp x29, x30, [x0, #80]",
            "str x9, [x0, #96]",
            "ldp x19, x20, [x1]",
            "ldp x21, x22, [x1, #16]",
            "ldp x23, x24, [x1, #32]",
            "ldp x25, x26, [x1, #48]",
            "ldp x27, x28, [x1, #64]",
            "ldp x29, x30, [x1, #80]",
            "ldr x9, [x1, #96]",
            "mov sp, x9",
            "ret",
        )
    }
}
