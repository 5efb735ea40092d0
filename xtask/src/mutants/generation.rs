//! What generated programs find by themselves: each written mutant is looked for by `lookaside check --generate`, and
//! by nothing that was written for it.

use std::{collections::BTreeMap, time::Instant};

use serde_json::json;

use super::{
    build::Build,
    explore::Verdict,
    instrument::Instrumented,
    record::Mutant,
    search::{WORKERS, each},
};
use crate::failure::{Failure, Result};

/// What generation may take for one mutant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Steps of the explorer.
    pub(super) steps: u64,
    /// What the programs are drawn from.
    pub(super) seed: u32,
}

/// A step of the explorer takes so many seconds at the very most, on a machine that has other things to do.
const SLOWEST: f64 = 4e-6;

/// How a search ended.
struct Search {
    name: String,
    /// The line that replays what was found.
    found: Option<String>,
    /// What was wrong, where the explorer did not do its work.
    broken: Option<String>,
    seconds: f64,
}

/// Looks for all of them, says what was found and what was not, and prints the sum.
pub(super) fn run(
    build: &Build,
    instrumented: &Instrumented,
    written: &[Mutant],
    effort: Effort,
    json: bool,
) -> Result<()> {
    let started = Instant::now();
    let say = |line: &str| if json { eprintln!("{line}") } else { println!("{line}") };
    let clean = search(build, "none", 0, effort)?;
    if let Some(why) = clean.found.or(clean.broken) {
        return Err(Failure::new(format!("the source as it is is not clean: {why}")));
    }
    let (together, alone): (Vec<&Mutant>, Vec<&Mutant>) =
        written.iter().partition(|mutant| instrumented.written.contains_key(&mutant.name));
    for mutant in &alone {
        say(&format!("LEFT OUT {}: it has a build of its own", mutant.name));
    }
    let (beyond, together): (Vec<&Mutant>, Vec<&Mutant>) =
        together.into_iter().partition(|mutant| mutant.beyond.is_some());
    let reason = |mutant: &Mutant| mutant.beyond.clone().unwrap_or_default();
    for mutant in &beyond {
        say(&format!("BEYOND {}: {}", mutant.name, reason(mutant)));
    }
    let searches = each(&[build; WORKERS], together.into(), |build, mutant| {
        let search = search(build, &mutant.name, instrumented.written[&mutant.name], effort)?;
        let seconds = search.seconds;
        say(&match (&search.found, &search.broken) {
            (Some(schedule), _) => format!("FOUND {} ({seconds:.1} s, {schedule})", search.name),
            (None, Some(why)) => format!("BROKEN {}: {why}", search.name),
            (None, None) => format!("MISSED {} ({seconds:.1} s)", search.name),
        });
        Ok(search)
    })?;
    let missed: Vec<_> =
        searches.iter().filter(|s| s.found.is_none()).map(|s| s.name.as_str()).collect();
    let found = searches.len() - missed.len();
    let share = found as f64 * 100.0 / searches.len().max(1) as f64;
    let seconds = started.elapsed().as_secs_f64();
    if json {
        let document = json!({
            "total": searches.len(), "found": found, "missed": missed, "seconds": seconds,
            "steps": effort.steps,
            "beyond": beyond.iter().map(|mutant| (mutant.name.clone(), reason(mutant))).collect::<BTreeMap<_, _>>(),
        });
        println!("{document:#}");
    } else {
        println!(
            "\ngeneration found {found} of {} written mutants ({share:.1} %), each within {} million steps, and \
             looked for none of the {} that are beyond programs; in all {seconds:.1} s",
            searches.len(),
            effort.steps / 1_000_000,
            beyond.len()
        );
    }
    Ok(())
}

fn search(build: &Build, name: &str, number: u32, effort: Effort) -> Result<Search> {
    let exploration = build.generate(number, effort, effort.steps as f64 * SLOWEST)?;
    let (found, broken) = match exploration.verdict() {
        Verdict::Found { schedule, .. } => (Some(schedule), None),
        Verdict::Clean => (None, None),
        Verdict::Broken(why) => (None, Some(why)),
    };
    Ok(Search { name: name.to_owned(), found, broken, seconds: exploration.seconds })
}
