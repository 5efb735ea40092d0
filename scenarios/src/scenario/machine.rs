//! The machines that programs name, as values.

use lookaside::arch::Mmu;

use super::hardware::{self, Described, Hardware, More};

type Arm = <hardware::Arm as Hardware>::Mmu;
type X86 = <hardware::Pcid as Hardware>::Mmu;
type Riscv = <hardware::Rv as Hardware>::Mmu;

/// A machine, with its architecture's type.
#[derive(Clone, Copy)]
pub(super) enum Machine {
    /// Arm64.
    Arm(Described<Arm>),
    /// x86-64.
    X86(Described<X86>),
    /// RISC-V.
    Riscv(Described<Riscv>),
}

/// A machine by its name.
pub(crate) struct Kind {
    /// Its name.
    pub(crate) name: &'static str,
    pub(super) machine: Machine,
}

const fn arm<H: Hardware<Mmu = Arm>>(name: &'static str) -> Kind {
    Kind { name, machine: Machine::Arm(Described::of::<H>()) }
}

const fn x86<H: Hardware<Mmu = X86>>(name: &'static str) -> Kind {
    Kind { name, machine: Machine::X86(Described::of::<H>()) }
}

const fn riscv<H: Hardware<Mmu = Riscv>>(name: &'static str) -> Kind {
    Kind { name, machine: Machine::Riscv(Described::of::<H>()) }
}

/// All machines.
pub(crate) static KINDS: &[Kind] = &[
    arm::<hardware::Arm>("arm"),
    arm::<hardware::ArmShared>("arm-cnp"),
    arm::<hardware::ArmFresh>("arm-fresh"),
    arm::<hardware::ArmSharedFresh>("arm-cnp-fresh"),
    arm::<hardware::ArmInterrupts>("arm-interrupts"),
    arm::<hardware::ArmHints>("arm-hints"),
    x86::<hardware::Pcid>("x86"),
    x86::<hardware::GlobalKernel>("x86-global-kernel"),
    x86::<hardware::PcidOnly>("x86-no-invpcid"),
    x86::<hardware::Plain>("x86-no-pcid"),
    x86::<hardware::Broadcast>("x86-invlpgb"),
    x86::<hardware::BroadcastFresh>("x86-invlpgb-fresh"),
    riscv::<hardware::Rv>("riscv"),
    riscv::<hardware::RvInterrupts>("riscv-interrupts"),
    riscv::<hardware::RvBoth>("riscv-both"),
    riscv::<hardware::RvFresh>("riscv-fresh"),
    riscv::<hardware::RvFreshInterrupts>("riscv-fresh-interrupts"),
    riscv::<hardware::RvSvinval>("riscv-svinval"),
    riscv::<hardware::RvPlain>("riscv-no-asid"),
];

impl Kind {
    /// The machine of this name.
    pub(crate) fn find(name: &str) -> Option<usize> {
        KINDS.iter().position(|kind| kind.name == name)
    }

    pub(crate) const fn is_arm(&self) -> bool {
        matches!(self.machine, Machine::Arm(_))
    }

    pub(crate) const fn is_x86(&self) -> bool {
        matches!(self.machine, Machine::X86(_))
    }

    /// Whether CPUs can be interrupted.
    pub(crate) fn interrupts(&self) -> bool {
        match self.machine {
            Machine::Arm(described) => described.config(1).interrupts,
            Machine::X86(described) => described.config(1).interrupts,
            Machine::Riscv(described) => described.config(1).interrupts,
        }
    }

    /// Whether CPUs may use each other's entries.
    pub(crate) fn shares(&self) -> bool {
        matches!(self.machine, Machine::Arm(described) if described.config(1).cnp)
    }

    /// Whether translations have tags.
    pub(crate) fn has_tags(&self) -> bool {
        !matches!(self.name, "x86-no-pcid" | "riscv-no-asid")
    }

    /// Whether a fresh tag is cheaper than a flush.
    pub(crate) fn prefers_fresh(&self) -> bool {
        self.name.contains("fresh")
    }

    /// The machine that does more.
    pub(super) fn with(&self, more: More) -> Machine {
        match self.machine {
            Machine::Arm(described) => Machine::Arm(with(described, more)),
            Machine::X86(described) => Machine::X86(with(described, more)),
            Machine::Riscv(described) => Machine::Riscv(with(described, more)),
        }
    }
}

fn with<M: Mmu>(described: Described<M>, more: More) -> Described<M> {
    Described { more, ..described }
}
