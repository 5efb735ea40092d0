//! The errors that the library returns.

use core::fmt;

use crate::ids::CpuId;

/// Why an operation was refused. It was not done; where parts of it were, its documentation says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A machine has between one and [`crate::platform::MAX_CPUS`] CPUs.
    CpuCount {
        /// The number that was given.
        cpus: usize,
    },
    /// The platform named a CPU for which there is no storage.
    CpuOutOfRange {
        /// The CPU.
        cpu: CpuId,
        /// How many CPUs there is storage for.
        cpus: usize,
    },
    /// The storage is too small.
    Storage {
        /// How many elements are needed.
        needed: usize,
        /// How many were given.
        given: usize,
    },
    /// The storage of a CPU was used by another [`crate::Tlb`], and still has its state.
    UsedStorage {
        /// The CPU.
        cpu: CpuId,
    },
    /// There are too few tags: those that spaces can have and pins cannot take must outnumber the CPUs.
    TooFewTags {
        /// How many tags spaces can have.
        usable: u32,
        /// How many are needed: one more than there are CPUs, and the cap on pins.
        needed: u32,
    },
    /// The hardware does not support the configuration.
    Unsupported(&'static str),
    /// As many tags are pinned as the cap allows.
    PinCap {
        /// The cap.
        cap: u32,
    },
    /// The tag of the space is not pinned.
    NotPinned,
    /// The space is pinned: a device may use its tag.
    Pinned,
    /// A CPU supports fewer tag bits than the machine runs with.
    FewerTagBits {
        /// Bits the machine runs with.
        machine: u32,
        /// Bits this CPU has.
        cpu: u32,
    },
    /// A CPU lacks a feature that the machine relies on.
    MissingFeature(&'static str),
    /// The address of the root table does not fit the root register.
    BadRoot {
        /// The address.
        address: u64,
    },
    /// The platform does not say that the CPU has stopped ([`crate::Platform::has_stopped`]).
    NotStopped {
        /// The CPU.
        cpu: CpuId,
    },
    /// The CPU is online already ([`crate::Tlb::online`]).
    Online {
        /// The CPU.
        cpu: CpuId,
    },
    /// No identifier is left that was never used before.
    IdsExhausted,
    /// The size is not that of a page.
    PageSize {
        /// Binary logarithm of the size.
        shift: u32,
    },
    /// The range is empty.
    EmptyRange,
    /// The range does not begin and end on page boundaries.
    UnalignedRange {
        /// First address.
        start: u64,
        /// Length in bytes.
        bytes: u64,
        /// Binary logarithm of the page size.
        page_shift: u32,
    },
    /// The range runs past the top of the address space.
    RangeOverflow {
        /// First address.
        start: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// The address is not canonical.
    NonCanonical {
        /// The address.
        address: u64,
    },
    /// The argument was made by another [`crate::Tlb`].
    OtherTlb,
    /// The tag does not fit the hardware.
    TagOutOfRange {
        /// The tag.
        tag: u32,
        /// How many tags there are.
        tags: u32,
    },
    /// The slots run past the end of the table.
    BeyondTable {
        /// The end of the slots.
        end: usize,
        /// How many entries there are.
        entries: usize,
    },
    /// A slot that must map nothing does map something.
    EntryPresent {
        /// The slot.
        index: usize,
    },
    /// A slot that must map a page maps nothing.
    EntryAbsent {
        /// The slot.
        index: usize,
    },
    /// The entries of a block do not belong together.
    EntriesDisagree {
        /// The first slot that does not fit.
        index: usize,
    },
    /// The memory of a block does not begin on a multiple of its size.
    UnalignedOutput {
        /// Where it begins.
        output: u64,
    },
    /// The memory runs past the addresses that an entry can hold.
    OutputOverflow {
        /// First address.
        start: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// The entry does not map an ordinary page.
    NotAPage {
        /// The entry.
        entry: u64,
    },
    /// The entries of a block changed during each attempt to read them without the table's lock.
    Torn {
        /// The slot that was to be read.
        index: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CpuCount { cpus } => {
                write!(f, "{cpus} CPUs: a machine has 1 to {}", crate::ids::MAX_CPUS)
            }
            Self::CpuOutOfRange { cpu, cpus } => {
                write!(f, "{cpu} has no storage: there is storage for {cpus}")
            }
            Self::Storage { needed, given } => {
                write!(f, "storage for {needed} elements is needed, {given} given")
            }
            Self::UsedStorage { cpu } => write!(f, "the storage of {cpu} has been used before"),
            Self::TooFewTags { usable, needed } => {
                write!(f, "{usable} usable tags: at least {needed} are needed")
            }
            Self::Unsupported(what) => write!(f, "the hardware does not support {what}"),
            Self::PinCap { cap } => write!(f, "all {cap} tags that may be pinned are"),
            Self::NotPinned => f.write_str("the space is not pinned"),
            Self::Pinned => f.write_str("the space is pinned"),
            Self::FewerTagBits { machine, cpu } => {
                write!(f, "the CPU has {cpu} tag bits, the machine runs with {machine}")
            }
            Self::MissingFeature(what) => write!(f, "the CPU lacks {what}"),
            Self::BadRoot { address } => write!(f, "{address:#x} cannot be a root table"),
            Self::NotStopped { cpu } => write!(f, "{cpu} is not known to have stopped"),
            Self::Online { cpu } => write!(f, "{cpu} is online already"),
            Self::IdsExhausted => f.write_str("no unused identifier is left"),
            Self::PageSize { shift } => write!(f, "2^{shift} bytes is not a page size"),
            Self::EmptyRange => f.write_str("the range is empty"),
            Self::UnalignedRange { start, bytes, page_shift } => {
                write!(
                    f,
                    "{bytes:#x} bytes at {start:#x} are not whole pages of 2^{page_shift} bytes"
                )
            }
            Self::RangeOverflow { start, bytes } => {
                write!(f, "{bytes:#x} bytes at {start:#x} run past the top of the address space")
            }
            Self::NonCanonical { address } => write!(f, "{address:#x} is not canonical"),
            Self::OtherTlb => f.write_str("it belongs to another `Tlb`"),
            Self::TagOutOfRange { tag, tags } => write!(f, "tag {tag}: the hardware has {tags}"),
            Self::BeyondTable { end, entries } => {
                write!(f, "slots up to {end} of a table that has {entries}")
            }
            Self::EntryPresent { index } => write!(f, "slot {index} maps something"),
            Self::EntryAbsent { index } => write!(f, "slot {index} maps nothing"),
            Self::EntriesDisagree { index } => {
                write!(f, "slot {index} does not fit into the block")
            }
            Self::UnalignedOutput { output } => {
                write!(f, "a block of memory cannot begin at {output:#x}")
            }
            Self::OutputOverflow { start, bytes } => {
                write!(f, "{bytes:#x} bytes of memory at {start:#x} are beyond what entries name")
            }
            Self::NotAPage { entry } => write!(f, "{entry:#x} is no entry of a plain page"),
            Self::Torn { index } => {
                write!(f, "the block of slot {index} changes: take the table's lock")
            }
        }
    }
}

impl core::error::Error for Error {}
