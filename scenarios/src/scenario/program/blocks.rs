//! Programs about blocks of page-table entries.
//!
//! ```text
//! blocks-arm used [Fold(0) Unmap(1..3)] [Store(1) Load(3)]
//! ```
//!
//! First the kind of table, then what is mapped when the program begins, then the script of each CPU. All but CPU 0
//! run the space from the beginning.

use core::{fmt, ops::Range, str::FromStr};
use std::collections::BTreeSet;

use super::{
    super::{
        Explored,
        blocks::{self, Act, Described, Kind, Mapped, Script, mapped},
    },
    ProgramError,
};

/// How the names of their machines begin.
pub(super) const PREFIX: &str = "blocks-";
/// The most CPUs of a program.
const MOST_CPUS: usize = 3;
/// The most acts of a CPU.
const LONGEST: usize = 8;

/// A kind of table by its name.
pub(crate) struct BlockKind {
    /// Its name.
    pub(crate) name: &'static str,
    open: fn(&BlockProgram, &str) -> Explored,
}

const fn kind<K: Kind>(name: &'static str) -> BlockKind {
    BlockKind { name, open: open_on::<K> }
}

/// All kinds.
pub(crate) static BLOCK_KINDS: &[BlockKind] = &[
    kind::<blocks::ArmBreaks>("blocks-arm"),
    kind::<blocks::ArmHeld>("blocks-arm-held"),
    kind::<blocks::ArmFree>("blocks-arm-free"),
    kind::<blocks::ArmByHand>("blocks-arm-by-hand"),
    kind::<blocks::ArmAsks>("blocks-arm-interrupts"),
    kind::<blocks::ArmEarly>("blocks-arm-early"),
    kind::<blocks::NapotBreaks>("blocks-riscv"),
    kind::<blocks::NapotFree>("blocks-riscv-free"),
    kind::<blocks::NapotByHand>("blocks-riscv-by-hand"),
    kind::<blocks::NapotAsks>("blocks-riscv-interrupts"),
    kind::<blocks::NapotEarly>("blocks-riscv-early"),
];

/// What is mapped when a program begins, by its name.
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    mapped: &'static [Mapped],
}

/// All of them.
pub(crate) static PRESETS: &[Preset] = &[
    Preset { name: "used", mapped: mapped::USED },
    Preset { name: "fresh", mapped: mapped::FRESH },
    Preset { name: "dirty", mapped: mapped::DIRTY },
    Preset { name: "pages", mapped: mapped::PAGES },
    Preset { name: "fresh-pages", mapped: mapped::FRESH_PAGES },
    Preset { name: "two", mapped: mapped::TWO },
];

/// A program about blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockProgram {
    /// The number of its kind of table among [`BLOCK_KINDS`].
    pub(crate) kind: usize,
    /// The number of what is mapped among [`PRESETS`].
    pub(crate) preset: usize,
    /// What each CPU does.
    pub(crate) cpus: Vec<Vec<Act>>,
}

impl BlockProgram {
    pub(crate) fn kind(&self) -> &'static BlockKind {
        &BLOCK_KINDS[self.kind]
    }

    /// How many pages there are.
    pub(crate) fn pages(&self) -> usize {
        let ends = PRESETS[self.preset].mapped.iter().map(|mapped| mapped.slots.end);
        ends.max().unwrap_or(0)
    }

    /// Builds its world. Schedules carry the name.
    pub(super) fn open(&self, name: &str) -> Explored {
        (self.kind().open)(self, name)
    }

    /// Whether a kernel may do that.
    pub(super) fn check(&self) -> Result<(), ProgramError> {
        let acts: usize = self.cpus.iter().map(Vec::len).sum();
        if acts == 0 || self.cpus.len() > MOST_CPUS {
            return Err(ProgramError(format!("1 to {MOST_CPUS} CPUs do something")));
        }
        let mut gone = BTreeSet::new();
        for act in self.cpus.iter().flatten() {
            let (Act::Unmap(slots) | Act::Exit(slots)) = act else { continue };
            if slots.clone().any(|slot| !gone.insert(slot)) {
                return Err(ProgramError(format!("{act}: a page goes once")));
            }
        }
        for (cpu, acts) in self.cpus.iter().enumerate() {
            if acts.len() > LONGEST {
                return Err(ProgramError(format!("CPU {cpu}: it has more than {LONGEST} acts")));
            }
            for (at, act) in acts.iter().enumerate() {
                self.check_act(cpu, at, act, &gone)
                    .map_err(|why| ProgramError(format!("CPU {cpu}: {act}: {why}")))?;
            }
        }
        Ok(())
    }

    fn check_act(
        &self,
        cpu: usize,
        at: usize,
        act: &Act,
        gone: &BTreeSet<usize>,
    ) -> Result<(), &'static str> {
        let before = &self.cpus[cpu][..at];
        let slots = act.slots();
        if slots.end > self.pages() {
            return Err("there is no such page");
        }
        if slots.is_empty() != act.names_nothing() {
            return Err("it is about no page");
        }
        let runs = before.iter().rev().find_map(|act| match act {
            Act::Run => Some(true),
            Act::Park => Some(false),
            _ => None,
        });
        let runs = runs.unwrap_or(cpu > 0);
        match act {
            Act::Await
                if !super::is_told(
                    &self.cpus,
                    cpu,
                    |act| *act == Act::Tell,
                    |act| *act == Act::Await,
                ) =>
            {
                Err("no other CPU signals")
            }
            Act::Insist(_) if !runs => Err("the CPU does not run the space"),
            Act::Insist(_) | Act::Allow(_) | Act::Protect(_) | Act::Age(_) | Act::Clean(_)
                if slots.clone().any(|slot| gone.contains(&slot)) =>
            {
                Err("a page may be gone")
            }
            Act::Exit(_) if self.cpus.len() > 1 || self.cpus[cpu].contains(&Act::Run) => {
                Err("a CPU runs the space")
            }
            Act::Ask(_) | Act::Look(_) | Act::Map(_) | Act::Peruse(_) | Act::Rely(_) => {
                Err("this takes a state that only scenarios of the catalogue know")
            }
            _ => Ok(()),
        }
    }
}

fn open_on<K: Kind>(program: &BlockProgram, name: &str) -> Explored {
    Explored::new(Script {
        name: name.to_owned(),
        mapped: PRESETS[program.preset].mapped,
        written: &[],
        cpus: program.cpus.clone(),
        // Another CPU may have taken the pages.
        refusals: true,
        kind: Described::of::<K>(),
    })
}

impl fmt::Display for BlockProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind().name, PRESETS[self.preset].name)?;
        super::write_scripts(f, &self.cpus)
    }
}

impl FromStr for BlockProgram {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, ProgramError> {
        let shape = || "it looks like `blocks-arm used [Unmap(1..3)] [Store(1)]`".to_owned();
        let (head, scripts) = text.trim().split_once('[').ok_or_else(shape)?;
        let mut words = head.split_whitespace();
        let (Some(machine), Some(mapped), None) = (words.next(), words.next(), words.next()) else {
            return Err(ProgramError(shape()));
        };
        let known = |what: &str, name: &str, names: Vec<&str>| {
            names.iter().position(|known| *known == name).ok_or_else(|| {
                format!("there is no {what} `{name}`: they are {}", names.join(", "))
            })
        };
        let kinds = BLOCK_KINDS.iter().map(|kind| kind.name).collect();
        let presets = PRESETS.iter().map(|preset| preset.name).collect();
        let (kind, preset) =
            (known("machine", machine, kinds)?, known("mapping", mapped, presets)?);
        let program = Self { kind, preset, cpus: super::parse_scripts(scripts)? };
        program.check()?;
        Ok(program)
    }
}

impl fmt::Display for Act {
    /// As in a script: `Unmap(1..3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{text}` is no act");
        let Some((name, slots)) = text.strip_suffix(')').and_then(|text| text.split_once('('))
        else {
            return Self::named(text, 0..0).filter(Self::names_nothing).ok_or_else(unknown);
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| unknown());
        let range: Range<usize> = match slots.split_once("..") {
            Some((first, end)) => number(first)?..number(end)?,
            None => number(slots)?..number(slots)?.saturating_add(1),
        };
        let act = Self::named(name, range).ok_or_else(unknown)?;
        // One page is no range, and a range is not one page.
        if act.to_string() == text { Ok(act) } else { Err(unknown()) }
    }
}
