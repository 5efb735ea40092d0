//! The assumptions of a replay that were not recorded, in sentences.

use super::{
    WorkingSet,
    interrupts::{Hold, Interrupts},
    machine::CostsOf,
};
use lookaside_simulation::data::{Isa, Machine};
use lookaside_terminal::{Refused, counted};
use lookaside_traces::{
    Origin,
    lackey::Pattern,
    reconstruct::{Flushes, Script, Unknown},
};

/// The strategies where nobody names any, for all commands: what Linux does on the modelled machine, and the library's beside
/// it. Linux since 6.15 broadcasts where there is `INVLPGB`. Where a trace was recorded in a guest, this is not what its kernel
/// did: `linux-ipi-2025-kvm` leaves halted CPUs to the host, as far as the trace has it ([`lookaside_traces::Trace::interrupts_halted`]), and is for `--validate`, which
/// compares with the kernel's counts.
#[must_use]
pub fn usual_strategies(machine: &Machine) -> &'static [&'static str] {
    match machine.isa {
        Isa::X86_64 if machine.features.invlpgb => &["linux-invlpgb-2025", "lookaside"],
        Isa::X86_64 => &["linux-ipi-2025", "lookaside"],
        Isa::Aarch64 => &["linux-broadcast", "lookaside"],
        Isa::Riscv64 => &["lookaside"],
    }
}

/// The mechanisms of flushing that a machine can use: what Linux does there, what it does without `INVLPGB`, and what
/// the library does. No strategy that only interrupts is modelled for Arm64.
#[must_use]
pub fn mechanisms(machine: &Machine) -> Vec<&'static str> {
    let mut all = usual_strategies(machine).to_vec();
    if machine.features.invlpgb {
        all.insert(1, "linux-ipi-2025");
    }
    all
}

/// Where flushes are taken from where nobody says so: kernels of x86 record them, others do not.
#[must_use]
pub fn usual_flushes(machine: &Machine, script_has_them: bool) -> Flushes {
    match machine.isa {
        Isa::X86_64 if script_has_them => Flushes::Recorded,
        _ => Flushes::FromCalls,
    }
}

/// The working set that a program was seen to have under lackey: that of its busiest thread.
///
/// # Errors
///
/// If it has no thread with a whole window.
pub fn working_set_of(pattern: &Pattern) -> Result<WorkingSet, Refused> {
    let busiest = pattern.threads.iter().max_by_key(|thread| (thread.windows, thread.id));
    let Some(busiest) = busiest else {
        return Err(Refused("the memory trace is shorter than a window".into()));
    };
    let both = &busiest.both;
    let hot = both.hot.min(1 << 20) as u32;
    let pool = both.pages.saturating_sub(both.hot).min(1 << 19) as u32;
    let others = if pool == 0 { 0 } else { both.others.round() as u32 };
    // Half a nanosecond for a reference.
    Ok(WorkingSet { window: (pattern.window / 2).max(1), hot, others, pool })
}

/// The assumptions of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// How the trace came to be.
    pub origin: &'a Origin,
    /// The script.
    pub script: &'a Script,
    /// Where its flushes come from.
    pub flushes: Flushes,
    /// The machine, and whether it was named by the user.
    pub machine: &'a Machine,
    /// Whether the machine was chosen for the trace.
    pub chosen: bool,
    /// The latency of interrupts on the traced system, if that is charged instead.
    pub interrupts: Option<Interrupts>,
    /// How many CPUs are modelled.
    pub cpus: usize,
    /// The working set.
    pub working_set: WorkingSet,
    /// Where it comes from.
    pub working_set_from: &'a str,
}

impl Basis<'_> {
    /// All of it in sentences.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        [self.machine()].into_iter().chain(self.besides()).collect()
    }

    /// All but [which machine its costs are of](CostsOf::sentence) it has.
    #[must_use]
    pub fn besides(&self) -> Vec<String> {
        let Self { script, .. } = *self;
        let mut all = Vec::new();
        all.extend(self.interrupts.map(|Interrupts { send, arrive, look, ask, page, .. }| {
            let [send, arrive] = [send, arrive].map(|time| time as f64 / 1000.0);
            let [look, ask] = [look, ask].map(|time| time as f64 / 1000.0);
            let page = page.map_or_else(String::new, |page| {
                format!(", the invalidation of a page takes {:.2} us", page as f64 / 1e6)
            });
            format!(
                "An interrupt takes {send:.1} us to send and comes after {arrive:.1} us, a switch has found out what the TLB \
                 holds after {look:.2} us, a flush makes its first request after {ask:.2} us{page}: medians of the trace, \
                 where it does not say more of a single one."
            )
        }));
        all.extend(self.interrupts.and_then(|interrupts| interrupts.hold).map(|hold| {
            let Hold { age, right, cases } = hold;
            format!(
                "Where the trace does not say it, who has sent one serves another first that was asked for {:.1} us before or \
                 earlier. That is fitted to which of two CPUs that ask each other comes first, and right for {right} of \
                 {cases} in the trace.",
                age as f64 / 1000.0,
            )
        }));
        let WorkingSet { window, hot, others, pool } = self.working_set;
        all.push(format!(
            "No trace shows accesses. In each {} us of computing a program is taken to use its {hot} hot \
             pages and {others} of {pool} others ({}).",
            window as f64 / 1000.0,
            self.working_set_from,
        ));
        all.push(self.flushes_from().into());
        all.extend(self.copies());
        unknown(&script.unknown, &mut all);
        self.lost(&mut all);
        self.damage(&mut all);
        all
    }

    fn lost(&self, all: &mut Vec<String>) {
        let lost = self.origin.losses.lost;
        if lost > 0 {
            let why = "events were lost when the trace was recorded: what is missing costs nothing";
            all.push(format!("{lost} {why}."));
        }
    }

    /// What of it a report has no place of its own for.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.chosen {
            all.push(self.machine());
        }
        all.extend(self.copies());
        all.extend(self.gaps());
        self.damage(&mut all);
        all
    }

    /// Events and threads that the trace lacks, and what that makes unknown.
    fn gaps(&self) -> Vec<String> {
        // What is not known of pages and switches is in a replay's report: most traces lack some, and it is little in the time.
        let Unknown { tasks, senders, gaps, .. } = self.script.unknown;
        let known = Unknown { tasks, senders, gaps, ..Unknown::default() };
        let mut all = Vec::new();
        unknown(&known, &mut all);
        self.lost(&mut all);
        let parts = [
            (self.origin.losses.lost + gaps > 0, "how many flushes there were"),
            (tasks > 0, "which threads share a space, and so which CPUs a flush reaches"),
            (senders > 0, "who flushed"),
        ];
        let parts: Vec<&str> = parts.iter().filter(|part| part.0).map(|part| part.1).collect();
        if !parts.is_empty() {
            let parts = parts.join("; ");
            all.push(format!(
                "For that it is not known {parts}. The answer is of what the trace shows."
            ));
        }
        all
    }

    fn machine(&self) -> String {
        CostsOf::of(self.origin, self.machine, self.chosen).sentence(self.origin, self.machine)
    }

    /// Where flushes come from, in a sentence.
    #[must_use]
    pub const fn flushes_from(&self) -> &'static str {
        match self.flushes {
            Flushes::Recorded => "Flushes are those that the kernel recorded.",
            Flushes::FromCalls => {
                "Flushes follow from system calls, faults, forks and exits by what Linux does; what the \
                 kernel flushes of its own accord is missing."
            }
        }
    }

    fn copies(&self) -> Option<String> {
        let (recorded, cpus) = (self.script.cpus.len(), self.cpus);
        if cpus > recorded {
            return Some(format!(
                "{}: what they did is done by {cpus}, in copies that begin up \
                 to 1 ms later; processes with several threads have as many more.",
                counted(recorded, "CPU was recorded", "CPUs were recorded"),
            ));
        }
        (cpus < recorded).then(|| {
            format!(
                "{}: on {cpus} they take turns at their steps. Computing does \
                 not take longer for that, so that shares are upper bounds.",
                counted(recorded, "CPU was recorded", "CPUs were recorded"),
            )
        })
    }

    fn damage(&self, all: &mut Vec<String>) {
        let losses = self.origin.losses;
        let mut lost = |count: u64, what: &str| {
            if count > 0 {
                all.push(format!("{count} {what}."));
            }
        };
        lost(losses.damaged, "lines of the trace could not be read");
        lost(losses.reordered, "events were not in the order of time, and were put into it");
        if losses.truncated {
            all.push("The end of the trace is missing.".into());
        }
    }
}

fn unknown(unknown: &Unknown, all: &mut Vec<String>) {
    let Unknown { tasks, addresses, mappings, senders, unseen_pages, switches, gaps } = *unknown;
    let counts = [
        (tasks, "threads came from nowhere; each is taken for a process of its own"),
        (
            addresses,
            "flushes have no address; they are of some pages of the space that are present",
        ),
        (
            mappings,
            "calls and faults are about pages from before the trace, which are taken for present and shared",
        ),
        (senders, "flushes have no sender"),
        (unseen_pages, "pages were flushed that no fault had brought"),
        (
            switches,
            "switches are not in the trace: a thread was seen on a CPU that was last given to another, and is \
             taken to have been given it just before",
        ),
        (gaps, "events come after a gap"),
    ];
    for (count, what) in counts {
        if count > 0 {
            all.push(format!("{count} {what}."));
        }
    }
}

#[cfg(test)]
mod tests {
    use lookaside_traces::Hardware;

    use super::*;

    /// The notes on a trace of a machine that lacks this.
    fn notes(lost: u64, unknown: Unknown) -> Vec<String> {
        let machine = Machine::named("turin").unwrap();
        let hardware =
            Hardware { processor: Some("AuthenticAMD 26/2".into()), ..Hardware::default() };
        let mut origin = Origin { cpus: 2, guest: Some(false), hardware, ..Origin::default() };
        origin.losses.lost = lost;
        let script = Script { unknown, cpus: vec![Vec::new(); 2], ..Script::default() };
        Basis {
            origin: &origin,
            script: &script,
            flushes: Flushes::Recorded,
            machine: &machine,
            chosen: false,
            interrupts: None,
            cpus: 2,
            working_set: WorkingSet { window: 1, hot: 1, others: 0, pool: 0 },
            working_set_from: "",
        }
        .notes()
    }

    #[test]
    fn lost_events_and_unknown_threads_are_noted_with_what_they_make_unknown() {
        assert_eq!(notes(0, Unknown::default()), [""; 0]);
        let lost = notes(7, Unknown::default()).join(" ");
        assert!(
            lost.contains("7 events were lost") && lost.contains("how many flushes there were"),
            "{lost}"
        );
        assert!(!lost.contains("threads"), "{lost}");
        let threads = notes(0, Unknown { tasks: 3, mappings: 9, ..Unknown::default() }).join(" ");
        assert!(threads.contains("3 threads came from nowhere"), "{threads}");
        assert!(threads.contains("which CPUs a flush reaches"), "{threads}");
        assert!(
            !threads.contains("how many flushes") && !threads.contains("before the trace"),
            "{threads}"
        );
    }
}
