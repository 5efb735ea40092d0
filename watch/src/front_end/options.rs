//! What a front end is told: `NAME=VALUE`, several times.

use std::{format, path::PathBuf, string::String, vec::Vec};

use crate::{FrameMarks, Limits, Shadow, Strength};

/// The architecture of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// RISC-V.
    Riscv,
    /// Arm64.
    Arm,
    /// x86-64.
    X86,
}

/// Where the kernel keeps the task that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRegister {
    /// Nothing is known of tasks.
    None,
    /// RISC-V: `tp` in the kernel, `sscratch` in user mode, as Linux does.
    TpAndSscratch,
    /// Arm64: `SP_EL0` holds it in the kernel, as Linux does.
    SpEl0,
    /// x86-64: in memory, so far from the base of the kernel's `GS`: a variable of each CPU, as Linux has it.
    Gs(u64),
}

/// How a run is watched, and where its report goes.
#[derive(Debug)]
pub struct Options {
    /// The architecture of the guest.
    pub architecture: Architecture,
    /// The file that is the guest's memory, for a front end that sees it as one.
    pub memory: Option<PathBuf>,
    /// The physical address of its first byte.
    pub base: u64,
    /// Where the report goes.
    pub report: PathBuf,
    /// Where counts go while it runs.
    pub progress: Option<PathBuf>,
    /// Where the running task is found.
    pub task: TaskRegister,
    /// Fences that are ignored.
    pub skip: Vec<u64>,
    /// Entries of each CPU.
    pub entries: Option<usize>,
    /// What the architecture permits is held, too.
    pub strict: bool,
}

impl Options {
    /// Reads the arguments. `target` is what QEMU calls the architecture.
    ///
    /// # Errors
    ///
    /// If an argument is missing or wrong, or there are no rules for the architecture.
    pub fn parse<'a>(
        target: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let architecture = match target {
            "riscv64" => Architecture::Riscv,
            "aarch64" => Architecture::Arm,
            "x86_64" => Architecture::X86,
            other => return Err(format!("there are no rules here for a guest of {other}")),
        };
        let (mut memory, mut base, mut report, mut progress) = (None, None, None, None);
        let (mut skip, mut entries, mut task) = (Vec::new(), None, TaskRegister::None);
        let mut strict = false;
        for argument in arguments {
            let (name, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("`{argument}` is not of the form NAME=VALUE"))?;
            match name {
                "memory" => memory = Some(PathBuf::from(value)),
                "base" => base = Some(number(value)?),
                "report" => report = Some(PathBuf::from(value)),
                "progress" => progress = Some(PathBuf::from(value)),
                "skip" => skip.push(number(value)?),
                "entries" => entries = Some(number(value)? as usize),
                "strict" => strict = value == "on",
                "task" => task = register(value)?,
                _ => return Err(format!("there is no argument `{name}`")),
            }
        }
        let missing = |name: &str| format!("the argument `{name}` is missing");
        Ok(Self {
            architecture,
            memory,
            base: base.ok_or_else(|| missing("base"))?,
            report: report.ok_or_else(|| missing("report"))?,
            progress,
            task,
            skip,
            entries,
            strict,
        })
    }

    /// The shadow that they ask for, of a machine with so many CPUs.
    #[must_use]
    pub fn shadow(&self, cpus: u32, marks: &FrameMarks) -> Shadow {
        let mut limits = Limits::default();
        limits.entries = self.entries.unwrap_or(limits.entries);
        if self.strict {
            limits.strength = Strength::Permitted;
        }
        let mut shadow = Shadow::new(cpus, marks, limits);
        self.skip.iter().for_each(|&pc| shadow.ignore(pc));
        shadow
    }
}

fn register(value: &str) -> Result<TaskRegister, String> {
    match value {
        "none" => Ok(TaskRegister::None),
        "tp-sscratch" => Ok(TaskRegister::TpAndSscratch),
        "sp-el0" => Ok(TaskRegister::SpEl0),
        _ => match value.strip_prefix("gs+") {
            Some(offset) => number(offset).map(TaskRegister::Gs),
            None => Err(format!(
                "`{value}` is no way to find the task: none, tp-sscratch, sp-el0, gs+OFFSET"
            )),
        },
    }
}

fn number(value: &str) -> Result<u64, String> {
    let parsed = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    parsed.map_err(|_| format!("`{value}` is not a number"))
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    #[test]
    fn arguments_are_read_and_wrong_ones_named() {
        let good = ["memory=/m", "base=0x80000000", "report=/r", "skip=0x10", "skip=17"];
        let options = Options::parse("riscv64", good).unwrap();
        assert_eq!((options.base, options.skip), (0x8000_0000, vec![16, 17]));
        assert_eq!(options.architecture, Architecture::Riscv);
        let error = |target, arguments: &[&str]| {
            Options::parse(target, arguments.iter().copied()).unwrap_err()
        };
        assert!(error("mips", &[]).contains("mips"));
        assert!(error("riscv64", &["memory=/m"]).contains("`base` is missing"));
        assert!(error("riscv64", &["base=zero"]).contains("`zero`"));
        assert!(error("riscv64", &["depth=1"]).contains("`depth`"));
        assert!(error("riscv64", &["verbose"]).contains("NAME=VALUE"));
        assert!(error("riscv64", &["task=gs"]).contains("`gs`"));
        assert!(error("x86_64", &["task=gs+here"]).contains("`here`"));
        let good = ["memory=/m", "base=0", "report=/r", "task=gs+0x32480"];
        let options = Options::parse("x86_64", good).unwrap();
        assert_eq!(options.architecture, Architecture::X86);
        assert_eq!(options.task, TaskRegister::Gs(0x3_2480));
    }
}
