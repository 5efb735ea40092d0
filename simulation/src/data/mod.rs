//! Machines and published results, as data: every number with its unit and where it comes from.
//!
//! The files are in `machines/` and `published/` of the repository and are compiled into the program.
//! A number has a *source*, or it is *fitted*: then it names the published value that it was fitted
//! to, and that value is no prediction any more. There is no third kind.

mod adjust;
mod experiment;
mod files;
mod machine;
mod program;
mod quality;
mod ranges;
mod read;
mod reading;
mod result;
mod rewrite;
mod rules;
mod target;
mod value;
mod workloads;

use std::collections::BTreeMap;

use lookaside_machine::timed::{Model, Ps};
use lookaside_terminal::Refused;

pub use adjust::Sockets;
pub use experiment::{Beside, Experiment, Figure, Trial};
pub use files::{Files, machines, parameters, published};
pub(crate) use program::LONGEST;
pub use program::{Parameter, Program, Semaphore, Space, Threads, UNITS, Words};
pub use quality::Quality;
pub use ranges::{Range, Ranges};
pub use read::Text;
pub(crate) use read::list;
pub use reading::Reading;
pub use rewrite::rewrite;
pub use target::{Found, Target};
pub use workloads::Parameters;

/// The instruction set of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Arm64.
    Aarch64,
    /// RISC-V.
    Riscv64,
    /// x86-64.
    X86_64,
}

impl Isa {
    /// Its usual name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "Arm64",
            Self::Riscv64 => "RISC-V",
            Self::X86_64 => "x86-64",
        }
    }
}

/// How sure a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Read in the original source.
    Read,
    /// Read in a secondary source that quotes the original.
    Quoted,
    /// Derived by arithmetic, which the note gives.
    Derived,
    /// Measured for this project; the source says on what and how.
    Measured,
}

/// Where a number comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// From a source of the file's table `[sources]`.
    Source {
        /// Its key there.
        key: String,
        /// How sure it is.
        confidence: Confidence,
        /// Whether it was measured on another machine of the same family.
        proxy: bool,
    },
    /// Fitted to a published value, whose role allows that: `result`, `result:variant` by the number
    /// of the variant from 1, either with `@x` for one point of a curve: a [`Target`] as text.
    Fitted {
        /// The published value.
        to: String,
    },
    /// Assumed to lie between two ends, in the unit of the number; the note says why there.
    Assumed {
        /// The low end.
        low: f64,
        /// The high end.
        high: f64,
    },
}

/// A number of a machine file.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The table it is in, and its key there: `prices.walk`.
    pub name: String,
    /// The number, in `unit`.
    pub number: f64,
    /// The unit, as the file has it.
    pub unit: String,
    /// Where it comes from.
    pub origin: Origin,
    /// What else is to be known.
    pub note: Option<String>,
    /// The prices that are part of it, by key: they were measured with it and are not charged apart.
    pub includes: Vec<String>,
    /// The prices, by key, with each of which it was measured in one sum: what this one takes more, they take less.
    pub part_of: Vec<String>,
    /// The line of the file that it is in, from 1.
    pub line: usize,
}

impl Value {
    /// The key, without the table.
    #[must_use]
    pub fn key(&self) -> &str {
        self.name.split_once('.').map_or(&self.name, |(_, key)| key)
    }
}

/// What the CPUs of a machine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Bits of an ASID or PCID; 0 if there are no tags.
    pub tag_bits: u32,
    /// x86: `INVPCID`.
    pub invpcid: bool,
    /// x86: `INVLPGB`.
    pub invlpgb: bool,
    /// Arm: range forms of `TLBI`.
    pub tlbi_range: bool,
    /// Whether kernel and user have tables of their own, so that tags come in pairs.
    pub paired: bool,
    /// x86: up to how many pages Linux flushes one by one; from there on it flushes everything. Its knob is
    /// `tlb_single_page_flush_ceiling`, in debugfs.
    pub flush_ceiling: u32,
}

/// A machine file.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The name of the file without its ending.
    pub key: String,
    /// The file, as messages name it.
    pub file: String,
    /// The name of the machine.
    pub name: String,
    /// Its instruction set.
    pub isa: Isa,
    /// What is to be known about it.
    pub note: Option<String>,
    /// Its hardware.
    pub model: Model,
    /// The sockets that it was given in place of those of the file.
    pub given_sockets: Option<Sockets>,
    /// What its CPUs can do.
    pub features: Features,
    /// How long paths of its kernel take, in picoseconds, without what the model adds to them: the
    /// table `[paths]`.
    pub paths: BTreeMap<String, Ps>,
    /// All numbers, in the order of the file.
    pub values: Vec<Value>,
    /// Other ways to read its sources, each as likely as that of `values`.
    pub readings: Vec<Reading>,
    /// The sources, by key.
    pub sources: BTreeMap<String, String>,
}

impl Machine {
    /// How long a path of the kernel takes, in picoseconds.
    ///
    /// # Errors
    ///
    /// If the machine file has no such path: then nobody has published or fitted it, and what needs
    /// it cannot be run on this machine.
    pub fn path(&self, name: &str) -> Result<Ps, Refused> {
        self.paths.get(name).copied().ok_or_else(|| {
            let key = &self.key;
            let others = Self::with_path(name);
            let have = match &others[..] {
                [] => "no machine has it: give a machine file this path".to_owned(),
                [one] => format!("{one} has it"),
                all => format!("those that have it: {}", all.join(", ")),
            };
            Refused(format!("machine `{key}` has no path `{name}`, which this needs; {have}"))
        })
    }

    /// The keys of the machines that have a path of the kernel.
    fn with_path(name: &str) -> Vec<String> {
        let all = Files::own().machines().unwrap_or_default();
        all.into_iter().filter(|one| one.paths.contains_key(name)).map(|one| one.key).collect()
    }

    /// As [`Self::path`], and nothing where the machine has no such path: for parts that are in
    /// another path of that machine.
    #[must_use]
    pub fn path_or_none(&self, name: &str) -> Ps {
        self.paths.get(name).copied().unwrap_or(0)
    }
}

/// Whether a published value may be used to set a constant, or must come out of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may be fitted to.
    Fit,
    /// It is never used to tune anything.
    Predict,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

/// One published value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where on the curve, in the result's `x_name`; none for a single value.
    pub x: Option<f64>,
    /// The value, in the result's unit.
    pub value: f64,
    /// Its role.
    pub role: Role,
}

/// A published value or curve of one strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the publication calls it.
    pub name: String,
    /// What the lab calls it ([`crate::strategy`]).
    pub strategy: String,
    /// What the workload is told besides: options by name.
    pub options: BTreeMap<String, f64>,
    /// The values.
    pub points: Vec<Point>,
}

/// One published comparison: variants of the same metric on the same machine and workload.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its name.
    pub id: String,
    /// The founding system it belongs to: 0 to 4; none for further material.
    pub seed: Option<u32>,
    /// The key of its source.
    pub source: String,
    /// What the file says the source is.
    pub citation: String,
    /// How sure the numbers are.
    pub confidence: Confidence,
    /// The key of its machine. Where the machine changes along the curve, one for each point.
    pub machines: Vec<String>,
    /// The workload ([`crate::workload`]).
    pub workload: String,
    /// What was measured, in words.
    pub metric: String,
    /// Which of the workload's metrics it is.
    pub measure: String,
    /// Whether the values are changes in percent over the baseline of the same row.
    pub relative: bool,
    /// The unit of the values.
    pub unit: String,
    /// By how much one unit of the workload's metric is multiplied to get the unit of the values.
    pub scale: f64,
    /// Which way is better.
    pub better: Better,
    /// What `x` is.
    pub x_name: Option<String>,
    /// Points at which, as the publication says, the variants do what the baseline does: values that
    /// differ there say nothing about which is better.
    pub controls: Vec<f64>,
    /// Whether the series differ in where they were run and not in what the kernel did: the
    /// recommended strategy is then run as each of them, and compared with that one.
    pub conditions: bool,
    /// What is to be known.
    pub notes: Option<String>,
    /// Why a prediction misses, by variant, from 0 for the baseline; empty where none does.
    pub causes: Vec<String>,
    /// What the others are compared with.
    pub baseline: Series,
    /// The others.
    pub variants: Vec<Series>,
    /// What the recommended strategy is called on this workload, and its options.
    pub recommended: Series,
}

impl Published {
    /// The baseline and then the variants.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        [&self.baseline].into_iter().chain(&self.variants)
    }

    /// The key of the machine of a point, by its place on the curve from 0.
    #[must_use]
    pub fn machine(&self, point: usize) -> &str {
        let machine = self.machines.get(point).or(self.machines.first());
        machine.map_or("", String::as_str)
    }
}
