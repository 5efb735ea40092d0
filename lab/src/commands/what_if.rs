//! `lookaside what-if`: what a recorded program would spend under other settings.

mod each;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use lookaside_replay::{
    difference::{Difference, Per},
    what_if::{KNOBS, Knob, RECORDED, Scenario, Setting},
};
use lookaside_simulation::{data::Ranges, reproduce::Book, sensitivity::Answer};
use lookaside_terminal::{
    Refused, counted,
    grid::{Grid, number, wrapped},
};
use serde_json::json;

use super::{
    output::Format,
    plausible::{self, Costs, Plausible, Shares},
    scene::{self, Counted, Options, Read},
};

/// Arguments of `lookaside what-if`.
#[derive(clap::Args)]
#[command(after_help = "Knobs:
  ceiling=N        flush up to N pages one by one (tlb_single_page_flush_ceiling; default 33)
  thp=on|off       huge pages for anonymous memory
  pin=CPUS         run the program on these CPUs only, as 0-1,4
  batch=on|off     calls that follow each other as one
  pti=on|off       page tables of the kernel's own
  pcid=on|off      tags (nopcid)
  cpus=N           as many CPUs
  strategy=NAME    another strategy of TLB coherence

Examples:
  lookaside what-if server.trace                      each knob by itself, the best first, and the library
  lookaside what-if server.trace thp=on
  lookaside what-if server.trace ceiling=8 pin=0-1    both together
  lookaside what-if server.trace --machine zen4 thp=on --format json")]
pub(crate) struct Arguments {
    /// The trace, in any format that `lookaside import` reads.
    #[arg(required_unless_present = "list")]
    file: Option<PathBuf>,
    /// Settings to apply together. Without any, each that the machine has is tried by itself.
    #[arg(value_name = "KNOB=VALUE")]
    knobs: Vec<String>,
    /// List the knobs, and what each is in Linux.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    plausible: Plausible,
    #[command(flatten)]
    options: Options,
}

/// Runs `lookaside what-if`.
pub(crate) fn run(arguments: &Arguments) -> super::Result {
    let Arguments { file, knobs, list, plausible, options } = arguments;
    options.output.check()?;
    plausible.check()?;
    let Some(file) = file.as_ref().filter(|_| !list) else {
        options.output.write(&knob_list(options.output.format))?;
        return Ok(ExitCode::SUCCESS);
    };
    check_trace(file)?;
    let knobs = scene::knobs(knobs)?;
    let read = Read::open(file)?;
    let mut book = Book::shipped()?;
    let now = options.scenario(&read, &mut book)?;
    let ranges = &book.ranges;
    let costs = Costs::of(&now.machine, ranges, options.is_chosen(), [&read.trace.origin]);
    let case = Case { read: &read, now: &now, options, plausible, ranges, costs };
    match knobs.is_empty() {
        true => each::each(&case),
        false => together(&case, &knobs),
    }
}

/// The knobs, and what each is in Linux.
fn knob_list(format: Format) -> String {
    let mut grid = Grid::new(["knob", "in Linux"], &[0, 1]);
    KNOBS.iter().for_each(|(form, about)| grid.row([*form, *about]));
    match format {
        Format::Json => {
            let rows = KNOBS.iter().map(|(form, about)| json!({ "knob": form, "linux": about }));
            let document = json!({ "version": 1, "knobs": rows.collect::<Vec<_>>() });
            format!("{document:#}\n")
        }
        Format::Csv => grid.to_csv(),
        Format::Markdown => grid.to_markdown(),
        Format::Table => grid.to_text(),
    }
}

/// Refuses a knob in the place of the trace.
fn check_trace(file: &Path) -> Result<(), Refused> {
    let text = file.to_string_lossy();
    let name = text.split_once('=').map(|(name, _)| name);
    let is_knob = KNOBS.iter().any(|(form, _)| form.split('=').next() == name && name.is_some());
    if !is_knob || file.exists() {
        return Ok(());
    }
    let why = "is a knob, and a trace is named first";
    Err(Refused(format!("`{text}` {why}: lookaside what-if TRACE {text}")))
}

/// A recording and how it is replayed, but for the knobs.
struct Case<'a> {
    read: &'a Read,
    now: &'a Scenario,
    options: &'a Options,
    plausible: &'a Plausible,
    ranges: &'a Ranges,
    costs: Costs,
}

impl Case<'_> {
    /// What knobs would change, with whether there are as many CPUs then, and whether plausible machines say otherwise.
    fn answer(
        &self,
        settings: &str,
        of: (&Difference, bool, &Shares),
        turned: Option<&str>,
    ) -> String {
        let text = answer(self.read, self.now, settings, of);
        match turned {
            Some(turned) => format!("{text} {turned}"),
            None => text,
        }
    }

    /// What plausible machines say of knobs beside the settings that were recorded.
    fn on_plausible_machines(&self, knobs: &[Knob]) -> Result<Option<Answer>, Refused> {
        let scenarios = core::slice::from_ref(self.now);
        let [now, then] = [&[][..], knobs].map(|knobs| Setting { scenarios, knobs });
        self.plausible.ask(|machines, done| {
            now.on_plausible_machines(&then, Per::Second, (self.ranges, machines), done)
        })
    }
}

/// That the order of the two sides is another on plausible machines.
fn turned(settings: &str, of: &Difference, plausible: Option<&Answer>) -> Option<String> {
    let known = plausible::compared(plausible, of);
    plausible::turned(plausible, &known, &side_names(settings))
}

/// The two sides in sentences.
fn side_names(settings: &str) -> [String; 2] {
    [RECORDED.to_owned(), settings.to_owned()]
}

/// Knobs that are applied together.
fn together(case: &Case<'_>, knobs: &[Knob]) -> super::Result {
    let Case { now, options, costs, .. } = case;
    let then = now.with(knobs)?;
    let sides = options.sides(&[core::slice::from_ref(now), core::slice::from_ref(&then)])?;
    let difference = Difference::between(&sides[0], &sides[1], Per::Second);
    let settings = scene::side_name(knobs);
    let names = ["as recorded", &settings];
    let plausible = case.on_plausible_machines(knobs)?;
    let sides = side_names(&settings);
    let turned = turned(&settings, &difference, plausible.as_ref());
    let shares = Shares::of(plausible.as_ref(), &difference);
    let of = (&difference, now.cpus == then.cpus, &shares);
    let sentence = case.answer(&settings, of, turned.as_deref());
    let text = match options.output.format {
        Format::Json => {
            let mut about = json!({
                "machine": now.machine.key,
                "strategies": [now.strategy, then.strategy],
                "answer": sentence,
                "assumed": then.assumed,
                "certainty": plausible.as_ref().map(|answer| super::run::certainty(answer, &sides)),
                "turned": turned,
            });
            costs.add_to(&mut about);
            format!("{:#}\n", scene::to_json(&difference, names, &about))
        }
        Format::Csv => scene::to_csv(&difference, plausible.as_ref(), turned.is_some()),
        form => {
            let form = if form == Format::Markdown { Grid::to_markdown } else { Grid::to_text };
            let mut text = format!("{}\n{}", wrapped(&sentence, 0), costs.text());
            text += &scene::overfull([&difference]);
            let more = plausible::implausible_sides(plausible.as_ref(), &difference, &sides);
            text += &plausible::how_sure(plausible.as_ref(), &sides, &more);
            text += &scene::tables(&difference, names, Counted::ByModel, form);
            text + "\nwhat this rests on\n\n" + &costs.gaps() + &assumptions(then.assumed.iter())
        }
    };
    options.output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn assumptions<'a>(assumed: impl Iterator<Item = &'a String>) -> String {
    let spread = "`~` is no change beyond the spread of the replays.".to_owned();
    let refills = "Refills are those of the accesses for which there is time in a replay: what upkeep takes from computing, \
                   and what a knob adds to it, changes their number, and more CPUs access more."
        .to_owned();
    let item = |text: &str| format!("* {}", wrapped(text, 0));
    item(&spread) + &item(&refills) + &assumed.map(|text| item(text)).collect::<String>()
}

/// What knobs would change, in a sentence or two.
fn answer(
    read: &Read,
    now: &Scenario,
    settings: &str,
    (of, has_same_cpus, shares): (&Difference, bool, &Shares),
) -> String {
    let [was, is] = shares.named.map(scene::share);
    let beside = shares.beside(|share| share).unwrap_or_default();
    let cpus = counted(now.cpus, "CPU", "CPUs");
    let place = format!("`{}` on {} with {cpus}", read.subject(), now.machine.name);
    // What has no price takes nothing here.
    let unpriced = match (now.machine.unpriced().next(), shares.medians_of) {
        (Some(_), None) => ", as far as they have a price there",
        _ => "",
    };
    if !of.known.differs() && !of.known_share.differs() {
        return format!(
            "{place} spends {was} of the time of all CPUs on TLB flushes and switches{unpriced}; {settings} changes nothing beyond \
             the spread.{beside}"
        );
    }
    let spends = format!(
        "{place} spends {was} of the time of all CPUs on TLB flushes and switches{unpriced}; with {settings} it would be {is}"
    );
    // Of other CPUs the times are of more or less work.
    let largest = scene::largest(of).filter(|_| has_same_cpus).map_or(String::new(), |change| {
        let ms = |value: f64| number(value / 1e9);
        let most = if beside.is_empty() { "Most" } else { "With those, most" };
        format!(
            " {most} changes what `{}` of `{}` costs: {} ms a second now, {} then.",
            change.what[1],
            change.what[0],
            ms(change.before.median),
            ms(change.after.median),
        )
    });
    format!("{spends}.{beside}{largest}")
}
