//! What is found, and how often.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::Remedy;

/// Which rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Criterion {
    /// A: a CPU accesses a page of which it may hold a revoked entry, and the tables name another frame now.
    WrongFrame,
    /// B: a revoked entry can still be used in user mode, and its frame has been stored to through another page by
    /// somebody else, after the one who revoked it has finished.
    FrameHandedOn,
    /// C: a CPU may hold an entry that it has never used, and that was revoked before a fence.
    PermittedOnly,
    /// D: the one who revoked an entry is back in user mode, and a CPU that runs the address space may hold it.
    UnfencedReturn,
    /// E: a page that held tables is stored to, with what a walker takes for an entry, while a CPU may hold a walk
    /// through it.
    FreedTable,
    /// F: a CPU accesses a page of which it may hold an entry of another root under the same tag.
    TagGivenAway,
    /// G: Arm only: a valid entry is overwritten by a valid one of another frame or size, without a break.
    BreakBeforeMake,
    /// H: as A, between an invalidation of the entry and the barrier that completes it.
    UnfinishedFence,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::WrongFrame,
        Self::FrameHandedOn,
        Self::PermittedOnly,
        Self::UnfencedReturn,
        Self::FreedTable,
        Self::TagGivenAway,
        Self::BreakBeforeMake,
        Self::UnfinishedFence,
    ];

    /// The letter that `docs/hunt.md` calls it by.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::WrongFrame => 'A',
            Self::FrameHandedOn => 'B',
            Self::PermittedOnly => 'C',
            Self::UnfencedReturn => 'D',
            Self::FreedTable => 'E',
            Self::TagGivenAway => 'F',
            Self::BreakBeforeMake => 'G',
            Self::UnfinishedFence => 'H',
        }
    }

    /// What it is called in a report.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::WrongFrame => "wrong frame",
            Self::FrameHandedOn => "frame handed on",
            Self::PermittedOnly => "permitted only",
            Self::UnfencedReturn => "unfenced return",
            Self::FreedTable => "freed table",
            Self::TagGivenAway => "tag given away",
            Self::BreakBeforeMake => "break before make",
            Self::UnfinishedFence => "unfinished fence",
        }
    }

    /// Whether the kernel is wrong on every machine that kept the entry, without further argument.
    #[must_use]
    pub const fn is_certain(self) -> bool {
        matches!(
            self,
            Self::WrongFrame
                | Self::FreedTable
                | Self::TagGivenAway
                | Self::BreakBeforeMake
                | Self::UnfinishedFence
        )
    }
}

/// Where and when something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place {
    /// The CPU.
    pub cpu: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// The number of the event.
    pub time: u64,
}

/// A store that took an entry's translation, or rights, away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Revoked {
    /// The store.
    pub by: Place,
    /// The physical address of the table entry.
    pub slot: u64,
    /// The task that ran there, if the kernel's description says how it is found.
    pub task: Option<u64>,
    /// How often the CPU had returned to user mode by then.
    pub returns: u64,
    /// The frame stayed, and only rights were lost.
    pub rights_only: bool,
}

/// How a CPU came to hold an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fill {
    /// The access.
    pub by: Place,
    /// The physical address of the top table.
    pub root: u64,
}

/// An error of the kernel, the first time that it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Finding {
    /// The rule.
    pub criterion: Criterion,
    /// The CPU that may hold the entry.
    pub holder: u32,
    /// The first byte of the page.
    pub address: u64,
    /// The tag that the entry is held under; nothing if it is global.
    pub tag: Option<u16>,
    /// How many pages the entry translates.
    pub pages: u64,
    /// The frame that the entry names.
    pub held: u64,
    /// The frame that the tables name now, if they name one.
    pub now: Option<u64>,
    /// What showed it: the access, the store to the frame, or the return to user mode.
    pub shown: Place,
    /// The address by which it was shown, if it was not the page's.
    pub through: Option<u64>,
    /// How the entry came to be held.
    pub filled: Fill,
    /// What revoked it; nothing if only another root was loaded.
    pub revoked: Option<Revoked>,
    /// The weakest fence that would have removed the entry.
    pub missing: Option<Remedy>,
    /// The last fences of the holder before: the newest last.
    pub fences: Vec<Place>,
    /// How often it was seen.
    pub count: u64,
}

/// Findings are the same if the rule and the two instructions are.
type Key = (Criterion, u64, u64);

/// Everything found: each once, with a count.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    known: BTreeMap<Key, usize>,
    list: Vec<Finding>,
    /// How many different ones were too many.
    pub(crate) dropped: u64,
}

/// More are a sign that nothing works, and each costs memory.
const MOST: usize = 4096;

impl Findings {
    pub(crate) fn add(
        &mut self,
        criterion: Criterion,
        revoked: Option<Place>,
        shown: Place,
        make: impl FnOnce() -> Finding,
    ) {
        let key = (criterion, revoked.map_or(0, |by| by.pc), shown.pc);
        if let Some(&at) = self.known.get(&key) {
            self.list[at].count += 1;
        } else if self.list.len() < MOST {
            self.known.insert(key, self.list.len());
            self.list.push(make());
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn list(&self) -> &[Finding] {
        &self.list
    }
}
