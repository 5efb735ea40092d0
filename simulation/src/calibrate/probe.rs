//! What can be measured, and what of it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{series::Series, topology::Apart};

/// One thing that is measured, always in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A step of a chase over so many pages, through one line of each.
    Pages(usize),
    /// A step of a chase through so many lines side by side.
    Lines(usize),
    /// To read the clock.
    Clock,
    /// A system call that does nothing.
    Call,
    /// To touch a page that was given back.
    Fault,
    /// An atomic addition to a word that nobody else uses.
    Atomic,
    /// A round trip of a cache line between two CPUs so far apart, by loads and stores.
    Transfer(Apart),
    /// A round trip of a ping-pong.
    PingPong {
        /// Between processes, not threads.
        processes: bool,
        /// Pages that each side goes through, in a chase.
        pages: usize,
        /// Whether these are pages of its own, not copied by the fork.
        apart: bool,
    },
    /// To make so many written pages read-only, with so many CPUs besides that run the process.
    Protect {
        /// Pages.
        pages: usize,
        /// Other CPUs.
        others: usize,
    },
    /// To make them writable again.
    Allow {
        /// Pages.
        pages: usize,
        /// Other CPUs.
        others: usize,
    },
    /// To give so many written pages back, and keep the addresses.
    Discard {
        /// Pages.
        pages: usize,
        /// Other CPUs.
        others: usize,
    },
    /// To unmap so many written pages.
    Unmap {
        /// Pages.
        pages: usize,
        /// Other CPUs.
        others: usize,
    },
    /// To have so many other CPUs that run the process execute a barrier.
    Barrier {
        /// Other CPUs.
        others: usize,
    },
}

/// All that was measured.
pub type Samples = BTreeMap<Probe, Series>;

/// Pages of the chases.
pub(super) const PAGES: [usize; 43] = [
    8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 160, 192, 224, 256, 320,
    384, 448, 512, 768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 6144,
    7168, 8192, 10240, 12288, 14336, 16384,
];
/// Pages of `mprotect`: many on both sides of the limit that Linux has (33).
pub(super) const CALLED: [usize; 22] =
    [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 33, 34, 36, 40, 48, 56, 64, 96, 128, 160, 192, 256];

/// What is to be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// What is compared with the model.
    pub compared: bool,
    /// Round trips of threads and processes that do nothing else.
    pub switches: bool,
    /// Chases over pages and lines.
    pub chases: bool,
    /// Words and the lines that they are in, system calls, faults.
    pub words: bool,
    /// Calls that change page tables.
    pub calls: bool,
    /// Barriers on other CPUs.
    pub barriers: bool,
}

impl Scope {
    /// Everything.
    pub const ALL: Self = Self {
        compared: true,
        switches: true,
        chases: true,
        words: true,
        calls: true,
        barriers: true,
    };
    /// What is compared with the model, and nothing else.
    pub const COMPARED: Self = Self {
        compared: true,
        switches: false,
        chases: false,
        words: false,
        calls: false,
        barriers: false,
    };

    /// What either has.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            compared: self.compared || other.compared,
            switches: self.switches || other.switches,
            chases: self.chases || other.chases,
            words: self.words || other.words,
            calls: self.calls || other.calls,
            barriers: self.barriers || other.barriers,
        }
    }
}
