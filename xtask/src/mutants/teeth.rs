//! The ledger of teeth: for every scenario a mutant that it finds.
//!
//! A scenario that finds no bug, whichever is put in, says nothing when it finds none in the source as it
//! is. So each names one in `mutants/teeth.toml`, written or generated, and a run looks whether it still
//! finds that: a line is no use if the scenario does less than it did, or the mutant is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Instant,
};

use super::{
    build::Build,
    explore::Verdict,
    hunt::Generated,
    instrument::Instrumented,
    ledger::Finder,
    outcome::Summary,
    record::{DIRECTORY, Mutant},
    search::{WORKERS, each},
};
use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// The ledger.
pub(super) const TEETH: &str = "teeth.toml";
/// Seconds in which a scenario must find what it is said to find: ten times what the slowest takes, so that a loaded
/// machine is no failure.
const KNOWN: f64 = 600.0;
/// Pre-emptions, and seconds for each mutant, when a scenario tries one after the other.
const TRY: (Option<u32>, f64) = (Some(2), 2.0);
/// Seconds in which it tries mutants, and in which it is looked at to see which it reaches.
const TRIES: f64 = 60.0;
const LOOK: f64 = 3.0;

/// A mutant that a scenario finds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tooth {
    mutant: String,
    /// With how many pre-emptions; as deep as the scenario says itself if there is no number.
    preemptions: Option<u32>,
}

/// What each scenario finds.
type Teeth = BTreeMap<String, Tooth>;

/// What is known of the mutants, to find one for a scenario.
pub(super) struct Known<'k> {
    pub(super) build: &'k Build,
    pub(super) instrumented: &'k Instrumented,
    pub(super) written: &'k [Mutant],
    pub(super) generated: &'k [Generated<'k>],
    /// Where generated ones were found.
    pub(super) hints: &'k BTreeMap<String, Finder>,
}

/// Looks whether every scenario still finds its mutant, except where `proved` says that it was seen just
/// now. With `learn`, looks for another one where it does not, and writes the ledger anew.
pub(super) fn check(
    workspace: &Workspace,
    known: &Known<'_>,
    proved: &BTreeSet<(String, Finder)>,
    learn: bool,
    summary: &mut Summary,
) -> Result<()> {
    let scenarios = known.build.scenarios()?;
    let ledger = read(workspace)?;
    if !learn {
        let unknown = ledger.keys().find(|name| !scenarios.contains(name));
        if let Some(name) = unknown {
            return Err(Failure::new(format!("{DIRECTORY}/{TEETH}: there is no scenario {name}")));
        }
    }
    summary.say(&format!("mutants: each of {} scenarios must find one", scenarios.len()));
    let say = summary.sayer();
    let bitten = each(&[known; WORKERS], scenarios.into(), |known, scenario| {
        let mut tooth = ledger.get(&scenario).cloned();
        if let Some(named) = &tooth
            && !proved.contains(&(named.mutant.clone(), named.finder(&scenario)))
            && !known.finds(&scenario, named, KNOWN)?
        {
            say(&format!("NO TOOTH {scenario} does not find {}", named.mutant));
            tooth = None;
        }
        if tooth.is_none() && learn {
            tooth = known.search(&scenario)?;
            match &tooth {
                Some(tooth) => say(&format!("{scenario} finds {}", tooth.mutant)),
                None => say(&format!("NO TOOTH {scenario} finds nothing")),
            }
        } else if !ledger.contains_key(&scenario) {
            say(&format!("NO TOOTH {scenario} names no mutant in {DIRECTORY}/{TEETH}"));
        }
        Ok((scenario, tooth))
    })?;
    let blunt = bitten.iter().filter(|(_, tooth)| tooth.is_none());
    let blunt: BTreeSet<String> = blunt.map(|(scenario, _)| scenario.clone()).collect();
    summary.blunt = blunt.into_iter().collect();
    summary.sharp = bitten.len() - summary.blunt.len();
    if learn {
        let teeth = bitten.into_iter().filter_map(|(scenario, tooth)| Some((scenario, tooth?)));
        write(workspace, &teeth.collect())?;
    }
    Ok(())
}

impl Tooth {
    fn finder(&self, scenario: &str) -> Finder {
        Finder::Scenario(scenario.to_owned(), self.preemptions)
    }
}

impl Known<'_> {
    /// The number of a mutant; none if there is none of this name, or it has a build of its own.
    fn number(&self, mutant: &str) -> Option<u32> {
        let generated = || self.generated.iter().find(|generated| generated.name == mutant);
        self.instrumented.written.get(mutant).copied().or_else(|| Some(generated()?.number))
    }

    fn finds(&self, scenario: &str, tooth: &Tooth, budget: f64) -> Result<bool> {
        let Some(number) = self.number(&tooth.mutant) else { return Ok(false) };
        let exploration = self.build.explore(number, (scenario, tooth.preemptions), budget)?;
        Ok(matches!(exploration.verdict(), Verdict::Found { .. }))
    }

    /// A mutant that the scenario finds.
    fn search(&self, scenario: &str) -> Result<Option<Tooth>> {
        let started = Instant::now();
        for tooth in self.said(scenario) {
            if self.finds(scenario, &tooth, KNOWN)? {
                return Ok(Some(tooth));
            }
        }
        for mutant in self.likely(scenario)? {
            if started.elapsed().as_secs_f64() > TRIES {
                break;
            }
            let tooth = Tooth { mutant, preemptions: TRY.0 };
            if self.finds(scenario, &tooth, TRY.1)? {
                return Ok(Some(tooth));
            }
        }
        Ok(None)
    }

    /// The mutants that are said to be found by this scenario: those first that say so of few others.
    fn said(&self, scenario: &str) -> Vec<Tooth> {
        let mut written: Vec<&Mutant> = self
            .written
            .iter()
            .filter(|mutant| mutant.scenario.iter().any(|name| name == scenario))
            .collect();
        written.sort_by_key(|mutant| mutant.scenario.len());
        let written = written
            .into_iter()
            .map(|mutant| Tooth { mutant: mutant.name.clone(), preemptions: None });
        let hints = self.hints.iter().filter_map(|(mutant, finder)| match finder {
            Finder::Scenario(name, preemptions) if name == scenario => {
                Some(Tooth { mutant: mutant.clone(), preemptions: *preemptions })
            }
            _ => None,
        });
        written.chain(hints).collect()
    }

    /// The mutants that the scenario reaches and others find, the written ones first, and of both those
    /// first that are found by scenarios of a similar name.
    fn likely(&self, scenario: &str) -> Result<Vec<String>> {
        let (_, reached) = self.build.reached(scenario, LOOK)?;
        let alike = |names: &[String]| {
            let alike = |name: &String| {
                name.bytes().zip(scenario.bytes()).take_while(|(one, other)| one == other).count()
            };
            core::cmp::Reverse(names.iter().map(alike).max().unwrap_or(0))
        };
        let mut likely = Vec::new();
        for mutant in self.written {
            let number = self.instrumented.written.get(&mutant.name);
            if number.is_some_and(|number| reached.contains(number)) {
                likely.push((false, alike(&mutant.scenario), &mutant.name));
            }
        }
        for mutant in self.generated {
            if let Some(Finder::Scenario(by, _)) = self.hints.get(&mutant.name)
                && reached.contains(&mutant.site.first)
            {
                likely.push((true, alike(core::slice::from_ref(by)), &mutant.name));
            }
        }
        likely.sort();
        Ok(likely.into_iter().map(|(.., name)| name.clone()).collect())
    }
}

/// The ledger, as it stands.
fn read(workspace: &Workspace) -> Result<Teeth> {
    let file = format!("{DIRECTORY}/{TEETH}");
    if !workspace.root().join(&file).is_file() {
        return Ok(Teeth::new());
    }
    let lines: BTreeMap<String, String> =
        toml::from_str(&workspace.read(&file)?).context(|| file.clone())?;
    let mut teeth = Teeth::new();
    for (by, mutant) in lines {
        let Finder::Scenario(scenario, preemptions) = Finder::parse(&by)? else {
            return Err(Failure::new(format!("{file}: `{by}` is no scenario")));
        };
        if teeth.insert(scenario, Tooth { mutant, preemptions }).is_some() {
            return Err(Failure::new(format!("{file}: `{by}` is there twice")));
        }
    }
    Ok(teeth)
}

fn write(workspace: &Workspace, teeth: &Teeth) -> Result<()> {
    let mut text = String::from(
        "# For every scenario a mutant that it finds: with so many pre-emptions, or as deep as it says itself.\n\
         # Written by `cargo xtask mutants --teeth --learn`; every run looks whether it is still so.\n\n",
    );
    for (scenario, tooth) in teeth {
        text += &format!("\"{}\" = \"{}\"\n", tooth.finder(scenario), tooth.mutant);
    }
    let path = workspace.root().join(DIRECTORY).join(TEETH);
    fs::write(&path, text).context(|| format!("writing {}", path.display()))
}
