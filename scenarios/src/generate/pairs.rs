//! Pairs of operations on one space, in their order on one CPU, or on two CPUs in any order: the record
//! of those that programs have had.

use std::collections::BTreeSet;

use crate::scenario::{Program, act::Act};

/// An operation that programs are made of.
pub(super) struct Operation {
    /// The act without its spaces.
    pub(super) name: &'static str,
    /// How often it is drawn, beside the others.
    pub(super) weight: usize,
}

const fn operation(name: &'static str, weight: usize) -> Operation {
    Operation { name, weight }
}

/// All of them, without those that order CPUs ([`Act::Tell`], [`Act::Await`]).
pub(super) static OPERATIONS: &[Operation] = &[
    operation("Run", 60),
    operation("Lazy", 12),
    operation("Park", 7),
    operation("Firmware", 4),
    operation("LongFirmware", 3),
    operation("Restart", 4),
    operation("Up", 2),
    operation("Down", 2),
    operation("Release", 6),
    operation("End", 3),
    operation("Pin", 4),
    operation("Unpin", 3),
    operation("Read", 2),
    operation("Write", 10),
    operation("Retry", 4),
    operation("Look", 2),
    operation("Unmap", 18),
    operation("UnmapOther", 12),
    operation("UnmapOpenly", 4),
    operation("SwapOut", 5),
    operation("UnmapEarly", 8),
    operation("FreeTable", 14),
    operation("FreeAll", 5),
    operation("FlushAll", 5),
    operation("Protect", 6),
    operation("ProtectBoth", 6),
    operation("Allow", 4),
    operation("Fill", 2),
    operation("Unfill", 2),
    operation("Remap", 4),
    operation("Abandon", 6),
    operation("AbandonOther", 3),
    operation("FindGone", 4),
    operation("Zap", 10),
    operation("ZapInBatch", 4),
    operation("UnmapLarge", 5),
    operation("Move", 4),
    operation("UnmapMoved", 4),
    operation("Batch", 6),
    operation("Defer", 4),
    operation("HandOver", 3),
    operation("Carry", 3),
    operation("Complete", 0),
    operation("BeginUnmap", 8),
    operation("BeginFreeTable", 5),
    operation("BeginUnmapKernel", 3),
    operation("BeginUnmapKernelMany", 3),
    operation("Finish", 0),
    operation("DropBegun", 3),
    operation("UnmapKernel", 6),
    operation("UnmapKernelOpenly", 2),
    operation("UnmapKernelOther", 4),
    operation("UnmapKernelMany", 4),
    operation("FreeKernelTable", 3),
    operation("WriteKernel", 5),
];

fn name_needs_kernel(name: &str) -> bool {
    Act::make(name, &[0, 1]).is_some_and(Act::needs_kernel)
}

/// The number of an act's operation.
pub(super) fn number_of(act: Act) -> Option<usize> {
    let text = act.to_string();
    let name = text.split('(').next().unwrap_or_default();
    OPERATIONS.iter().position(|operation| operation.name == name)
}

/// Two operations on one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    /// On one CPU, in this order.
    pub(super) same: bool,
    pub(super) first: usize,
    pub(super) second: usize,
}

impl Pair {
    /// Two operations of one CPU, or of two.
    fn new(same: bool, first: usize, second: usize) -> Self {
        if same || first <= second {
            Self { same, first, second }
        } else {
            Self { same, first: second, second: first }
        }
    }

    /// Whether a program can have them.
    fn is_possible(self) -> bool {
        let [first, second] = [self.first, self.second].map(|number| OPERATIONS[number].name);
        let once = |name| first == name && second == name;
        let hands_over = |name| ["Defer", "HandOver", "Carry"].contains(&name);
        let both = |may: &dyn Fn(&'static str) -> bool| may(first) && may(second);
        if ["Complete", "UnmapLarge"].into_iter().any(once) || both(&hands_over) {
            return false;
        }
        // The kernel's table goes once, and nothing else below it.
        let kernel = |name| name != "WriteKernel" && name_needs_kernel(name);
        let table = |name| name == "FreeKernelTable";
        if both(&|name| table(name) || kernel(name) || name == "End")
            && (table(first) || table(second))
        {
            return false;
        }
        if !self.same {
            return true;
        }
        let handed = both(&|name| hands_over(name) || name == "Complete");
        !(first == "Down" || second == "Up" || once("Pin") || handed)
    }
}

/// How many of all pairs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// That programs have had.
    pub covered: usize,
    /// That programs can have.
    pub total: usize,
}

/// The pairs that programs have had.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Those that none has had.
    missing: BTreeSet<Pair>,
    total: usize,
}

impl Default for Pairs {
    fn default() -> Self {
        Self::new()
    }
}

impl Pairs {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let numbers = || 0..OPERATIONS.len();
        let all = [false, true].into_iter().flat_map(move |same| {
            numbers()
                .flat_map(move |first| numbers().map(move |second| Pair::new(same, first, second)))
        });
        let missing: BTreeSet<_> = all.filter(|pair| pair.is_possible()).collect();
        Self { total: missing.len(), missing }
    }

    /// Those of a program.
    pub(super) fn add(&mut self, program: &Program) {
        let Program::Spaces(program) = program else { return };
        let cpus: Vec<_> = program.cpus.iter().map(|acts| places(acts)).collect();
        for (cpu, places) in cpus.iter().enumerate() {
            for (at, first) in places.iter().enumerate() {
                let later = places[at + 1..].iter().map(|second| (true, second));
                let others = cpus[cpu + 1..].iter().flatten().map(|second| (false, second));
                for (same, second) in later.chain(others) {
                    if first.spaces & second.spaces != 0 {
                        self.missing.remove(&Pair::new(same, first.operation, second.operation));
                    }
                }
            }
        }
    }

    /// One of those that are missing, by its number.
    pub(super) fn missing(&self, choose: impl FnOnce(usize) -> usize) -> Option<Pair> {
        let count = self.missing.len();
        if count == 0 { None } else { self.missing.iter().nth(choose(count)).copied() }
    }

    /// How many there are.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally { covered: self.total - self.missing.len(), total: self.total }
    }

    /// Those that are missing, in words.
    pub fn missing_names(&self) -> impl Iterator<Item = String> {
        self.missing.iter().map(|pair| {
            let [first, second] = [pair.first, pair.second].map(|number| OPERATIONS[number].name);
            let how = if pair.same { "and then" } else { "beside" };
            format!("{first} {how} {second}")
        })
    }
}

/// An operation of a script, and the spaces that it is about.
struct Place {
    operation: usize,
    spaces: u64,
}

/// The operations of a CPU. One that names no space is about the one that the CPU runs or has left; those on the
/// kernel's pages are about all.
fn places(acts: &[Act]) -> Vec<Place> {
    let mut runs = 0;
    let mut places = Vec::new();
    for &act in acts {
        if let Act::Run(space) = act {
            runs = 1 << space;
        }
        let named = act.spaces().fold(0, |spaces, space| spaces | 1 << space);
        let spaces = match act {
            act if act.needs_kernel() => u64::MAX,
            Act::Up | Act::Complete | Act::Finish => u64::MAX,
            _ if named == 0 => runs,
            _ => named,
        };
        if let Some(operation) = number_of(act) {
            places.push(Place { operation, spaces });
        }
    }
    places
}
