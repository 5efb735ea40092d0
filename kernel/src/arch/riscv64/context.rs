//! A thread in the kernel.

use core::arch::naked_asm;

/// What the calling convention preserves, while a thread does not run: `ra`, `sp` and `s0` to `s11`.
/// Not `tp`: the thread may go on on another CPU.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Context([usize; 14]);

impl Context {
    /// Of a thread that has not waited yet.
    pub(crate) const NEW: Self = Self([0; 14]);

    /// A thread that begins at `entry`, on an empty stack.
    pub(crate) fn new(stack_top: usize, entry: extern "C" fn() -> !) -> Self {
        let mut registers = [0; 14];
        (registers[0], registers[1]) = (entry as usize, stack_top);
        Self(registers)
    }

    /// Leaves this thread, and goes on with another. Returns when a CPU switches back.
    ///
    /// # Safety
    ///
    /// * `from` can be written to, and nobody else uses it until this thread runs again.
    /// * `to` is new, or was left by this function and not gone on with since. Its stack is its own.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn switch(from: *mut Self, to: *const Self) {
        naked_asm!(
            "sd ra, 0(a0)",
            "sd sp, 8(a0)",
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
            "sd s\\n, 16+\\n*8(a0)",
            ".endr",
            "ld ra, 0(a1)",
            "ld sp, 8(a1)",
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
            "ld s\\n, 16+\\n*8(a1)",
            ".endr",
            "ret",
        )
    }
}
