//! The instructions themselves. Nothing here decides anything.
//!
//! No block is `nomem`: each of these instructions orders or changes what memory accesses mean, so
//! the compiler may not move accesses across. Forms that take no register are given none.

use core::arch::asm;

use crate::arch::Scope;

use super::{
    features::{Features, IdRegisters},
    instructions::{Dsb, Instructions, Tlbi, TlbiOp},
};

/// The CPU that executes the calls, in the kernel's privilege level: EL1.
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

/// One instruction without operand.
macro_rules! plain {
    ($instruction:literal) => {
        // SAFETY: the maker of the value promises the exception level. Invalidating a cache or a
        // TLB, and waiting, change no value in memory and no translation that a page table still
        // holds.
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
        // SAFETY: the maker of the value promises the exception level, and that what is written
        // leaves the kernel mapped.
        unsafe { asm!($instruction, in(reg) $value, options(nostack, preserves_flags)) }
    };
}

/// Writes a system register, and synchronises the context before anything else is executed: one piece of
/// assembly, in whose middle the compiler puts nothing.
macro_rules! set_register {
    ($instruction:literal, $value:expr) => {
        // SAFETY: as for `write_register`; a synchronisation changes nothing.
        unsafe { asm!($instruction, "isb", in(reg) $value, options(nostack, preserves_flags)) }
    };
}

/// Reads a system register.
macro_rules! read_register {
    ($instruction:literal) => {{
        let value: u64;
        // SAFETY: reading has no effect but the value. At EL0 it traps.
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
            (TlbiOp::Vmall, Scope::Broadcast) => plain!("tlbi vmalle1is"),
            (TlbiOp::Aside, Scope::Local) => with!("tlbi aside1, {}", operand),
            (TlbiOp::Aside, Scope::Broadcast) => with!("tlbi aside1is, {}", operand),
            (TlbiOp::Va, Scope::Local) => with!("tlbi vae1, {}", operand),
            (TlbiOp::Va, Scope::Broadcast) => with!("tlbi vae1is, {}", operand),
            (TlbiOp::Vaa, Scope::Local) => with!("tlbi vaae1, {}", operand),
            (TlbiOp::Vaa, Scope::Broadcast) => with!("tlbi vaae1is, {}", operand),
            (TlbiOp::Val, Scope::Local) => with!("tlbi vale1, {}", operand),
            (TlbiOp::Val, Scope::Broadcast) => with!("tlbi vale1is, {}", operand),
            (TlbiOp::Vaal, Scope::Local) => with!("tlbi vaale1, {}", operand),
            (TlbiOp::Vaal, Scope::Broadcast) => with!("tlbi vaale1is, {}", operand),
            (TlbiOp::Rva, Scope::Local) => with!("sys #0, c8, c6, #1, {}", operand),
            (TlbiOp::Rva, Scope::Broadcast) => with!("sys #0, c8, c2, #1, {}", operand),
            (TlbiOp::Rvaa, Scope::Local) => with!("sys #0, c8, c6, #3, {}", operand),
            (TlbiOp::Rvaa, Scope::Broadcast) => with!("sys #0, c8, c2, #3, {}", operand),
            (TlbiOp::Rval, Scope::Local) => with!("sys #0, c8, c6, #5, {}", operand),
            (TlbiOp::Rval, Scope::Broadcast) => with!("sys #0, c8, c2, #5, {}", operand),
            (TlbiOp::Rvaal, Scope::Local) => with!("sys #0, c8, c6, #7, {}", operand),
            (TlbiOp::Rvaal, Scope::Broadcast) => with!("sys #0, c8, c2, #7, {}", operand),
            (TlbiOp::Vmalls12, Scope::Local) => plain!("tlbi vmalls12e1"),
            (TlbiOp::Vmalls12, Scope::Broadcast) => plain!("tlbi vmalls12e1is"),
            (TlbiOp::Alle1, Scope::Local) => plain!("tlbi alle1"),
            (TlbiOp::Alle1, Scope::Broadcast) => plain!("tlbi alle1is"),
        }
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        match kind {
            Dsb::Nsh => plain!("dsb nsh"),
            Dsb::Nshst => plain!("dsb nshst"),
            Dsb::Ish => plain!("dsb ish"),
            Dsb::Ishld => plain!("dsb ishld"),
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
    fn set_ttbr0(&self, value: u64) {
        set_register!("msr ttbr0_el1, {}", value);
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
    fn set_ttbr1(&self, value: u64) {
        set_register!("msr ttbr1_el1, {}", value);
    }

    fn tcr_at_boot(&self) -> Option<u64> {
        Some(read_register!("mrs {}, tcr_el1"))
    }

    #[inline]
    fn ic_iallu(&self) {
        plain!("ic iallu");
    }
}

/// The CPU that executes the calls, in the hypervisor's privilege level: EL2. For the translation
/// of guests ([`super::Stage2`]): the root register is `VTTBR_EL2`, the control register is
/// `VTCR_EL2`.
#[derive(Clone, Copy, Debug)]
pub struct NativeStage2(Native);

impl NativeStage2 {
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
        Self(Native(()))
    }
}

impl Instructions for NativeStage2 {
    #[inline]
    fn tlbi(&self, op: Tlbi) {
        self.0.tlbi(op);
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        self.0.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        self.0.isb();
    }

    #[inline]
    fn write_ttbr0(&self, value: u64) {
        write_register!("msr vttbr_el2, {}", value);
    }

    #[inline]
    fn set_ttbr0(&self, value: u64) {
        set_register!("msr vttbr_el2, {}", value);
    }

    #[inline]
    fn read_ttbr1(&self) -> u64 {
        self.0.read_ttbr1()
    }

    #[inline]
    fn write_ttbr1(&self, value: u64) {
        self.0.write_ttbr1(value);
    }

    #[inline]
    fn set_ttbr1(&self, value: u64) {
        self.0.set_ttbr1(value);
    }

    #[inline]
    fn ic_iallu(&self) {
        self.0.ic_iallu();
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
