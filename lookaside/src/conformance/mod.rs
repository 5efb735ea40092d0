//! Tests of an integration on the kernel's own machine.
//!
//! A kernel calls them once, when its CPUs are up, in a test build or at every boot.
//!
//! * [`check`] tests the [`Platform`](crate::Platform) with a few thousand IPIs, and needs nothing else. It
//!   finds CPU numbers that change, IPIs that go to the wrong CPUs, get lost, come back to the sender or
//!   overtake the stores before them, handlers that do not call
//!   [`CurrentCpu::handle_ipi`](crate::CurrentCpu::handle_ipi), and words that are not atomic.
//! * [`check_translations`] tests what the instructions and the kernel's own calls do to translations. The
//!   kernel gives it two address spaces and a few callbacks ([`Scratch`]), by which it maps, reads, unmaps
//!   and reads again, for each CPU. It finds CPUs that are not online, flushes that are missing or do
//!   nothing, spaces that share a tag, and page-fault handlers that do not handle spurious faults.
//!
//! [`CheckedMmu`] checks the library and the hardware below it, for as long as a debug build runs: that no CPU uses what it holds under a
//! tag for another space.
//!
//! # What they cannot find
//!
//! * IPIs to the CPU that calls [`check`]: call it once more from another one. And IPIs to a CPU that calls
//!   [`CurrentCpu::handle_ipi`](crate::CurrentCpu::handle_ipi) by itself, in a loop or at each timer tick, and so answers
//!   although none arrives: [`Report::polling`] counts these.
//! * An entry that is stale in the tables but in no TLB. Hardware may drop any entry at any time, and
//!   emulators drop more: QEMU's TCG forgets at every change of the root on RISC-V and x86-64, so that a
//!   flush which is missed while a CPU runs another space does not show there. [`Translations`] says how
//!   often an entry was still used after it was cleared and before it was flushed. Where that never
//!   happened, nothing was proved of flushes.
//! * Spurious faults that hardware raises: an emulator that walks again before it faults raises none. So
//!   the kernel's handler is called as if there had been one, and the library counts its calls of
//!   [`CurrentCpu::spurious_fault`](crate::CurrentCpu::spurious_fault).
//! * Calls that the kernel forgets in other places than those that the callbacks go through, freed page
//!   tables, races between CPUs, and orderings. The TLB sanitizer (`docs/hunt.md`) watches all that a
//!   kernel does, on an emulator, and the adversarial machine explores the library's own orderings.

mod checked_mmu;
mod platform;
mod translations;

use core::fmt;

pub use self::{
    checked_mmu::CheckedMmu,
    platform::{Report, check},
    translations::{Scratch, ScratchSpace, Translations, check_translations},
};
use crate::ids::CpuId;

/// What is wrong with an integration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// [`Platform::cpu`](crate::Platform::cpu) named another CPU than before, on the same one with
    /// interrupts off.
    CpuChanges {
        /// The CPU that it named first.
        before: CpuId,
        /// The CPU that it named then.
        now: CpuId,
    },
    /// This operation of [`Platform::Word`](crate::Platform::Word) had a wrong result or effect.
    Word(&'static str),
    /// A CPU that is up did not acknowledge a request. The IPI was lost or went elsewhere, it came before
    /// the stores that preceded it, its handler does not call
    /// [`CurrentCpu::handle_ipi`](crate::CurrentCpu::handle_ipi), or the CPU counts as up before it takes
    /// interrupts.
    NoAnswer {
        /// The CPU.
        cpu: CpuId,
    },
    /// The costs that decide are all zero, so that every way to flush seems equally good.
    NoCosts,
    /// The machine has a CPU that never called [`Tlb::online`](crate::Tlb::online), or has gone down since:
    /// no flush reaches it.
    NotOnline {
        /// The CPU.
        cpu: CpuId,
    },
    /// A CPU does not read from a page what was just mapped there, nor anything else that explains it.
    Unreadable {
        /// The CPU.
        cpu: CpuId,
        /// The word that it read, or none if the access faulted.
        found: Option<u64>,
    },
    /// A CPU that runs a space reads the page of another space: both have one tag, or the switch does not
    /// load the root.
    OtherSpace {
        /// The CPU.
        cpu: CpuId,
    },
    /// A CPU still reads a page after the kernel has unmapped it and should have flushed.
    Stale {
        /// The CPU.
        cpu: CpuId,
        /// Whether the CPU had left the space before the page was unmapped, and has come back to it since.
        returned: bool,
    },
    /// The page-fault handler of a CPU does not let an access go on that the entry allows: a CPU that holds
    /// an older entry takes such faults.
    SpuriousFaultRefused {
        /// The CPU.
        cpu: CpuId,
    },
    /// The page-fault handler of a CPU lets such an access go on without a call of
    /// [`CurrentCpu::spurious_fault`](crate::CurrentCpu::spurious_fault), on hardware that keeps the older
    /// entry: the access faults for ever.
    SpuriousFaultStays {
        /// The CPU.
        cpu: CpuId,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CpuChanges { before, now } => {
                write!(f, "the CPU that executes this was {before} and is {now}")
            }
            Self::Word(operation) => write!(f, "`{operation}` of a word is wrong"),
            Self::NoAnswer { cpu } => write!(f, "{cpu} is up and does not answer"),
            Self::NoCosts => f.write_str("every cost is zero"),
            Self::NotOnline { cpu } => write!(f, "{cpu} is not online"),
            Self::Unreadable { cpu, found: Some(word) } => {
                write!(
                    f,
                    "{cpu} reads {word:#x} from a page that was mapped, which is not its word"
                )
            }
            Self::Unreadable { cpu, found: None } => write!(f, "{cpu} cannot read a mapped page"),
            Self::OtherSpace { cpu } => write!(f, "{cpu} reads the page of another space"),
            Self::Stale { cpu, returned: false } => write!(f, "{cpu} reads an unmapped page"),
            Self::Stale { cpu, returned: true } => {
                write!(f, "{cpu} reads a page that was unmapped while it ran another space")
            }
            Self::SpuriousFaultRefused { cpu } => {
                write!(f, "{cpu} does not let an access go on that the entry allows")
            }
            Self::SpuriousFaultStays { cpu } => {
                write!(f, "{cpu} handles a spurious fault without `spurious_fault`")
            }
        }
    }
}

impl core::error::Error for Fault {}
