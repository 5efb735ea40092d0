//! What a program asks of the machine: one value for each operation it can be about to execute.
//!
//! A program stops *before* each operation and says what it is about to do, so that the explorer
//! can choose knowing what the choice means.

use core::fmt;

use lookaside::{
    arch::{aarch64, x86_64},
    platform::Ordering,
};

use super::format::Frame;

/// The address of a word, which is its name.
pub(crate) type Address = *mut u64;

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// The program has ended; the CPU takes interrupts and does nothing else.
    Idle,
    /// The program ends: what is buffered reaches memory.
    End,
    Load(Address, Ordering),
    Store(Address, u64, Ordering),
    Rmw(Address, Rmw, Ordering),
    Fence(Ordering),
    /// Interrupts the CPUs of a mask.
    Interrupt(u64),
    /// Waits until something that the program may be waiting for has happened.
    Relax,
    /// Turns interrupts off.
    IrqOff,
    /// The interrupt controller of the CPU is initialised: what is buffered reaches memory, and an interrupt
    /// that waits is lost.
    Reset,
    /// The CPU goes off: it walks nothing, and hears no broadcast.
    PowerOff,
    /// Another CPU stops where it is, as if it went off there.
    Stop(usize),
    /// It comes on again, with this root.
    PowerOn(Frame),
    /// Makes a claim to the oracle.
    Claim,
    /// Is about to read or write a word of its own, where an NMI can come before.
    Own,
    /// Uses a translation.
    Access(u64),
    /// Uses a translation to store a value.
    AccessStore(u64, u64),
    Arm(Arm),
    X86(X86),
    Riscv(Riscv),
}

impl Op {
    /// Whether it reads and writes words and does nothing else.
    pub(crate) fn is_words(&self) -> bool {
        matches!(self, Self::Load(..) | Self::Store(..) | Self::Rmw(..) | Self::Fence(..))
    }
}

/// An atomic read-modify-write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rmw {
    Swap(u64),
    Add(u64),
    Or(u64),
    And(u64),
    /// Writes `new` in place of `current`.
    Exchange {
        current: u64,
        new: u64,
        failure: Ordering,
    },
}

impl Rmw {
    /// What the word holds afterwards, or nothing if it is not written.
    pub(crate) fn apply(self, old: u64) -> Option<u64> {
        match self {
            Self::Swap(value) => Some(value),
            Self::Add(value) => Some(old.wrapping_add(value)),
            Self::Or(bits) => Some(old | bits),
            Self::And(bits) => Some(old & bits),
            Self::Exchange { current, new, .. } => (old == current).then_some(new),
        }
    }
}

/// An instruction of Arm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arm {
    Tlbi(aarch64::Tlbi),
    Dsb(aarch64::Dsb),
    Isb,
    WriteTtbr0(u64),
    ReadTtbr1,
    WriteTtbr1(u64),
    ReadTcr,
    WriteTcr(u64),
    IcIallu,
}

/// An instruction of x86.
#[derive(Clone, Copy, Debug)]
pub(crate) enum X86 {
    WriteCr3(u64),
    ReadCr3,
    WriteCr4(u64),
    ReadCr4,
    Invlpg(u64),
    Invpcid(x86_64::Invpcid, [u64; 2]),
    Invlpgb { rax: u64, ecx: u32, edx: u32 },
    Tlbsync,
}

/// An instruction of RISC-V.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Riscv {
    Sfence(Option<u64>, Option<u16>),
    SfenceWInval,
    Sinval(Option<u64>, Option<u16>),
    SfenceInvalIr,
    Fence,
    ReadSatp,
    WriteSatp(u64),
    Remote(Remote),
}

/// A call of the firmware that fences other harts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) harts: u64,
    pub(crate) base: u64,
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) asid: Option<u16>,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tlbi(tlbi) => {
                let name = format!("{:?}", tlbi.op).to_uppercase();
                let one = if name == "ALLE1" || name.starts_with("VMALLS12") { "" } else { "E1" };
                let name = if name == "VMALLS12" { "VMALLS12E1".to_owned() } else { name + one };
                let scope = match tlbi.scope {
                    aarch64::Scope::Local => "",
                    aarch64::Scope::Broadcast => "IS",
                };
                write!(f, "TLBI {name}{scope} {:#x}", tlbi.operand)
            }
            Self::Dsb(kind) => write!(f, "DSB {}", format!("{kind:?}").to_uppercase()),
            Self::Isb => f.write_str("ISB"),
            Self::WriteTtbr0(value) => write!(f, "MSR TTBR0 {value:#x}"),
            Self::ReadTtbr1 => f.write_str("MRS TTBR1"),
            Self::WriteTtbr1(value) => write!(f, "MSR TTBR1 {value:#x}"),
            Self::ReadTcr => f.write_str("MRS TCR"),
            Self::WriteTcr(value) => write!(f, "MSR TCR {value:#x}"),
            Self::IcIallu => f.write_str("IC IALLU"),
        }
    }
}

impl fmt::Display for X86 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteCr3(value) => write!(f, "MOV CR3, {value:#x}"),
            Self::ReadCr3 => f.write_str("MOV r, CR3"),
            Self::WriteCr4(value) => write!(f, "MOV CR4, {value:#x}"),
            Self::ReadCr4 => f.write_str("MOV r, CR4"),
            Self::Invlpg(address) => write!(f, "INVLPG {address:#x}"),
            Self::Invpcid(kind, [pcid, address]) => {
                write!(f, "INVPCID {} pcid {pcid:#x} va {address:#x}", *kind as u64)
            }
            Self::Invlpgb { rax, ecx, edx } => write!(f, "INVLPGB {rax:#x} {ecx:#x} {edx:#x}"),
            Self::Tlbsync => f.write_str("TLBSYNC"),
        }
    }
}

impl fmt::Display for Riscv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x0 = |value: Option<u64>| value.map_or("x0".to_owned(), |value| format!("{value:#x}"));
        match *self {
            Self::Sfence(address, asid) => {
                write!(f, "SFENCE.VMA {}, {}", x0(address), x0(asid.map(u64::from)))
            }
            Self::SfenceWInval => f.write_str("SFENCE.W.INVAL"),
            Self::Sinval(address, asid) => {
                write!(f, "SINVAL.VMA {}, {}", x0(address), x0(asid.map(u64::from)))
            }
            Self::SfenceInvalIr => f.write_str("SFENCE.INVAL.IR"),
            Self::Fence => f.write_str("FENCE rw, rw"),
            Self::ReadSatp => f.write_str("CSRR satp"),
            Self::WriteSatp(value) => write!(f, "CSRW satp {value:#x}"),
            Self::Remote(Remote { harts, base, start, size, asid }) => write!(
                f,
                "SBI rfence harts {harts:#x}+{base:#x} va {start:#x} size {size:#x} asid {}",
                x0(asid.map(u64::from))
            ),
        }
    }
}
