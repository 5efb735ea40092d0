//! What the pages of replays say of plausible machines, and of what their machine has no price for.

use lookaside_replay::{
    advice::TIE,
    difference::Difference,
    machine::CostsOf,
    plausible::{Done, SHARE},
};
use lookaside_simulation::{
    data::{Machine, Ranges},
    sensitivity::{Answer, Gaps, words},
};
use lookaside_terminal::{Refused, grid::wrapped};
use lookaside_traces::Origin;
use serde_json::Value;

use super::progress;

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
