//! Programs: scenarios as values, with a complete text form.
//!
//! ```text
//! arm-cnp+early epochs(3,1,2) [Run(A) Unmap(A)] [Run(A) Run(B) Run(A)]
//! blocks-riscv used [Unmap(1..3)] [Store(1) Store(3)]
//! pair-x86 [Unmap(A,0)] [Run(A) Visit Copy Visit]
//! ```
//!
//! The first word names the machine, and whether the program is about spaces, blocks of page-table entries, or a kernel
//! that runs user mode under another root or tag.

mod blocks;
mod pairs;
mod spaces;

use core::{fmt, str::FromStr};

pub(super) use self::spaces::{epochs_on, recent_on};
pub(crate) use self::{
    blocks::{BLOCK_KINDS, BlockProgram, PRESETS},
    pairs::{PAIR_KINDS, PairProgram, SPACES},
    spaces::{SpaceProgram, Strategy},
};
use super::{Depth, Entry, Explored, Open};

/// A scenario as a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// About spaces.
    Spaces(SpaceProgram),
    /// About blocks of page-table entries.
    Blocks(BlockProgram),
    /// About a kernel that runs user mode under another root or tag.
    Pairs(PairProgram),
}

/// Why a text is not a program, or why the library does not allow a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError(String);

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ProgramError {}

impl From<String> for ProgramError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Program {
    /// Builds its world. Its text is the name of its schedules.
    #[must_use]
    pub fn open(&self) -> Explored {
        self.open_as(&self.to_string())
    }

    /// Builds its world, with another name for its schedules.
    pub(super) fn open_as(&self, name: &str) -> Explored {
        match self {
            Self::Spaces(program) => program.open(name),
            Self::Blocks(program) => program.open(name),
            Self::Pairs(program) => program.open(name),
        }
    }

    /// As [`Self::open_as`], with the allocator chosen at run time; none for a program that is not about spaces.
    pub(super) fn open_chosen(&self, name: &str) -> Option<Explored> {
        match self {
            Self::Spaces(program) => Some(program.chosen().open(name)),
            Self::Blocks(_) | Self::Pairs(_) => None,
        }
    }

    /// The name of its machine.
    pub(crate) fn machine(&self) -> &'static str {
        match self {
            Self::Spaces(program) => program.kind().name,
            Self::Blocks(program) => program.kind().name,
            Self::Pairs(program) => program.kind().name,
        }
    }

    /// Checks that a kernel may do that: the hardware supports it, and all CPUs fulfil the obligations that
    /// the library puts on its callers.
    pub(crate) fn check(&self) -> Result<(), ProgramError> {
        match self {
            Self::Spaces(program) => program.check(),
            Self::Blocks(program) => program.check(),
            Self::Pairs(program) => program.check(),
        }
    }

    /// The program as a scenario under its text as its name, which lives for ever.
    #[must_use]
    pub fn into_entry(self) -> &'static Entry {
        let name = self.to_string();
        Box::leak(Box::new(entry(&name, "a program", DEPTH, self)))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spaces(program) => program.fmt(f),
            Self::Blocks(program) => program.fmt(f),
            Self::Pairs(program) => program.fmt(f),
        }
    }
}

impl FromStr for Program {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, ProgramError> {
        let text = text.trim_start();
        if text.starts_with(blocks::PREFIX) {
            text.parse().map(Self::Blocks)
        } else if text.starts_with(pairs::PREFIX) {
            text.parse().map(Self::Pairs)
        } else {
            text.parse().map(Self::Spaces)
        }
    }
}

/// Whether a CPU other than `cpu` executes an act that signals, and waits for nothing before it.
fn is_told<A>(
    cpus: &[Vec<A>],
    cpu: usize,
    tells: impl Fn(&A) -> bool,
    waits: impl Fn(&A) -> bool,
) -> bool {
    let others = cpus.iter().enumerate().filter(|(other, _)| *other != cpu);
    others.into_iter().any(|(_, acts)| {
        let signal = acts.iter().position(&tells);
        signal.is_some_and(|signal| !acts[..signal].iter().any(&waits))
    })
}

/// Parses the part behind the first `[`.
fn parse_scripts<A: FromStr<Err = String>>(text: &str) -> Result<Vec<Vec<A>>, String> {
    let scripts = text.trim_end().strip_suffix(']').ok_or("a script ends with `]`")?;
    scripts.split("] [").map(|script| script.split_whitespace().map(str::parse).collect()).collect()
}

fn write_scripts<A: fmt::Display>(f: &mut fmt::Formatter<'_>, scripts: &[Vec<A>]) -> fmt::Result {
    for acts in scripts {
        f.write_str(" [")?;
        for (index, act) in acts.iter().enumerate() {
            write!(f, "{}{act}", if index == 0 { "" } else { " " })?;
        }
        f.write_str("]")?;
    }
    Ok(())
}

/// How deep a program is explored by default.
const DEPTH: Depth = Depth::Bounded(2);

/// An entry of the catalogue, which lives for ever.
pub(super) fn entry(name: &str, about: &str, depth: Depth, program: Program) -> Entry {
    let [name, about] = [name, about].map(|text| &*text.to_owned().leak());
    Entry { name, about, depth, open: Open::Of(program) }
}
