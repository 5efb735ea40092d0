//! `lookaside advise`: which mechanism of flushing a machine should use for a recorded program.

mod page;

use std::{path::PathBuf, process::ExitCode};

use lookaside_replay::{
    advice::{Advising, MACHINES},
    assume::mechanisms,
    inputs::Choice,
};
use lookaside_simulation::{reproduce::Book, strategy};
use lookaside_terminal::{Refused, grid::Grid, names};

use self::page::Page;
use super::{
    output::{Format, Output},
    progress,
    scene::Read,
};

/// Arguments of `lookaside advise`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside advise server.trace --machine genoa --cpus 96
  lookaside advise server.trace --machine here.toml       as `lookaside calibrate` wrote it
  lookaside advise server.trace --machine neoverse_v2 --format json")]
pub(crate) struct Arguments {
    /// The trace, in any format that `lookaside import` reads.
    file: PathBuf,
    /// The machine, as `lookaside list machines` shows it, or the path of a machine file. Default: a machine of the
    /// trace's architecture.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Number of CPUs. Default: as many as were recorded.
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    /// The strategies to choose from, two at least. Default: Linux's own for the machine, its interrupts alone, and the
    /// library's.
    #[arg(long, value_name = "STRATEGY,...", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Ask this many plausible machines, which differ in what is not known exactly, 4 to 10000. Default: as many as the budget
    /// allows.
    #[arg(long, value_name = "N")]
    plausible: Option<usize>,
    /// About how many seconds two CPUs may take for the plausible machines. Of a trace that takes longer, pieces are replayed.
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = budget)]
    budget: u64,
    /// Seed of the pseudo-random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// A number of seconds, of which there is one at least.
fn budget(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<u64>().ok().filter(|&seconds| seconds > 0);
    seconds.ok_or_else(|| "a budget is a whole number of seconds, 1 at least".to_owned())
}

impl Arguments {
    /// Refuses what is wrong whatever the trace is.
    fn check(&self) -> Result<(), Refused> {
        self.output.check()?;
        let [least, most] = [MACHINES[0], 10_000];
        if let Some(count) = self.plausible.filter(|count| !(least..=most).contains(count)) {
            return Err(Refused(format!(
                "{count} plausible machines say nothing of how certain an answer is: {least} to {most} do; `lookaside \
                 replay` shows the machine file's own numbers"
            )));
        }
        let names: Vec<&str> = self.strategy.iter().map(String::as_str).collect();
        match (names::repeated(&names), &names[..]) {
            (Some(name), _) => {
                Err(Refused(format!("strategy `{name}` is named twice: leave one out")))
            }
            (None, [one]) => {
                let why = "there is nothing to choose from one strategy: name two, or none";
                Err(Refused(format!("`{one}`: {why}")))
            }
            _ => Ok(()),
        }
    }
}

/// Runs `lookaside advise`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    arguments.check()?;
    let mut book = Book::shipped()?;
    let named = arguments.machine.as_deref().map(|name| book.admit(name)).transpose()?;
    if let Some(key) = &named {
        let machine = book.machine(key)?;
        arguments.strategy.iter().try_for_each(|name| strategy::find(name, machine).map(drop))?;
    }
    let read = Read::open(&arguments.file)?;
    let choice = |strategies| Choice {
        machine: named.as_deref(),
        cpus: arguments.cpus,
        strategies,
        ..Choice::default()
    };
    let mut inputs = choice(&arguments.strategy).inputs(&read.trace, &mut book)?;
    let machine = book.machine(&inputs.machine)?;
    if arguments.strategy.is_empty() {
        inputs.strategies = mechanisms(machine).iter().map(|&name| name.to_owned()).collect();
    }
    if let [only] = &inputs.strategies[..] {
        return Err(Refused(format!(
            "`{only}` is the only strategy that is modelled for `{}`, which is {}: there is nothing to choose from; `lookaside replay` \
             says what it costs there, and how sure that is",
            machine.key,
            machine.isa.name()
        ))
        .into());
    }
    let Arguments { plausible: machines, budget, seed, .. } = *arguments;
    let asked = Advising { inputs: &inputs, machine, ranges: &book.ranges, machines, budget, seed };
    // These take many times as long as the others, so that both have a count of their own.
    let template = "{pos} of {len} replays for refills, {elapsed}, {eta} left";
    let bar = progress::styled(None, template, "replays for refills");
    let refills = asked.refills(&|all| bar.of(all));
    bar.finish_and_clear();
    let refills = refills?;
    let bar = progress::styled(None, "{pos} of {len} replays, {elapsed}, {eta} left", "replays");
    let advice = asked.advise(refills, &|all| bar.of(all));
    bar.finish_and_clear();
    let page = Page { arguments, read: &read, machine, inputs: &inputs, advice: advice? };
    let text = match arguments.output.format {
        Format::Json => page.to_json(),
        Format::Csv => page.to_csv(),
        Format::Markdown => page.to_text(Grid::to_markdown),
        Format::Table => page.to_text(Grid::to_text),
    };
    arguments.output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}
