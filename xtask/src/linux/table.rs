//! Counts of the same operations on both kernels, side by side.

use core::fmt::Write as _;

use super::Architecture;
use crate::failure::{Failure, Result};

/// One operation on one kernel, as it was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) work: String,
    pub(super) times: u64,
    interrupts: u64,
    instructions: u64,
    local: u64,
    broadcast: u64,
    /// Traps of other harts into their firmware: their IPIs, and what firmware asks of them.
    traps: u64,
}

/// What the programs say (`COUNT times interrupts name`) with what the plugin says, in the same order.
pub(super) fn counted(lines: &[String], plugin: &str) -> Result<Vec<Counted>> {
    let said: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("COUNT ")).collect();
    let seen: Vec<&str> = plugin.lines().collect();
    if said.is_empty() || said.len() != seen.len() {
        return Err(Failure::new(format!(
            "the programs counted {} operations and the plugin {}",
            said.len(),
            seen.len()
        )));
    }
    said.into_iter()
        .zip(seen)
        .map(|(said, seen)| {
            one(said, seen)
                .ok_or_else(|| Failure::new(format!("`{said}` and `{seen}` are no counts")))
        })
        .collect()
}

fn one(said: &str, seen: &str) -> Option<Counted> {
    let mut words = said.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let (times, interrupts) = (number()?, number()?);
    let field = |name: &str| {
        let mut words = seen.split(' ').skip_while(|word| *word != name).skip(1);
        words.next()?.parse().ok()
    };
    Some(Counted {
        work: words.next()?.to_owned(),
        times,
        interrupts,
        instructions: field("instructions")?,
        local: field("local")?,
        broadcast: field("broadcast")?,
        traps: field("traps")?,
    })
}

/// The table, one column for each kernel.
pub(super) fn table(architecture: Architecture, kernels: &[Vec<Counted>]) -> String {
    let (flushes, interrupts) = match architecture {
        Architecture::Arm64 => ("flushes here / everywhere", "IPIs"),
        Architecture::Riscv64 => ("fences here / on others", "traps of others"),
        Architecture::X86_64 => ("flushes here / on others", "IPIs"),
    };
    let mut text = String::from("| operation, times |");
    for kernel in ["stock", "on the library"].iter().take(kernels.len()) {
        let _ = write!(text, " {kernel}: instructions each | {flushes} | {interrupts} |");
    }
    text.push_str(if kernels.len() == 2 { " instructions, ratio |\n| --- |" } else { "\n| --- |" });
    text.push_str(&" ---: | ---: | ---: |".repeat(kernels.len()));
    text.push_str(if kernels.len() == 2 { " ---: |\n" } else { "\n" });
    for (at, first) in kernels.first().into_iter().flatten().enumerate() {
        let _ = write!(text, "| {}, {} |", first.work, first.times);
        for one in kernels.iter().filter_map(|kernel| kernel.get(at)) {
            let each = one.instructions / one.times.max(1);
            let (here, others) = (one.local, one.broadcast);
            let interrupts = match architecture {
                Architecture::Arm64 | Architecture::X86_64 => one.interrupts,
                Architecture::Riscv64 => one.traps,
            };
            let _ = write!(text, " {each} | {here} / {others} | {interrupts} |");
        }
        // A CPU that waits for another one's answer spins for as long as the host does not run that one.
        let spins = architecture != Architecture::Arm64 && first.work.contains("beside");
        match kernels {
            [_, ours] if !spins => {
                let ours = ours.get(at).map_or(0, |ours| ours.instructions);
                let ratio = ours as f64 / first.instructions.max(1) as f64;
                let _ = write!(text, " {ratio:.3} |");
            }
            [_, _] => text.push_str(" – |"),
            _ => {}
        }
        text.push('\n');
    }
    text
}

/// The longest times with interrupts off, in microseconds of the machine, by work: one for each time that it was done.
type Longest = Vec<(String, Vec<u64>)>;

/// What the programs say (`LONGEST microseconds name`), by work.
pub(super) fn longest(lines: &[String]) -> Result<Longest> {
    let mut all = Longest::new();
    for said in lines.iter().filter_map(|line| line.strip_prefix("LONGEST ")) {
        let (time, work) = said
            .split_once(' ')
            .and_then(|(time, work)| Some((time.parse().ok()?, work)))
            .ok_or_else(|| Failure::new(format!("`{said}` is no time")))?;
        match all.iter_mut().find(|(name, _)| name == work) {
            Some((_, times)) => times.push(time),
            None => all.push((work.to_owned(), vec![time])),
        }
    }
    if all.is_empty() {
        return Err(Failure::new("the programs measured nothing"));
    }
    Ok(all)
}

/// The table of them, one column for each kernel.
pub(super) fn longest_table(kernels: &[Longest]) -> String {
    let mut text = String::from("| operation | stock |");
    text.push_str(if kernels.len() == 2 { " on the library |\n" } else { "\n" });
    text.push_str(if kernels.len() == 2 { "| --- | ---: | ---: |\n" } else { "| --- | ---: |\n" });
    for (at, (work, _)) in kernels.first().into_iter().flatten().enumerate() {
        let _ = write!(text, "| {work} |");
        for (_, times) in kernels.iter().filter_map(|kernel| kernel.get(at)) {
            let times: Vec<_> = times.iter().map(u64::to_string).collect();
            let _ = write!(text, " {} |", times.join(", "));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    const SEEN: &str =
        "instructions 1000 local 0 broadcast 10 dsb 20 isb 30 root0 0 root1 0 traps 5\n";

    #[test]
    fn counts_of_programs_and_plugin_are_put_together() {
        let stock = counted(&lines("PASS boot\nCOUNT 10 3 fork, exit\n"), SEEN).unwrap();
        let seen =
            SEEN.replace("1000", "1020").replace("local 0 broadcast 10", "local 10 broadcast 0");
        let ours = counted(&lines("COUNT 10 0 fork, exit\n"), &seen).unwrap();
        let table = table(Architecture::Arm64, &[stock.clone(), ours]);
        let last = table.lines().last().unwrap();
        assert_eq!(last, "| fork, exit, 10 | 100 | 0 / 10 | 3 | 102 | 10 / 0 | 0 | 1.020 |");
        let columns = |line: &str| line.matches('|').count();
        assert!(table.lines().all(|line| columns(line) == columns(last)), "{table}");
        let riscv = super::table(Architecture::Riscv64, &[stock]);
        assert_eq!(riscv.lines().last().unwrap(), "| fork, exit, 10 | 100 | 0 / 10 | 5 |");
        let spins = counted(&lines("COUNT 10 3 beside a thread\n"), SEEN).unwrap();
        let riscv = super::table(Architecture::Riscv64, &[spins.clone(), spins]);
        assert!(riscv.ends_with(" 5 | – |\n"), "{riscv}");
    }

    #[test]
    fn times_of_the_same_work_stand_together() {
        let said = lines("LONGEST 12 fork, exit\nLONGEST 3 pipe\nLONGEST 14 fork, exit\n");
        let seen = longest(&said).unwrap();
        let table = longest_table(&[seen.clone(), seen]);
        assert!(table.contains("| fork, exit | 12, 14 | 12, 14 |\n| pipe | 3 | 3 |\n"), "{table}");
        assert!(longest(&lines("LONGEST x pipe\n")).is_err());
        assert!(longest(&lines("PASS boot\n")).is_err());
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        assert!(counted(&lines("PASS boot\n"), SEEN).is_err());
        assert!(counted(&lines("COUNT 1 2 a\nCOUNT 1 2 b\n"), SEEN).is_err());
        assert!(counted(&lines("COUNT x 2 a\n"), SEEN).is_err());
    }
}
