//! Runs as traces in the format of casemate: a folder that `lookaside litmus` reads, and others do.

use std::{collections::BTreeMap, fs, io::Write, path::Path};

use lookaside_machine::{
    casemate::{self, Unwritten, Written},
    explore::Schedule,
};

use super::Verdict;
use crate::scenario::Explored;

/// What became of the traces of some runs.
#[derive(Default)]
struct Sum {
    traces: u64,
    /// How many came to what, and the first of them.
    verdicts: BTreeMap<String, (u64, String)>,
    unwritten: BTreeMap<Unwritten, u64>,
    /// Runs that break a rule of the machine.
    violated: u64,
    /// Traces that are refused although nothing that matters is missing from them.
    refused: u64,
}

/// Runs each of `schedules`, writes a trace for each space of each run into `folder`, and writes what the
/// oracle of that format says of them, and what has no form in it.
///
/// # Errors
///
/// If a schedule is not one of the scenario, the scenario is not one of Arm, or a file cannot be written.
pub fn export(
    explored: &mut Explored,
    schedules: &[Schedule],
    folder: &Path,
    out: &mut impl Write,
) -> Result<Verdict, Box<dyn core::error::Error>> {
    fs::create_dir_all(folder)?;
    let name = explored.name().replace('/', "-");
    let mut sum = Sum::default();
    for (number, schedule) in schedules.iter().enumerate() {
        let exported = explored.casemate(schedule)?;
        sum.violated += u64::from(exported.violation.is_some());
        for (space, written) in exported.traces.iter().enumerate() {
            let letter = char::from(b'a' + space as u8);
            let file = format!("{name}-{number}-{letter}.log");
            fs::write(folder.join(&file), &written.text)?;
            sum.add(file, written)?;
        }
    }
    if sum.traces == 0 {
        let name = explored.name();
        return Err(format!("no CPU of `{name}` runs a space on Arm: there is no trace").into());
    }
    sum.tell(schedules.len(), folder, out)?;
    let broken = sum.violated > 0 || sum.refused > 0;
    Ok(if broken { Verdict::Broken } else { Verdict::Clean })
}

impl Sum {
    fn add(&mut self, file: String, written: &Written) -> Result<(), String> {
        self.traces += 1;
        for (&what, &count) in &written.unwritten {
            *self.unwritten.entry(what).or_default() += count;
        }
        let verdict = casemate::check(&written.text);
        let verdict = verdict.map_err(|(line, what)| format!("{file}, line {line}: {what}"))?;
        let verdict = match verdict {
            casemate::Verdict::Accepted { .. } => "accepted".to_owned(),
            casemate::Verdict::Refused { why, .. } if written.is_faithful() => {
                self.refused += 1;
                format!("refused: {why}")
            }
            casemate::Verdict::Refused { why, .. } => {
                format!("refused, but not all of it could be written: {why}")
            }
        };
        self.verdicts.entry(verdict).or_insert((0, file)).0 += 1;
        Ok(())
    }

    fn tell(&self, runs: usize, folder: &Path, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{} traces of {runs} runs in {}", self.traces, folder.display())?;
        for (verdict, (count, first)) in &self.verdicts {
            writeln!(out, "  {count} {verdict} ({first})")?;
        }
        if self.violated > 0 {
            writeln!(out, "  {} runs break a rule of the machine", self.violated)?;
        }
        if !self.unwritten.is_empty() {
            writeln!(out, "not written, or not as they were:")?;
        }
        for (what, count) in &self.unwritten {
            let matters = if what.matters() { "" } else { " (not judged by the format)" };
            writeln!(out, "  {count} {}{matters}", what.words())?;
        }
        Ok(())
    }
}
