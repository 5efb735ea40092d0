//! What the pages of replays say of plausible machines, and of what their machine has no price for.

use lookaside_replay::{
    advice::TIE,
    difference::{Difference, Per},
    machine::CostsOf,
    plausible::{Done, SHARE},
    report,
};
use lookaside_simulation::{
    data::{Machine, Ranges},
    sensitivity::{Answer, Gaps, Interval, words},
};
use lookaside_terminal::{Refused, grid::wrapped};
use lookaside_traces::Origin;
use serde_json::Value;

use super::{progress, scene};

/// How many plausible machines are asked.
#[derive(clap::Args)]
pub(super) struct Plausible {
    /// Ask this many plausible machines, which differ in what is not known exactly, how sure the answer is: 4 to 10000, or 0
    /// for none. Default: as many as do not take long, but 4.
    #[arg(long, value_name = "N")]
    plausible: Option<usize>,
}

impl Plausible {
    /// Refuses so few that they say nothing.
    pub(super) fn check(&self) -> Result<(), Refused> {
        super::check_plausible(self.plausible)
    }

    /// Whether their number was given, and is not 0.
    pub(super) const fn are_given(&self) -> bool {
        !matches!(self.plausible, None | Some(0))
    }

    /// Asks, unless none are to be asked: `ask` gets their number, if one is given, and what to call after each replay with
    /// how many there are.
    pub(super) fn ask(
        &self,
        ask: impl FnOnce(Option<usize>, &Done<'_>) -> Result<Option<Answer>, Refused>,
    ) -> Result<Option<Answer>, Refused> {
        if self.plausible == Some(0) {
            return Ok(None);
        }
        let template = "{pos} of {len} replays on plausible machines, {elapsed}, {eta} left";
        let bar = progress::styled(None, template, "replays on plausible machines");
        let answer = ask(self.plausible, &|all| bar.of(all));
        bar.finish_and_clear();
        answer
    }
}

/// How sure an answer about these sides is: a heading, and each sentence a line. Nothing where nobody was asked.
pub(super) fn how_sure(answer: Option<&Answer>, sides: &[String], more: &[String]) -> String {
    let Some(answer) = answer else { return String::new() };
    let lines = words::certainty(answer, sides);
    let lines = lines.iter().chain(more).map(|line| format!("* {}", wrapped(line, 0)));
    format!("how sure this is\n\n{}\n", lines.collect::<String>())
}

/// What plausible machines compare of two sides, with the file's numbers: what is known, or its share of all CPUs' time.
pub(super) fn compared(answer: Option<&Answer>, of: &Difference) -> [f64; 2] {
    let by_share = answer.is_some_and(|answer| answer.metric == SHARE);
    let known = if by_share { &of.known_share } else { &of.known };
    [known.before.median, known.after.median]
}

/// That what takes less on most plausible machines is not what takes less with the file's numbers, which these are for the
/// sides: nothing where it is, or where they come to the same.
pub(super) fn turned(answer: Option<&Answer>, values: &[f64], sides: &[String]) -> Option<String> {
    let answer = answer.filter(|of| of.pair[0] != of.pair[1])?;
    let [leader, _] = answer.pair;
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let is_clear = 2 * answer.best[leader] > answer.machines;
    (is_clear && least * (1.0 + TIE) < values[leader]).then(|| {
        format!(
            "On plausible machines the order turns: the least is under {} on {} of {}: go by that, and not by the file's \
             numbers alone.",
            sides[leader], answer.best[leader], answer.machines
        )
    })
}

/// On plausible machines programs hardly access their pages: what that alone changes of what is known, as a part of it.
const HARDLY_ACCESSED: f64 = 0.05;

/// What is to be said of a time in milliseconds with the file's numbers that is outside what plausible machines give.
pub(super) fn implausible(of: &str, ms: f64, unit: &str, interval: &Interval) -> Option<String> {
    let Interval { low, median, high } = *interval;
    let [low, high] = [low * (1.0 - HARDLY_ACCESSED), high * (1.0 + HARDLY_ACCESSED)];
    words::implausible(of, ms, unit, &Interval { low, median, high })
}

/// The same of both sides of a comparison.
pub(super) fn implausible_sides(
    answer: Option<&Answer>,
    of: &Difference,
    sides: &[String; 2],
) -> Vec<String> {
    let Some(answer) = answer.filter(|answer| answer.metric != SHARE) else { return Vec::new() };
    let unit = if of.per == Per::Run { "ms" } else { "ms a second" };
    let known = compared(Some(answer), of);
    let one = |side: usize| {
        let time = format!("The time under {}", sides[side]);
        implausible(&time, known[side] / 1e9, unit, &answer.intervals[side][0])
    };
    [0, 1].into_iter().filter_map(one).collect()
}

/// What of the time of all CPUs both sides take.
pub(super) struct Shares {
    /// Those with the file's numbers.
    file: [f64; 2],
    /// The parts that a sentence names.
    pub(super) named: [f64; 2],
    /// How many plausible machines they are medians of; none where they are those with the file's numbers.
    pub(super) medians_of: Option<usize>,
}

impl Shares {
    /// With the file's numbers; where one of them is outside of what plausible machines give, the medians of these.
    pub(super) fn of(answer: Option<&Answer>, of: &Difference) -> Self {
        let file = [of.known_share.before.median, of.known_share.after.median];
        let all_cpus = [of.all_cpus.before.median, of.all_cpus.after.median];
        let medians = answer.and_then(|answer| {
            let known = compared(Some(answer), of);
            let [part, unit] = match answer.metric == SHARE {
                true => [[1.0; 2], [1.0; 2]],
                false => [all_cpus, [1e9; 2]],
            };
            let one = |side: usize| {
                let Interval { low, median, high } = answer.intervals[side][0];
                let share = |value: f64| value * unit[side] / part[side];
                (known[side] / part[side], [low, median, high].map(share))
            };
            let medians = report::medians([0, 1].into_iter().map(one))?;
            Some(([medians[0], medians[1]], answer.machines))
        });
        match medians {
            Some((named, machines)) => Self { file, named, medians_of: Some(machines) },
            None => Self { file, named: file, medians_of: None },
        }
    }

    /// What the file's numbers give, in the order of the sentence, where the shares are medians.
    pub(super) fn beside(&self, order: impl FnOnce([f64; 2]) -> [f64; 2]) -> Option<String> {
        let machines = self.medians_of?;
        let [first, second] = order(self.file).map(scene::share);
        Some(format!(
            " These are the medians of {machines} plausible machines. The numbers of the machine file alone, of which the tables \
             are, are not all among them: they give {first} and {second}.",
        ))
    }
}

/// Which machines the costs of a page are of, and what of them is not known.
pub(super) struct Costs {
    costs_of: Vec<CostsOf>,
    sentences: Vec<String>,
    gaps: Gaps,
    key: String,
}

impl Costs {
    /// Those of a machine, for recordings from there; `chosen` says that it was chosen for them, and not named.
    pub(super) fn of<'o>(
        machine: &Machine,
        ranges: &Ranges,
        chosen: bool,
        origins: impl IntoIterator<Item = &'o Origin>,
    ) -> Self {
        let (mut all, mut sentences): (Vec<CostsOf>, Vec<String>) = (Vec::new(), Vec::new());
        for origin in origins {
            let costs_of = CostsOf::of(origin, machine, chosen);
            let sentence = costs_of.sentence(origin, machine);
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
                all.push(costs_of);
            }
        }
        Self { costs_of: all, sentences, gaps: Gaps::of(machine, ranges), key: machine.key.clone() }
    }

    /// Which machines they are of: a paragraph.
    pub(super) fn text(&self) -> String {
        format!("{}\n", wrapped(&self.sentences.join(" "), 0))
    }

    /// What of them is not known: an item of a list, or nothing.
    pub(super) fn gaps(&self) -> String {
        let gaps = words::gaps(&self.gaps, &self.key);
        gaps.map_or(String::new(), |gaps| format!("* {}", wrapped(&gaps, 0)))
    }

    /// The same for programs, as keys of their document.
    pub(super) fn add_to(&self, document: &mut Value) {
        let is_stand_in = self.costs_of.contains(&CostsOf::StandIn);
        let costs_of =
            if is_stand_in { Some(CostsOf::StandIn) } else { self.costs_of.first().copied() };
        document["machine_is"] = costs_of.map(CostsOf::name).into();
        document["costs"] = self.sentences.join(" ").into();
        document["unpriced"] = self.gaps.unpriced.clone().into();
        document["flush_tag_as"] = self.gaps.tag_as.into();
        document["assumed_prices"] = self.gaps.assumed.clone().into();
    }
}
