//! Programs about a kernel that runs user mode under another root or tag.
//!
//! ```text
//! pair-riscv [Unmap(A,0)] [Run(A) Visit Lazy Run(B) Visit]
//! ```
//!
//! First the kind of kernel, then the script of each CPU. A space has two pages, 0 and 1, below one table.

use core::{fmt, str::FromStr};

use super::{
    super::{
        Explored,
        pairs::{self, Act, Described, Kind, Script},
    },
    ProgramError,
};

/// How the names of their machines begin.
pub(super) const PREFIX: &str = "pair-";
/// What follows the name of a machine whose loads may be satisfied early.
const EARLY: &str = "+early";
/// The most spaces of a program.
pub(crate) const SPACES: usize = 5;
/// The most acts of a CPU.
const LONGEST: usize = 16;

/// A kind of kernel by its name.
pub(crate) struct PairKind {
    /// Its name.
    pub(crate) name: &'static str,
    /// How many CPUs it has tags for.
    pub(crate) most_cpus: usize,
    open: fn(&PairProgram, &str) -> Explored,
}

const fn kind<K: Kind>(name: &'static str, most_cpus: usize) -> PairKind {
    PairKind { name, most_cpus, open: open_on::<K> }
}

/// All kinds. Tags that are the same on all CPUs are three, of which one more than there are CPUs is needed.
pub(crate) static PAIR_KINDS: &[PairKind] = &[
    kind::<pairs::OnLoad>("pair-x86", 3),
    kind::<pairs::AtExit>("pair-x86-at-exit", 3),
    kind::<pairs::NoInvpcid>("pair-x86-no-invpcid", 3),
    kind::<pairs::Broadcast>("pair-x86-invlpgb", 2),
    kind::<pairs::Rv>("pair-riscv", 2),
    kind::<pairs::RvSbi>("pair-riscv-sbi", 2),
    kind::<pairs::RvLast>("pair-riscv-last", 2),
    kind::<pairs::RvRecent>("pair-riscv-recent", 3),
    kind::<pairs::RvPlain>("pair-riscv-no-asid", 3),
    kind::<pairs::Arm>("pair-arm", 2),
    kind::<pairs::ArmTtbr1>("pair-arm-ttbr1", 2),
    kind::<pairs::ArmRecent>("pair-arm-recent", 3),
    kind::<pairs::ArmShared>("pair-arm-cnp", 2),
    kind::<pairs::ArmSharedLast>("pair-arm-cnp-last", 2),
];

/// A program about a kernel that runs user mode under another root or tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairProgram {
    /// The number of its kind among [`PAIR_KINDS`].
    pub(crate) kind: usize,
    /// Whether loads may be satisfied early.
    pub(crate) early: bool,
    /// What each CPU does.
    pub(crate) cpus: Vec<Vec<Act>>,
}

/// Which pages of its space an act takes away.
const fn takes(act: Act) -> [bool; 2] {
    match act {
        Act::Unmap(_, page) => [page == 0, page == 1],
        Act::Early(_) => [true, false],
        Act::FreeTable(_) | Act::Clear(_) | Act::Batch(_) | Act::Release(_) => [true; 2],
        _ => [false; 2],
    }
}

/// The space whose thread a CPU executes after these acts. None if it is lazy, or parked.
fn runs(acts: &[Act]) -> Option<usize> {
    acts.iter().fold(None, |runs, act| match *act {
        Act::Run(space) => Some(space),
        Act::Lazy | Act::Park => None,
        // Its thread was the last one.
        Act::Release(space) if runs == Some(space) => None,
        _ => runs,
    })
}

impl PairProgram {
    pub(crate) fn kind(&self) -> &'static PairKind {
        &PAIR_KINDS[self.kind]
    }

    /// Builds its world. Schedules carry the name.
    pub(super) fn open(&self, name: &str) -> Explored {
        (self.kind().open)(self, name)
    }

    /// Whether a kernel may do that.
    pub(super) fn check(&self) -> Result<(), ProgramError> {
        let acts: usize = self.cpus.iter().map(Vec::len).sum();
        let most = self.kind().most_cpus;
        if self.early && self.kind().name.starts_with("pair-x86") {
            return Err(ProgramError("x86 does not satisfy loads early".to_owned()));
        }
        if acts == 0 || self.cpus.len() > most {
            return Err(ProgramError(format!("1 to {most} CPUs do something")));
        }
        for (cpu, acts) in self.cpus.iter().enumerate() {
            if acts.len() > LONGEST {
                return Err(ProgramError(format!("CPU {cpu}: it has more than {LONGEST} acts")));
            }
            for (at, act) in acts.iter().enumerate() {
                self.check_act(cpu, at)
                    .map_err(|why| ProgramError(format!("CPU {cpu}: {}: {why}", Shown(*act))))?;
            }
        }
        Ok(())
    }

    fn check_act(&self, cpu: usize, at: usize) -> Result<(), &'static str> {
        let act = self.cpus[cpu][at];
        if act.space().is_some_and(|space| space >= SPACES) {
            return Err("there is no such space");
        }
        let elsewhere = |wanted: &dyn Fn(Act) -> bool| {
            let all = self.cpus.iter().enumerate();
            all.flat_map(|(other, acts)| {
                acts.iter().enumerate().map(move |(n, act)| (other, n, act))
            })
            .any(|(other, n, act)| (other, n) != (cpu, at) && wanted(*act))
        };
        let same = |other: Act| other.space() == act.space();
        let taken = takes(act);
        if elsewhere(&|other| same(other) && takes(other).iter().zip(taken).any(|(a, b)| *a && b)) {
            return Err("a page goes once");
        }
        match act {
            // A switch may mix the reserved root and the ASID of a space until it is synchronised. The kernel is below `TTBR1`,
            // which names no tables here.
            Act::UnmapKernel if self.kind().name == "pair-arm-ttbr1" => {
                Err("the reserved root maps nothing")
            }
            // One page of the kernel's, and nobody maps it again.
            Act::UnmapKernel if elsewhere(&|other| other == Act::UnmapKernel) => {
                Err("a page goes once")
            }
            Act::Unmap(_, 2..) => Err("a space has the pages 0 and 1"),
            Act::Visit | Act::Write | Act::Copy if runs(&self.cpus[cpu][..at]).is_none() => {
                Err("the CPU executes no thread of a space")
            }
            Act::Protect(_) => self.check_protect(cpu, at),
            Act::Release(space) => self.check_release(cpu, at, space),
            Act::Await
                if !super::is_told(
                    &self.cpus,
                    cpu,
                    |act| *act == Act::Signal,
                    |act| *act == Act::Await,
                ) =>
            {
                Err("no other CPU signals")
            }
            _ => Ok(()),
        }
    }

    /// The lock of the page table orders changes of one entry: here one CPU does all that are made of the first page.
    fn check_protect(&self, cpu: usize, at: usize) -> Result<(), &'static str> {
        let act = self.cpus[cpu][at];
        let changes = |other: &Act| {
            other.space() == act.space() && (takes(*other)[0] || matches!(other, Act::Protect(_)))
        };
        let others = self.cpus.iter().enumerate().filter(|(other, _)| *other != cpu);
        if others.flat_map(|(_, acts)| acts).any(changes) {
            return Err("another CPU changes the page");
        }
        let before = &self.cpus[cpu][..at];
        if before.iter().any(|other| other.space() == act.space() && takes(*other)[0]) {
            return Err("the page is gone");
        }
        Ok(())
    }

    /// No thread of the space is left: other CPUs do nothing with it, or have signalled that they are done.
    fn check_release(&self, cpu: usize, at: usize, space: usize) -> Result<(), &'static str> {
        let about = |acts: &[Act]| acts.iter().any(|act| act.space() == Some(space));
        let (before, after) = (&self.cpus[cpu][..at], &self.cpus[cpu][at + 1..]);
        if about(after) {
            return Err("the CPU uses the space afterwards");
        }
        // A wait ends with the first signal of several.
        let signals = self.cpus.iter().flatten().filter(|act| **act == Act::Signal).count();
        let waits = signals == 1 && before.contains(&Act::Await);
        for (other, acts) in self.cpus.iter().enumerate() {
            if other == cpu || !about(acts) {
                continue;
            }
            let signal = acts.iter().position(|act| *act == Act::Signal).filter(|_| waits);
            let done = |at: usize| !about(&acts[at..]) && runs(&acts[..at]) != Some(space);
            if !signal.is_some_and(done) {
                return Err("another CPU uses the space");
            }
        }
        Ok(())
    }
}

fn open_on<K: Kind>(program: &PairProgram, name: &str) -> Explored {
    let (name, cpus) = (name.to_owned(), program.cpus.clone());
    Explored::new(Script { name, cpus, kind: Described::of::<K>(), early: program.early })
}

/// An act as in a script: `Unmap(A,0)`.
struct Shown(Act);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.0);
        let name = text.split('(').next().unwrap_or_default();
        f.write_str(name)?;
        let Some(space) = self.0.space() else { return Ok(()) };
        write!(f, "({}", char::from(b'A' + space as u8))?;
        if let Act::Unmap(_, page) = self.0 {
            write!(f, ",{page}")?;
        }
        f.write_str(")")
    }
}

/// An act that was read.
struct Read(Act);

impl FromStr for Read {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, operands) =
            text.strip_suffix(')').and_then(|text| text.split_once('(')).unwrap_or((text, ""));
        let (space, page) = operands.split_once(',').unwrap_or((operands, "0"));
        let space = match space.as_bytes() {
            [letter @ b'A'..=b'Z'] => usize::from(letter - b'A'),
            _ => 0,
        };
        let act = page.parse().ok().and_then(|page| Act::named(name, space, page));
        // What the text says beyond the act, or not, is wrong.
        act.filter(|act| Shown(*act).to_string() == text)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no act"))
    }
}

impl fmt::Display for PairProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name)?;
        if self.early {
            f.write_str(EARLY)?;
        }
        let shown = |acts: &Vec<Act>| acts.iter().copied().map(Shown).collect();
        super::write_scripts(f, &self.cpus.iter().map(shown).collect::<Vec<Vec<_>>>())
    }
}

impl FromStr for PairProgram {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, ProgramError> {
        let shape = || "it looks like `pair-x86 [Unmap(A,0)] [Run(A) Visit]`".to_owned();
        let (machine, scripts) = text.trim().split_once('[').ok_or_else(shape)?;
        let machine = machine.trim();
        let (machine, early) = match machine.strip_suffix(EARLY) {
            Some(machine) => (machine, true),
            None => (machine, false),
        };
        let kind = PAIR_KINDS.iter().position(|kind| kind.name == machine).ok_or_else(|| {
            let names: Vec<_> = PAIR_KINDS.iter().map(|kind| kind.name).collect();
            format!("there is no machine `{machine}`: they are {}", names.join(", "))
        })?;
        let scripts = super::parse_scripts::<Read>(scripts)?;
        let cpus = scripts.into_iter().map(|acts| acts.into_iter().map(|act| act.0).collect());
        let program = Self { kind, early, cpus: cpus.collect() };
        program.check()?;
        Ok(program)
    }
}
