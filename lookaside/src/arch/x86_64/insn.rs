//! The instructions themselves, on the bare metal: one `asm!` each, and nothing else.
//!
//! None has `nomem`: the compiler must move neither the stores to tables before an invalidation nor
//! the accesses that rely on it after.

use core::arch::asm;

use super::{Instructions, Invpcid};

/// Executes the instructions on the CPU that makes the call.
///
/// The type exists only in programs for the bare metal. Whoever passes it to [`super::X86`]
/// promises what no type can say:
///
/// * Calls are made in ring 0; elsewhere all but `MFENCE` fault.
/// * Every root that is loaded maps the code, the stack and the data of the kernel that runs, at
///   the addresses where they are.
///
/// `INVPCID`, `INVLPGB` and `TLBSYNC` are executed only where [`super::X86`] found them in CPUID.
#[derive(Clone, Copy, Debug)]
pub struct Native;

impl Instructions for Native {
    #[inline]
    fn write_cr3(&self, value: u64) {
        // SAFETY: whoever uses `Native` promises ring 0, and roots under which the kernel goes on.
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
        // SAFETY: ring 0 is promised. `X86` changes PGE and PCIDE only: neither changes what any
        // address means.
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
