//! What is known of generated mutants: which cannot be found and why, and where the others were
//! found before.

use core::fmt;
use std::{collections::BTreeMap, fs};

use serde::Deserialize;

use super::record::DIRECTORY;
use crate::{
    failure::{Context, Failure, Result},
    workspace::Workspace,
};

/// Mutants that are not found, each with a reason. Written by hand.
pub(super) const EXCUSED: &str = "excused.toml";
/// Where mutants were found. Written by `cargo xtask mutants --learn`.
pub(super) const HINTS: &str = "hints.toml";

/// A mutant that nothing can find.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Excuse {
    /// The mutant.
    pub(super) mutant: String,
    /// The code at its site, so that an excuse does not outlive what it is about.
    pub(super) code: String,
    /// Why it makes no difference, or none that the machine shows.
    pub(super) why: String,
}

/// One reason for all mutants of a place that nothing finds.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Class {
    /// How the names of its mutants begin.
    pub(super) mutants: Vec<String>,
    /// As in [`Excuse`].
    pub(super) why: String,
}

/// All excuses.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Excuses {
    #[serde(default)]
    pub(super) excused: Vec<Excuse>,
    #[serde(default)]
    pub(super) class: Vec<Class>,
}

impl Excuses {
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let file = format!("{DIRECTORY}/{EXCUSED}");
        if !workspace.root().join(&file).is_file() {
            return Ok(Self::default());
        }
        let excuses: Self = toml::from_str(&workspace.read(&file)?).context(|| file.clone())?;
        let mut reasons = excuses.excused.iter().map(|excuse| (&excuse.mutant, &excuse.why));
        if let Some((mutant, _)) = reasons.find(|(_, why)| why.trim().is_empty()) {
            return Err(Failure::new(format!("{file}: `why` must say something for {mutant}")));
        }
        if excuses.class.iter().any(|class| class.why.trim().is_empty() || class.mutants.is_empty())
        {
            return Err(Failure::new(format!("{file}: a class needs `mutants` and `why`")));
        }
        Ok(excuses)
    }

    /// Whether every excuse is about code that is still there, given as name and code.
    pub(super) fn check(&self, mutants: &BTreeMap<String, &str>) -> Result<()> {
        for Excuse { mutant, code, .. } in &self.excused {
            let wrong = match mutants.get(mutant) {
                None => "there is no such mutant any more".to_owned(),
                Some(now) if now != code => format!("its code is now `{now}`"),
                Some(_) => continue,
            };
            return Err(Failure::new(format!(
                "{DIRECTORY}/{EXCUSED}: {mutant} (`{code}`): {wrong}. Look at it again."
            )));
        }
        for prefix in self.class.iter().flat_map(|class| &class.mutants) {
            if !mutants.keys().any(|name| name.starts_with(prefix)) {
                return Err(Failure::new(format!(
                    "{DIRECTORY}/{EXCUSED}: no mutant's name begins with {prefix}"
                )));
            }
        }
        Ok(())
    }

    /// The excuse of one mutant alone.
    pub(super) fn of(&self, mutant: &str) -> Option<&Excuse> {
        self.excused.iter().find(|excuse| excuse.mutant == mutant)
    }

    /// Why a mutant that was not found need not be.
    pub(super) fn covers(&self, mutant: &str) -> Option<&str> {
        let class = self
            .class
            .iter()
            .find(|class| class.mutants.iter().any(|prefix| mutant.starts_with(prefix.as_str())));
        class.map(|class| class.why.as_str()).or(self.of(mutant).map(|excuse| excuse.why.as_str()))
    }
}

/// What finds a mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Finder {
    /// Exploration of a scenario, with so many pre-emptions or as deep as it says itself.
    Scenario(String, Option<u32>),
    /// A test of the library, in the program of this name.
    Test(String, String),
}

impl fmt::Display for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(name, None) => f.write_str(name),
            Self::Scenario(name, Some(preemptions)) => write!(f, "{name}/{preemptions}"),
            Self::Test(program, name) => write!(f, "{program}:{name}"),
        }
    }
}

impl Finder {
    /// What [`Display`](fmt::Display) has written.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if let Some((program, name)) = text.split_once(':') {
            return Ok(Self::Test(program.to_owned(), name.to_owned()));
        }
        match text.split_once('/') {
            None => Ok(Self::Scenario(text.to_owned(), None)),
            Some((name, preemptions)) => {
                let preemptions = preemptions
                    .parse()
                    .context(|| format!("{DIRECTORY}/{HINTS}: pre-emptions in `{text}`"))?;
                Ok(Self::Scenario(name.to_owned(), Some(preemptions)))
            }
        }
    }
}

/// Where mutants were found before, by name.
pub(super) fn read_hints(workspace: &Workspace) -> Result<BTreeMap<String, Finder>> {
    let file = format!("{DIRECTORY}/{HINTS}");
    if !workspace.root().join(&file).is_file() {
        return Ok(BTreeMap::new());
    }
    let hints: BTreeMap<String, String> =
        toml::from_str(&workspace.read(&file)?).context(|| file.clone())?;
    hints.into_iter().map(|(mutant, finder)| Ok((mutant, Finder::parse(&finder)?))).collect()
}

pub(super) fn write_hints(workspace: &Workspace, hints: &BTreeMap<String, Finder>) -> Result<()> {
    let mut text = String::from(
        "# Where generated mutants were found, by `cargo xtask mutants --learn`. It saves time and\n\
         # proves nothing: a hint that is wrong or missing costs a search.\n\n",
    );
    for (mutant, finder) in hints {
        text += &format!("\"{mutant}\" = \"{finder}\"\n");
    }
    let path = workspace.root().join(DIRECTORY).join(HINTS);
    fs::write(&path, text).context(|| format!("writing {}", path.display()))
}
