//! `lookaside diff`: what changed between two recordings, or for one between two settings.

use std::{collections::BTreeSet, fs, path::PathBuf, process::ExitCode};

use lookaside_replay::{
    difference::{Change, Difference, Per, Side},
    what_if::{RECORDED, Scenario, Setting},
};
use lookaside_simulation::reproduce::Book;
use lookaside_terminal::{
    Refused,
    grid::{Grid, number, wrapped},
};
use lookaside_traces::{KernelCounts, reconstruct::Script};
use serde_json::json;

use super::{
    output::Format,
    plausible::{self, Costs, Plausible, Shares},
    scene::{self, AS_RECORDED, Counted, Options, Read},
};

/// Arguments of `lookaside diff`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lookaside diff before.trace after.trace
  lookaside diff a1.trace,a2.trace,a3.trace b1.trace,b2.trace,b3.trace
  lookaside diff server.trace --against ceiling=33 --with ceiling=8
  lookaside diff server.trace --with thp=on,pin=0-3 --format json")]
pub(crate) struct Arguments {
    /// The trace of the first side; several of the same program with commas between them, whose spread is then shown.
    first: String,
    /// The trace of the second side, or several. Without it the first is replayed under two settings.
    second: Option<String>,
    /// Settings of the second side; `lookaside what-if --list` shows all.
    #[arg(long, value_name = "KNOB=VALUE,...", value_delimiter = ' ')]
    with: Vec<String>,
    /// Settings of the first side. Default: as recorded.
    #[arg(long, value_name = "KNOB=VALUE,...", value_delimiter = ' ')]
    against: Vec<String>,
    /// What numbers are per. Default: per recording, if both sides are recordings of a command, else per second.
    #[arg(long, value_enum)]
    per: Option<Each>,
    #[command(flatten)]
    plausible: Plausible,
    #[command(flatten)]
    options: Options,
}

/// What numbers are per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Each {
    /// A recording.
    Run,
    /// A second.
    Second,
}

/// Refuses a recording that is named twice on a side, by whatever path: its numbers would count as those of two runs, which do
/// not differ.
fn each_once(paths: &[PathBuf]) -> Result<(), Refused> {
    let mut known = BTreeSet::new();
    // What cannot be read is refused by its name.
    let place = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    match paths.iter().find(|path| !known.insert(place(path))) {
        None => Ok(()),
        Some(path) => Err(Refused(format!("`{}` is named twice: leave one out", path.display()))),
    }
}

/// Runs `lookaside diff`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { first, second, with, against, per, plausible, options } = arguments;
    options.output.check()?;
    plausible.check()?;
    if second.is_none() && with.is_empty() && against.is_empty() {
        let why = "there is nothing to compare with: name another trace, or settings by `--with` (and `--against`)";
        return Err(Refused(why.to_owned()).into());
    }
    let is_input = |text: &str| scene::paths(text).iter().any(|path| path.as_os_str() == "-");
    if is_input(first) && second.as_deref().is_some_and(is_input) {
        let why =
            "`-` is on both sides, and standard input is read once: name a file for one of them";
        return Err(Refused(why.to_owned()).into());
    }
    let knobs = [scene::knobs(&split(against))?, scene::knobs(&split(with))?];
    let open = |text: &str| -> super::Result<Vec<Read>> {
        let paths = scene::paths(text);
        if paths.is_empty() {
            return Err(Refused(format!("`{text}` names no trace")).into());
        }
        each_once(&paths)?;
        paths.iter().map(|path| Read::open(path)).collect()
    };
    let firsts = open(first)?;
    let seconds = second.as_deref().map(open).transpose()?;
    let mut book = Book::shipped()?;
    let reads = [&firsts, seconds.as_ref().unwrap_or(&firsts)];
    reads.iter().try_for_each(|reads| one_program(reads))?;
    let mut as_recorded: [Vec<Scenario>; 2] = Default::default();
    let mut sides: [Vec<Scenario>; 2] = Default::default();
    for (i, (reads, knobs)) in reads.into_iter().zip(&knobs).enumerate() {
        for read in reads {
            let scenario = options.scenario(read, &mut book)?;
            sides[i].push(scenario.with(knobs)?);
            as_recorded[i].push(scenario);
        }
    }
    one_machine(&sides)?;
    let mut replayed = options.sides(&[&sides[0], &sides[1]])?.into_iter();
    let (Some(mut before), Some(mut after)) = (replayed.next(), replayed.next()) else {
        return Err(Refused("nothing was replayed".into()).into());
    };
    let mut counted = Counted::ByModel;
    if second.is_some() && knobs.iter().all(Vec::is_empty) {
        counted = Counted::ByKernel;
        // What the kernel counted is better than what the model would.
        for (side, scenarios) in [(&mut before, &sides[0]), (&mut after, &sides[1])] {
            side.counts = recorded(scenarios, side.runs.len()).unwrap_or_default();
        }
    }
    let of_commands = reads.iter().copied().flatten().all(|read| read.trace.origin.root.is_some());
    let per = match per {
        Some(Each::Second) => Per::Second,
        None if !of_commands => Per::Second,
        Some(Each::Run) | None => Per::Run,
    };
    let difference = Difference::between(&before, &after, per);
    let names = match second {
        Some(second) => [
            scene::with_knobs(name(first, &firsts, reads[1]), &knobs[0]),
            scene::with_knobs(name(second, reads[1], &firsts), &knobs[1]),
        ],
        None => [scene::side_name(&knobs[0]), scene::side_name(&knobs[1])],
    };
    let [this, that] =
        [0, 1].map(|side| Setting { scenarios: &as_recorded[side], knobs: &knobs[side] });
    let answer = plausible.ask(|machines, done| {
        this.on_plausible_machines(&that, per, (&book.ranges, machines), done)
    })?;
    let origins = reads.into_iter().flatten().map(|read| &read.trace.origin);
    let costs = Costs::of(&as_recorded[0][0].machine, &book.ranges, options.is_chosen(), origins);
    let among = if difference.known.differs() {
        "How recordings of one side differ among themselves is not in this."
    } else {
        "The sides differ by no more than recordings of one side do, which is not in this."
    };
    let settings =
        names.clone().map(|name| if name == AS_RECORDED { RECORDED.to_owned() } else { name });
    let implausible = plausible::implausible_sides(answer.as_ref(), &difference, &settings);
    let more: Vec<String> = [among.to_owned()].into_iter().chain(implausible).collect();
    let how_sure = plausible::how_sure(answer.as_ref(), &settings, &more);
    let certainty = answer.as_ref().map(|answer| super::run::certainty(answer, &settings));
    let known = plausible::compared(answer.as_ref(), &difference);
    let turned = plausible::turned(answer.as_ref(), &known, &settings);
    let names = [names[0].as_str(), names[1].as_str()];
    let assumed: Vec<&String> = sides.iter().flatten().flat_map(|side| &side.assumed).collect();
    let machine = &sides[0][0].machine;
    let shares = Shares::of(answer.as_ref(), &difference);
    let lengths = second.is_some().then(|| [&before, &after].map(length));
    let words = sentence(&difference, (names, lengths), &shares);
    let words = [Some(words), turned.clone()].into_iter().flatten();
    let words = words.collect::<Vec<_>>().join(" ");
    let text = match options.output.format {
        Format::Json => {
            let mut about = json!({
                "answer": words,
                "machine": machine.key,
                "strategies": sides.iter().map(|side| &side[0].strategy).collect::<Vec<_>>(),
                "assumed": assumed,
                "certainty": certainty,
                "turned": turned,
            });
            costs.add_to(&mut about);
            format!("{:#}\n", scene::to_json(&difference, names, &about))
        }
        Format::Csv => scene::to_csv(&difference, answer.as_ref(), turned.is_some()),
        form => {
            let form = if form == Format::Markdown { Grid::to_markdown } else { Grid::to_text };
            let mut text = format!("{}\n{}", wrapped(&words, 0), costs.text());
            text += &scene::overfull([&difference]);
            text += &how_sure;
            text += &scene::tables(&difference, names, counted, form);
            let spread = format!(
                "`~` is no change beyond the spread of the replays, of which each side has {}.",
                before.runs.len(),
            );
            text += "\nwhat this rests on\n\n";
            for sentence in [&spread].into_iter().chain(assumed) {
                text += &format!("* {}", wrapped(sentence, 0));
            }
            text + &costs.gaps()
        }
    };
    options.output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Knobs are separated by blanks; by commas too, where a knob follows.
fn split(texts: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in texts.iter().flat_map(|text| text.split(',')) {
        match all.last_mut() {
            // `pin=0,2` has a comma of its own.
            Some(last) if !part.contains('=') => *last += &format!(",{part}"),
            _ => all.push(part.to_owned()),
        }
    }
    all
}

/// Figures of two machines cannot be compared.
fn one_machine(sides: &[Vec<Scenario>; 2]) -> Result<(), Refused> {
    let keys: BTreeSet<_> = sides.iter().flatten().map(|side| &side.machine.key).collect();
    if keys.len() > 1 {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        return Err(Refused(format!(
            "the traces are of different machines ({}): name one for all with --machine",
            keys.join(", ")
        )));
    }
    Ok(())
}

/// What the kernel counted, once for each replay; none if one of the traces has no counts.
fn recorded(scenarios: &[Scenario], runs: usize) -> Option<Vec<KernelCounts>> {
    let scripts: Vec<&Script> = scenarios.iter().map(|scenario| &scenario.script).collect();
    let each = runs / scripts.len().max(1);
    let of = |script: &&Script| script.recorded.clone().map(|counts| vec![counts; each]);
    scripts.iter().map(of).collect::<Option<Vec<_>>>().map(|all| all.concat())
}

/// The name of a side: of its files, with as much of the path of one as was typed where both sides have the same.
fn name(text: &str, reads: &[Read], other: &[Read]) -> String {
    match (reads, other) {
        ([one], [other]) if one.name != other.name => one.name.clone(),
        ([_], _) => text.to_owned(),
        (all, _) => all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(","),
    }
}

/// Several recordings of a side are of one program: the middle of others is of none.
fn one_program(reads: &[Read]) -> Result<(), Refused> {
    let mut programs = reads.iter().filter_map(|read| read.trace.origin.command.first());
    let first = programs.next();
    match programs.find(|&other| Some(other) != first).zip(first) {
        Some((other, first)) => Err(Refused(format!(
            "recordings of one side are of different programs (`{first}`, `{other}`): compare one with one"
        ))),
        None => Ok(()),
    }
}

/// How long the recordings of a side are, in seconds: the mean.
fn length(side: &Side) -> f64 {
    let all: f64 = side.runs.iter().map(|run| run.traced as f64 / 1e12).sum();
    all / side.runs.len().max(1) as f64
}

/// The change in a sentence; the lengths are of two recordings, whose shares are parts of them.
fn sentence(
    of: &Difference,
    ([before, after], lengths): ([&str; 2], Option<[f64; 2]>),
    shares: &Shares,
) -> String {
    let [was, is] = shares.named.map(scene::share);
    let beside = shares.beside(|[was, is]| [is, was]).unwrap_or_default();
    let [before, after] = match lengths {
        Some([first, second]) => [(before, first), (after, second)]
            .map(|(name, seconds)| format!("{name}, of {} s", number(seconds))),
        None => [before, after].map(str::to_owned),
    };
    let start = format!(
        "Switches, flushes, waits and interrupted CPUs take {is} of the time of all CPUs ({after}) instead of {was} \
         ({before})"
    );
    if !of.known.differs() && !of.known_share.differs() {
        return format!("{start}: no change beyond the spread.{beside}");
    }
    let more = |change: &Change| {
        let ms = number(change.more().abs() / 1e9);
        let word = if change.more() < 0.0 { "less" } else { "more" };
        let per = if of.per == Per::Run { "a recording" } else { "a second" };
        format!("{ms} ms {word} {per}")
    };
    let largest = scene::largest(of).map_or(String::new(), |change| {
        let [process, operation] =
            [0, 1].map(|place| change.what.get(place).map_or("", String::as_str));
        format!(" The largest change that way is `{operation}` of `{process}`: {}.", more(change))
    });
    let is_other_way = (of.known_share.more() < 0.0) != (of.known.more() < 0.0);
    let length = if is_other_way { ", as the recordings differ in length" } else { "" };
    if beside.is_empty() {
        return format!("{start}, {} in all{length}.{largest}", more(&of.known));
    }
    format!("{start}.{beside} With those, it is {} in all{length}.{largest}", more(&of.known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_may_have_commas_of_their_own() {
        let of =
            |texts: &[&str]| split(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["thp=on,pin=0,2-3,ceiling=8"]), ["thp=on", "pin=0,2-3", "ceiling=8"]);
        assert_eq!(of(&["thp=on", "batch=on"]), ["thp=on", "batch=on"]);
        assert_eq!(of(&[]), [""; 0]);
    }
}
