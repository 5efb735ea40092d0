//! What came of a folder: scores, differences, verdicts on traces; for people and for programs.

use core::fmt::Write as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use lookaside_terminal::{counted, grid::Grid};
use serde_json::{Map, Value, json};

use super::{Bound, Case, Compared, Mode, Observation, Score, Shares, Suite, Traces};

/// How often a run is begun that needs more than its share of the time.
const CHANCES: u32 = 2;

/// What came of the tests and traces of a folder.
pub struct Results<'s> {
    suite: &'s Suite,
    traces: &'s Traces,
    /// By mode and class.
    scores: BTreeMap<(Mode, &'s str), Score>,
    totals: BTreeMap<Mode, Score>,
    /// What differs from what is recorded.
    deviations: Vec<(&'s Case, Compared)>,
    /// What nothing is recorded of.
    unrecorded: Vec<(&'s Case, Compared)>,
    /// What was not finished within the bound.
    unfinished: Vec<(Mode, &'s str)>,
    /// How many states the machine went through.
    states: usize,
    seconds: f64,
}

impl<'s> Results<'s> {
    /// Runs all tests in these modes within a bound: so much memory for each run, so much time for
    /// all of them together. A run that needs more than its share of the time has a second
    /// chance when all have had their first.
    #[must_use]
    pub fn of(suite: &'s Suite, traces: &'s Traces, modes: &[Mode], bound: Bound) -> Self {
        let started = Instant::now();
        let mut results = Self {
            suite,
            traces,
            scores: BTreeMap::new(),
            totals: BTreeMap::new(),
            deviations: Vec::new(),
            unrecorded: Vec::new(),
            unfinished: Vec::new(),
            states: 0,
            seconds: 0.0,
        };
        let cases = suite.cases.iter();
        let mut runs: Vec<_> = cases
            .flat_map(|case| case.modes(modes).iter().map(move |&mode| (case, mode)))
            .collect();
        for _ in 0..CHANCES {
            let mut shares = Shares::new(bound, runs.len());
            runs.retain(|&(case, mode)| !results.run(case, mode, shares.next_bound()));
            if bound.until.is_none() {
                break; // Another chance would be the same.
            }
        }
        results.unfinished = runs.iter().map(|&(case, mode)| (mode, &*case.litmus.name)).collect();
        results.seconds = started.elapsed().as_secs_f64();
        results
    }

    /// Runs a test; whether it was finished.
    fn run(&mut self, case: &'s Case, mode: Mode, bound: Bound) -> bool {
        let Some(compared) = case.compare(mode, bound) else { return false };
        self.states += compared.found.explored;
        if !case.recorded.contains_key(&mode) && !case.verdicts.contains_key(&mode) {
            self.unrecorded.push((case, compared));
            return true;
        }
        self.scores.entry((mode, &case.class)).or_default().add(&compared);
        self.totals.entry(mode).or_default().add(&compared);
        if !compared.exact() {
            self.deviations.push((case, compared));
        }
        true
    }

    /// Whether every run was finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Whether nothing of what was finished differs from what is recorded; if `strict`, nor is
    /// anything left out.
    #[must_use]
    pub fn agree(&self, strict: bool) -> bool {
        let all = self.suite.skipped.is_empty() && self.unrecorded.is_empty();
        self.deviations.is_empty()
            && self.traces.checked.iter().all(|trace| trace.agrees() != Some(false))
            && (all || !strict)
    }

    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let score = |score: &Score| {
            json!({
                "tests": score.tests, "exact": score.exact, "missing": score.missing,
                "extra": score.extra, "bbm_warning": score.warnings,
            })
        };
        let mode = |(mode, total): (&Mode, &Score)| {
            let own = self.scores.iter().filter(|((of, _), _)| of == mode);
            let classes: Map<_, _> =
                own.map(|((_, class), of)| ((*class).to_owned(), score(of))).collect();
            (mode.word().to_owned(), json!({ "all": score(total), "classes": classes }))
        };
        let deviation = |(case, compared): &(&Case, Compared)| {
            let list = |states: &BTreeSet<_>| {
                states.iter().map(|state| case.litmus.show(state)).collect::<Vec<_>>()
            };
            json!({
                "name": case.litmus.name, "mode": compared.mode.word(), "class": case.class,
                "missing": list(&compared.missing), "extra": list(&compared.extra),
                "bbm_warning": compared.same_warning,
            })
        };
        json!({
            "version": 1,
            "modes": self.totals.iter().map(mode).collect::<Map<_, _>>(),
            "deviations": self.deviations.iter().map(deviation).collect::<Vec<_>>(),
            "skipped": self.suite.skipped.iter()
                .map(|skipped| json!({ "place": skipped.place, "why": skipped.why }))
                .collect::<Vec<_>>(),
            "not_finished": self.unfinished.iter()
                .map(|(mode, name)| json!({ "mode": mode.word(), "name": name }))
                .collect::<Vec<_>>(),
            "casemate": self.traces.checked.iter()
                .map(|trace| json!({
                    "name": trace.name, "found": trace.found, "recorded": trace.recorded,
                    "agrees": trace.agrees(),
                }))
                .collect::<Vec<_>>(),
            "states": self.states,
            "seconds": self.seconds,
        })
    }

    /// For people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (case, compared) in &self.unrecorded {
            text.push_str(&states(case, compared));
        }
        if !self.totals.is_empty() {
            text.push_str(&self.grid().to_text());
            text.push_str(
                "\nexact: the recorded set of final states. missing: the machine is too strong. \
                 extra: it is\ntoo weak. bbm: break-before-make is asked for in exactly the \
                 recorded tests.\n",
            );
        }
        for (case, compared) in &self.deviations {
            let (name, class, mode) = (&case.litmus.name, &case.class, compared.mode.word());
            let _ = writeln!(text, "\n{name} ({class}, {mode}):");
            text.push_str(&differences(case, compared));
        }
        for (mode, name) in &self.unfinished {
            let _ = writeln!(text, "not finished: {name} ({})", mode.word());
        }
        for skipped in &self.suite.skipped {
            let _ = writeln!(text, "skipped: {}: {}", skipped.place, skipped.why);
        }
        for trace in &self.traces.checked {
            let recorded = match trace.agrees() {
                Some(true) => "as recorded".to_owned(),
                Some(false) => {
                    format!("RECORDED: {}", trace.recorded.as_deref().unwrap_or_default())
                }
                None => "nothing recorded".to_owned(),
            };
            let _ = writeln!(text, "trace {}: {} ({recorded})", trace.name, trace.found);
        }
        let _ = writeln!(
            text,
            "{} tests, {} skipped, {} runs not finished, {} traces, {} states, {:.1} s",
            self.suite.cases.len(),
            self.suite.skipped.len(),
            self.unfinished.len(),
            self.traces.checked.len(),
            self.states,
            self.seconds
        );
        text
    }

    fn grid(&self) -> Grid {
        let mut grid =
            Grid::new(["mode", "class", "tests", "exact", "missing", "extra", "bbm"], &[0, 1]);
        for (mode, total) in &self.totals {
            let own = self.scores.iter().filter(|((of, _), _)| of == mode);
            let rows = own.map(|((_, class), score)| (*class, score));
            for (class, score) in rows.chain([("all", total)]) {
                grid.row([
                    mode.word().to_owned(),
                    class.to_owned(),
                    score.tests.to_string(),
                    score.exact.to_string(),
                    score.missing.to_string(),
                    score.extra.to_string(),
                    score.warnings.to_string(),
                ]);
            }
        }
        grid
    }
}

/// One test with everything about it: what was found, what was recorded, and how a state too many comes
/// about.
#[must_use]
pub fn in_full(case: &Case, compared: &Compared, bound: Bound) -> String {
    let mut text = states(case, compared);
    if let Some(recorded) = case.recorded.get(&compared.mode) {
        let _ = writeln!(text, "recorded: {}", counted(recorded.states.len(), "state", "states"));
        list(&mut text, case, &recorded.states);
    }
    text.push_str(&differences(case, compared));
    if let Some(state) = compared.extra.first()
        && let Some(steps) = case.litmus.witness(compared.mode.hardware(), state, bound)
    {
        let _ = writeln!(text, "how {} comes about:", case.litmus.show(state));
        for step in steps {
            let _ = writeln!(text, "    {step}");
        }
    }
    text
}

fn states(case: &Case, compared: &Compared) -> String {
    let (litmus, found) = (&case.litmus, &compared.found);
    let verdict = litmus.verdict(&found.states);
    let broke = if found.broke { ", needs break-before-make" } else { "" };
    let (name, mode, count) = (&litmus.name, compared.mode.word(), found.states.len());
    let mut text =
        format!("{name} ({mode}): {verdict}{broke}; {}\n", counted(count, "state", "states"));
    list(&mut text, case, &found.states);
    text
}

fn list(text: &mut String, case: &Case, states: &BTreeSet<Observation>) {
    for state in states {
        let _ = writeln!(text, "    {}", case.litmus.show(state));
    }
}

fn differences(case: &Case, compared: &Compared) -> String {
    let mut text = String::new();
    for (sign, states) in [("missing", &compared.missing), ("extra", &compared.extra)] {
        for state in states {
            let _ = writeln!(text, "    {sign}: {}", case.litmus.show(state));
        }
    }
    if let Some(said) = compared.said
        && (said.is_missed(compared.verdict) || said.is_exceeded(compared.verdict))
    {
        let _ = writeln!(text, "    said to be {said:?}, and found {}", compared.verdict);
    }
    if !compared.same_warning {
        let found = if compared.found.broke { "asked for" } else { "not asked for" };
        let _ = writeln!(text, "    break-before-make is {found}");
    }
    text
}
