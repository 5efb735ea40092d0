//! The instructions themselves, on the bare metal: one `asm!` each, and nothing else.
//!
//! None has `nomem`: the compiler must move neither the stores to tables before an invalidation nor
//! the accesses that rely on it after.

use core::arch::asm;

use super::{Instructions, Invpcid};

/// The CPU that executes the calls, in the kernel's privilege level: ring 0.
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
    ///   them: they execute instructions and set bits that not every CPU has. So is what
    ///   [`super::X86::with_global_kernel`] says of the kernel's entries.
    /// * Where other code writes the registers that those types write, it writes what they have
    ///   computed, or puts back what it found before it calls them again. By then it has removed what
    ///   the CPU cached of a root that it loaded, under PCID 0 too: a CPU parks under that one and
    ///   keeps what is there. [`crate::CurrentCpu::with_root`] leaves nothing behind. Under a PCID that those types do not name
    ///   at that time there may be entries of kernel addresses that were unmapped: a value with bit 63 set names no other PCID than
    ///   theirs.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

impl Instructions for Native {
    #[inline]
    fn write_cr3(&self, value: u64) {
        // SAFETY: the maker of the value promises ring 0, and that what is written leaves the
        // kernel mapped.
        unsafe { asm!("mov cr3, {}", in(reg) value, options(nostack, preserves_flags)) }
    }

    #[inline]
    fn read_cr3(&self) -> u64 {
        let value;
        // SAFETY: ring 0 is promised; reading the register changes nothing.
        unsafe { asm!("mov {}, cr3", out(reg) value, options(nostack, preserves_flags)) }
        value
    }

    #[inline]
    fn write_cr4(&self, value: u64) {
        // SAFETY: ring 0 is promised, and that what is written leaves the kernel mapped. `X86`
        // changes PGE and PCIDE only: neither changes what any address means.
        unsafe { asm!("mov cr4, {}", in(reg) value, options(nostack, preserves_flags)) }
    }

    #[inline]
    fn read_cr4(&self) -> u64 {
        let value;
        // SAFETY: ring 0 is promised; reading the register changes nothing.
        unsafe { asm!("mov {}, cr4", out(reg) value, options(nostack, preserves_flags)) }
        value
    }

    #[inline]
    fn invlpg(&self, address: u64) {
        // SAFETY: ring 0 is promised. Removing cached translations changes no meaning, and the
        // operand is not accessed.
        unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) }
    }

    #[inline]
    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]) {
        // SAFETY: ring 0 is promised, and `X86` saw the instruction in CPUID. The descriptor is 16
        // readable bytes that live until the instruction is done. Its address is canonical.
        unsafe {
            asm!(
                "invpcid {}, [{}]",
                in(reg) kind as u64,
                in(reg) &raw const descriptor,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline]
    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32) {
        // SAFETY: ring 0 is promised, and `X86` saw the instruction in CPUID and keeps to its
        // limit. Removing cached translations changes no meaning.
        unsafe {
            asm!(
                "invlpgb",
                in("rax") rax,
                in("ecx") ecx,
                in("edx") edx,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline]
    fn tlbsync(&self) {
        // SAFETY: ring 0 is promised, and `X86` saw the instruction in CPUID. It only waits.
        unsafe { asm!("tlbsync", options(nostack, preserves_flags)) }
    }

    #[inline]
    fn mfence(&self) {
        // SAFETY: every x86-64 CPU has the instruction, in every ring. It only orders.
        unsafe { asm!("mfence", options(nostack, preserves_flags)) }
    }
}
