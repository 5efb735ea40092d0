//! How many instructions a path of the library takes, counted and not timed.
//!
//! The example `instructions` runs a path a given number of times under callgrind. What two runs
//! with different counts differ by, divided by the difference of the counts, is the path: a number
//! that is the same on a quiet and on a busy machine, and changes only with compiler and source.

use core::fmt::Write as _;
use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::{
    callgrind::{Bench, Profile},
    failure::{Failure, Result},
    process,
    workspace::Workspace,
};

/// What is to be counted, and how many instructions it may take.
struct Row {
    path: &'static str,
    what: &'static str,
    counts: Counts,
    goal: Option<u64>,
}

/// How often a path is taken in the two runs. As many digits in both, so that reading them takes
/// the same time too.
type Counts = (u64, u64);

/// For paths that can be taken for ever.
const MANY: Counts = (1000, 3000);
/// For paths that need a space that never ran: an ASID cache is filled with 62 tags.
const SPACES: Counts = (10, 50);
/// For releases: a CPU takes 16 tags back.
const RELEASES: Counts = (2, 8);

/// What a shootdown takes today, on all CPUs together and without the interrupts, with 1, 15 and 63 targets, so that it
/// does not grow. The goals are 500, 3000 and 14 000.
const SHOOTDOWN: [u64; 3] = [635, 3000, 11400];

/// What a switch may take to a space that has its tag.
const SWITCH_ARM: u64 = 40;
const SWITCH_RISCV: u64 = 50;
const SWITCH_X86: u64 = 60;
/// What a switch takes to the space that runs already, so that it does not grow; the goal is 10. Three instructions ask
/// whether the space is of this `Tlb`, without which safe code could lose a flush, and four find this CPU by its number.
const STAY: u64 = 20;

/// What a switch may take more if the allocator is chosen at run time (`Asids`): once it is asked which one.
const CHOICE: u64 = 3;
/// What a flush may take more: it is asked for the context id, for what this CPU runs, and for the flush itself.
const CHOICES: u64 = 21;

/// The same for a flush that needs nobody else, beside the operations of the hardware.
const FLUSH: u64 = 73;
/// What unmapping a page may take that no other CPU knows, operands included, so that it does not grow again; the goal is 110.
/// The space has storage for 64 CPUs, inline.
const UNMAP_ARM: u64 = 97;
const UNMAP_RISCV: u64 = 98;
/// The same where a lock is held and nothing is freed, so that no gather is counted.
const PROTECT_ARM: u64 = 71;
const PROTECT_RISCV: u64 = 74;
const PROTECT_X86: u64 = 98;
/// The same as for the others on x86-64, so that it does not grow again; the goal is 180.
const UNMAP_X86: u64 = 122;
/// The same where there is storage for 4096 CPUs; the goal is 500.
const UNMAP_4096: u64 = 460;

const fn row(path: &'static str, what: &'static str, counts: Counts, goal: Option<u64>) -> Row {
    Row { path, what, counts, goal }
}

/// The paths, which the example knows by these names.
const ROWS: [Row; 53] = [
    row("global-bare/switch", "switch, tag of this epoch; hardware left out", MANY, None),
    row("arm64/switch", "switch, tag of this epoch", MANY, Some(SWITCH_ARM)),
    row("riscv/switch", "switch, tag of this epoch", MANY, Some(SWITCH_RISCV)),
    row("x86-epochs/switch", "switch, tag of this epoch", MANY, Some(SWITCH_X86)),
    row("per-cpu-bare/switch", "switch, nothing missed; hardware left out", MANY, None),
    row("x86-recent/switch", "switch, recent and nothing missed", MANY, Some(SWITCH_X86)),
    row("x86-pairs/switch", "the same with separate user tables", MANY, Some(SWITCH_X86)),
    row(
        "x86-no-pcids/switch",
        "switch without PCIDs: the state is kept all the same",
        MANY,
        Some(80),
    ),
    row("arm64/stay", "switch to the present space", MANY, Some(STAY)),
    row("riscv/stay", "switch to the present space", MANY, Some(STAY)),
    row("x86-epochs/stay", "switch to the present space", MANY, Some(STAY)),
    row("x86-recent/stay", "switch to the present space", MANY, Some(STAY)),
    row(
        "global-bare/fresh",
        "switch with a tag from the ASID cache; hardware left out",
        SPACES,
        None,
    ),
    row("arm64/fresh", "switch with a tag from the ASID cache", SPACES, None),
    row("riscv/fresh", "switch with a tag from the ASID cache", SPACES, None),
    row("x86-epochs/fresh", "switch with a tag from the ASID cache", SPACES, None),
    row("global-bare/flush", "flush of a page, alone; hardware left out", MANY, Some(FLUSH)),
    row("per-cpu-bare/flush", "flush of a page, alone; hardware left out", MANY, Some(FLUSH)),
    row("arm64/unmap", "gather, flush and frames of a page, alone", MANY, Some(UNMAP_ARM)),
    row("riscv/unmap", "gather, flush and frames of a page, alone", MANY, Some(UNMAP_RISCV)),
    row("x86-recent/unmap", "gather, flush and frames of a page, alone", MANY, Some(UNMAP_X86)),
    row("arm64/protect", "flush of a page under a lock, alone", MANY, Some(PROTECT_ARM)),
    row("riscv/protect", "flush of a page under a lock, alone", MANY, Some(PROTECT_RISCV)),
    row("x86-recent/protect", "flush of a page under a lock, alone", MANY, Some(PROTECT_X86)),
    row("riscv/protect-beside-lazy", "the same beside a lazy CPU", MANY, Some(PROTECT_RISCV)),
    row("x86-recent/protect-beside-lazy", "the same beside a lazy CPU", MANY, Some(PROTECT_X86)),
    row("x86-recent/unmap-4096", "the same in a space of 4096 CPUs", MANY, Some(UNMAP_4096)),
    row("arm64/shootdown-1", "unmap with another CPU, both sides", MANY, Some(335)),
    row("riscv/shootdown-1", "unmap with another CPU, both sides", MANY, Some(750)),
    row("x86-recent/shootdown-1", "unmap with another CPU, both sides", MANY, Some(SHOOTDOWN[0])),
    row("x86-recent/shootdown-15", "unmap with 15 CPUs, all sides", MANY, Some(SHOOTDOWN[1])),
    row("x86-recent/shootdown-63", "unmap with 63 CPUs, all sides", MANY, Some(SHOOTDOWN[2])),
    row("global-bare/release", "release, 4 CPUs; hardware left out", RELEASES, None),
    row("arm64/release", "release, 4 CPUs", RELEASES, None),
    row("riscv/release", "release, 4 CPUs", RELEASES, None),
    row("x86-epochs/release", "release, 4 CPUs", RELEASES, None),
    // The same with the allocator that is chosen at run time.
    row("chosen-global-bare/switch", "global-bare/switch", MANY, None),
    row("chosen-arm64/switch", "arm64/switch", MANY, Some(SWITCH_ARM + CHOICE)),
    row("chosen-riscv/switch", "riscv/switch", MANY, Some(SWITCH_RISCV + CHOICE)),
    row("chosen-x86-epochs/switch", "x86-epochs/switch", MANY, Some(SWITCH_X86 + CHOICE)),
    row("chosen-x86-recent/switch", "x86-recent/switch", MANY, Some(SWITCH_X86 + CHOICE)),
    row("chosen-arm64/stay", "arm64/stay", MANY, Some(STAY + CHOICE)),
    row("chosen-riscv/stay", "riscv/stay", MANY, Some(STAY + CHOICE)),
    row("chosen-x86-epochs/stay", "x86-epochs/stay", MANY, Some(STAY + CHOICE)),
    row("chosen-x86-recent/stay", "x86-recent/stay", MANY, Some(STAY + CHOICE)),
    row("chosen-global-bare/flush", "global-bare/flush", MANY, Some(FLUSH + CHOICES)),
    row("chosen-arm64/unmap", "arm64/unmap", MANY, Some(UNMAP_ARM + CHOICES)),
    row("chosen-riscv/unmap", "riscv/unmap", MANY, Some(UNMAP_RISCV + CHOICES)),
    row("chosen-x86-recent/unmap", "x86-recent/unmap", MANY, Some(UNMAP_X86 + CHOICES)),
    row("chosen-arm64/protect", "arm64/protect", MANY, Some(PROTECT_ARM + CHOICES)),
    row("chosen-riscv/protect", "riscv/protect", MANY, Some(PROTECT_RISCV + CHOICES)),
    row("chosen-x86-recent/protect", "x86-recent/protect", MANY, Some(PROTECT_X86 + CHOICES)),
    row("chosen-x86-recent/shootdown-1", "x86-recent/shootdown-1", MANY, None),
];

/// The compiler that the goals were measured with. Another one may take a few instructions more or less.
const COMPILER: &str = "rustc 1.95.";

/// Whether this compiler's figures may be compared with the goals.
pub(crate) fn is_comparable() -> Result<bool> {
    let version = process::output(Command::new("rustc").arg("--version"))?;
    Ok(version.starts_with(COMPILER))
}

/// What the README shows: for each row the paths of Arm64, RISC-V and x86-64.
const SHOWN: [(&str, [&[&str]; 3]); 8] = [
    (
        "switch to a space with a valid tag (x86-64: per-CPU PCIDs, global PCIDs)",
        [&["arm64/switch"], &["riscv/switch"], &["x86-recent/switch", "x86-epochs/switch"]],
    ),
    (
        "switch to the space that runs already",
        [&["arm64/stay"], &["riscv/stay"], &["x86-recent/stay", "x86-epochs/stay"]],
    ),
    (
        "unmap one page of a space that no other CPU has run: gather, flush, frames back, with the instructions' operands",
        [&["arm64/unmap"], &["riscv/unmap"], &["x86-recent/unmap"]],
    ),
    ("the same with room for 4096 CPUs", [&[], &[], &["x86-recent/unmap-4096"]]),
    (
        "flush a page under a lock, where nothing becomes free",
        [&["arm64/protect"], &["riscv/protect"], &["x86-recent/protect"]],
    ),
    (
        "the flush in it, without the hardware's part",
        [&["global-bare/flush"], &["global-bare/flush"], &["per-cpu-bare/flush"]],
    ),
    (
        "unmap a page with one other CPU that runs the space, both sides, without the interrupt",
        [&["arm64/shootdown-1"], &["riscv/shootdown-1"], &["x86-recent/shootdown-1"]],
    ),
    (
        "the same with 15 and with 63 other CPUs",
        [&[], &[], &["x86-recent/shootdown-15", "x86-recent/shootdown-63"]],
    ),
];

/// The README's table, where these are the counts of the paths.
fn shown(counts: &BTreeMap<&str, Count>) -> String {
    let mut table = "| path | Arm64 | RISC-V | x86-64 |\n| --- | --- | --- | --- |\n".to_owned();
    for (what, architectures) in SHOWN {
        let cells = architectures.map(|paths| {
            let counts: Vec<_> = paths.iter().map(|path| counts[path].to_string()).collect();
            counts.join(", ")
        });
        let _ = writeln!(table, "| {what} | {} |", cells.join(" | "));
    }
    table
}

/// Compares the README with `table`, or writes it there.
fn compare_or_write(workspace: &Workspace, table: &str, write: bool) -> Result<()> {
    const MARK: &str = "<!-- cargo xtask instructions -->\n";
    let readme = workspace.read("README.md")?;
    let missing = || Failure::new(format!("README.md: there is no table below {MARK}"));
    let (before, rest) = readme.split_once(MARK).ok_or_else(missing)?;
    let (there, after) = rest.split_once("\n\n").ok_or_else(missing)?;
    if there == table.trim_end() {
        return Ok(());
    }
    if write {
        let readme = format!("{before}{MARK}{table}\n{after}");
        let path = workspace.root().join("README.md");
        return fs::write(path, readme)
            .map_err(|error| Failure::new(format!("cannot write README.md: {error}")));
    }
    Err(Failure::new(
        "the README shows other figures: `cargo xtask instructions --write` writes these there",
    ))
}

/// Counts all paths, prints a table and fails if one is above its goal, or if the README shows something else, unless it
/// is to `write` that; for `paths`, also prints where in the source the instructions are.
pub(crate) fn run(workspace: &Workspace, paths: &[String], write: bool) -> Result<()> {
    for path in paths {
        if !ROWS.iter().any(|row| row.path == path) {
            let known: Vec<_> = ROWS.iter().map(|row| row.path).collect();
            return Err(Failure::new(format!(
                "there is no path `{path}`; there are {}",
                known.join(", ")
            )));
        }
    }
    let bench = Bench::new(workspace, "measure")?;
    let chosen = |row: &&Row| paths.is_empty() || paths.iter().any(|path| path == row.path);
    let mut table = String::new();
    let mut above = Vec::new();
    let mut counts = BTreeMap::new();
    for row in ROWS.iter().filter(chosen) {
        let few = bench.profile(row.path, row.counts.0)?;
        let many = bench.profile(row.path, row.counts.1)?;
        let count = Count::between(row, &few, &many)?;
        counts.insert(row.path, count);
        let goal = row.goal.map_or_else(|| "-".to_owned(), |goal| format!("at most {goal}"));
        let (path, what) = (row.path, row.what);
        let _ = writeln!(table, "{path:<21} | {count:>12} | {goal:>10} | {what}");
        if let Some(goal) = row.goal
            && count.is_above(goal)
        {
            above.push(format!("{path} takes {count} and may take {goal}"));
        }
        if !paths.is_empty() {
            println!("{path}: instructions by line\n{}", by_line(row, &few, &many, workspace));
        }
    }
    println!("{:<21} | instructions | {:>10} |", "path", "goal");
    print!("{table}");
    if paths.is_empty() {
        compare_or_write(workspace, &shown(&counts), write)?;
    }
    if above.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "above the goal: {}.\n`cargo xtask instructions PATH` shows the lines they come from.",
        above.join("; ")
    )))
}

/// Instructions for each time that the path is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    instructions: u64,
    times: u64,
}

impl Count {
    fn between(row: &Row, few: &Profile, many: &Profile) -> Result<Self> {
        let times = row.counts.1 - row.counts.0;
        match many.total.checked_sub(few.total) {
            Some(instructions) if instructions >= times => Ok(Self { instructions, times }),
            _ => Err(Failure::new(format!(
                "{}: {} instructions for {} times and {} for {}: nothing was counted",
                row.path, few.total, row.counts.0, many.total, row.counts.1
            ))),
        }
    }

    const fn is_above(self, goal: u64) -> bool {
        self.instructions > goal * self.times
    }
}

impl core::fmt::Display for Count {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let text = if self.instructions.is_multiple_of(self.times) {
            (self.instructions / self.times).to_string()
        } else {
            // Paths that alternate between two lengths.
            format!("{:.1}", self.instructions as f64 / self.times as f64)
        };
        f.pad(&text)
    }
}

/// The lines of source with what each of them takes.
fn by_line(row: &Row, few: &Profile, many: &Profile, workspace: &Workspace) -> String {
    let times = (row.counts.1 - row.counts.0) as f64;
    let mut text = String::new();
    for (place, &cost) in &many.lines {
        let cost = cost - few.lines.get(place).copied().unwrap_or(0).min(cost);
        if cost == 0 {
            continue;
        }
        let (file, line) = place;
        let ours = Path::new(file).strip_prefix(workspace.root()).ok();
        let source = ours
            .and_then(|file| workspace.read(file.to_str()?).ok())
            .and_then(|text| Some(text.lines().nth((*line as usize).checked_sub(1)?)?.to_owned()))
            .unwrap_or_default();
        let file = match (ours, file.rsplit_once("/library/")) {
            (Some(ours), _) => ours.display().to_string(),
            (None, Some((_, standard))) => standard.to_owned(),
            (None, None) => file.clone(),
        };
        let place = format!("{file}:{line}");
        let _ = writeln!(text, "{:>6.1}  {place:<44} {}", cost as f64 / times, source.trim());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_difference_and_stands_against_its_goal() {
        let run = |total| Profile { total, ..Profile::default() };
        let row = row("p", "", (10, 50), None);
        let count = Count::between(&row, &run(700), &run(3100)).unwrap();
        assert_eq!((count.to_string().as_str(), count.is_above(60)), ("60", false));
        let count = Count::between(&row, &run(700), &run(3101)).unwrap();
        assert_eq!((count.to_string().as_str(), count.is_above(60)), ("60.0", true));
        assert!(Count::between(&row, &run(700), &run(700)).is_err(), "nothing was collected");
    }

    #[test]
    fn what_the_readme_shows_is_counted() {
        let count = Count { instructions: 7, times: 1 };
        let table = shown(&ROWS.iter().map(|row| (row.path, count)).collect());
        assert!(
            table.ends_with("| the same with 15 and with 63 other CPUs |  |  | 7, 7 |\n"),
            "{table}"
        );
    }

    #[test]
    fn each_path_is_named_once_and_counted_with_as_many_digits() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.path != row.path), "{}", row.path);
            let (few, many) = row.counts;
            assert!(few < many && few.ilog10() == many.ilog10(), "{}", row.path);
        }
    }
}
