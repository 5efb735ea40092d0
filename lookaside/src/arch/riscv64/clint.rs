//! Interrupts between harts without SBI firmware: the MSIP registers of the CLINT, which are those of the ACLINT's MSWI
//! device, too.
//!
//! A register has 32 bits for each hart. One in it makes the hart's machine-mode software interrupt pending. The kernel's
//! handler in machine mode clears it and makes the supervisor's software interrupt pending ([`forward`]); the
//! supervisor's handler begins with [`acknowledge`], and then calls
//! [`StaticTlb::handle_ipi`](crate::StaticTlb::handle_ipi). An interrupt that is cleared after the requests were read may
//! belong to a request that was not.
//!
//! What the kernel still does: `mie.MSIE` is set on each hart, the page of the registers is mapped in the kernel's root,
//! and where the supervisor's software interrupt serves for timer ticks, too, the timer's part of the machine-mode
//! handler leaves a word for the hart that says so.
//!
//! Reference: *RISC-V Advanced Core Local Interruptor Specification*, "Machine-level Software Interrupt Device".

use core::ptr;

/// The MSIP registers of all harts.
#[doc(alias = "ACLINT")]
#[doc(alias = "MSWI")]
#[derive(Debug)]
pub struct Clint {
    base: usize,
}

impl Clint {
    /// The registers at `base`, in the order of the hart numbers.
    ///
    /// # Safety
    ///
    /// For as long as the value is in use, `base` is where the kernel has mapped the registers, as device memory, on every
    /// hart that calls [`Self::send`].
    #[must_use]
    pub const unsafe fn new(base: usize) -> Self {
        Self { base }
    }

    /// Interrupts the harts with these hart numbers, each of which has a register. Stores that this hart made before are
    /// visible to the handlers: what [`Platform::send_ipi`](crate::Platform::send_ipi) promises.
    pub fn send(&self, harts: impl IntoIterator<Item = u64>) {
        // Earlier stores to memory come before the stores to the device.
        #[cfg(target_arch = "riscv64")]
        // SAFETY: a fence.
        unsafe {
            core::arch::asm!("fence w, o", options(nostack));
        }
        for hart in harts {
            let register = ptr::with_exposed_provenance_mut::<u32>(self.base + 4 * hart as usize);
            // SAFETY: the maker of the value promises that the register is there.
            unsafe { register.write_volatile(1) };
        }
    }
}

/// Clears `sip.SSIP`, before anything is read that the CPU which sent the interrupt has written: the beginning of the
/// supervisor's handler, for interrupts through SBI firmware, too.
#[inline]
pub fn acknowledge() {
    // The clear comes before the loads of requests: an IPI whose request is not seen by them sets the bit again.
    #[cfg(target_arch = "riscv64")]
    // SAFETY: an interrupt is acknowledged that the caller is about to handle; and a fence.
    unsafe {
        core::arch::asm!("csrci sip, 2", "fence io, rw", options(nostack));
    }
}

/// The part of a handler in machine mode that forwards software interrupts to supervisor mode, as text for `naked_asm!` or
/// `global_asm!`: `forward!("0x2000000", "2f")`, with the *physical* address of the registers, and a label at the handler's
/// end. It uses `a1` and `a2`, which the handler has saved, and reads `mcause` and `mhartid`. Another trap goes on behind it.
///
/// It is there because two things are easily forgotten: MSIP is cleared before the supervisor reads its requests, and
/// both are ordered, a store to a device before loads from memory, by a fence.
#[doc(hidden)] // At the root; it is shown as `clint::forward`.
#[macro_export]
macro_rules! __forward_msip {
    ($base:literal, $end:literal) => {
        ::core::concat!(
            // Interrupt 3 is MSIP; another trap goes on at 77.
            "csrr a1, mcause; li a2, 0x8000000000000003; bne a1, a2, 77f;",
            ::core::concat!("csrr a1, mhartid; slli a1, a1, 2; li a2, ", $base, ";"),
            "add a1, a1, a2; sw zero, 0(a1); fence o, r;",
            // Bit 1 is SSIP.
            ::core::concat!("li a1, 2; csrs mip, a1; j ", $end, "; 77:"),
        )
    };
}

#[doc(inline)]
pub use crate::__forward_msip as forward;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hart_is_interrupted_by_a_one_in_its_register() {
        let mut registers = [0_u32; 4];
        // SAFETY: the registers outlive the value.
        let clint = unsafe { Clint::new(registers.as_mut_ptr().expose_provenance()) };
        clint.send([1, 3]);
        assert_eq!(registers, [0, 1, 0, 1]);
    }
}
