//! The instructions themselves. Nothing here decides anything.
//!
//! No block is `nomem`: each of these instructions orders or changes what memory accesses mean, so
//! the compiler may not move accesses across. Forms that take no register are given none.

use core::arch::asm;

use super::{
    features::{Features, IdRegisters},
    instructions::{Dsb, Instructions, Scope, Tlbi, TlbiOp},
};

/// The CPU that executes the calls, at EL1 (for [`super::Stage2`], at EL2).
///
/// Executing a method at EL0 is an undefined instruction, which the kernel's own handler sees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

/// One instruction without operand.
macro_rules! plain {
    ($instruction:literal) => {
        // SAFETY: invalidating a cache or a TLB, and waiting, change no value in memory and no
        // translation that a page table still holds.
        unsafe { asm!($instruction, options(nostack, preserves_flags)) }
    };
}

/// One instruction with a register operand.
macro_rules! with {
    ($instruction:literal, $operand:expr) => {
        // SAFETY: as for `plain`: an operand names what is invalidated, and any value is legal.
        unsafe { asm!($instruction, in(reg) $operand, options(nostack, preserves_flags)) }
    };
}

/// Writes a system register.
macro_rules! write_register {
    ($instruction:literal, $value:expr) => {
        // SAFETY: whoever implements `Platform` and creates spaces with their roots has promised
        // that the tables map what the kernel and its processes may access; the sequences of this
        // module write no other roots.
        unsafe { asm!($instruction, in(reg) $value, options(nostack, preserves_flags)) }
    };
}

/// Reads a system register.
macro_rules! read_register {
    ($instruction:literal) => {{
        let value: u64;
        // SAFETY: reading these registers has no effect but the value.
        unsafe { asm!($instruction, out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

impl Instructions for Native {
    // The range forms are written as `SYS`, which is what they are, because assemblers know their
    // names only for CPUs that have them: SYS #op1, C8, Cm, #op2, Xt (manual C5.5).
    #[inline]
    fn tlbi(&self, Tlbi { op, scope, operand }: Tlbi) {
        match (op, scope) {
            (TlbiOp::Vmall, Scope::Local) => plain!("tlbi vmalle1"),
            (TlbiOp::Vmall, Scope::InnerShareable) => plain!("tlbi vmalle1is"),
            (TlbiOp::Aside, Scope::Local) => with!("tlbi aside1, {}", operand),
            (TlbiOp::Aside, Scope::InnerShareable) => with!("tlbi aside1is, {}", operand),
            (TlbiOp::Va, Scope::Local) => with!("tlbi vae1, {}", operand),
            (TlbiOp::Va, Scope::InnerShareable) => with!("tlbi vae1is, {}", operand),
            (TlbiOp::Vaa, Scope::Local) => with!("tlbi vaae1, {}", operand),
            (TlbiOp::Vaa, Scope::InnerShareable) => with!("tlbi vaae1is, {}", operand),
            (TlbiOp::Val, Scope::Local) => with!("tlbi vale1, {}", operand),
            (TlbiOp::Val, Scope::InnerShareable) => with!("tlbi vale1is, {}", operand),
            (TlbiOp::Vaal, Scope::Local) => with!("tlbi vaale1, {}", operand),
            (TlbiOp::Vaal, Scope::InnerShareable) => with!("tlbi vaale1is, {}", operand),
            (TlbiOp::Rva, Scope::Local) => with!("sys #0, c8, c6, #1, {}", operand),
            (TlbiOp::Rva, Scope::InnerShareable) => with!("sys #0, c8, c2, #1, {}", operand),
            (TlbiOp::Rvaa, Scope::Local) => with!("sys #0, c8, c6, #3, {}", operand),
            (TlbiOp::Rvaa, Scope::InnerShareable) => with!("sys #0, c8, c2, #3, {}", operand),
            (TlbiOp::Rval, Scope::Local) => with!("sys #0, c8, c6, #5, {}", operand),
            (TlbiOp::Rval, Scope::InnerShareable) => with!("sys #0, c8, c2, #5, {}", operand),
            (TlbiOp::Rvaal, Scope::Local) => with!("sys #0, c8, c6, #7, {}", operand),
            (TlbiOp::Rvaal, Scope::InnerShareable) => with!("sys #0, c8, c2, #7, {}", operand),
            (TlbiOp::Vmalls12, Scope::Local) => plain!("tlbi vmalls12e1"),
            (TlbiOp::Vmalls12, Scope::InnerShareable) => plain!("tlbi vmalls12e1is"),
            (TlbiOp::Alle1, Scope::Local) => plain!("tlbi alle1"),
            (TlbiOp::Alle1, Scope::InnerShareable) => plain!("tlbi alle1is"),
        }
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        match kind {
            Dsb::Nsh => plain!("dsb nsh"),
            Dsb::Nshst => plain!("dsb nshst"),
            Dsb::Ish => plain!("dsb ish"),
            Dsb::Ishst => plain!("dsb ishst"),
        }
    }

    #[inline]
    fn isb(&self) {
        plain!("isb");
    }

    #[inline]
    fn write_ttbr0(&self, value: u64) {
        write_register!("msr ttbr0_el1, {}", value);
    }

    #[inline]
    fn read_ttbr1(&self) -> u64 {
        read_register!("mrs {}, ttbr1_el1")
    }

    #[inline]
    fn write_ttbr1(&self, value: u64) {
        write_register!("msr ttbr1_el1, {}", value);
    }

    #[inline]
    fn read_tcr(&self) -> u64 {
        read_register!("mrs {}, tcr_el1")
    }

    #[inline]
    fn write_tcr(&self, value: u64) {
        write_register!("msr tcr_el1, {}", value);
    }

    #[inline]
    fn ic_iallu(&self) {
        plain!("ic iallu");
    }
}

/// The CPU that executes the calls, at EL2, for the translation of guests: its root register is
/// `VTTBR_EL2` and its control register `VTCR_EL2`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeStage2;

impl Instructions for NativeStage2 {
    #[inline]
    fn tlbi(&self, op: Tlbi) {
        Native.tlbi(op);
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        Native.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        Native.isb();
    }

    #[inline]
    fn write_ttbr0(&self, value: u64) {
        write_register!("msr vttbr_el2, {}", value);
    }

    #[inline]
    fn read_ttbr1(&self) -> u64 {
        Native.read_ttbr1()
    }

    #[inline]
    fn write_ttbr1(&self, value: u64) {
        Native.write_ttbr1(value);
    }

    #[inline]
    fn read_tcr(&self) -> u64 {
        read_register!("mrs {}, vtcr_el2")
    }

    #[inline]
    fn write_tcr(&self, value: u64) {
        write_register!("msr vtcr_el2, {}", value);
    }

    #[inline]
    fn ic_iallu(&self) {
        Native.ic_iallu();
    }
}

impl Features {
    /// Reads and decodes the ID registers of the CPU that executes the call.
    #[must_use]
    pub fn read() -> Self {
        Self::decode(IdRegisters {
            midr: read_register!("mrs {}, midr_el1"),
            mmfr0: read_register!("mrs {}, id_aa64mmfr0_el1"),
            mmfr1: read_register!("mrs {}, id_aa64mmfr1_el1"),
            mmfr2: read_register!("mrs {}, id_aa64mmfr2_el1"),
            // By number: older assemblers do not know the name.
            mmfr3: read_register!("mrs {}, s3_0_c0_c7_3"),
            isar0: read_register!("mrs {}, id_aa64isar0_el1"),
        })
    }
}
