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

    /// Leaves this thread, and goes on with another. Returns when somebody switches back.
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
            "sd s0, 16(a0)",
            "sd s1, 24(a0)",
            "sd s2, 32(a0)",
            "sd s3, 40(a0)",
            "sd s4, 48(a0)",
            "sd s5, 56(a0)",
            "sd s6, 64(a0)",
            "sd s7, 72(a0)",
            "sd s8, 80(a0)",
            "sd s9, 88(a0)",
            "sd s10, 96(a0)",
            "sd s11, 104(a0)",
            "ld ra, 0(a1)",
            "ld sp, 8(a1)",
            "ld s0, 16(a1)",
            "ld s1, 24(a1)",
            "ld s2, 32(a1)",
            "ld s3, 40(a1)",
            "ld s4, 48(a1)",
            "ld s5, 56(a1)",
            "ld s6, 64(a1)",
            "ld s7, 72(a1)",
            "ld s8, 80(a1)",
            "ld s9, 88(a1)",
            "ld s10, 96(a1)",
            "ld s11, 104(a1)",
            "ret",
        )
    }
}
