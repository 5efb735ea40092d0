//! A litmus test, as the machine runs it: threads of instructions, the memory they begin with, and
//! what each of them may do.

use lookaside::arch::aarch64::{Scope, TlbiOp};

use super::descriptor::Descriptor;

/// The number of a variable. Each has a page of its own: an address, a descriptor and a frame.
pub type Variable = usize;

/// A general register: 0 to 30, or [`Register::ZERO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u8);

impl Register {
    /// `XZR`: reads as zero, and a write is lost.
    pub const ZERO: Self = Self(31);
}

/// How wide an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits; a load clears the upper half of its register.
    Word,
    /// 64 bits.
    Double,
}

impl Width {
    pub(crate) fn of(self, value: u64) -> u64 {
        match self {
            Self::Word => value & 0xffff_ffff,
            Self::Double => value,
        }
    }
}

/// What a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// Everything: `SY`, `ISH`, `OSH`, `NSH`.
    Full,
    /// What loads before it have read: `LD` and its kin.
    Loads,
    /// Stores before it: `ST` and its kin.
    Stores,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Does nothing.
    Nop,
    /// `MOV`: a constant.
    Move {
        /// Where to.
        to: Register,
        /// What.
        value: u64,
    },
    /// `MOV`: a copy of a register.
    Copy {
        /// Where to.
        to: Register,
        /// What.
        from: Register,
    },
    /// `LSR`.
    ShiftRight {
        /// Where to.
        to: Register,
        /// What.
        from: Register,
        /// By how many bits.
        bits: u32,
    },
    /// `LDR`.
    Load {
        /// Where to.
        to: Register,
        /// How wide.
        width: Width,
        /// The base of the address.
        base: Register,
        /// What is added to the base, sign-extended from 32 bits.
        index: Option<Register>,
    },
    /// `STR`.
    Store {
        /// What.
        from: Register,
        /// How wide.
        width: Width,
        /// The base of the address.
        base: Register,
        /// What is added to the base, sign-extended from 32 bits.
        index: Option<Register>,
    },
    /// `DMB`.
    Dmb(Barrier),
    /// `DSB`.
    Dsb(Barrier),
    /// `ISB`.
    Isb,
    /// `TLBI`.
    Tlbi {
        /// What it names.
        op: TlbiOp,
        /// On which CPUs.
        scope: Scope,
        /// Its operand; none for the forms that take none.
        operand: Option<Register>,
    },
}

/// What a thread does after a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFault {
    /// It ends.
    #[default]
    Stop,
    /// The instruction runs once more. Runs with a second fault of the thread are dropped.
    Retry,
    /// These instructions run, and it ends.
    Handler(Vec<Instruction>),
}

/// One CPU and what it runs.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// What it runs.
    pub code: Vec<Instruction>,
    /// What it runs after a fault.
    pub on_fault: OnFault,
    /// The registers that do not begin as zero.
    pub registers: Vec<(Register, u64)>,
    /// It runs at EL0.
    pub user: bool,
    /// Its hardware sets the access flag (`TCR.HA`).
    pub accessed: bool,
    /// Its hardware marks pages dirty (`TCR.HD`).
    pub dirty: bool,
}

/// A litmus test.
#[derive(Clone, Debug, Default)]
pub struct Test {
    /// What each variable's frame holds at first.
    pub contents: Vec<u64>,
    /// What each variable's descriptor is at first.
    pub descriptors: Vec<Descriptor>,
    /// The threads.
    pub threads: Vec<Thread>,
}

/// Why an access faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// The descriptor is invalid.
    Translation,
    /// The access flag is clear.
    AccessFlag,
    /// The access is not permitted.
    Permission,
}

/// A fault that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault {
    /// The thread.
    pub thread: usize,
    /// Which instruction of its code; of the handler, counted on from there.
    pub instruction: usize,
    /// The address of the access.
    pub address: u64,
    /// Why.
    pub kind: FaultKind,
}

/// What an execution has left behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Final {
    /// What each variable's frame holds.
    pub contents: Vec<u64>,
    /// What each variable's descriptor is.
    pub descriptors: Vec<u64>,
    /// The registers 0 to 31 of each thread.
    pub registers: Vec<[u64; 32]>,
    /// The faults, sorted.
    pub faults: Vec<Fault>,
}

/// The address of a variable.
#[must_use]
pub const fn address(variable: Variable) -> u64 {
    (variable as u64 + 1) << 12
}

/// Where descriptors lie.
const DESCRIPTORS: u64 = 1 << 40;

/// The address of a variable's descriptor.
#[must_use]
pub const fn descriptor_address(variable: Variable) -> u64 {
    DESCRIPTORS + ((variable as u64) << 3)
}

/// What an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// A variable.
    Page(Variable),
    /// The descriptor of a variable.
    Descriptor(Variable),
}

/// What an address names in a test of so many variables, if it names anything.
#[must_use]
pub fn named(address: u64, variables: usize) -> Option<Named> {
    let within = |number: u64| usize::try_from(number).ok().filter(|&number| number < variables);
    if let Some(offset) = address.checked_sub(DESCRIPTORS) {
        return (offset & 7 == 0).then(|| within(offset >> 3)).flatten().map(Named::Descriptor);
    }
    let page = (address & 0xfff == 0).then_some(address >> 12)?;
    within(page.checked_sub(1)?).map(Named::Page)
}
