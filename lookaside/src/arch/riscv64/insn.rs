//! The instructions themselves: one `asm!` for each form, and nothing else.
//!
//! No block has `nomem`: each orders or invalidates what stores to memory have changed, so the
//! compiler must not move accesses across it. An operand that means *all* is written `x0` in the
//! text; the register class of an operand that means a number does not contain `x0`, so a zero in it
//! is address zero or ASID zero.

use core::arch::asm;

use super::{
    Instructions,
    opcode::{INVAL_IR, SFENCE_INVAL, SINVAL_VMA, SYSTEM, W_INVAL},
    sbi::{self, Call, HartMask, Request},
};
use crate::error::Error;

// The assembler takes these two as names of registers, not as numbers.
const _: () = assert!(W_INVAL == 0 && INVAL_IR == 1);

/// The hart that executes the call, in supervisor mode.
///
/// The methods are privileged instructions: in user mode they trap. What is written to `satp` must
/// map the code that writes it; [`super::Riscv`] writes only roots that its caller vouches for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Instructions for Native {
    #[inline]
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        match (address, asid) {
            // SAFETY: removes cached translations and changes no state that Rust code can see.
            (None, None) => unsafe { asm!("sfence.vma x0, x0", options(nostack)) },
            // SAFETY: as above.
            (None, Some(asid)) => unsafe {
                asm!("sfence.vma x0, {}", in(reg) u64::from(asid), options(nostack));
            },
            // SAFETY: as above; the address is only compared, never accessed.
            (Some(address), None) => unsafe {
                asm!("sfence.vma {}, x0", in(reg) address, options(nostack));
            },
            // SAFETY: as above.
            (Some(address), Some(asid)) => unsafe {
                asm!("sfence.vma {}, {}", in(reg) address, in(reg) u64::from(asid), options(nostack));
            },
        }
    }

    #[inline]
    fn sfence_w_inval(&self) {
        // SAFETY: a fence. That the hart has Svinval was checked when it was admitted.
        unsafe {
            asm!(".insn r {}, 0, {}, x0, x0, x0", const SYSTEM, const SFENCE_INVAL, options(nostack));
        }
    }

    #[inline]
    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        match (address, asid) {
            // SAFETY: removes cached translations and changes no state that Rust code can see. That
            // the hart has Svinval was checked when it was admitted.
            (None, None) => unsafe {
                asm!(".insn r {}, 0, {}, x0, x0, x0", const SYSTEM, const SINVAL_VMA, options(nostack));
            },
            // SAFETY: as above.
            (None, Some(asid)) => unsafe {
                asm!(
                    ".insn r {}, 0, {}, x0, x0, {}",
                    const SYSTEM, const SINVAL_VMA, in(reg) u64::from(asid),
                    options(nostack)
                );
            },
            // SAFETY: as above; the address is only compared, never accessed.
            (Some(address), None) => unsafe {
                asm!(
                    ".insn r {}, 0, {}, x0, {}, x0",
                    const SYSTEM, const SINVAL_VMA, in(reg) address,
                    options(nostack)
                );
            },
            // SAFETY: as above.
            (Some(address), Some(asid)) => unsafe {
                asm!(
                    ".insn r {}, 0, {}, x0, {}, {}",
                    const SYSTEM, const SINVAL_VMA, in(reg) address, in(reg) u64::from(asid),
                    options(nostack)
                );
            },
        }
    }

    #[inline]
    fn sfence_inval_ir(&self) {
        // SAFETY: a fence. That the hart has Svinval was checked when it was admitted.
        unsafe {
            asm!(".insn r {}, 0, {}, x0, x0, x1", const SYSTEM, const SFENCE_INVAL, options(nostack));
        }
    }

    #[inline]
    fn fence(&self) {
        // SAFETY: a fence.
        unsafe { asm!("fence rw, rw", options(nostack)) }
    }

    #[inline]
    fn read_satp(&self) -> u64 {
        let value;
        // SAFETY: reads a register, without side effect.
        unsafe { asm!("csrr {}, satp", out(reg) value, options(nostack)) }
        value
    }

    #[inline]
    fn write_satp(&self, value: u64) {
        // SAFETY: the caller writes a root that maps the kernel as the present one does, so that
        // code, stack and data stay where they are.
        unsafe { asm!("csrw satp, {}", in(reg) value, options(nostack)) }
    }

    #[inline]
    fn remote_sfence_vma(
        &self,
        harts: u64,
        base: u64,
        start: u64,
        size: u64,
        asid: Option<u16>,
    ) -> Result<(), Error> {
        let harts = HartMask { mask: harts, base };
        sbi::check(call(Call::remote_sfence_vma(harts, Request { start, size, asid })))
    }
}

/// Calls the firmware and returns the error code.
fn call(call: Call) -> i64 {
    let Call { extension, function, arguments: [a0, a1, a2, a3, a4] } = call;
    let code;
    // SAFETY: the functions of `Call` take no pointers; the firmware preserves all registers but a0
    // and a1 (SBI specification, "Binary Encoding") and does not use the supervisor's stack.
    unsafe {
        asm!(
            "ecall",
            inlateout("a0") a0 => code,
            inlateout("a1") a1 => _,
            in("a2") a2,
            in("a3") a3,
            in("a4") a4,
            in("a6") function,
            in("a7") extension,
            options(nostack)
        );
    }
    code
}
