//! What is said of a run besides its metrics, and of one that does not end.

use core::cell::Cell;
use std::collections::BTreeSet;

use lookaside_machine::timed::Ps;
use lookaside_terminal::Refused;

use super::{Spinning, Workload, state::State};
use crate::workload::stage::{NS, START};

impl Workload {
    /// What never happened: threads that did not run, what was not reached while it was counted, and the end of `time`.
    pub(super) fn never(&self, state: &State<'_>) -> Vec<String> {
        let file = &self.program.file;
        let mut notes = Vec::new();
        for (which, group) in self.groups.iter().enumerate() {
            let [all, ran] = state.have_run(which);
            if ran < all {
                let (line, name) = (group.line, &group.name);
                notes.push(format!(
                    "{file}:{line}: {} of {all} threads of `{name}` never ran: others had their CPUs until the end; give the file \
                     more `time`, a shorter `quantum`, or these threads another `cpu`.",
                    all - ran
                ));
            }
        }
        let (counters, timers) = (&state.counters[state.shown()], &state.timers[state.shown()]);
        let counters = self.counters.iter().zip(counters.iter().map(Cell::get));
        let timers = self.timers.iter().zip(timers.iter().map(|(count, _)| count.get()));
        let counted = match (state.has_ended_early(), self.program.time) {
            (false, Some(_)) => "in the time that is counted, which is all but the first tenth",
            _ => "before the last thread ended that ends",
        };
        for (name, _) in counters.chain(timers).filter(|(_, count)| *count == 0) {
            notes.push(format!("{file}: `{name}` is 0 as no thread came to it {counted}."));
        }
        // Threads that end go on alone when the time of the others is up.
        let (last, [_, until]) = (state.last.get(), state.counted());
        let us = |time: Ps| (time - START) as f64 / (1000 * NS) as f64;
        if state.has_ended_early() {
            notes.push(format!(
                "{file}: the run ended after {:.0} us, with the last thread that ends; `time` was not reached, and counters are of \
                 all of it, the start included.",
                us(last)
            ));
        }
        if self.program.time.is_some() && last > until {
            notes.push(format!(
                "{file}: counters and timers are of the `time` of the file; `interrupted`, `flushing` and `interrupts` are of \
                 the whole run, which took {:.0} us, as threads that end went on alone after {:.0} us.",
                us(last),
                us(until)
            ));
        }
        notes
    }

    /// A failure of the machine, which is that threads spin for ever if there are any that spin.
    pub(super) fn spins(&self, spinning: &Spinning, why: Refused) -> Refused {
        let lines: BTreeSet<_> = spinning.borrow().values().copied().collect();
        let Some(&(line, _)) = lines.first().filter(|_| why.0.starts_with("no CPU can go on"))
        else {
            let line = self.groups.first().map_or(1, |group| group.line);
            return match why.0.starts_with("the run is not over") {
                true => Refused(format!(
                    "{}:{line}: {}: take fewer rounds, or shorter times",
                    self.program.file, why.0
                )),
                false => why,
            };
        };
        let all: Vec<String> = lines
            .iter()
            .map(|(line, group)| format!("`{}` in line {line}", self.groups[*group].name))
            .collect();
        let (file, list) = (&self.program.file, all.join(", "));
        Refused(format!(
            "{file}:{line}: a deadlock: threads spin: {list}; nobody is left who leaves the lock"
        ))
    }
}
