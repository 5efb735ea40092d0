//! Instructions that mean something to translation, whatever the architecture calls them.

use lookaside_hardware::arm::{Barrier, Domain, TlbiKind};

/// An instruction that is told to the shadow when it is executed. Registers are named by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// `cbo.zero`, `DC ZVA`: a block of memory becomes zero, and no store is reported.
    ZeroesBlock { register: u8 },
}
