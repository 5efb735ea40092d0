//! `lookaside what-if` without knobs: each that the machine has, by itself.

use std::{collections::BTreeSet, process::ExitCode};

use lookaside_replay::{
    difference::{Difference, Per},
    what_if::{Knob, Scenario},
};
use lookaside_simulation::data::Isa;
use lookaside_terminal::{
    Refused,
    grid::{Grid, number, percent, wrapped},
};
use serde_json::{Value, json};

use super::{
    super::{
        output::Format,
        plausible::{self, Shares},
        run, scene,
    },
    Case, assumptions, side_names, turned,
};

/// In which order knobs are shown, the library's strategy after those of Linux: by what is known, and those with the same of that by refills, which are assumed. What
/// differs by no more than the spread is the same.
fn rank([(one, a), (other, b)]: [&(&Knob, Difference); 2]) -> core::cmp::Ordering {
    let known = |of: &Difference| match of.known.differs() {
        true => of.known.after.median,
        false => of.known.before.median,
    };
    let order = known(a).total_cmp(&known(b)).then(refills(a)[1].total_cmp(&refills(b)[1]));
    is_of_linux(other).cmp(&is_of_linux(one)).then(order)
}

/// Whether whoever looks after a machine can turn it: another strategy is another kernel.
const fn is_of_linux(knob: &Knob) -> bool {
    !matches!(knob, Knob::Strategy(_))
}

/// Whether less is spent, by what is known.
fn is_less(of: &Difference) -> bool {
    of.known.differs() && of.known.more() < 0.0
}

/// What refills, as assumed, take back of what the best knob saves, where that is all of it or more.
fn taken_back(best: &Difference, spared: Option<&(&Knob, Difference)>) -> Option<String> {
    let [before, after] = both(best);
    let [refills_before, refills_after] = refills(best);
    (after >= before).then(|| {
        let ms = |value: f64| number(value / 1e9);
        let more = ms(refills_after - refills_before);
        let saved = ms(-best.known.more());
        let instead = match spared {
            Some((knob, of)) => {
                let [before, after] = both(of).map(ms);
                format!("with {knob} both together would be {after} ms instead of {before}")
            }
            None => "no knob makes both together less".to_owned(),
        };
        format!(
            " Refills are not in this. No trace shows them: as assumed they take {more} ms a second more, and {saved} are saved; \
             {instead}."
        )
    })
}

/// What the library would spend, which is no knob of Linux.
fn library(changes: &[(&Knob, Difference)], are_medians: bool) -> Option<String> {
    let (_, of) = changes.iter().find(|(knob, _)| !is_of_linux(knob))?;
    let share = scene::share(of.known_share.after.median);
    let with = if are_medians { ", with the file's numbers" } else { "" };
    Some(format!(
        " Under the library in place of Linux's flushes, which is no knob, it would be {share}{with}."
    ))
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
    if !now.strategy.starts_with("lookaside") {
        all.push(Knob::Strategy("lookaside".into()));
    }
    all
}

/// Each knob by itself, the best first.
pub(super) fn each(case: &Case<'_>) -> super::super::Result {
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
    changes.sort_by(|a, b| rank([a, b]));
    let of_linux = || changes.iter().filter(|(knob, _)| is_of_linux(knob));
    let best = of_linux().next().filter(|(_, of)| is_less(of));
    // With refills as assumed.
    let sum = |(_, of): &&(&Knob, Difference)| both(of)[1];
    let spared = of_linux().filter(|(_, of)| is_less(of) && both(of)[1] < both(of)[0]);
    let spared = spared.min_by(|a, b| sum(a).total_cmp(&sum(b)));
    let answer_of = |(knob, _): &(&Knob, Difference)| {
        case.on_plausible_machines(core::slice::from_ref(*knob)).transpose()
    };
    let plausible = best.and_then(answer_of).transpose()?;
    let settings = best.map_or(String::new(), |(knob, _)| knob.to_string());
    let sides = side_names(&settings);
    let turned = best.and_then(|(_, of)| turned(&settings, of, plausible.as_ref()));
    let shares = best.map(|(_, of)| Shares::of(plausible.as_ref(), of));
    let are_medians = shares.as_ref().is_some_and(|shares| shares.medians_of.is_some());
    let sentence = match best.zip(shares.as_ref()) {
        Some(((_, of), shares)) => {
            let sentence = case.answer(&settings, (of, true, shares), turned.as_deref());
            sentence + &taken_back(of, spared).unwrap_or_default()
        }
        None => {
            format!("No knob of Linux makes `{}` spend less beyond the spread.", read.subject())
        }
    };
    let sentence = sentence + &library(&changes, are_medians).unwrap_or_default();
    let sentences: BTreeSet<&String> = tried.iter().flat_map(|(_, then)| &then.assumed).collect();
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
                "answer": sentence,
                "assumed": sentences,
                "knobs": changes.iter().map(one).collect::<Vec<_>>(),
                "not_tried": left,
                "time_unit": "ps",
                "best": best.map(|(knob, _)| knob.to_string()),
                "best_with_refills": spared.map(|(knob, _)| knob.to_string()),
                "certainty": plausible.as_ref().map(|answer| run::certainty(answer, &sides)),
                "turned": turned,
            });
            costs.add_to(&mut value);
            format!("{value:#}\n")
        }
        Format::Csv => {
            let numbers = ["known_ps_per_s", "known_share", "refills_ps_per_s"];
            let certainty = ["best_on", "machines", "turned"];
            let mut grid = Grid::new(["knob"].into_iter().chain(numbers).chain(certainty), &[0]);
            let now = changes.first().map(|(_, of)| ("as recorded".to_owned(), of, 0));
            let then = changes.iter().map(|(knob, of)| (knob.to_string(), of, 1));
            for (knob, of, side) in now.into_iter().chain(then) {
                let [known, share] =
                    [&of.known, &of.known_share].map(|of| [of.before, of.after][side].median);
                let numbers = [known, share, refills(of)[side]].map(|number| number.to_string());
                // Plausible machines are asked of the best.
                let asked = plausible.as_ref().filter(|_| side == 1 && knob == settings);
                let certainty = asked.map_or_else(Default::default, |answer| {
                    let turned = usize::from(turned.is_some());
                    [answer.best[1], answer.machines, turned].map(|count| count.to_string())
                });
                grid.row([knob].into_iter().chain(numbers).chain(certainty));
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
            let share_now =
                changes.first().map(|(_, of)| of.known_share.before.median).unwrap_or(0.0);
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
                let name = match is_of_linux(knob) {
                    true => knob.to_string(),
                    false => "the library, no knob".to_owned(),
                };
                let change = match of.known.ratio() {
                    _ if !of.known.differs() => "~".to_owned(),
                    Some(ratio) => percent(ratio - 1.0),
                    None => "new".to_owned(),
                };
                let share = scene::share(of.known_share.after.median);
                let [_, refills] = self::refills(of);
                let [_, sum] = both(of);
                let cells = [ms(of.known.after.median), share, change, ms(refills), ms(sum)];
                grid.row([name].into_iter().chain(cells));
            }
            let table = match form {
                Format::Markdown => grid.to_markdown(),
                _ => grid.to_text(),
            };
            let not: String = left
                .iter()
                .filter_map(|(knob, then)| {
                    Some(format!("* {knob} was not tried: {}.\n", then.as_ref().err()?.0))
                })
                .collect();
            let heading = format!(
                "switches, flushes, waits and interrupted CPUs, all CPUs, under {}: of the knobs of Linux the least first, and of \
                 the same (`~`) the one with the fewest refills",
                now.strategy
            );
            let more = best.map_or(Vec::new(), |(_, of)| {
                plausible::implausible_sides(plausible.as_ref(), of, &sides)
            });
            format!(
                "{}\n{}{}{}{}\n{table}\nwhat this rests on\n\n{}{}{not}",
                wrapped(&sentence, 0),
                costs.text(),
                scene::overfull(changes.iter().map(|(_, of)| of)),
                plausible::how_sure(plausible.as_ref(), &sides, &more),
                wrapped(&heading, 0),
                costs.gaps(),
                assumptions(sentences.into_iter()),
            )
        }
    };
    options.output.write(&text)?;
    Ok(ExitCode::SUCCESS)
}
