//! `lookaside differential`: compares two engines on every small instruction program.

use core::{num::NonZero, time::Duration};
use std::{process::ExitCode, sync::Mutex, thread, time::Instant};

use clap::ValueEnum;
use lookaside_checking::check::Shard;
use lookaside_machine::differential::{Arch, Engines, MOST, Shapes};
use lookaside_terminal::say;

/// Arguments of `lookaside differential`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Compare programs of this architecture only.
    #[arg(long, value_enum)]
    arch: Option<Architecture>,
    /// The largest number of operations on each of the two CPUs: 1 to 5.
    #[arg(long, value_name = "N", default_value_t = 4)]
    ops: usize,
    /// Stop after this many seconds and report how far the comparison came. Default: no limit.
    #[arg(long, value_name = "SECONDS", value_parser = lookaside_terminal::seconds)]
    budget: Option<Duration>,
    /// Instead of all programs, compare this many random ones of each architecture, of all lengths.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    random: Option<u64>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compare only this part of the programs: part I of N, counted from 0.
    #[arg(long, value_name = "I/N", default_value = "0/1")]
    shard: Shard,
    /// Number of threads. Default: the number of processors.
    #[arg(long, value_name = "N", value_parser = lookaside_terminal::threads)]
    threads: Option<NonZero<usize>>,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Architecture {
    Arm,
    X86,
    Riscv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs; keys are stable.
    Json,
}

/// The number of differences that are shown in full.
const SHOWN: usize = 5;
/// The number of programs that a thread takes at a time.
const CHUNK: u128 = 256;

/// The results of one architecture, with or without FEAT_ETS2.
#[derive(Default)]
struct Found {
    /// Programs that were compared.
    shapes: u64,
    /// Programs that were also run on the litmus engine, and those of them with more outcomes out of order.
    litmus: u64,
    reordered: u64,
    /// Programs on which engines differ.
    different: u64,
    shown: Vec<String>,
    /// The lengths all of whose programs were compared.
    complete: Vec<[usize; 2]>,
    /// The budget ended before the comparison was complete.
    cut: bool,
}

/// Runs `lookaside differential`. The exit status is 1 if engines differ.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    if !(1..=MOST).contains(&arguments.ops) {
        return Err(format!("`--ops {}` is not 1 to {MOST}", arguments.ops).into());
    }
    let machines: Vec<_> = [
        (Architecture::Arm, Arch::Arm, false, "arm"),
        (Architecture::Arm, Arch::Arm, true, "arm, ETS2"),
        (Architecture::X86, Arch::X86, false, "x86"),
        (Architecture::Riscv, Arch::Riscv, false, "riscv"),
    ]
    .into_iter()
    .filter(|machine| arguments.arch.is_none_or(|arch| arch == machine.0))
    .collect();
    let mut results = Vec::new();
    for (at, &(_, arch, ets2, name)) in machines.iter().enumerate() {
        // The time that one part leaves of its share goes to the next ones.
        let began = Instant::now();
        let left = (machines.len() - at) as u32;
        let until =
            arguments.budget.map(|budget| began + budget / (machines.len() as u32).max(left));
        results.push((name, compare(arguments, arch, ets2, until)));
    }
    match arguments.format {
        Format::Table => say!("{}", text(&results))?,
        Format::Json => say!("{:#}\n", json(&results))?,
    }
    let agree = results.iter().all(|(_, found)| found.different == 0);
    Ok(ExitCode::from(u8::from(!agree)))
}

fn compare(arguments: &Arguments, arch: Arch, ets2: bool, until: Option<Instant>) -> Found {
    let mut found = Found::default();
    let threads = arguments.threads.or_else(|| thread::available_parallelism().ok());
    let threads = threads.map_or(1, NonZero::get);
    // The shortest first, the longer program on the first CPU: the other way round is the same.
    let all = (1..=2 * arguments.ops).flat_map(|all| {
        (all.div_ceil(2)..=all.min(arguments.ops)).rev().map(move |first| [first, all - first])
    });
    let lengths: Vec<[usize; 2]> = all.collect();
    for &length in &lengths {
        let shapes = Shapes::new(arch, length);
        let numbers = match arguments.random {
            Some(most) => u128::from(most.div_ceil(lengths.len() as u64)).min(shapes.count()),
            None => shapes.count(),
        };
        let next = Mutex::new(0);
        let part = Mutex::new(Found::default());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| work(arguments, &shapes, numbers, (ets2, until), &next, &part));
            }
        });
        let part = part.into_inner().unwrap_or_default();
        found.shapes += part.shapes;
        found.litmus += part.litmus;
        found.reordered += part.reordered;
        found.different += part.different;
        found.shown.extend(part.shown);
        found.shown.truncate(SHOWN);
        if part.cut {
            found.cut = true;
            break;
        }
        if numbers == shapes.count() && arguments.shard == Shard::WHOLE {
            found.complete.push(length);
        }
    }
    found
}

/// One thread: compares programs until none is left or the time is over.
fn work(
    arguments: &Arguments,
    shapes: &Shapes,
    numbers: u128,
    (ets2, until): (bool, Option<Instant>),
    next: &Mutex<u128>,
    part: &Mutex<Found>,
) {
    let mut engines = Engines::new(shapes.arch(), ets2);
    let mut own = Found::default();
    while !own.cut {
        let first = {
            let Ok(mut next) = next.lock() else { break };
            let first = *next;
            *next += CHUNK;
            first
        };
        if first >= numbers {
            break;
        }
        for number in first..numbers.min(first + CHUNK) {
            if until.is_some_and(|until| Instant::now() >= until) {
                own.cut = true;
                break;
            }
            if !mine(arguments.shard, number) {
                continue;
            }
            let number = if arguments.random.is_some() && numbers < shapes.count() {
                shapes.at_random(arguments.seed, number as u64)
            } else {
                number
            };
            let Some(shape) = shapes.get(number) else { continue };
            own.shapes += 1;
            match engines.compare(&shape) {
                Ok(None) => {}
                Ok(Some(difference)) => own.differs(difference.to_string()),
                Err(why) => own.differs(format!("{shape}\n  {why}\n")),
            }
        }
    }
    if let Ok(mut part) = part.lock() {
        part.shapes += own.shapes;
        part.litmus += engines.litmus;
        part.reordered += engines.reordered;
        part.different += own.different;
        part.shown.append(&mut own.shown);
        part.cut |= own.cut;
    }
}

/// Whether a program is one of a part.
fn mine(shard: Shard, number: u128) -> bool {
    number % u128::from(shard.of) == u128::from(shard.index)
}

impl Found {
    fn differs(&mut self, text: String) {
        self.different += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(text);
        }
    }

    fn lengths(&self) -> String {
        let words: Vec<_> = self.complete.iter().map(|[a, b]| format!("{a}+{b}")).collect();
        if words.is_empty() { "-".to_owned() } else { words.join(" ") }
    }
}

fn text(results: &[(&str, Found)]) -> String {
    let mut out = String::new();
    out.push_str("  machine    programs  different  on litmus  reordered  complete\n");
    for (name, found) in results {
        let Found { shapes, different, litmus, reordered, .. } = found;
        let complete = found.lengths();
        let more = if found.cut { ", then out of time" } else { "" };
        out.push_str(&format!(
            "  {name:9} {shapes:9}  {different:9}  {litmus:9}  {reordered:9}  {complete}{more}\n"
        ));
    }
    for difference in results.iter().flat_map(|(_, found)| &found.shown) {
        out.push('\n');
        out.push_str(difference);
    }
    out
}

fn json(results: &[(&str, Found)]) -> serde_json::Value {
    let of = |found: &Found| {
        serde_json::json!({
            "programs": found.shapes,
            "different": found.different,
            "litmus": found.litmus,
            "reordered": found.reordered,
            "complete": found.complete,
            "finished": !found.cut,
            "differences": found.shown,
        })
    };
    let machines: serde_json::Map<_, _> =
        results.iter().map(|(name, found)| ((*name).to_owned(), of(found))).collect();
    serde_json::json!({ "version": 1, "machines": machines })
}
