//! A litmus test, as the machine runs it: threads of instructions, the memory they begin with, and
//! what each of them may do.

use lookaside::arch::aarch64::{Scope, TlbiOp};
pub use lookaside_hardware::arm::Barrier;

use super::descriptor::Descriptor;

/// The number of a variable. Each has a page of its own: an address, a descriptor and a frame.
pub type Variable = usize;

/// A general register: 0 to 30, or [`Register::ZERO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u8);

impl Register {
    /// `XZR`: reads as zero, and a write is lost.
    pub const ZERO: Self = Self(31);
    /// The flags, as the difference of what was compared last: zero if it was equal.
    pub(crate) const FLAGS: Self = Self(32);
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

/// A register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// The lower 32 bits of a register, sign-extended: `SXTW`.
    Extended(Register),
    /// A constant.
    Value(u64),
}

/// What is computed of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `ADD`.
    Add,
    /// `SUB`.
    Subtract,
    /// `AND`.
    And,
    /// `BIC`: and not.
    Clear,
    /// `ORR`.
    Or,
    /// `EOR`.
    Xor,
    /// `LSL`.
    ShiftLeft,
    /// `LSR`.
    ShiftRight,
}

impl Operation {
    pub(crate) fn apply(self, width: Width, first: u64, second: u64) -> u64 {
        let bits = match width {
            Width::Word => 31,
            Width::Double => 63,
        };
        let first = width.of(first);
        width.of(match self {
            Self::Add => first.wrapping_add(second),
            Self::Subtract => first.wrapping_sub(second),
            Self::And => first & second,
            Self::Clear => first & !second,
            Self::Or => first | second,
            Self::Xor => first ^ second,
            Self::ShiftLeft => first << (second & bits),
            Self::ShiftRight => first >> (second & bits),
        })
    }
}

/// When a branch is taken, or an operand selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Always: `B`.
    Always,
    /// What was compared last was equal: `EQ`.
    Equal,
    /// It was not: `NE`.
    NotEqual,
    /// A register is zero: `CBZ`.
    Zero(Register, Width),
    /// It is not: `CBNZ`.
    NotZero(Register, Width),
}

/// Whether a load is ordered before what comes after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acquire {
    /// It is not.
    #[default]
    No,
    /// It is: `LDAPR`.
    Processor,
    /// It is, and it is ordered after releasing stores before it: `LDAR`.
    Sequential,
}

/// What an atomic read-modify-write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// `SWP`.
    Swap,
    /// `LDADD`, `STADD`.
    Add,
    /// `LDSET`, `STSET`.
    Set,
    /// `LDCLR`, `STCLR`.
    Clear,
    /// `CAS`: writes if memory holds what `to` holds.
    CompareSwap,
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
    /// Computes.
    Compute {
        /// Where to.
        to: Register,
        /// How wide.
        width: Width,
        /// What.
        operation: Operation,
        /// Of which register.
        first: Register,
        /// And what else.
        second: Operand,
    },
    /// `CMP`.
    Compare {
        /// How wide.
        width: Width,
        /// A register.
        first: Register,
        /// And what it is compared with.
        second: Operand,
    },
    /// `CSEL`, `CSET`.
    Select {
        /// Where to.
        to: Register,
        /// How wide.
        width: Width,
        /// When the first of the two is selected.
        condition: Condition,
        /// The two.
        of: [Operand; 2],
    },
    /// `B`, `B.EQ`, `B.NE`, `CBZ`, `CBNZ`.
    Branch {
        /// When it is taken.
        condition: Condition,
        /// Which instruction of the thread comes next then.
        target: usize,
    },
    /// `LDR`, `LDAR`, `LDAPR`.
    Load {
        /// Where to.
        to: Register,
        /// How wide.
        width: Width,
        /// Whether it is ordered before what comes after it.
        acquire: Acquire,
        /// The base of the address.
        base: Register,
        /// What is added to the base.
        index: Option<Operand>,
    },
    /// `STR`, `STLR`.
    Store {
        /// What.
        from: Register,
        /// How wide.
        width: Width,
        /// Whether it is ordered after what comes before it: `STLR`.
        release: bool,
        /// The base of the address.
        base: Register,
        /// What is added to the base.
        index: Option<Operand>,
    },
    /// An atomic read-modify-write.
    Atomic {
        /// What it does.
        atomic: Atomic,
        /// Where what was read goes to; of a `CAS` also what it must equal.
        to: Register,
        /// The operand.
        from: Register,
        /// How wide.
        width: Width,
        /// What it reads is ordered before what comes after it: the suffix `A`.
        acquire: bool,
        /// What it writes is ordered after what comes before it: the suffix `L`.
        release: bool,
        /// The address.
        base: Register,
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

impl Instruction {
    /// Whether it accesses memory.
    pub(crate) fn is_access(&self) -> bool {
        self.reads() || self.writes()
    }

    /// Whether it reads memory.
    pub(crate) fn reads(&self) -> bool {
        matches!(self, Self::Load { .. } | Self::Atomic { .. })
    }

    /// Whether it writes memory, or may.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::Atomic { .. })
    }

    /// How wide an access is.
    pub(crate) fn width(&self) -> Option<Width> {
        match *self {
            Self::Load { width, .. } | Self::Store { width, .. } | Self::Atomic { width, .. } => {
                Some(width)
            }
            _ => None,
        }
    }

    /// Whether what it reads is ordered before what comes after it.
    pub(crate) fn acquires(&self) -> bool {
        match *self {
            Self::Load { acquire, .. } => acquire != Acquire::No,
            Self::Atomic { acquire, .. } => acquire,
            _ => false,
        }
    }

    /// Whether what it reads is ordered after releasing stores before it.
    pub(crate) fn acquires_sequentially(&self) -> bool {
        match *self {
            Self::Load { acquire, .. } => acquire == Acquire::Sequential,
            Self::Atomic { acquire, .. } => acquire,
            _ => false,
        }
    }

    /// Whether what it writes is ordered after what comes before it.
    pub(crate) fn releases(&self) -> bool {
        match *self {
            Self::Store { release, .. } | Self::Atomic { release, .. } => release,
            _ => false,
        }
    }

    /// Whether it is atomic, acquires and releases: what comes after it waits for its write.
    pub(crate) fn is_full_atomic(&self) -> bool {
        matches!(self, Self::Atomic { acquire: true, release: true, .. })
    }

    /// Whether a barrier that orders loads ignores its read: the value is not observed.
    pub(crate) fn reads_unseen(&self) -> bool {
        match *self {
            Self::Atomic { atomic, to, acquire, .. } => {
                atomic != Atomic::CompareSwap && to == Register::ZERO && !acquire
            }
            _ => false,
        }
    }
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
