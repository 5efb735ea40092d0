//! The instructions themselves: one `asm!` for each form, and nothing else.
//!
//! No block has `nomem`: each orders or invalidates what stores to memory have changed, so the
//! compiler must not move accesses across it. An operand that means *all* is written `x0` in the
//! text; the register class of an operand that means a number does not contain `x0`, so a zero in it
//! is address zero or ASID zero.

use core::arch::asm;

use super::{
    Extensions, Features, Identity, Instructions, Mode,
    opcode::{INVAL_IR, SFENCE_INVAL, SINVAL_VMA, SYSTEM, W_INVAL},
    probe_asid_bits,
    sbi::{self, Call, HartMask, Request},
};
use crate::error::Error;

// The assembler takes these two as names of registers, not as numbers.
const _: () = assert!(W_INVAL == 0 && INVAL_IR == 1);

/// The CPU that executes the calls, in the kernel's privilege level: supervisor mode.
#[derive(Clone, Copy, Debug)]
pub struct Native(());

impl Native {
    /// Vouches for every call of the methods.
    ///
    /// # Safety
    ///
    /// For as long as the value or a copy of it is in use:
    ///
    /// * Every CPU that calls a method runs in the privilege level that the type names.
    /// * Methods are called only by this crate's types, or with values that leave the code, the
    ///   stack and the data of the running kernel mapped where they are.
    /// * Every root that those types are given, to load or to park under, is the physical address
    ///   of a page table as they are configured for, and remains one while a CPU can walk it. Under
    ///   it the running kernel is mapped where it is, and all else reaches only what it may access.
    /// * Entries that those types are told to keep are those of the root that is loaded.
    /// * What those types are told of the machine and its CPUs is true of every CPU that calls
    ///   them: they execute instructions and set bits that not every CPU has.
    /// * Where other code writes the registers that those types write, it writes what they have
    ///   computed, or puts back what it found before it calls them again; by then it has removed what the CPU has cached
    ///   under tag 0 meanwhile, which the reserved root has.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

impl Instructions for Native {
    #[inline]
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>) {
        match (address, asid) {
            // SAFETY: the maker of the value promises the mode. Removes cached translations and
            // changes no state that Rust code can see.
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
        // SAFETY: a fence. The mode is promised; Svinval was checked when the hart was admitted.
        unsafe {
            asm!(".insn r {}, 0, {}, x0, x0, x0", const SYSTEM, const SFENCE_INVAL, options(nostack));
        }
    }

    #[inline]
    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>) {
        match (address, asid) {
            // SAFETY: the mode is promised, and Svinval was checked when the hart was admitted.
            // Removes cached translations and changes no state that Rust code can see.
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
        // SAFETY: a fence. The mode is promised; Svinval was checked when the hart was admitted.
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
        // SAFETY: the mode is promised; reading the register changes nothing.
        unsafe { asm!("csrr {}, satp", out(reg) value, options(nostack)) }
        value
    }

    #[inline]
    fn write_satp(&self, value: u64) {
        // SAFETY: the maker of the value promises the mode, and that what is written leaves the
        // kernel mapped.
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

impl Features {
    /// What the hart that executes the call can do, which has taken up a paged mode: `mode` and `extensions` as the
    /// device tree has them of this hart, the width of an ASID as [`probe_asid_bits`] finds it (0 in Bare mode).
    /// Nothing is known of its maker, which only firmware can tell ([`Self::read`]).
    ///
    /// # Safety
    ///
    /// As [`Native::new`], and interrupts are off.
    #[must_use]
    pub unsafe fn probe(mode: Mode, extensions: Extensions) -> Self {
        let asid_bits = probe_asid_bits(&Native(())).unwrap_or(0);
        Self { mode, asid_bits, extensions, identity: Identity::default() }
    }

    /// As [`Self::probe`], with the maker that SBI firmware names.
    ///
    /// # Safety
    ///
    /// As [`Self::probe`], and there is such firmware.
    #[must_use]
    pub unsafe fn read(mode: Mode, extensions: Extensions) -> Self {
        // SAFETY: the caller's word.
        let probed = unsafe { Self::probe(mode, extensions) };
        Self { identity: Identity::from_firmware(), ..probed }
    }
}

impl Identity {
    /// What SBI firmware says of the hart that executes the call.
    fn from_firmware() -> Self {
        let [vendor, architecture, implementation] = Call::identity().map(|number| {
            let (code, value) = ask(number);
            if code == 0 { value } else { 0 }
        });
        Self { vendor, architecture, implementation }
    }
}

/// Calls the firmware and returns the error code.
fn call(call: Call) -> i64 {
    ask(call).0
}

/// Calls the firmware and returns the error code and the value.
fn ask(call: Call) -> (i64, u64) {
    let Call { extension, function, arguments: [a0, a1, a2, a3, a4] } = call;
    let (code, value);
    // SAFETY: the functions of `Call` take no pointers; the firmware preserves all registers but a0
    // and a1 (SBI specification, "Binary Encoding") and does not use the supervisor's stack.
    unsafe {
        asm!(
            "ecall",
            inlateout("a0") a0 => code,
            inlateout("a1") a1 => value,
            in("a2") a2,
            in("a3") a3,
            in("a4") a4,
            in("a6") function,
            in("a7") extension,
            options(nostack)
        );
    }
    (code, value)
}
