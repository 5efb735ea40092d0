//! What a replay needs besides the trace, and what it is where nobody says.

use std::collections::BTreeMap;

use lookaside_simulation::{
    data::{Isa, Machine},
    reproduce::Book,
    strategy,
};
use lookaside_terminal::{Refused, names};
use lookaside_traces::{
    Event, Hardware, Kind, Origin, Trace,
    lackey::Pattern,
    reconstruct::{Flushes, Script, reconstruct},
};

use super::{
    Setup, WorkingSet,
    assume::{Basis, usual_flushes, usual_strategies, working_set_of},
    interrupts::{Arrivals, Interrupts, measure},
    machine::{check_room, fitting_machine},
};

/// What a user has chosen.
#[derive(Clone, Debug, Default)]
pub struct Choice<'c> {
    /// The key of the machine.
    pub machine: Option<&'c str>,
    /// The number of CPUs.
    pub cpus: Option<usize>,
    /// The strategies.
    pub strategies: &'c [String],
    /// The source of flushes.
    pub flushes: Option<Flushes>,
    /// Parts of the working set: `hot`, `others`, `pool` (pages) and `window` (us).
    pub working_set: &'c [(String, f64)],
    /// The working set that a program was seen to have; it goes before the parts.
    pub pattern: Option<&'c Pattern>,
    /// Whether the counts of the kernel are to be compared: with flushes that follow from calls, and, unless a machine
    /// is chosen, with the latencies of interrupts of the trace.
    pub validate: bool,
}

/// All that a replay needs.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The key of the machine.
    pub machine: String,
    /// Whether it was chosen for the trace.
    pub chosen: bool,
    /// What the CPUs did.
    pub script: Script,
    /// The source of flushes.
    pub flushes: Flushes,
    /// The latency of interrupts on the traced system, where the machine has got them.
    pub interrupts: Option<Interrupts>,
    /// When each request arrived on the traced system, where the machine has got its latencies.
    pub arrivals: Option<Arrivals>,
    /// The strategies.
    pub strategies: Vec<String>,
    /// The number of CPUs.
    pub cpus: usize,
    /// The working set.
    pub working_set: WorkingSet,
    /// The source of the working set, in words.
    pub from: String,
}

impl Choice<'_> {
    /// The inputs for a trace. The machine in `book` gets the latencies of interrupts, if that is asked for.
    ///
    /// # Errors
    ///
    /// If a name does not exist, if the machine has too few CPUs or does not support a strategy or recorded flushes,
    /// or if the trace cannot be followed.
    pub fn inputs(&self, trace: &Trace, book: &mut Book) -> Result<Inputs, Refused> {
        let recorded = trace.origin.cpus.max(1) as usize;
        let key = match self.machine {
            Some(key) => key.to_owned(),
            // What a guest counts is judged on one machine, with the latencies of the trace, whichever processor it has.
            None if self.validate && trace.origin.guest == Some(true) => {
                let origin = Origin { hardware: Hardware::default(), ..trace.origin.clone() };
                fitting_machine(&origin, &book.machines)?.to_owned()
            }
            None => fitting_machine(&trace.origin, &book.machines)?.to_owned(),
        };
        if self.machine.is_none() {
            check_room(book.machine(&key)?, self.cpus.unwrap_or(recorded), &book.machines)?;
        }
        // The machine that models the traced one gets the interrupt latencies measured in the trace.
        let measures = self.validate && self.machine.is_none();
        let interrupts = measures.then(|| measure(trace)).flatten();
        if let Some(interrupts) = interrupts {
            let machine = book.machines.iter_mut().find(|machine| machine.key == key);
            machine.into_iter().for_each(|machine| interrupts.apply(machine));
        }
        let arrivals = interrupts.map(|interrupts| Arrivals::of(trace, &interrupts));
        let machine = book.machine(&key)?;
        // Counts are those of a kernel that interrupts: none was recorded where there is INVLPGB.
        // A guest's host may let idle vCPUs keep their CPUs: then they are interrupted as any.
        let leaves_halted =
            trace.origin.guest == Some(true) && trace.interrupts_halted() != Some(true);
        let linux = if leaves_halted { "linux-ipi-2025-kvm" } else { "linux-ipi-2025" };
        let strategies: Vec<String> = match (self.strategies.is_empty(), self.validate) {
            (false, _) => self.strategies.to_vec(),
            (true, true) => vec![linux.to_owned()],
            (true, false) => {
                usual_strategies(machine).iter().map(|&name| name.to_owned()).collect()
            }
        };
        if self.validate && machine.isa != Isa::X86_64 {
            let why = "the kernel's counts are those of x86 kernels that interrupt: `--validate` needs a machine of x86";
            return Err(Refused(format!("{why}, and `{}` is none", machine.key)));
        }
        for name in &strategies {
            strategy::find(name, machine)?;
        }
        let named: Vec<&str> = strategies.iter().map(String::as_str).collect();
        if let Some(name) = names::repeated(&named) {
            return Err(Refused(format!("strategy `{name}` is named twice: leave one out")));
        }
        let flushes = match self.flushes {
            _ if self.validate => Flushes::FromCalls,
            Some(Flushes::Recorded) if machine.isa != Isa::X86_64 => {
                let why =
                    "recorded flushes are those of x86 and do not apply to other architectures";
                return Err(Refused(format!("{why}: `{}` needs --flushes calls", machine.key)));
            }
            Some(chosen) => chosen,
            None => usual_flushes(machine, has_flushes(trace)),
        };
        let limit = machine.model.topology.cpus();
        if self.cpus == Some(0) {
            return Err(Refused("no program runs on 0 CPUs: name one at least".into()));
        }
        if let Some(cpus) = self.cpus.filter(|&cpus| cpus > limit) {
            return Err(Refused(format!("{cpus} CPUs; machine `{key}` has {limit}")));
        }
        let script = reconstruct(trace, flushes)?;
        let cpus = self.cpus.unwrap_or(script.cpus.len());
        let (working_set, from) = self.working_set(book)?;
        Ok(Inputs {
            machine: key,
            chosen: self.machine.is_none(),
            script,
            flushes,
            interrupts,
            arrivals,
            strategies,
            cpus,
            working_set,
            from,
        })
    }

    /// The working set and its source.
    fn working_set(&self, book: &Book) -> Result<(WorkingSet, String), Refused> {
        if let Some(pattern) = self.pattern {
            return Ok((working_set_of(pattern)?, "its busiest thread under lackey".into()));
        }
        let mut set = WorkingSet::of_build(&book.options("build", &BTreeMap::new()))?;
        if self.working_set.is_empty() {
            return Ok((set, "what a compiler was seen to use".into()));
        }
        let named: Vec<&str> = self.working_set.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(name) = names::repeated(&named) {
            let why = format!("part `{name}` of the working set is given twice: leave one out");
            return Err(Refused(why));
        }
        for (name, value) in self.working_set {
            let whole = || match value.fract() == 0.0 && (0.0..=f64::from(1 << 20)).contains(value)
            {
                true => Ok(*value as u32),
                false => Err(Refused(format!("`{name}` is a number of pages, at most 1048576"))),
            };
            match name.as_str() {
                "hot" => set.hot = whole()?,
                "others" => set.others = whole()?,
                "pool" => set.pool = whole()?,
                "window" if *value > 0.0 && *value <= 1e6 => set.window = (value * 1000.0) as u64,
                "window" => {
                    return Err(Refused("`window` is a time in us, at most 1000000".into()));
                }
                _ => {
                    let known = ["hot", "others", "pool", "window"];
                    return Err(names::unknown("part of a working set", name, known.into_iter()));
                }
            }
        }
        if set.others > set.pool {
            let (others, pool) = (set.others, set.pool);
            return Err(Refused(format!(
                "a program cannot use {others} others out of a pool of {pool}"
            )));
        }
        // An access takes a nanosecond about; the replay of more would never end.
        let used = u64::from(set.hot) + u64::from(set.others);
        if used > set.window {
            let window = set.window as f64 / 1000.0;
            return Err(Refused(format!(
                "a program cannot access {used} pages in a window of {window} us: at most one in a nanosecond"
            )));
        }
        Ok((set, "as given".into()))
    }
}

impl Inputs {
    /// A run under a strategy; `machine` is the one that was found for these inputs.
    #[must_use]
    pub fn setup<'s>(&'s self, machine: &'s Machine, strategy: &'s str, seed: u64) -> Setup<'s> {
        let Self { cpus, working_set, .. } = *self;
        Setup { machine, strategy, cpus, working_set, seed, arrivals: self.arrivals.as_ref() }
    }

    /// What the runs rest on.
    #[must_use]
    pub fn basis<'b>(&'b self, origin: &'b Origin, machine: &'b Machine) -> Basis<'b> {
        Basis {
            origin,
            script: &self.script,
            flushes: self.flushes,
            machine,
            chosen: self.chosen,
            interrupts: self.interrupts,
            cpus: self.cpus,
            working_set: self.working_set,
            working_set_from: &self.from,
        }
    }
}

/// Whether the kernel recorded flushes.
#[must_use]
pub fn has_flushes(trace: &Trace) -> bool {
    trace.events.iter().any(|event: &Event| matches!(event.kind, Kind::Flush { .. }))
}
