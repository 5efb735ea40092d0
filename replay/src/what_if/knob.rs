//! Knobs, as they are typed.

use core::{fmt, str::FromStr};

use lookaside_terminal::Refused;

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knob {
    /// Up to how many pages Linux flushes one by one on x86.
    Ceiling(u32),
    /// Whether anonymous memory is mapped in huge pages.
    Thp(bool),
    /// On which CPUs the threads of the program may run.
    Pin(Vec<usize>),
    /// Whether calls that follow each other are made as one.
    Batch(bool),
    /// Whether the kernel has page tables of its own.
    Pti(bool),
    /// Whether x86 uses tags.
    Pcid(bool),
    /// How many CPUs there are.
    Cpus(usize),
    /// The strategy of TLB coherence.
    Strategy(String),
}

/// The knobs: how each is written, and what it is in Linux.
pub const KNOBS: &[(&str, &str)] = &[
    (
        "ceiling=N",
        "flush up to N pages one by one (debugfs: x86/tlb_single_page_flush_ceiling; default 33)",
    ),
    ("thp=on|off", "huge pages for anonymous memory (/sys/kernel/mm/transparent_hugepage/enabled)"),
    ("pin=CPUS", "run the program on these CPUs only, as 0-1,4 (taskset, cpuset)"),
    (
        "batch=on|off",
        "calls that follow each other as one (process_madvise; one munmap for neighbours)",
    ),
    ("pti=on|off", "page tables of the kernel's own (boot: pti=, nopti)"),
    ("pcid=on|off", "tags (boot: nopcid)"),
    ("cpus=N", "as many CPUs (boot: maxcpus=, or another machine of the kind)"),
    ("strategy=NAME", "another strategy, as `lookaside list strategies` shows"),
];

impl FromStr for Knob {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Refused(format!("`{text}` is no knob: one is NAME=VALUE, of {}", known())));
        };
        let bad = |what: &str| Refused(format!("`{name}` takes {what}, not `{value}`"));
        let count = |least: u32| {
            let number =
                value.parse::<u32>().ok().filter(|&number| (least..=1 << 20).contains(&number));
            number.ok_or_else(|| bad(&format!("a number from {least} to 1048576")))
        };
        let switch = || match value {
            "on" | "always" | "1" => Ok(true),
            "off" | "never" | "0" => Ok(false),
            _ => Err(bad("`on` or `off`")),
        };
        Ok(match name {
            "ceiling" => Self::Ceiling(count(0)?),
            "thp" => Self::Thp(switch()?),
            "pin" => Self::Pin(list(value).ok_or_else(|| bad("CPUs, as 0-1,4"))?),
            "batch" => Self::Batch(switch()?),
            "pti" => Self::Pti(switch()?),
            "pcid" => Self::Pcid(switch()?),
            "cpus" => Self::Cpus(count(1)? as usize),
            "strategy" if !value.is_empty() => Self::Strategy(value.to_owned()),
            "strategy" => return Err(bad("the name of a strategy")),
            _ => return Err(Refused(format!("there is no knob `{name}`: there are {}", known()))),
        })
    }
}

fn known() -> String {
    let all: Vec<&str> = KNOBS.iter().map(|(form, _)| *form).collect();
    all.join(", ")
}

/// CPUs as `0-1,4`, each once.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        if last < first {
            return None;
        }
        all.extend((first..=last).map(usize::from));
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool| if on { "on" } else { "off" };
        match self {
            Self::Ceiling(pages) => write!(f, "ceiling={pages}"),
            Self::Thp(on) => write!(f, "thp={}", word(*on)),
            Self::Pin(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                write!(f, "pin={}", cpus.join(","))
            }
            Self::Batch(on) => write!(f, "batch={}", word(*on)),
            Self::Pti(on) => write!(f, "pti={}", word(*on)),
            Self::Pcid(on) => write!(f, "pcid={}", word(*on)),
            Self::Cpus(cpus) => write!(f, "cpus={cpus}"),
            Self::Strategy(name) => write!(f, "strategy={name}"),
        }
    }
}
