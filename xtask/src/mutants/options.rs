//! Which mutants are to be tried, and how.

use super::{hunt::Generated, record::Mutant, sites::Kind};
use crate::failure::{Failure, Result};

/// What is to be tried, and how it is shown.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// The mutants to try, or how their names begin; all if none is named.
    pub(super) names: Vec<String>,
    /// Only those that are generated.
    #[arg(long, conflicts_with = "written")]
    pub(super) generated: bool,
    /// Only those that were written.
    #[arg(long)]
    pub(super) written: bool,
    /// Of those that are generated, only these kinds.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) kind: Vec<Kind>,
    /// Print the mutants instead of trying them.
    #[arg(long)]
    pub(super) list: bool,
    /// Search everywhere for what is not found where it was before, and write down where it is.
    #[arg(long)]
    pub(super) learn: bool,
    /// Look only whether every scenario finds the mutant that it names in `mutants/teeth.toml`; with
    /// `--learn`, look for one where it does not.
    #[arg(long, conflicts_with_all = ["names", "generated", "written", "kind", "list"])]
    pub(super) teeth: bool,
    /// Write into `docs/mutants.md` how many mutants are found by what, as was learned last, and try none.
    #[arg(long, conflicts_with_all = ["names", "generated", "written", "kind", "list", "learn", "teeth"])]
    pub(super) figures: bool,
    /// Look for written mutants by generated programs alone, and say which are found: `lookaside check --generate`, with
    /// `--effort` steps for each. Nothing fails if some are not.
    #[arg(long, conflicts_with_all = ["generated", "kind", "list", "learn", "replay"])]
    pub(super) by_generation: bool,
    /// Steps for each mutant that is looked for by generation.
    #[arg(long, value_name = "N", requires = "by_generation", default_value_t = 100_000_000)]
    pub(super) effort: u64,
    /// What the programs are drawn from.
    #[arg(long, value_name = "N", requires = "by_generation", default_value_t = 1)]
    pub(super) seed: u32,
    /// Show a schedule again, as a line FOUND prints it, with the one mutant that is named.
    #[arg(long, value_name = "v1:...", conflicts_with_all = ["list", "learn"])]
    pub(super) replay: Option<String>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Only count them, for the gate.
    #[arg(skip)]
    pub(super) count: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A line for each mutant, as it is found.
    #[default]
    Text,
    /// One document at the end; lines go to standard error.
    Json,
}

impl Options {
    /// Whether nothing is left out.
    pub(super) fn is_whole(&self) -> bool {
        self.names.is_empty() && !self.generated && !self.written && self.kind.is_empty()
    }
}

/// Those that the options name.
pub(super) fn select<'s>(
    mut written: Vec<Mutant>,
    mut generated: Vec<Generated<'s>>,
    options: &Options,
) -> Result<(Vec<Mutant>, Vec<Generated<'s>>)> {
    if options.generated {
        written.clear();
    }
    if options.written {
        generated.clear();
    }
    if !options.kind.is_empty() {
        written.clear();
        generated.retain(|mutant| options.kind.contains(&mutant.kind()));
    }
    if !options.names.is_empty() {
        for name in &options.names {
            let known = written.iter().any(|mutant| mutant.name == *name)
                || generated.iter().any(|mutant| mutant.name.starts_with(name));
            if !known {
                return Err(Failure::new(format!(
                    "there is no mutant `{name}`: `cargo xtask mutants --list` shows all"
                )));
            }
        }
        written.retain(|mutant| options.names.contains(&mutant.name));
        generated.retain(|mutant| options.names.iter().any(|name| mutant.name.starts_with(name)));
    }
    Ok((written, generated))
}
