//! Programs about spaces: their tags, their pages, and flushes.
//!
//! ```text
//! arm-cnp+early epochs(3,1,2) [Run(A) Unmap(A)] [Run(A) Run(B) Run(A)]
//! ```
//!
//! First the machine, and its options; then the strategy, which is `recent`, or `epochs` with the number
//! of tags, of those that may be pinned if there are any, and of the last epoch if it is not far away; then the
//! script of each CPU. Spaces are letters. The text is the name of the program, too.

use core::{fmt, str::FromStr};

use lookaside::{
    GlobalAsids, PerCpuAsids,
    arch::Mmu,
    tags::{Asids, Cookie},
};
use lookaside_machine::adversary::Platform;

use super::{
    super::{
        Explored,
        act::Act,
        hardware::{Described, More},
        machine::{KINDS, Kind, Machine},
        script::{Few, Script},
        world::LONGEST,
    },
    ProgramError,
};

/// How many slots a CPU has where each has tags of its own.
const SLOTS: usize = 2;
/// The CPU that may stop.
const STOPS: usize = 1;
/// The most CPUs of a program.
const MOST_CPUS: usize = 4;

/// The allocator of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Strategy {
    /// `GlobalAsids`: tags that are the same on all CPUs.
    GlobalAsids(Few),
    /// `PerCpuAsids`: tags of each CPU's own.
    PerCpuAsids,
}

/// A program about spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpaceProgram {
    /// The number of its machine among [`KINDS`].
    pub(crate) kind: usize,
    pub(crate) more: More,
    pub(crate) strategy: Strategy,
    /// The script of each CPU.
    pub(crate) cpus: Vec<Vec<Act>>,
}

impl SpaceProgram {
    pub(crate) fn kind(&self) -> &'static Kind {
        &KINDS[self.kind]
    }

    /// The same with the allocator chosen at run time.
    pub(super) fn chosen(&self) -> Self {
        Self { more: More { chosen: true, ..self.more }, ..self.clone() }
    }

    /// Builds its world. Schedules carry the name.
    pub(crate) fn open(&self, name: &str) -> Explored {
        match self.kind().with(self.more) {
            Machine::Arm(described) => self.open_on(name, described),
            Machine::X86(described) => self.open_on(name, described),
            Machine::Riscv(described) => self.open_on(name, described),
        }
    }

    fn open_on<M: Mmu + 'static>(&self, name: &str, described: Described<M>) -> Explored {
        match self.strategy {
            Strategy::GlobalAsids(few) => epochs_on(name, described, self.cpus.clone(), few),
            Strategy::PerCpuAsids => recent_on(name, described, self.cpus.clone()),
        }
    }

    /// How many acts it has.
    pub(crate) fn len(&self) -> usize {
        self.cpus.iter().map(Vec::len).sum()
    }

    /// Checks that a kernel may do that: the hardware supports it, and all CPUs fulfil the obligations that
    /// the library puts on its callers.
    pub(crate) fn check(&self) -> Result<(), ProgramError> {
        self.check_machine()?;
        for (cpu, acts) in self.cpus.iter().enumerate() {
            self.check_acts(cpu, acts).map_err(|why| ProgramError(format!("CPU {cpu}: {why}")))?;
        }
        Ok(())
    }

    fn check_machine(&self) -> Result<(), ProgramError> {
        let refuse = |why: &str| Err(ProgramError(why.to_owned()));
        let kind = self.kind();
        if self.cpus.is_empty() || self.cpus.len() > MOST_CPUS {
            return Err(ProgramError(format!("a program has 1 to {MOST_CPUS} CPUs")));
        }
        if self.len() == 0 {
            return refuse("no CPU does anything");
        }
        if kind.is_x86() && (self.more.early || self.more.invalid) {
            return refuse("x86 neither satisfies loads early nor remembers what was not mapped");
        }
        if self.more.noting && !kind.is_arm() {
            return refuse("only Arm is asked to write accessed and dirty flags");
        }
        if self.more.roots && kind.shares() {
            return refuse("CPUs that use each other's translations have the same root");
        }
        if self.more.roots && self.cpus.len() < 2 {
            return refuse("one CPU has one root");
        }
        match self.strategy {
            Strategy::PerCpuAsids if !kind.interrupts() => {
                refuse("tags of each CPU's own take interrupts")
            }
            Strategy::PerCpuAsids if kind.shares() => {
                refuse("tags of each CPU's own take translations of each CPU's own")
            }
            Strategy::GlobalAsids(_) if !kind.has_tags() => refuse("the machine has no tags"),
            Strategy::GlobalAsids(few) => {
                let needed = self.cpus.len() as u32 + 1 + few.pins;
                if few.usable < needed || few.usable > 1000 {
                    return Err(ProgramError(format!("it takes {needed} to 1000 tags")));
                }
                if few.last_epoch == 0 {
                    return refuse("epochs begin with 1");
                }
                Ok(())
            }
            Strategy::PerCpuAsids => Ok(()),
        }
    }

    fn check_acts(&self, cpu: usize, acts: &[Act]) -> Result<(), String> {
        if acts.len() > LONGEST {
            return Err(format!("it has more than {LONGEST} acts"));
        }
        for (at, &act) in acts.iter().enumerate() {
            self.check_act(cpu, at, act).map_err(|why| format!("{act}: {why}"))?;
        }
        Ok(())
    }

    fn check_act(&self, cpu: usize, at: usize, act: Act) -> Result<(), &'static str> {
        let acts = &self.cpus[cpu];
        let signalled = |tells: fn(&Act) -> bool| {
            super::is_told(&self.cpus, cpu, tells, |act: &Act| act.waits())
        };
        let count = |wanted: fn(Act) -> bool| {
            self.cpus.iter().flatten().filter(|act| wanted(**act)).count()
        };
        match act {
            Act::Up if at > 0 => Err("a CPU comes up first of all"),
            Act::Down if at + 1 < acts.len() => Err("nothing follows"),
            // A signal is sent once, and a CPU that is to send it waits for nothing before.
            Act::Await if !signalled(|act| *act == Act::Tell) => Err("no other CPU signals"),
            Act::Complete if count(|act| act == Act::Complete) > 1 => Err("one CPU takes over"),
            Act::Complete if !signalled(|act| act.hands_over()) => {
                Err("no other CPU hands over a flush")
            }
            act if act.hands_over() && count(Act::hands_over) > 1 => {
                Err("one flush is handed over")
            }
            act if act.hands_over() && count(|act| act == Act::Tell) > 0 => {
                Err("the signal is used that announces a flush")
            }
            act if act.begins() && begun(acts) != Some(0) => {
                Err("each flush that is begun is waited for")
            }
            act if act.ends() && begun(&acts[..=at]).is_none() => Err("no flush was begun"),
            Act::FreeKernelTable
                if count(|act| act.needs_kernel() && act != Act::WriteKernel) > 1 =>
            {
                Err("the kernel's table goes once, and nothing else below it")
            }
            // Each space would be taken off a list of those whose top table has the entry.
            Act::FreeKernelTable if count(|act| matches!(act, Act::End(_))) > 0 => {
                Err("a top table goes, which has an entry of the kernel's")
            }
            Act::Defer(one, other) | Act::Batch(one, other) if one == other => {
                Err("a batch is of several spaces")
            }
            Act::Pin(_) | Act::Unpin(_) if self.strategy == Strategy::PerCpuAsids => {
                Err("tags of each CPU's own cannot be pinned")
            }
            Act::Pin(_) if acts[..at].contains(&act) => Err("a CPU pins a space once"),
            // The load that finds the entry empty may be early, and another page mapped and unmapped since.
            Act::Remap(_) | Act::Unfill(_) if self.more.early => {
                Err("where loads are early it is not known which page is absent")
            }
            Act::UnmapLarge(_) if self.more.roots => {
                Err("a large page lies in the top table, and each CPU has one")
            }
            Act::UnmapLarge(_)
                if self.cpus.iter().flatten().filter(|other| **other == act).count() > 1 =>
            {
                Err("a large page goes once")
            }
            Act::Halt | Act::Bury | Act::Rise => self.check_halt(cpu, at, act),
            Act::Touch(_)
            | Act::Forgotten(_)
            | Act::Stop
            | Act::Visible(_)
            | Act::FlushKernel
            | Act::ClaimKernel => {
                Err("this takes an order that only scenarios of the catalogue know")
            }
            _ => Ok(()),
        }
    }
}

/// How many flushes a CPU has begun with these acts and not waited for; `None` if it waits for one that it has not begun.
fn begun(acts: &[Act]) -> Option<usize> {
    acts.iter().try_fold(0_usize, |begun, act| {
        (begun + usize::from(act.begins())).checked_sub(usize::from(act.ends()))
    })
}

impl SpaceProgram {
    /// A CPU stops, another one notices that, and it comes up again.
    fn check_halt(&self, cpu: usize, at: usize, act: Act) -> Result<(), &'static str> {
        let acts = &self.cpus[cpu];
        let count = |wanted: Act| self.cpus.iter().flatten().filter(|act| **act == wanted).count();
        let tells = |act: &Act| {
            matches!(act, Act::Tell | Act::Await | Act::Complete | Act::Up) || act.hands_over()
        };
        if self.cpus.iter().flatten().any(tells) {
            return Err("the signal is used that announces a halted CPU");
        }
        match act {
            Act::Bury if count(Act::Halt) != 1 => Err("no CPU stops"),
            Act::Bury if cpu == STOPS => Err("another CPU has to"),
            // A halted CPU acknowledges no request.
            Act::Bury if !acts[..at].iter().all(|act| act.asks_nobody()) => {
                Err("it comes before whatever waits for the CPU that has stopped")
            }
            Act::Halt if cpu != STOPS || count(Act::Halt) > 1 => Err("CPU 1 stops, once"),
            Act::Halt if count(Act::Bury) != 1 => Err("one CPU notices it"),
            Act::Halt if acts.get(at + 1).is_some_and(|act| *act != Act::Rise) => {
                Err("it does nothing before it has come up again")
            }
            Act::Rise if at == 0 || acts[at - 1] != Act::Halt => Err("it has not stopped"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for SpaceProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name)?;
        for (name, on) in self.more.names() {
            if on {
                write!(f, "+{name}")?;
            }
        }
        match self.strategy {
            Strategy::PerCpuAsids => f.write_str(" recent")?,
            Strategy::GlobalAsids(Few { usable, pins, last_epoch }) => {
                write!(f, " epochs({usable}")?;
                if last_epoch != Cookie::LAST_EPOCH {
                    write!(f, ",{pins},{last_epoch}")?;
                } else if pins != 0 {
                    write!(f, ",{pins}")?;
                }
                f.write_str(")")?;
            }
        }
        super::write_scripts(f, &self.cpus)
    }
}

impl FromStr for SpaceProgram {
    type Err = ProgramError;

    fn from_str(text: &str) -> Result<Self, ProgramError> {
        let shape = "a program looks like `arm epochs(3) [Run(A) Unmap(A)] [Run(A) Run(B)]`";
        let (head, scripts) = text.trim().split_once('[').ok_or_else(|| shape.to_owned())?;
        let mut words = head.split_whitespace();
        let (Some(machine), Some(strategy), None) = (words.next(), words.next(), words.next())
        else {
            return Err(ProgramError(shape.to_owned()));
        };
        let (kind, more) = parse_machine(machine)?;
        let strategy = parse_strategy(strategy)?;
        let cpus = super::parse_scripts(scripts)?;
        let program = Self { kind, more, strategy, cpus };
        program.check()?;
        Ok(program)
    }
}

fn parse_machine(text: &str) -> Result<(usize, More), String> {
    let mut parts = text.split('+');
    let name = parts.next().unwrap_or_default();
    let kind = Kind::find(name).ok_or_else(|| {
        let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        format!("there is no machine `{name}`: they are {}", known.join(", "))
    })?;
    let mut more = More::NONE;
    for part in parts {
        let names = more.names().map(|(name, _)| name);
        let slot = more
            .slot(part)
            .ok_or_else(|| format!("no machine has `{part}`: there are {}", names.join(", ")))?;
        *slot = true;
    }
    Ok((kind, more))
}

fn parse_strategy(text: &str) -> Result<Strategy, String> {
    if text == "recent" {
        return Ok(Strategy::PerCpuAsids);
    }
    let wrong = || format!("`{text}` is neither `recent` nor `epochs(TAGS,PINS,LAST)`");
    let list = text.strip_prefix("epochs(").and_then(|text| text.strip_suffix(')'));
    let numbers = list.ok_or_else(wrong)?.split(',').map(|number| number.parse::<u32>());
    let numbers = numbers.collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
    let last = Cookie::LAST_EPOCH;
    let few = match numbers[..] {
        [usable] => Few { usable, pins: 0, last_epoch: last },
        [usable, pins] => Few { usable, pins, last_epoch: last },
        [usable, pins, last] => Few { usable, pins, last_epoch: last.into() },
        _ => return Err(wrong()),
    };
    Ok(Strategy::GlobalAsids(few))
}

/// A scenario with `GlobalAsids`.
pub(in crate::scenario) fn epochs_on<M: Mmu + 'static>(
    name: &str,
    hardware: Described<M>,
    cpus: Vec<Vec<Act>>,
    tags: Few,
) -> Explored {
    if hardware.more.chosen {
        return chosen_on(name, hardware, cpus, Some(tags));
    }
    let name = name.to_owned();
    Explored::new(Script::<M, GlobalAsids<'static, Platform<M>>> { name, hardware, cpus, tags })
}

/// A scenario with `PerCpuAsids`, two slots on each CPU.
pub(in crate::scenario) fn recent_on<M: Mmu + 'static>(
    name: &str,
    hardware: Described<M>,
    cpus: Vec<Vec<Act>>,
) -> Explored {
    if hardware.more.chosen {
        return chosen_on(name, hardware, cpus, None);
    }
    let name = name.to_owned();
    Explored::new(Script::<M, PerCpuAsids<SLOTS>> { name, hardware, cpus, tags: () })
}

/// A scenario with `Asids`, which chooses `GlobalAsids` if there are such `tags`.
fn chosen_on<M: Mmu + 'static>(
    name: &str,
    hardware: Described<M>,
    cpus: Vec<Vec<Act>>,
    tags: Option<Few>,
) -> Explored {
    let name = name.to_owned();
    Explored::new(Script::<M, Asids<'static, Platform<M>, SLOTS>> { name, hardware, cpus, tags })
}
