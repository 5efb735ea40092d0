//! From events to a script: which address space each CPU ran, what was done to which pages, and who did
//! it.
//!
//! A trace names no address space and few addresses. Both are found here: spaces from the family tree of
//! threads, pages from the system calls and faults around a flush. What could not be found is counted
//! ([`Unknown`]), never made up in silence.
//!
//! Flushes come from one of two sources ([`Flushes`]): those that the kernel recorded, or those that
//! follow from calls and faults by what Linux does. Only the second exists for machines whose kernel
//! records none (Arm); and only the second can be compared with what was recorded.

mod ahead;
mod areas;
mod bits;
mod counts;
mod ends;
mod frames;
mod linux;
mod memory;
mod number;
mod tasks;
mod walk;

use std::collections::BTreeMap;

use crate::{
    data::Refused,
    reconstruct::ahead::Ahead,
    trace::{Call, Pages, Reason, Trace},
};

/// Where flushes are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushes {
    /// What the kernel recorded when it flushed.
    Recorded,
    /// What follows from system calls, faults, forks and exits; recorded flushes are not looked at.
    FromCalls,
}

/// What the CPUs of a traced system did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The spaces, in the order in which they came to be.
    pub spaces: Vec<Space>,
    /// Who did things; [`Step::culprit`] is the place in here.
    pub culprits: Vec<Culprit>,
    /// For each CPU what it did, by time.
    pub cpus: Vec<Vec<Step>>,
    /// How long was traced, in nanoseconds.
    pub length: u64,
    /// What could not be known.
    pub unknown: Unknown,
    /// The flushes that the steps stand for, by how many pages they are for Linux on x86, which
    /// flushes everything from 34 pages on. Each is counted once, by who flushes.
    pub expected: BTreeMap<Pages, u64>,
    /// What the kernel itself counted, if it did.
    pub recorded: Option<Recorded>,
}

/// An address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The name of the process when it was last seen.
    pub name: String,
    /// How many pages it has room for. Pages are numbered from 0, by address, in aligned pieces of 512
    /// (what one page table maps), and pieces of which nothing was used have no numbers. Where pieces
    /// are missing, however many, one unused piece stands for them: what reaches across a gap stays
    /// longer than 512 pages. A parent and the children that it forked number pages alike, until they
    /// execute another program.
    pub pages: u64,
    /// How many threads used it at most at one time.
    pub threads: u32,
}

/// The number of a space: its place in [`Script::spaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u32);

/// Who caused something: a program, and what it was doing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Culprit {
    /// The name of the process.
    pub process: String,
    /// What it was doing.
    pub deed: Deed,
}

/// What a program was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// It computed.
    User,
    /// It was in a system call.
    Call(Call),
    /// It took a page fault.
    Fault,
    /// It forked.
    Fork,
    /// It executed another program.
    Execute,
    /// It ended.
    Exit,
    /// The scheduler turned to it.
    Switch,
    /// Nobody knows.
    Other,
}

/// Something that a CPU did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in nanoseconds since the trace began.
    pub time: u64,
    /// The thread that ran; 0 for the idle loop. Steps of one thread follow each other even when they
    /// are on different CPUs.
    pub task: u32,
    /// Who caused it, by place in [`Script::culprits`].
    pub culprit: u32,
    /// Of a switch: whether what it found in the TLB is in [`Script::recorded`]. Not so if the switch is not in the
    /// trace, or if the space is one whose flushes were not recorded.
    pub counted: bool,
    /// What.
    pub act: Act,
}

/// What a CPU did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It turned to a thread of this space, which may be the one that it ran.
    Run(SpaceId),
    /// It turned to the idle loop, or to a thread of the kernel: no user code until the next switch.
    Idle,
    /// Pages came to be there: a fault, or what a fault brought along.
    Map {
        /// In which space.
        space: SpaceId,
        /// The first page.
        first: u32,
        /// How many.
        pages: u32,
    },
    /// Pages allow less from here on, or are elsewhere (a copy was made for who writes), and are
    /// flushed, in one flush. With all the pages of the space: everything is flushed, and nobody knows
    /// for the sake of which pages.
    Restrict {
        /// In which space.
        space: SpaceId,
        /// The first page.
        first: u32,
        /// How many.
        pages: u32,
        /// As in [`Act::Unmap`].
        whole: bool,
    },
    /// Pages are gone, and are flushed, in one flush; with `tables`, page tables go with them.
    /// Some of the pages between the first and the last may not have been there.
    Unmap {
        /// In which space.
        space: SpaceId,
        /// The first page.
        first: u32,
        /// How many.
        pages: u32,
        /// Whether page tables were freed.
        tables: bool,
        /// Whether Linux flushes everything here, however few the pages are: because another thread
        /// of the space was changing page tables at the same time, for example.
        whole: bool,
    },
    /// Everything in a space allows less, and is flushed: its pages are shared with a child. The
    /// child is not used before this.
    Fork {
        /// Whose pages.
        parent: SpaceId,
        /// Who shares them; it has the same pages.
        child: SpaceId,
    },
    /// A space is not used any more: nobody runs it, though CPUs without user code may still have it
    /// loaded, and everything in it goes.
    End(SpaceId),
}

/// What could not be known, in numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Threads that nobody created and that were not there at the beginning: each is taken for a
    /// process of its own.
    pub tasks: u64,
    /// Flushes of which no call and no fault says the address; they are of pages of the space that
    /// are present, as many as were flushed.
    pub addresses: u64,
    /// Calls whose effect depends on what was mapped before the trace began; pages there are taken
    /// for present.
    pub mappings: u64,
    /// Flushes that another CPU executed and whose sender is not known.
    pub senders: u64,
    /// Pages that were flushed and of which no fault was seen: what the kernel maps around a fault,
    /// or at once in huge pages.
    pub unseen_pages: u64,
    /// Switches that are not in the trace, though the thread was then seen to run: each is taken to have been
    /// just before that.
    pub switches: u64,
    /// Events in the middle of which events were lost.
    pub gaps: u64,
}

/// What the kernel recorded, to compare with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Flushes by reason and pages. Those of [`Reason::Switch`] that happened in an interrupt are in
    /// `dropped` instead, and those that were no switches between spaces of programs in `patching`.
    pub flushes: BTreeMap<(Reason, Pages), u64>,
    /// Switches to a space whose tag was still good, where the space's flushes were recorded.
    pub hits: u64,
    /// The same to a space that had to be flushed, or had no tag.
    pub misses: u64,
    /// Switches to spaces of programs that were not recorded: what was flushed of them nobody knows.
    pub strange: u64,
    /// Lazy CPUs that dropped a space because they were asked to flush it.
    pub dropped: u64,
    /// Flushes at a switch that no thread was switched at: the kernel patches its own text through a
    /// space that nobody else uses, when the recorder is switched on and off.
    pub patching: u64,
    /// Requests to flush that were sent to another CPU.
    pub sends: u64,
    /// What became of them: flushed, dropped by a lazy CPU, another space was loaded, nothing to do.
    pub fates: [u64; 4],
}

/// Finds out what the CPUs did.
///
/// # Errors
///
/// If the trace has no events of user processes, or flushes are asked for that it does not have.
pub fn reconstruct(trace: &Trace, flushes: Flushes) -> Result<Script, Refused> {
    let ahead = Ahead::read(trace);
    if !ahead.any {
        return Err(Refused("the trace has no events of programs: nothing to replay".into()));
    }
    let (recorded, senders) = counts::count(trace, &ahead);
    if flushes == Flushes::Recorded && recorded.is_none() {
        let why = "the trace has no recorded flushes; take those that follow from calls instead";
        return Err(Refused(why.into()));
    }
    let walk::Found { steps, spaces, culprits, pieces, unknown, expected } =
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
        })
        .collect();
    let ends = trace.events.first().zip(trace.events.last());
    let length = ends.map_or(0, |(first, last)| last.time.saturating_sub(first.time));
    let unknown = Unknown { senders, ..unknown };
    Ok(Script { spaces, culprits, cpus, length, unknown, expected, recorded })
}
