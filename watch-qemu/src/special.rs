//! Instructions that mean something to translation, whatever the architecture calls them.

use lookaside_hardware::arm::{Barrier, Domain, TlbiKind};

/// An instruction that is told to the shadow when it is executed. Registers are named by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// RISC-V: `SFENCE.VMA` and, if it is pending until `SFENCE.INVAL.IR`, `SINVAL.VMA`.
    Sfence { address: Option<u8>, asid: Option<u8>, pending: bool },
    /// RISC-V: `SFENCE.INVAL.IR`.
    CompletesSinval,
    /// Arm64: `TLBI`. Nothing is named by a register if it is the zero register.
    Tlbi { kind: TlbiKind, register: u8, shared: bool },
    /// Arm64: `DSB`.
    Dsb { barrier: Barrier, domain: Domain },
    /// Arm64: a write of `SP_EL0`.
    WritesSpEl0 { register: u8 },
    /// A root register is written: it has to be read again.
    WritesRoot,
    /// x86-64: a write of a control register that translation depends on.
    WritesControl { control: Control, register: u8 },
    /// x86-64: `INVLPG`.
    Invlpg { at: Address },
    /// x86-64: `INVPCID` of the type that a register names, with its descriptor in memory.
    Invpcid { kind: u8, descriptor: Address },
    /// `cbo.zero`, `DC ZVA`: a block of memory becomes zero, and no store is reported.
    ZeroesBlock { register: u8 },
}

/// A control register of x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Control {
    Cr0,
    Cr3,
    Cr4,
}

/// A segment whose base is not zero in 64-bit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    Fs,
    Gs,
}

/// An operand in memory, as x86-64 spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) base: Option<u8>,
    /// A register, and by what it is multiplied.
    pub(crate) index: Option<(u8, u8)>,
    pub(crate) displacement: u64,
    pub(crate) segment: Option<Segment>,
}

impl Address {
    /// The linear address, from the values of general registers and the bases of segments.
    pub(crate) fn value(
        &self,
        general: impl Fn(u8) -> u64,
        segment: impl Fn(Segment) -> u64,
    ) -> u64 {
        let index = self
            .index
            .map_or(0, |(register, scale)| general(register).wrapping_mul(u64::from(scale)));
        self.base
            .map_or(0, &general)
            .wrapping_add(index)
            .wrapping_add(self.displacement)
            .wrapping_add(self.segment.map_or(0, segment))
    }
}
