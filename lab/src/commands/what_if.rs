//! `lookaside what-if`: what a recorded program would spend under other settings.

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use lookaside_replay::{
    difference::{Difference, Per},
    what_if::{KNOBS, Knob, RECORDED, Scenario, Setting},
};
use lookaside_simulation::{
    data::{Isa, Ranges},
    reproduce::Book,
    sensitivity::Answer,
};
use lookaside_terminal::{
    Refused,
    grid::{Grid, number, percent, wrapped},
};
use serde_json::{Value, json};

use super::{
    output::Format,
    plausible::{self, Costs, Plausible},
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
  lookaside what-if server.trace                      each knob by itself, the best first
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
        let mut grid = Grid::new(["knob", "in Linux"], &[0, 1]);
        KNOBS.iter().for_each(|(form, about)| grid.row([*form, *about]));
        options.output.write(&grid.to_text())?;
        return Ok(ExitCode::SUCCESS);
    };
    let knobs = scene::knobs(knobs)?;
    let read = Read::open(file)?;
    let mut book = Book::shipped()?;
    let now = options.scenario(&read, &mut book)?;
    let ranges = &book.ranges;
    let costs = Costs::of(&now.machine, ranges, options.is_chosen(), [&read.trace.origin]);
    let case = Case { read: &read, now: &now, options, plausible, ranges, costs };
    match knobs.is_empty() {
        true => each(&case),
        false => together(&case, &knobs),
    }
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
    /// What knobs would change, and whether plausible machines say otherwise.
    fn answer(&self, settings: &str, of: &Difference, plausible: Option<&Answer>) -> String {
        let text = answer(self.read, self.now, settings, of);
        let known = [of.known.before.median, of.known.after.median];
        match plausible::turned(plausible, &known, &side_names(settings)) {
            Some(turned) => format!("{text} {turned}"),
            None => text,
        }
    }

    /// What plausible machines say of knobs beside the settings that were recorded.
    fn on_plausible_machines(&self, knobs: &[Knob]) -> Result<Option<Answer>, Refused> {
        if self.options.output.format == Format::Csv {
            return Ok(None); // It has no place for that.
        }
        let scenarios = core::slice::from_ref(self.now);
        let [now, then] = [&[][..], knobs].map(|knobs| Setting { scenarios, knobs });
        self.plausible.ask(|machines, done| {
            now.on_plausible_machines(&then, Per::Second, (self.ranges, machines), done)
        })
    }
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
    let sentence = case.answer(&settings, &difference, plausible.as_ref());
    let text = match options.output.format {
        Format::Json => {
            let mut about = json!({
                "machine": now.machine.key,
                "strategies": [now.strategy, then.strategy],
                "answer": sentence,
                "assumed": then.assumed,
                "certainty": plausible.as_ref().map(|answer| super::run::certainty(answer, &sides)),
            });
            costs.add_to(&mut about);
            format!("{:#}\n", scene::to_json(&difference, names, &about))
        }
        Format::Csv => scene::to_csv(&difference),
        form => {
            let form = if form == Format::Markdown { Grid::to_markdown } else { Grid::to_text };
            let mut text = format!("{}\n{}", wrapped(&sentence, 0), costs.text());
            text += &scene::overfull([&difference]);
            text += &plausible::how_sure(plausible.as_ref(), &sides, &[]);
            text += &scene::tables(&difference, names, Counted::ByModel, form);
            text + "\nwhat this rests on\n\n" + &assumptions(then.assumed.iter())
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

/// The knob with which what is known is least, of those that make it less beyond the spread.
fn least<'k>(changes: &[(&'k Knob, Difference)]) -> Option<&'k Knob> {
    let known = |of: &Difference| of.known.after.median;
    let is_less = |of: &Difference| of.known.differs() && known(of) < of.known.before.median;
    let least = changes
        .iter()
        .filter(|(_, of)| is_less(of))
        .min_by(|(_, a), (_, b)| known(a).total_cmp(&known(b)));
    least.map(|(knob, _)| *knob)
}

/// What knobs would change, in a sentence or two.
fn answer(read: &Read, now: &Scenario, settings: &str, of: &Difference) -> String {
    let [was, is] = [&of.share.before, &of.share.after].map(|spread| scene::share(spread.median));
    let place = format!("`{}` on {} with {} CPUs", read.subject(), now.machine.name, now.cpus);
    // What has no price takes nothing here.
    let unpriced = match now.machine.unpriced().next() {
        Some(_) => ", as far as they have a price there",
        None => "",
    };
    if !of.known.differs() && !of.share.differs() {
        return format!(
            "{place} spends {was} of the time of all CPUs on TLB flushes and switches{unpriced}; {settings} changes nothing beyond \
             the spread."
        );
    }
    let spends = format!(
        "{place} spends {was} of the time of all CPUs on TLB flushes and switches{unpriced}; with {settings} it would be {is}"
    );
    let largest = scene::largest(of).map_or(String::new(), |change| {
        let ms = |value: f64| number(value / 1e9);
        format!(
            " Most changes what `{}` of `{}` costs: {} ms a second now, {} then.",
            change.what[1],
            change.what[0],
            ms(change.before.median),
            ms(change.after.median),
        )
    });
    format!("{spends}.{largest}")
}

/// Refills before and after, as assumed: they are not known from a trace.
fn refills(of: &Difference) -> [f64; 2] {
    let refills = of.causes.iter().find(|cause| cause.what == ["refills"]);
    refills.map_or([0.0; 2], |cause| [cause.before.median, cause.after.median])
}

/// What is known and refills together, before and after: a knob that saves flushes for the price of refills saves nothing.
fn both(of: &Difference) -> [f64; 2] {
    let [before, after] = refills(of);
    [of.known.before.median + before, of.known.after.median + after]
}

/// The knobs that are tried where none is given.
fn candidates(now: &Scenario) -> Vec<Knob> {
    let x86 = now.machine.isa == Isa::X86_64;
    let mut all = vec![Knob::Thp(true), Knob::Batch(true)];
    if x86 {
        all.extend([1, 8, 128, 512].map(Knob::Ceiling));
        all.extend([Knob::Pti(true), Knob::Pti(false), Knob::Pcid(false)]);
    }
    let recorded = now.script.cpus.len();
    if recorded > 1 {
        all.push(Knob::Pin(vec![0]));
    }
    if recorded > 2 {
        all.push(Knob::Pin((0..recorded / 2).collect()));
    }
    all.push(Knob::Strategy("lookaside".into()));
    all
}

/// Each knob by itself, the best first.
fn each(case: &Case<'_>) -> super::Result {
    let Case { read, now, options, costs, .. } = case;
    // Some do not apply: `pin` to the recording of a whole system.
    let tried: Vec<(Knob, Result<Scenario, Refused>)> =
        candidates(now).into_iter().map(|knob| (knob.clone(), now.with(&[knob]))).collect();
    let (tried, left): (Vec<_>, Vec<_>) = tried.into_iter().partition(|(_, then)| then.is_ok());
    let tried: Vec<(Knob, Scenario)> =
        tried.into_iter().filter_map(|(knob, then)| Some((knob, then.ok()?))).collect();
    let mut all: Vec<&[Scenario]> = vec![core::slice::from_ref(now)];
    all.extend(tried.iter().map(|(_, then)| core::slice::from_ref(then)));
    let sides = options.sides(&all)?;
    let mut changes: Vec<(&Knob, Difference)> = tried
        .iter()
        .zip(&sides[1..])
        .map(|((knob, _), side)| (knob, Difference::between(&sides[0], side, Per::Second)))
        .collect();
    changes.sort_by(|(_, a), (_, b)| both(a)[1].total_cmp(&both(b)[1]));
    let best = changes.iter().find(|(_, of)| {
        let [before, after] = both(of);
        of.known.differs() && of.known.more() < 0.0 && after < before
    });
    let answer_of = |(knob, _): &(&Knob, Difference)| {
        case.on_plausible_machines(core::slice::from_ref(*knob)).transpose()
    };
    let plausible = best.and_then(answer_of).transpose()?;
    let sides = side_names(&best.map_or(String::new(), |(knob, _)| knob.to_string()));
    let text = match options.output.format {
        Format::Json => {
            let one = |(knob, of): &(&Knob, Difference)| json!({ "knob": knob.to_string(), "difference": of });
            let left: Vec<Value> = left
                .iter()
                .filter_map(|(knob, then)| {
                    Some(json!({ "knob": knob.to_string(), "why": then.as_ref().err()?.0 }))
                })
                .collect();
            let mut value = json!({
                "version": scene::VERSION,
                "machine": now.machine.key,
                "strategy": now.strategy,
                "knobs": changes.iter().map(one).collect::<Vec<_>>(),
                "not_tried": left,
                "best": best.map(|(knob, _)| knob.to_string()),
                "certainty": plausible.as_ref().map(|answer| super::run::certainty(answer, &sides)),
            });
            costs.add_to(&mut value);
            format!("{value:#}\n")
        }
        Format::Csv => {
            let mut grid = Grid::new(["knob", "known_ms", "share", "refills_ms"], &[0]);
            let now = changes.first().map(|(_, of)| ("as recorded".to_owned(), of, 0));
            let then = changes.iter().map(|(knob, of)| (knob.to_string(), of, 1));
            for (knob, of, side) in now.into_iter().chain(then) {
                let [known, share] =
                    [&of.known, &of.share].map(|of| [of.before, of.after][side].median);
                let numbers = [known / 1e9, share, refills(of)[side] / 1e9];
                grid.row([knob].into_iter().chain(numbers.map(|number| number.to_string())));
            }
            grid.to_csv()
        }
        form => {
            let ms = |value: f64| number(value / 1e9);
            let mut grid = Grid::new(
                ["knob", "ms a second", "share", "change", "refills, as assumed", "both"],
                &[0],
            );
            let first = changes.first().map(|(_, of)| of.known.before.median).unwrap_or(0.0);
            let share_now = changes.first().map(|(_, of)| of.share.before.median).unwrap_or(0.0);
            let [refills, _] = changes.first().map_or([0.0; 2], |(_, of)| refills(of));
            let cells = [
                ms(first),
                scene::share(share_now),
                String::new(),
                ms(refills),
                ms(first + refills),
            ];
            grid.row(["as recorded".to_owned()].into_iter().chain(cells));
            for (knob, of) in &changes {
                let change = match of.known.ratio() {
                    _ if !of.known.differs() => "~".to_owned(),
                    Some(ratio) => percent(ratio - 1.0),
                    None => "new".to_owned(),
                };
                let share = scene::share(of.share.after.median);
                let [_, refills] = self::refills(of);
                let [_, sum] = both(of);
                let cells = [ms(of.known.after.median), share, change, ms(refills), ms(sum)];
                grid.row([knob.to_string()].into_iter().chain(cells));
            }
            let table = match form {
                Format::Markdown => grid.to_markdown(),
                _ => grid.to_text(),
            };
            let sentence = match best {
                Some((knob, of)) => {
                    let also = least(&changes).filter(|other| *other != *knob);
                    let also = also.map_or(String::new(), |other| {
                        format!(
                            " Without refills {other} would save more; the best is the one with the least of both together, \
                             with refills as assumed."
                        )
                    });
                    case.answer(&knob.to_string(), of, plausible.as_ref()) + &also
                }
                None => {
                    format!("No knob makes `{}` spend less beyond the spread.", read.subject())
                }
            };
            let not: String = left
                .iter()
                .filter_map(|(knob, then)| {
                    Some(format!("* {knob} was not tried: {}.\n", then.as_ref().err()?.0))
                })
                .collect();
            let sentences: BTreeSet<&String> =
                tried.iter().flat_map(|(_, then)| &then.assumed).collect();
            format!(
                "{}\n{}{}{}switches, flushes, waits and interrupted CPUs, all CPUs, under {}, by the last column\n\n{table}\nwhat \
                 this rests on\n\n{}{not}",
                wrapped(&sentence, 0),
                costs.text(),
                scene::overfull(changes.iter().map(|(_, of)| of)),
                plausible::how_sure(plausible.as_ref(), &sides, &[]),
                now.strategy,
                assumptions(sentences.into_iter()),
            )
        }
    };
    options.output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}
