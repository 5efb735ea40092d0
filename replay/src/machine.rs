//! Which machine a trace is replayed on where nobody names one: that of the recorded processor, or one that stands for it.

use lookaside_simulation::data::Machine;
use lookaside_terminal::Refused;
use lookaside_traces::{Hardware, Origin};

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

#[cfg(test)]
mod tests {
    use lookaside_simulation::reproduce::Book;

    use super::*;

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
