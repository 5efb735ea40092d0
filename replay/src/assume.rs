//! The assumptions of a replay that were not recorded, in sentences.

use super::{
    WorkingSet,
    interrupts::{Hold, Interrupts},
};
use lookaside_simulation::data::{Isa, Machine};
use lookaside_terminal::{Refused, counted};
use lookaside_traces::{
    Hardware, Origin,
    lackey::Pattern,
    reconstruct::{Flushes, Script, Unknown},
};

/// Stands for guests on x86: interrupts take several times as long there, so that more requests meet.
const GUEST: &str = "kvm_guest_amit2022";

/// Machines that stand for an architecture where nobody names one: the first with enough CPUs.
const FITTING: &[(&str, &[&str])] = &[
    ("x86_64", &["skylake_sp", "ice_lake_sp", "sapphire_rapids"]),
    ("aarch64", &["neoverse_n1", "altra_2node", "neoverse_v2"]),
    ("riscv64", &["sg2042"]),
];

/// The machines that stand for processors of this maker, in a guest or not, before those of the architecture: the first with
/// enough CPUs. The flushes of `zen5` were measured in a guest.
const OF_MAKER: &[(&str, &[&str])] =
    &[("AuthenticAMD", &["zen5", "turin"]), ("HygonGenuine", &["zen5", "turin"])];

/// Processors that shipped machines are of, in the form of [`lookaside_traces::Hardware::processor`], not in a guest. The
/// numbers are those by which Linux tells them: `arch/x86/include/asm/intel-family.h` (where 6/85 is Skylake-SP, and with
/// other steppings Cascade Lake and Cooper Lake, which have the same core, and 6/143 Sapphire Rapids), the generations of Zen in
/// `arch/x86/kernel/cpu/amd.c` (`bsp_init_amd`: 23/48 to 79 are Zen 2, 25/0 to 15 Zen 3, 25/16 to 31 and 96 to 175 Zen 4,
/// 26/0 to 47 and 64 to 79 Zen 5; 25/17 is Genoa and 26/2 Turin, by what CPUID says there), and
/// `arch/arm64/include/asm/cputype.h`. RISC-V's are the names by which device trees call cores.
const PROCESSORS: &[(&str, &str)] = &[
    ("GenuineIntel 6/44", "westmere_ep_2s"),
    ("GenuineIntel 6/58", "ivybridge_i5_3320m"),
    ("GenuineIntel 6/60", "haswell_desktop"),
    ("GenuineIntel 6/85", "skylake_sp"),
    ("GenuineIntel 6/106", "ice_lake_sp"),
    ("GenuineIntel 6/143", "sapphire_rapids"),
    ("AuthenticAMD 23/49", "zen2"),
    ("AuthenticAMD 25/1", "milan_72cpu"),
    ("AuthenticAMD 25/17", "genoa"),
    ("AuthenticAMD 25/97", "zen4"),
    ("AuthenticAMD 26/2", "turin"),
    ("AuthenticAMD 26/17", "zen5"),
    ("AuthenticAMD 26/68", "zen5"),
    ("0x41/0xd08", "cortex_a72_graviton1"),
    ("0x41/0xd0c", "neoverse_n1"),
    ("0x41/0xd40", "neoverse_v1"),
    ("0x41/0xd4f", "neoverse_v2"),
    ("0xc0/0xac3", "ampere_one"),
    ("sifive,u74-mc", "jh7110"),
    ("thead,c920", "sg2042"),
];

/// The shipped machine that is of the processor that was recorded. None in a guest: what interrupts take there depends
/// on its host, and no shipped machine is a guest of which the processor is known.
fn same_processor(origin: &Origin) -> Option<&'static str> {
    let processor = origin.hardware.processor.as_deref().filter(|_| origin.guest != Some(true))?;
    PROCESSORS.iter().find(|(known, _)| *known == processor).map(|(_, key)| *key)
}

/// The key of a shipped machine for a trace: that of the same processor; else one that stands for its architecture and
/// has as many CPUs as were recorded: one of the same maker, for a guest's a guest, if there is one.
///
/// # Errors
///
/// If none has.
pub fn fitting_machine<'m>(origin: &Origin, machines: &'m [Machine]) -> Result<&'m str, Refused> {
    let cpus = origin.cpus.max(1) as usize;
    // Text of other tools does not say; flushes are recorded on x86 alone.
    let architecture = origin.architecture.as_deref().unwrap_or("x86_64");
    let keys = FITTING.iter().find(|(name, _)| *name == architecture).map_or(&[][..], |of| of.1);
    let guest = (origin.guest == Some(true) && architecture == "x86_64").then_some(&GUEST);
    let same = same_processor(origin);
    let processor = origin.hardware.processor.as_deref().unwrap_or_default();
    let is_maker = |(maker, _): &&(&str, &[&str])| processor.starts_with(maker);
    let maker = OF_MAKER.iter().find(is_maker).map_or(&[][..], |of| of.1);
    let has_room = |machine: &&Machine| machine.model.topology.cpus() >= cpus;
    let find = |key: &&str| machines.iter().find(|machine| machine.key == **key).filter(has_room);
    let first = same.iter().chain(maker).chain(guest).chain(keys);
    first.into_iter().find_map(find).map(|machine| machine.key.as_str()).ok_or_else(|| {
        Refused(format!(
            "no shipped machine stands for {architecture} with {cpus} CPUs: name one with --machine"
        ))
    })
}

/// Refuses more CPUs than the machine has that was chosen for a trace. Another machine is not taken in its place, since
/// figures of two machines cannot be compared.
///
/// # Errors
///
/// If there are more.
pub fn check_room(chosen: &Machine, cpus: usize, machines: &[Machine]) -> Result<(), Refused> {
    let has = chosen.model.topology.cpus();
    if cpus <= has {
        return Ok(());
    }
    let larger =
        |machine: &&Machine| machine.isa == chosen.isa && machine.model.topology.cpus() >= cpus;
    let larger: Vec<_> =
        machines.iter().filter(larger).map(|machine| format!("`{}`", machine.key)).collect();
    let instead = match larger.is_empty() {
        true => "no shipped machine of this architecture has as many".to_owned(),
        false => format!("name one that has as many with --machine: {}", larger.join(", ")),
    };
    Err(Refused(format!(
        "{cpus} CPUs; `{}`, chosen for the trace, has {has}: {instead}",
        chosen.key
    )))
}

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

/// Which machine the costs of a replay are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostsOf {
    /// Those of a machine that the user named.
    Named,
    /// Those of the shipped machine of the recorded processor.
    Processor,
    /// Those of a machine that stands for the recorded one, of which none is shipped.
    StandIn,
}

impl CostsOf {
    /// Which it is for such a trace; `chosen` says that the machine was chosen for it, and not named.
    #[must_use]
    pub fn of(origin: &Origin, machine: &Machine, chosen: bool) -> Self {
        match chosen {
            false => Self::Named,
            true if same_processor(origin) == Some(&machine.key) => Self::Processor,
            true => Self::StandIn,
        }
    }

    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Processor => "processor",
            Self::StandIn => "stand-in",
        }
    }

    /// The same in a sentence or two.
    #[must_use]
    pub fn sentence(self, origin: &Origin, machine: &Machine) -> String {
        let (key, name) = (&machine.key, &machine.name);
        match self {
            Self::Named => return format!("Costs are those of `{key}` ({name})."),
            Self::Processor => {
                return format!(
                    "Costs are those of `{key}` ({name}), the machine of the recorded processor."
                );
            }
            Self::StandIn => {}
        }
        let Hardware { processor, name: model, hypervisor, .. } = &origin.hardware;
        let architecture = origin.architecture.as_deref().unwrap_or("an unknown architecture");
        let guest = match (origin.guest, hypervisor) {
            (Some(true), Some(hypervisor)) => format!("a guest of {hypervisor} on "),
            (Some(true), None) => "a guest of a hypervisor on ".to_owned(),
            _ => String::new(),
        };
        let why = match processor {
            Some(processor) => {
                let model = model.as_deref().unwrap_or(architecture);
                format!("No shipped machine is {guest}{model} ({processor})")
            }
            None => format!("The trace, of {guest}{architecture}, does not name its processor"),
        };
        format!(
            "{why}: costs are those of `{key}` ({name}), which stands for it. \
             `calibrate`, run there, measures that machine; --machine takes the file."
        )
    }
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
                "Who has sent one serves another first that was asked for {:.1} us before or earlier. That is \
                 fitted to which of two CPUs that ask each other comes first, and right for {right} of {cases} \
                 in the trace.",
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
    use super::*;
    use lookaside_simulation::reproduce::Book;

    /// The notes on a trace of a machine that lacks this.
    fn notes(lost: u64, unknown: Unknown) -> Vec<String> {
        let machine = Machine::named("turin").unwrap();
        let mut origin = origin("AuthenticAMD 26/2", false);
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

    fn origin(processor: &str, guest: bool) -> Origin {
        let hardware = Hardware { processor: Some(processor.into()), ..Hardware::default() };
        Origin { cpus: 2, guest: Some(guest), hardware, ..Origin::default() }
    }

    #[test]
    fn the_machine_is_that_of_the_processor_or_stands_for_it() {
        let machines = Book::shipped().unwrap().machines;
        let key = |origin: &Origin| fitting_machine(origin, &machines).unwrap().to_owned();
        for (processor, machine) in PROCESSORS {
            assert_eq!(key(&origin(processor, false)), *machine);
        }
        assert_eq!(key(&origin("GenuineIntel 6/999", false)), "skylake_sp");
        // In a guest as well: one of the same maker, whose flushes take a third of the time there.
        assert_eq!(key(&origin("AuthenticAMD 25/17", true)), "zen5");
        assert_eq!(key(&origin("AuthenticAMD 26/2", true)), "zen5");
        assert_eq!(key(&origin("GenuineIntel 6/143", true)), GUEST);
        assert_eq!(key(&Origin { cpus: 2, guest: Some(true), ..Origin::default() }), GUEST);
        assert_eq!(key(&origin("AuthenticAMD 25/999", false)), "zen5");
        let riscv = |processor| Origin {
            architecture: Some("riscv64".into()),
            guest: None,
            ..origin(processor, false)
        };
        assert_eq!(key(&riscv("sifive,u74-mc")), "jh7110");
        assert_eq!(key(&riscv("spacemit,x60")), "sg2042");
        // A larger one of the same processor was recorded than is shipped.
        let large = Origin { cpus: 64, ..origin("AuthenticAMD 23/49", false) };
        assert_eq!(key(&large), "zen5");
        let larger = Origin { cpus: 128, ..origin("AuthenticAMD 25/1", true) };
        assert_eq!(key(&larger), "turin");
    }

    #[test]
    fn a_trace_that_does_not_name_its_processor_is_said_not_to() {
        let machine = Machine::named("skylake_sp").unwrap();
        let x86 = Some("x86_64".to_owned());
        let mut origin = Origin { architecture: x86, ..Origin::default() };
        let sentence = |origin: &Origin| CostsOf::StandIn.sentence(origin, &machine);
        assert!(
            sentence(&origin).starts_with("The trace, of x86_64, does not name its processor: ")
        );
        origin.hardware.processor = Some("GenuineIntel 6/999".into());
        assert!(
            sentence(&origin).starts_with("No shipped machine is x86_64 (GenuineIntel 6/999): ")
        );
    }

    #[test]
    fn more_cpus_do_not_change_the_machine() {
        let machines = Book::shipped().unwrap().machines;
        let guest = machines.iter().find(|machine| machine.key == GUEST).unwrap();
        assert!(check_room(guest, 2, &machines).is_ok());
        let why = check_room(guest, 64, &machines).unwrap_err().0;
        assert!(
            why.contains(GUEST) && why.contains("has 2") && why.contains("`skylake_sp`"),
            "{why}"
        );
        assert!(!why.contains("neoverse"), "{why}");
    }
}
