//! Reconstructs a script from the events of a trace: which address space each CPU ran, which pages changed,
//! and which process changed them in which operation.
//!
//! A trace names no address space and few addresses. Spaces are derived from the family tree of threads,
//! pages from the system calls and faults around a flush. What cannot be derived is counted ([`Unknown`]).
//!
//! Flushes come from one of two sources ([`Flushes`]): those that the kernel recorded, or those that
//! follow from calls and faults by what Linux does. Only the second exists for machines whose kernel
//! records none (Arm); and only the second can be compared with what was recorded.

mod ahead;
mod areas;
mod bits;
mod counts;
mod ends;
mod excerpt;
mod frames;
mod linux;
mod memory;
mod number;
mod tasks;
mod walk;

use std::collections::BTreeMap;

use lookaside_terminal::Refused;

pub use self::excerpt::Excerpt;
use crate::{Call, KernelCounts, Pages, Trace, reconstruct::ahead::Ahead};

/// The source of flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushes {
    /// The flushes that the kernel recorded.
    Recorded,
    /// The flushes that follow from system calls, faults, forks and exits; recorded flushes are ignored.
    FromCalls,
}

/// What the CPUs of a traced system did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The spaces, in order of creation.
    pub spaces: Vec<Space>,
    /// The initiators of steps; [`Step::initiator`] is an index into this list.
    pub initiators: Vec<Initiator>,
    /// The steps of each CPU, by time.
    pub cpus: Vec<Vec<Step>>,
    /// Length of the trace in nanoseconds.
    pub length: u64,
    /// Counts of what could not be derived from the trace.
    pub unknown: Unknown,
    /// The flushes of the steps by number of pages as Linux on x86 counts them; from 34 pages on it flushes
    /// everything. Each flush is counted once, at its initiator.
    pub expected: BTreeMap<Pages, u64>,
    /// The kernel's own counts, if it recorded any.
    pub recorded: Option<KernelCounts>,
    /// For each list of [`Self::cpus`] the CPU that executes its steps, where that is another than recorded. Empty
    /// otherwise.
    pub places: Vec<usize>,
}

/// An address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The name of the process when it was last seen.
    pub name: String,
    /// The size of the space in pages. Pages are numbered from 0, by address, in aligned pieces of 512
    /// (what one page table maps), and pieces of which nothing was used have no numbers. Where pieces
    /// are missing, however many, one unused piece stands for them: what reaches across a gap stays
    /// longer than 512 pages. A parent and the children that it forked number pages alike, until they
    /// execute another program.
    pub pages: u64,
    /// The largest number of threads that used it at one time.
    pub threads: u32,
    /// Whether it is one of the recorded programs: see [`Initiator::recorded`].
    pub recorded: bool,
    /// Whether it was there before the trace began, or nobody saw it begin.
    pub older: bool,
}

/// The number of a space: its place in [`Script::spaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// The cause of a step: a process and its operation at that time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Initiator {
    /// The name of the process.
    pub process: String,
    /// The operation in which it was.
    pub operation: Operation,
    /// The function of the program that called the kernel, or took the fault, where the trace has stacks.
    pub function: Option<String>,
    /// Whether everything that it did was recorded. Of the recording of a command that is the command and its
    /// descendants; of other programs there are only switches, so they have no flushes in the script. Of the
    /// recording of a whole system it is everybody.
    pub recorded: bool,
}

/// An operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// User code.
    User,
    /// A system call.
    Call(Call),
    /// A page fault.
    Fault,
    /// `fork`.
    Fork,
    /// `execve`.
    Execute,
    /// Exit.
    Exit,
    /// A context switch to the program.
    Switch,
    /// Unknown.
    Other,
}

/// A step of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in nanoseconds since the trace began.
    pub time: u64,
    /// The thread that ran; 0 for the idle loop. Steps of one thread follow each other even when they
    /// are on different CPUs.
    pub task: u32,
    /// The initiator, as an index into [`Script::initiators`].
    pub initiator: u32,
    /// For a switch, whether [`Script::recorded`] counts its TLB hit or miss. False if the trace lacks the
    /// switch or the flushes of the space were not recorded.
    pub counted: bool,
    /// The act.
    pub act: Act,
}

/// The act of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The CPU switches to a thread of this space, which may be the space that it ran already.
    Run(SpaceId),
    /// The CPU switches to the idle loop or to a kernel thread: no user code runs until the next switch.
    Idle,
    /// Pages are mapped by a fault or by fault-around.
    Map {
        /// The space.
        space: SpaceId,
        /// The first page.
        first: u32,
        /// The number of pages.
        pages: u32,
    },
    /// Pages lose permissions or move to another frame (copy-on-write), and are flushed in one flush. If the
    /// range is the whole space, everything is flushed and the changed pages are unknown.
    Restrict {
        /// The space.
        space: SpaceId,
        /// The first page.
        first: u32,
        /// The number of pages.
        pages: u32,
        /// As in [`Act::Unmap`].
        whole: bool,
    },
    /// Pages are unmapped and flushed in one flush; with `tables`, page tables are freed too. Some pages of
    /// the range may not have been mapped.
    Unmap {
        /// The space.
        space: SpaceId,
        /// The first page.
        first: u32,
        /// The number of pages.
        pages: u32,
        /// Whether page tables were freed.
        tables: bool,
        /// Whether Linux flushes everything whatever the number of pages, for example because another
        /// thread of the space changed page tables at the same time.
        whole: bool,
    },
    /// The kernel takes pages away by itself (reclaim). No call says so and nobody knows which, so one stands for them.
    /// Linux flushes everything on all CPUs of the mask where others than this one are in it, else page by page.
    PageOut {
        /// The space.
        space: SpaceId,
        /// The page.
        page: u32,
    },
    /// All pages of the parent become read-only because a child shares them, and the parent's space is
    /// flushed. The child is not used before this act.
    Fork {
        /// The parent.
        parent: SpaceId,
        /// The child; it has the same pages.
        child: SpaceId,
    },
    /// A space ends and all of it is unmapped. No CPU runs user code in it, but lazy CPUs may still have it
    /// loaded. Of a program that was not recorded only this is known: a CPU that was lazy in it has left it.
    End(SpaceId),
}

/// What could not be derived from the trace, as numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Threads whose creation is not in the trace and that did not exist at its beginning: each is taken for
    /// a process of its own.
    pub tasks: u64,
    /// Flushes without a call or fault that gives the address: the recorded number of present pages of the
    /// space stands for them.
    pub addresses: u64,
    /// Calls whose effect depends on what was mapped before the trace began, where pages are taken for present; and
    /// writes to pages from before, which are taken for shared, so that they are copied and flushed.
    pub mappings: u64,
    /// Flushes that a CPU executed for an unknown sender.
    pub senders: u64,
    /// Flushed pages without a fault in the trace: mapped by fault-around, or as huge pages.
    pub unseen_pages: u64,
    /// Switches that the trace lacks although the thread was then seen to run: each is placed just before
    /// that.
    pub switches: u64,
    /// Events during which other events were lost.
    pub gaps: u64,
}

/// Whether there is anything to reconstruct.
///
/// # Errors
///
/// If the trace has no events of user processes.
pub fn check(trace: &Trace) -> Result<(), Refused> {
    Ahead::read(trace).check(trace)
}

/// Reconstructs the script of a trace.
///
/// # Errors
///
/// If the trace has no events of user processes, or flushes are asked for that it does not have.
pub fn reconstruct(trace: &Trace, flushes: Flushes) -> Result<Script, Refused> {
    let ahead = Ahead::read(trace);
    ahead.check(trace)?;
    let (recorded, senders) = counts::count(trace, &ahead);
    if flushes == Flushes::Recorded && recorded.is_none() {
        let why = "the trace has no recorded flushes; take those that follow from calls instead";
        return Err(Refused(why.into()));
    }
    let walk::Found { steps, spaces, initiators, pieces, unknown, expected } =
        walk::Walk::new(trace, flushes, &ahead).all();
    let families: Vec<u32> = spaces.iter().map(|space| space.family).collect();
    let (cpus, rooms) = pieces.number(steps, &families)?;
    let spaces = spaces
        .iter()
        .zip(rooms)
        .map(|(space, pages)| Space {
            name: walk::name(trace, space.name),
            pages,
            threads: space.most,
            recorded: space.recorded,
            older: space.older,
        })
        .collect();
    let ends = trace.events.first().zip(trace.events.last());
    let length = ends.map_or(0, |(first, last)| last.time.saturating_sub(first.time));
    let unknown = Unknown { senders, ..unknown };
    Ok(Script { spaces, initiators, cpus, length, unknown, expected, recorded, places: Vec::new() })
}
