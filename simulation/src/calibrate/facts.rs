//! What is known of this machine without measuring.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::topology::Cpus;
use crate::data::Isa;

/// What the machine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The model of its CPUs.
    pub cpu: String,
    /// The kernel's name and the first two numbers of its version.
    pub kernel: String,
    /// The CPUs.
    pub cpus: Cpus,
    /// How many of them the measurements could use.
    pub usable: usize,
    /// Features of the CPUs by the names that Linux has for them.
    pub flags: Vec<String>,
    /// Whether kernel and user have tables of their own.
    pub isolated: bool,
    /// How often `mprotect` to read-only and back to writable flushes, as was counted.
    pub flushes: u64,
    /// Why the measurements did not go before other programs, if they did not.
    pub no_real_time: Option<String>,
    /// Which thousandth of the time the host took away while it was measured.
    pub stolen: u64,
}

/// Beyond this, in thousandths, what was measured is the host's doing.
const MOST_STOLEN: u64 = 100;
/// Beyond this it is worth a word.
const SOME_STOLEN: u64 = 10;

/// The instruction set that this program was built for, if the model knows it.
pub const ISA: Option<(Isa, &str)> = if cfg!(target_arch = "x86_64") {
    Some((Isa::X86_64, "x86_64"))
} else if cfg!(target_arch = "aarch64") {
    Some((Isa::Aarch64, "aarch64"))
} else if cfg!(target_arch = "riscv64") {
    Some((Isa::Riscv64, "riscv64"))
} else {
    None
};

/// The value of a field in a text like `/proc/cpuinfo`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

impl Facts {
    /// What there is to be read. What was counted and how it went is filled in by who measures.
    #[must_use]
    pub fn read(cpus: Cpus) -> Self {
        let text = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
        let mut facts = Self::of(&text("/proc/cpuinfo"), &text("/proc/sys/kernel/osrelease"));
        let meltdown = text("/sys/devices/system/cpu/vulnerabilities/meltdown");
        facts.isolated = meltdown.contains("PTI");
        facts.usable = cpus.numbers().count();
        facts.cpus = cpus;
        facts
    }

    fn of(cpuinfo: &str, release: &str) -> Self {
        let cpu = field(cpuinfo, "model name").or_else(|| field(cpuinfo, "uarch"));
        let flags = field(cpuinfo, "flags").or_else(|| field(cpuinfo, "Features")).unwrap_or("");
        let version: Vec<&str> = release.trim().split('.').take(2).collect();
        Self {
            cpu: cpu.unwrap_or("CPUs without a name").to_owned(),
            kernel: format!("Linux {}", version.join(".")),
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            flushes: 1,
            ..Self::default()
        }
    }

    /// Whether the CPUs have a feature.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// Whether this is a guest: on x86 CPUID has a bit for it, elsewhere nobody says.
    #[must_use]
    pub fn virtualised(&self) -> Option<bool> {
        (self.has("fpu") || self.has("hypervisor")).then(|| self.has("hypervisor"))
    }

    /// What is to be known of all numbers.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.virtualised() == Some(true) {
            warnings
                .push("A guest: walks are of two stages, and interrupts pass the host.".to_owned());
        }
        if let Some(why) = &self.no_real_time {
            warnings.push(format!("Not before other programs (SCHED_FIFO: {why})."));
        }
        if self.stolen > SOME_STOLEN {
            let percent = self.stolen as f64 / 10.0;
            warnings.push(format!("The host took {percent:.1} % of the time away."));
        }
        warnings
    }

    /// Why nothing that was measured can be used, if so.
    ///
    /// # Errors
    ///
    /// If the host took too much of the time.
    pub fn check(&self) -> Result<(), String> {
        if self.stolen <= MOST_STOLEN {
            return Ok(());
        }
        let [taken, most] = [self.stolen, MOST_STOLEN].map(|share| share as f64 / 10.0);
        Err(format!("the host took {taken:.1} % of the time away, more than {most:.1} %"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_says_what_it_is_but_not_where() {
        let info = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor pcid\n";
        let facts = Facts::of(info, "6.18.44-somewhere-1\n");
        assert_eq!((facts.cpu.as_str(), facts.kernel.as_str()), ("AMD EPYC", "Linux 6.18"));
        assert_eq!(facts.virtualised(), Some(true));
        assert!(facts.has("pcid") && !facts.has("invpcid"));
        assert_eq!(Facts::of("flags : fpu\n", "6.1").virtualised(), Some(false));
        // An Arm machine says nothing of a host.
        assert_eq!(Facts::of("Features : fp asimd\n", "6.1").virtualised(), None);
    }

    #[test]
    fn a_host_that_takes_the_time_away_is_noticed_and_then_refused() {
        let facts = |stolen| Facts { stolen, ..Facts::default() };
        assert!(facts(10).warnings().is_empty());
        assert_eq!(facts(55).warnings(), ["The host took 5.5 % of the time away."]);
        assert!(facts(100).check().is_ok());
        assert!(facts(101).check().unwrap_err().contains("10.1 %"));
    }
}
