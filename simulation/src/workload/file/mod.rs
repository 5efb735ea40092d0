//! Workloads as files: what threads do, in a text, on any machine and with any strategy.
//!
//! A file (`workloads/README.md` has the whole language) has address spaces, groups of threads, and for each group
//! a program: a statement a line. Every CPU has a queue of threads and runs each until it blocks or its quantum is
//! over, so that there may be more threads than CPUs. Threads keep to their CPU unless they migrate. What the kernel
//! does besides the strategy are paths; one that the machine file lacks is assumed (`[paths]` of
//! `published/ranges.toml`), and lies anywhere in its range on plausible machines.

mod blocks;
mod children;
mod expression;
mod gate;
mod memory;
mod notes;
mod page_set;
mod plan;
mod scheduler;
mod sharing;
mod state;
mod statement;
mod thread;
mod units;

use core::cell::{Cell, RefCell};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
    sync::{Mutex, PoisonError},
};

use lookaside_machine::timed::{Arena, Price, Ps};
use lookaside_terminal::{Refused, counted, names};

use self::{
    expression::{Expression, Reader, Scope, Values, quoted},
    scheduler::Wake,
    state::State,
    statement::{Act, Child, Declared, Statement},
};
use super::{
    Metric, Outcome, Setup,
    stage::{self, NS, START},
};
use crate::{
    data::{Files, Isa, Machine, Parameter, Program, Ranges, Words},
    strategy,
};

/// A workload of a file, ready to be run.
#[derive(Clone, Debug)]
pub struct Workload {
    program: Program,
    spaces: Vec<Space>,
    groups: Vec<Group>,
    /// Whether the kernel has tables of its own: it is not 0.
    isolation: Expression,
    /// Whether idle CPUs sleep: it is not 0.
    sleeps: Expression,
    counters: Vec<&'static str>,
    timers: Vec<&'static str>,
    /// Names of paths that its statements take.
    paths: Vec<&'static str>,
}

#[derive(Clone, Debug)]
struct Space {
    pages: Expression,
    mapped: Expression,
    each: bool,
    /// Whether its pages are of a file that is mapped privately: the first write to one copies it.
    private: bool,
    /// How many aligned pages a fault of reading maps.
    around: u64,
    /// How large its memory comes, if not in pages of 4 KiB.
    unit: Option<Unit>,
    line: usize,
}

#[derive(Clone, Debug)]
struct Unit {
    pages: Expression,
    /// Huge pages, and not large folios.
    is_huge: bool,
    batched: Expression,
    whole: Expression,
    line: usize,
}

#[derive(Clone, Debug)]
struct Group {
    name: String,
    space: usize,
    count: Expression,
    cpu: Expression,
    statements: Vec<Statement>,
    /// Whether it ends by itself: it has no loop without end.
    is_bounded: bool,
    has_barrier: bool,
    line: usize,
}

/// Whether the name of a workload is the path of a file.
#[must_use]
pub fn is_path(name: &str) -> bool {
    name.ends_with(".toml")
}

/// Metrics that every workload has, which no counter and no timer may be called.
const METRICS: [&str; 4] = [ELAPSED, "interrupted", "flushing", "interrupts"];
/// When the last thread ends, if one does.
const ELAPSED: &str = "elapsed";
/// The most pages of all spaces of a group: 256 GiB. More take a long time to make.
const MOST_PAGES: f64 = 67_108_864.0;

/// A text that lives as long as the program: names of metrics.
fn intern(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = known.get(text) {
        return text;
    }
    let text: &'static str = String::leak(text.to_owned());
    known.insert(text);
    text
}

impl Workload {
    /// The workload of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or with the first thing that is wrong in it, with its line.
    pub fn open(path: &str) -> Result<Self, Refused> {
        Self::new(Program::open(Path::new(path))?)
    }

    /// The workload of a file that was read.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in it, with its line.
    pub fn new(program: Program) -> Result<Self, Refused> {
        let mut parameters = program.parameters.iter();
        if let Some(parameter) = parameters.find(|one| expression::is_own_name(&one.name)) {
            let (file, line, name) = (&program.file, parameter.line, &parameter.name);
            let why = "is a name of the language itself; call the parameter something else";
            return Err(Refused(format!("{file}:{line}: `{name}` {why}")));
        }
        let ranges = Files::own().ranges()?;
        let known = ranges.paths().map(intern).collect();
        let mut declared = Declared { paths: known, ..Declared::default() };
        let mut number = |words: &Words, scope| -> Result<Expression, Refused> {
            let mut reader = Reader::new(&words.text, &program.parameters, scope);
            let expression = reader.number().and_then(|expression| match reader.word() {
                None => Ok(expression),
                Some(more) => Err(format!("has `{more}` too much")),
            });
            declared.read.append(&mut reader.read);
            let Words { text, line } = words;
            expression
                .map_err(|why| Refused(format!("{}:{line}: {} {why}", program.file, quoted(text))))
        };
        let names: Vec<&str> = program.spaces.iter().map(|space| space.name.as_str()).collect();
        if let Some(name) = names::repeated(&names) {
            let line = program.spaces.iter().rev().find(|space| space.name == name);
            let line = line.map_or(1, |space| space.line);
            let why = format!("there are two spaces `{name}`; give each a name of its own");
            return Err(Refused(format!("{}:{line}: {why}", program.file)));
        }
        let mut spaces = Vec::new();
        for space in &program.spaces {
            let scope = plan::scope(space, &program);
            let (pages, mapped) = (number(&space.pages, scope)?, number(&space.mapped, scope)?);
            let (each, private, around) = (space.each, space.private, u64::from(space.around));
            let line = space.line;
            let unit = match &space.unit {
                None => None,
                Some(unit) => Some(Unit {
                    pages: number(&unit.pages, Scope::Run)?,
                    is_huge: unit.is_huge,
                    batched: number(&unit.batched, Scope::Run)?,
                    whole: number(&unit.whole, Scope::Run)?,
                    line: unit.pages.line,
                }),
            };
            spaces.push(Space { pages, mapped, each, private, around, unit, line });
        }
        let [isolation, sleeps] = [&program.isolation, &program.sleeps];
        let (isolation, sleeps) = (number(isolation, Scope::Run)?, number(sleeps, Scope::Run)?);
        let mut counted = Vec::new();
        for threads in &program.threads {
            let count = number(&threads.count, Scope::Run)?;
            counted.push([count, number(&threads.cpu, Scope::Thread)?]);
        }
        let mut groups = Vec::new();
        for (threads, [count, cpu]) in program.threads.iter().zip(counted) {
            declared.has_barrier = false;
            let statements = statement::statements(&program, &threads.program, &mut declared)?;
            let space = program.spaces.iter().position(|space| space.name == threads.space);
            let endless = |one: &Statement| matches!(one.act, Act::Repeat(None, _));
            groups.push(Group {
                name: threads.name.clone(),
                space: space.unwrap_or(0),
                count,
                cpu,
                is_bounded: !statements.iter().any(endless),
                has_barrier: declared.has_barrier,
                statements,
                line: threads.line,
            });
        }
        for (place, parameter) in program.parameters.iter().enumerate() {
            if !declared.read.contains(&place) {
                let (file, line, name) = (&program.file, parameter.line, &parameter.name);
                let why =
                    "is read by no statement, space or group of threads; use it, or remove it";
                return Err(Refused(format!("{file}:{line}: `parameters.{name}` {why}")));
            }
        }
        let (counters, timers) = (declared.counters, declared.timers);
        if program.time.is_none() && groups.iter().all(|group| !group.is_bounded) {
            let line = groups.first().map_or(1, |group| group.line);
            return Err(Refused(format!(
                "{}:{line}: nothing in it ends, and it has no `time`: write one at the head of the file, as time = \"2 ms\"",
                program.file
            )));
        }
        let mut paths = paths(&groups);
        if spaces.iter().any(|space| space.unit.is_some()) {
            units::add_paths(&mut paths, &spaces);
        }
        if !matches!(sleeps, Expression::Number(0.0)) {
            paths.push("halt");
        }
        Ok(Self {
            program,
            spaces,
            groups,
            isolation,
            sleeps,
            counters: counters.iter().map(|name| intern(name)).collect(),
            timers: timers.iter().map(|name| intern(name)).collect(),
            paths,
        })
    }

    /// What the file says.
    #[must_use]
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// The names of what it measures: its counters, its timers, and what every file has.
    #[must_use]
    pub fn measures(&self) -> Vec<&'static str> {
        let ends = self.groups.iter().any(|group| group.is_bounded);
        let own = self.counters.iter().chain(&self.timers).copied();
        own.chain(METRICS.into_iter().filter(|&name| ends || name != ELAPSED)).collect()
    }

    /// The paths of the kernel that it takes and that a machine file lacks: they are assumed.
    #[must_use]
    pub fn assumed(&self, machine: &Machine) -> Vec<&'static str> {
        let lacks = |path: &&&str| !machine.paths.contains_key(**path);
        self.paths.iter().filter(lacks).copied().collect()
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// If the machine or the strategy refuses it, if it deadlocks, or if it does what cannot be done, with the line.
    pub fn run(&self, setup: &Setup<'_>) -> Result<Outcome, Refused> {
        let ranges = Files::own().ranges()?;
        let parameters = self.program.parameters.iter();
        let numbers: Vec<f64> =
            parameters.map(|one| setup.option_or(&one.name, one.value)).collect();
        let most = setup.machine.model.topology.cpus();
        let cpus = setup.cpus.or(setup.x.map(|x| x as usize));
        let cpus = cpus.or(self.program.cpus.map(|cpus| cpus as usize)).unwrap_or(most);
        for parameter in &self.program.parameters {
            let whole = !parameter.is_time && parameter.value.fract() == 0.0;
            let given = setup.options.get(&parameter.name).copied();
            if let Some(value) = given.filter(|value| whole && value.fract() != 0.0) {
                let Parameter { name, line, .. } = parameter;
                let why = format!("`{name}` is {value}, and is a whole number in the file");
                return Err(Refused(format!("{}:{line}: {why}", self.program.file)));
            }
        }
        if cpus == 0 || cpus > most {
            let (file, key) = (&self.program.file, &setup.machine.key);
            let cpus = counted(cpus, "CPU", "CPUs");
            let why = format!("{file}: {cpus}, and machine `{key}` has {most}");
            return Err(Refused(format!("{why}; take fewer `cpus`, or another machine")));
        }
        let values = Values { parameters: &numbers, cpus, threads: 0, me: 0, loops: [0, 0] };
        self.check_units(setup, values)?;
        let way = self.way(setup, values)?;
        let is_isolated = self.isolation.value(values) != 0.0;
        if is_isolated {
            self.check_isolation(setup)?;
        }
        let (machine, isolated) = self.machine(setup.machine, &ranges, is_isolated)?;
        let setup = &Setup { machine: &machine, ..*setup };
        let sleeps = self.sleeps.value(values) != 0.0;
        let wake = sleeps.then(|| Wake::new(&machine, &ranges));
        let plan = self.plan(values)?;
        let arena = Arena::new((1 << 25) + cpus * (1 << 14) + cpus * cpus * 64);
        let place = &arena;
        let end = self.program.time.map(|time| START + (time * NS as f64) as Ps);
        let (spinning, failed) = (Spinning::default(), Failed::default());
        let at = |why: String| Refused(format!("{}:{why}", self.program.file));
        let (state, report) = stage::run(
            setup,
            place,
            cpus,
            |kernel| {
                let mut state =
                    State::new(self, kernel, place, plan, &numbers, cpus, isolated, wake, end, way);
                state.spinning = Rc::clone(&spinning);
                state.error = Rc::clone(&failed);
                state
            },
            |kernel, state, cpu| state.run_cpu(kernel, cpu),
        )
        // Others may spin for ever as one has failed.
        .map_err(|why| failed.take().map_or_else(|| self.spins(&spinning, why), at))?;
        if let Some(why) = failed.take() {
            return Err(at(why));
        }
        let last = state.last.get();
        let [from, to] = state.counted();
        let seconds = to.saturating_sub(from) as f64 / 1e12;
        let (counters, timers) = (&state.counters[state.shown()], &state.timers[state.shown()]);
        let metric = |key, unit, value: f64| Metric {
            key,
            unit,
            value: if value.is_finite() { value } else { 0.0 },
        };
        let mut metrics = Vec::new();
        for (name, count) in self.counters.iter().zip(counters) {
            metrics.push(metric(name, "1/s", count.get() as f64 / seconds));
        }
        for (name, (count, time)) in self.timers.iter().zip(timers) {
            metrics.push(metric(name, "ns", time.get() as f64 / count.get() as f64 / NS as f64));
        }
        if self.groups.iter().any(|group| group.is_bounded) {
            metrics.push(metric(ELAPSED, "ns", last.saturating_sub(START) as f64 / NS as f64));
        }
        let all: Ps = report.cpus.iter().map(|cpu| cpu.elapsed.saturating_sub(START)).sum();
        let busy = all.saturating_sub(report.spent_in("idle")) as f64;
        let lost = report.spent_in("interrupt") + report.spent_in("handler");
        metrics.push(metric("interrupted", "", lost as f64 / busy));
        metrics.push(metric("flushing", "", report.spent_in("flush") as f64 / busy));
        let time = all as f64 / report.cpus.len() as f64 / 1e12;
        // Those that wake a CPU that sleeps are the scheduler's, which the machine does not count.
        let taken = report.counters().taken + state.woken.get();
        metrics.push(metric("interrupts", "1/s", taken as f64 / time));
        let notes = self.never(&state);
        Ok(Outcome { metrics, report, notes })
    }

    /// Refuses tables of the kernel's own without PCIDs: what each way into the kernel flushes then is not in the model.
    fn check_isolation(&self, setup: &Setup<'_>) -> Result<(), Refused> {
        let Setup { machine, strategy, .. } = setup;
        let help = match (machine.isa, machine.features.tag_bits) {
            (Isa::X86_64, 0) => format!("machine `{}` has none; take another one", machine.key),
            (Isa::X86_64, _) if strategy::is_without_pcids(strategy) => {
                format!("strategy `{strategy}` uses none; take another one")
            }
            _ => return Ok(()),
        };
        let (file, line) = (&self.program.file, self.program.isolation.line);
        Err(Refused(format!(
            "{file}:{line}: without PCIDs and with page tables of the kernel's own each way into the kernel and back flushes, which \
             is not modelled: `isolation` needs PCIDs, and {help}, or leave `isolation` out"
        )))
    }

    /// The machine with the paths that are assumed, and what each way into the kernel and back takes besides with
    /// tables of its own.
    fn machine(
        &self,
        machine: &Machine,
        ranges: &Ranges,
        is_isolated: bool,
    ) -> Result<(Machine, Ps), Refused> {
        let mut machine = machine.clone();
        for &path in &self.paths {
            if machine.paths.contains_key(path) {
                continue;
            }
            let range = ranges.path(&machine, path).ok_or_else(|| {
                let (key, file) = (&machine.key, "published/ranges.toml");
                Refused(format!(
                    "machine `{key}` has no path `{path}`, nor has `[paths]` of {file}"
                ))
            })?;
            machine.paths.insert(path.to_owned(), (range.middle() * NS as f64) as Ps);
        }
        if !is_isolated {
            return Ok((machine, 0));
        }
        let price = |price| price_of(&machine, ranges, price);
        let isolated = 2 * price(Price::Root);
        match machine.isa {
            // The page is flushed under both tags, by the address of the one that does not run.
            Isa::X86_64 => {
                let both = price(Price::FlushPage) + price(Price::FlushOtherPage);
                machine.model.prices.set(Price::FlushPage, both);
            }
            Isa::Aarch64 => machine.features.paired = true,
            Isa::Riscv64 => {}
        }
        *machine.paths.entry("fault".to_owned()).or_default() += isolated;
        Ok((machine, isolated))
    }
}

/// A price of a machine: the middle of its range if nothing is known of it, and none if it is part of another.
fn price_of(machine: &Machine, ranges: &Ranges, price: Price) -> Ps {
    let range =
        ranges.price(machine.isa, price).filter(|_| machine.unpriced().any(|one| one == price));
    let middle = range.map(|range| (range.middle() * NS as f64) as Ps);
    machine.model.prices.get(price).or(middle).unwrap_or(0)
}

/// The paths that statements take.
fn paths(groups: &[Group]) -> Vec<&'static str> {
    let mut all: BTreeSet<&'static str> = ["fault", "switch"].into();
    for act in groups.iter().flat_map(|group| &group.statements).map(|one| &one.act) {
        let act = if let Act::Of(_, _, act) = act { act } else { act };
        let more: &[&str] = match act {
            Act::Map(_) => &["call", "map"],
            Act::Protect(_) | Act::Allow(_) => &["call", "protect", "page"],
            Act::Discard(_) => &["call", "discard", "freed"],
            Act::Unmap(_) | Act::Free(_) => &["call", "unmap", "freed"],
            Act::Reclaim(..) => &["freed"],
            Act::Call => &["call"],
            Act::Path(path, _) => core::slice::from_ref(path),
            Act::Fork(Child::Copy, _) => &["fork", "forked", "copy", "exit"],
            Act::Fork(Child::On(_), _) => &["fork", "forked", "copy", "exit", "wake"],
            Act::Fork(Child::Vfork, _) => &["vfork", "forked", "exit"],
            Act::Write(_) => &["copy"],
            Act::Exec(_) => &["exec", "forked"],
            Act::Lock(_) | Act::Share(_) | Act::Unlock(_) | Act::Wait(..) | Act::Post(..) => {
                &["call", "wake"]
            }
            Act::Sleep(_) | Act::Barrier | Act::Yield | Act::Migrate(_) => &["call", "wake"],
            _ => &[],
        };
        all.extend(more);
    }
    all.into_iter().collect()
}

/// The lines in which CPUs spin at a lock, with the group of the thread. It is left where the run fails.
type Spinning = Rc<RefCell<BTreeMap<usize, (usize, usize)>>>;
/// The first mistake that a thread came to, with its line. It is left where the run fails.
type Failed = Rc<RefCell<Option<String>>>;
/// A number that several CPUs change, on the host.
type Count = Cell<u64>;
/// A list that several CPUs change, on the host.
type List<T> = RefCell<std::collections::VecDeque<T>>;

#[cfg(test)]
mod tests;
