//! The page of an advice.

use lookaside_replay::{
    BAND, OVERFULL,
    advice::{Advice, CERTAIN, MATTERS, Mechanism, PIECES, TIE, Verdict},
    inputs::Inputs,
    machine::CostsOf,
};
use lookaside_simulation::{
    data::Machine,
    sensitivity::{FEW, Interval, words},
};
use lookaside_terminal::{
    counted,
    grid::{Grid, wrapped},
};
use lookaside_traces::reconstruct::Flushes;
use serde_json::{Value, json};

use super::{super::scene::Read, Arguments};

/// The version of the JSON.
const VERSION: u32 = 1;

/// All that the page is made of.
pub(super) struct Page<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) read: &'a Read,
    pub(super) machine: &'a Machine,
    pub(super) inputs: &'a Inputs,
    pub(super) advice: Advice,
}

/// A strategy in the words of the question.
fn name(strategy: &str) -> String {
    match strategy {
        "linux-invlpgb-2025" => "INVLPGB (linux-invlpgb-2025)".into(),
        "linux-ipi-2025" => "interrupts (linux-ipi-2025)".into(),
        "linux-broadcast" => "hardware broadcast (linux-broadcast)".into(),
        "lookaside" => "the library (lookaside)".into(),
        other => other.into(),
    }
}

/// A number with three digits, fewer where the last are 0: more would claim what is not known.
fn short(value: f64) -> String {
    let exponent = value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32;
    let text = format!("{value:.*}", usize::try_from(2 - exponent).unwrap_or(0).min(9));
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

/// Milliseconds of CPU time.
fn time(ms: f64) -> String {
    if ms < 1000.0 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1000.0)) }
}

/// A part of the time of all CPUs.
fn part(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}

/// An interval: `3 (2 to 5)`.
fn interval(of: &Interval, form: impl Fn(f64) -> String) -> String {
    format!("{} ({} to {})", form(of.median), form(of.low), form(of.high))
}

/// On how many machines each of these would be best, were there no other.
fn without_the_library(best: &[(String, usize)], machines: usize) -> String {
    let one = |(place, (name, count)): (usize, &(String, usize))| match place {
        0 => format!("{name} would be best on {count} of {machines} machines"),
        _ => format!("{name} on {count}"),
    };
    let list: Vec<String> = best.iter().enumerate().map(one).collect();
    format!("Without the library, {}.", list.join(", "))
}

impl Page<'_> {
    /// The answer; of a machine that stands for the recorded one with what that means for it.
    fn answer(&self) -> String {
        let text = self.of_this_kind();
        let origin = &self.read.trace.origin;
        match CostsOf::of(origin, self.machine, self.inputs.chosen) {
            CostsOf::StandIn => format!(
                "{text} That is of {}, which stands for the recorded machine: how certain it is there is not known.",
                self.machine.key
            ),
            _ => text,
        }
    }

    /// The answer for machines of this kind, in a sentence or two.
    fn of_this_kind(&self) -> String {
        let Advice { verdict, mechanisms, plausible, .. } = &self.advice;
        let [leader, second] = plausible.pair.map(|place| &mechanisms[place]);
        let [one, other] = [leader, second].map(|of| name(&of.strategy));
        let (program, count) = (self.read.subject(), plausible.machines);
        let cpus = counted(self.inputs.cpus, "CPU", "CPUs");
        let percent = |machines: usize| (100.0 * machines as f64 / count as f64).round();
        let best = |place: usize| percent(plausible.best[place]);
        let spends = format!(
            "flushes and switches take {} of CPU time in each second of `{program}`, {} of the time of {cpus}",
            interval(&leader.time, time),
            interval(&leader.time, |time| part(leader.share(time))),
        );
        let next = format!("under {other}, the next, {}", interval(&second.time, time));
        let loses = self.loses();
        let slight = format!("{} of the time of all CPUs", part(MATTERS));
        let all: Vec<String> = mechanisms.iter().map(|of| name(&of.strategy)).collect();
        match verdict {
            Verdict::NoFlushes => format!(
                "There is nothing to choose: `{program}` flushes nothing that the trace shows. Switches take {} of CPU time in \
                 each second of it under {one}.",
                interval(&leader.time, time)
            ),
            Verdict::OneCpu => format!(
                "On one CPU no flush reaches another CPU, by any mechanism. Under {one} {spends}; {next}."
            ),
            Verdict::Leave => format!(
                "Leave the mechanism as it is: {} differ by less than {slight} on at least 95 % of {count} plausible machines of \
                 this kind. Under {one} {spends}; {next}.",
                all.join(", "),
            ),
            Verdict::Either => format!(
                "Take {one} or {other}: which of them is better cannot be told (best on {} and {} % of {count} plausible \
                 machines of this kind), and on at least 95 % of them they differ by less than {slight}. Under {one} {spends}.",
                best(plausible.pair[0]),
                best(plausible.pair[1]),
            ),
            Verdict::Take => format!(
                "Take {one}, best on {} % of {count} plausible machines of this kind: {spends}; {next}.{loses}",
                best(plausible.pair[0]),
            ),
            Verdict::CannotTell => format!(
                "It cannot be told whether {one} or {other} is better: they are best on {} and {} % of {count} plausible \
                 machines of this kind, and on {} % the best two of all come to the same. Under {one} {spends}; {next}.{loses}",
                best(plausible.pair[0]),
                best(plausible.pair[1]),
                percent(plausible.tied),
            ),
        }
    }

    /// What is lost if the first mechanism is taken and another is better; nothing where none is.
    fn loses(&self) -> String {
        let Advice { mechanisms, plausible, .. } = &self.advice;
        let [leader, second] = plausible.pair.map(|place| &mechanisms[place]);
        if leader.behind_on == 0 {
            return String::new();
        }
        let [mean, most] = leader.lost.map(time);
        let other = format!(
            "{} loses {}, at most {}",
            second.strategy,
            time(second.lost[0]),
            time(second.lost[1])
        );
        format!(
            " On {} of {} another is better: taken everywhere, {} loses {mean} in the mean of all and at most {most}; {other}.",
            leader.behind_on, plausible.machines, leader.strategy,
        )
    }

    pub(super) fn grid(&self) -> Grid {
        let Advice { mechanisms, plausible, .. } = &self.advice;
        let header = [
            "mechanism",
            "ms/s",
            "from",
            "to",
            "of time",
            "best on",
            "loses",
            "IPIs/s",
            "broadcasts/s",
            "file",
        ];
        let mut grid = Grid::new(header, &[0]);
        for (i, of) in mechanisms.iter().enumerate() {
            let Interval { low, median, high } = of.time;
            grid.row([
                name(&of.strategy),
                short(median),
                short(low),
                short(high),
                part(of.share(median)),
                format!("{} of {}", plausible.best[i], plausible.machines),
                short(of.lost[0]),
                short(of.interrupts.median),
                short(of.broadcasts.median),
                short(of.file_time()),
            ]);
        }
        grid
    }

    /// The same in plain numbers, and what the table has no room for.
    pub(super) fn to_csv(&self) -> String {
        let Advice { mechanisms, plausible, .. } = &self.advice;
        let header = [
            "strategy",
            "ms_per_second",
            "ms_per_second_low",
            "ms_per_second_high",
            "file_ms_per_second",
            "share",
            "best_on",
            "behind_on",
            "machines",
            "lost_ms_per_second_mean",
            "lost_ms_per_second_most",
            "interrupts_per_second",
            "broadcasts_per_second",
            "refills_share_low",
            "refills_share_high",
        ];
        let mut grid = Grid::new(header, &[0]);
        for (i, of) in mechanisms.iter().enumerate() {
            let Interval { low, median, high } = of.time;
            let [one, other] = of.refills;
            let counts = [plausible.best[i], of.behind_on, plausible.machines];
            let numbers = [median, low, high, of.file_time(), of.share(median)]
                .into_iter()
                .chain(counts.map(|count| count as f64))
                .chain(of.lost)
                .chain([
                    of.interrupts.median,
                    of.broadcasts.median,
                    one.min(other),
                    one.max(other),
                ]);
            grid.row(
                [of.strategy.clone()].into_iter().chain(numbers.map(|number| number.to_string())),
            );
        }
        grid.to_csv()
    }

    /// On how many machines each of the others is best, where the library is and there are others to choose from.
    fn without_the_library(&self) -> Option<String> {
        let Advice { mechanisms, plausible, .. } = &self.advice;
        let others: Vec<usize> =
            (0..mechanisms.len()).filter(|&i| mechanisms[i].strategy != "lookaside").collect();
        if mechanisms[plausible.pair[0]].strategy != "lookaside" || others.len() < 2 {
            return None;
        }
        let time = |strategy: usize, machine: usize| plausible.outcomes[strategy][machine][0].value;
        let wins = |strategy: usize| {
            let is_best = |machine: &usize| {
                let own = time(strategy, *machine) * (1.0 + TIE);
                others.iter().all(|&other| other == strategy || own < time(other, *machine))
            };
            (0..plausible.machines).filter(is_best).count()
        };
        let best: Vec<(String, usize)> =
            others.iter().map(|&i| (name(&mechanisms[i].strategy), wins(i))).collect();
        Some(without_the_library(&best, plausible.machines))
    }

    /// Why no mechanism is to be taken; nothing where one is, or where all are close to each other.
    fn withheld(&self) -> Option<String> {
        let Advice { verdict, mechanisms, plausible, .. } = &self.advice;
        if !matches!(verdict, Verdict::Either | Verdict::CannotTell) {
            return None;
        }
        let leader = &mechanisms[plausible.pair[0]];
        let percent = |share: f64| (100.0 * share).round();
        let (certainty, least) = (self.advice.certainty(), percent(CERTAIN));
        if certainty < CERTAIN {
            return Some(format!(
                "None is taken that is not best on {least} % of the machines; {} is on {} %.",
                leader.strategy,
                percent(certainty)
            ));
        }
        let safest = mechanisms.iter().min_by(|a, b| a.lost[0].total_cmp(&b.lost[0]))?;
        Some(format!(
            "{} is best on {} %, and is not taken: in the mean of all machines it loses {}, and {} only {}. What is taken has \
             to be best on {least} %, and to lose no more than any other.",
            leader.strategy,
            percent(certainty),
            time(leader.lost[0]),
            safest.strategy,
            time(safest.lost[0])
        ))
    }

    /// What the answer turns on, and what would settle it.
    fn reasons(&self) -> Vec<String> {
        let Advice { verdict, plausible, mechanisms, .. } = &self.advice;
        if matches!(verdict, Verdict::NoFlushes | Verdict::OneCpu | Verdict::Leave) {
            return Vec::new();
        }
        let mut lines: Vec<String> =
            self.withheld().into_iter().chain(self.without_the_library()).collect();
        lines.extend(words::reasons(plausible));
        let is_open = plausible.best[plausible.pair[0]] + plausible.tied < plausible.machines;
        let nothing_measures =
            plausible.influences.is_empty() || words::unmeasured(plausible).is_some();
        if is_open && nothing_measures {
            let mut pair = plausible.pair.map(|place| mechanisms[place].strategy.as_str());
            pair.sort_unstable();
            let how = match pair {
                ["linux-invlpgb-2025", "linux-ipi-2025"] => {
                    ", with INVLPGB and, booted with `clearcpuid=419`, without"
                }
                _ => " under both",
            };
            lines.push(format!("What settles it: the program itself on such a machine{how}."));
        }
        lines.push(words::record());
        lines
    }

    /// What the trace does not tell, and what was assumed.
    fn limits(&self) -> Vec<String> {
        let Advice { plausible, mechanisms, refill_cpus, .. } = &self.advice;
        let range = |of: &Mechanism| {
            let [low, high] = of.refills;
            format!("{} to {} under {}", part(low.min(high)), part(low.max(high)), of.strategy)
        };
        let ranges: Vec<String> = mechanisms.iter().map(range).collect();
        let mut refills = format!(
            "Refills are in none of this, as no trace shows accesses. With 1/{BAND} and {BAND} times the working set of a \
             compiler, on {}, they take this part of the time of all CPUs: {}.",
            counted(*refill_cpus, "CPU", "CPUs"),
            ranges.join(", ")
        );
        if let Some(more) = self.advice.refills_outweigh() {
            let [leader, second] = plausible.pair.map(|place| &mechanisms[place].strategy);
            refills += &format!(
                " That is up to {} more under {leader} than under {second}, and may turn the answer.",
                part(more)
            );
        }
        let basis = self.inputs.basis(&self.read.trace.origin, self.machine);
        let mut lines = vec![refills, basis.flushes_from().to_owned()];
        lines.extend(basis.notes());
        lines.extend(words::gaps(&plausible.gaps, &self.machine.key));
        if mechanisms.iter().any(|of| of.share(of.time.high) > 1.0) {
            lines.push(OVERFULL.to_owned());
        }
        if let Some(piece) = self.excerpt() {
            lines.push(piece);
        }
        if self.arguments.plausible.is_none() && plausible.machines <= FEW {
            lines.push(format!(
                "The trace is large, so only {} plausible machines were asked: `--plausible` asks more.",
                plausible.machines
            ));
        }
        lines
    }

    /// How much of the trace was replayed, where that was not all.
    fn excerpt(&self) -> Option<String> {
        let replayed = self.advice.part;
        (replayed < 1.0).then(|| {
            format!(
                "Of the trace {PIECES} pieces were replayed, spread evenly over its steps, which together are {} of them: all of it \
                 takes longer than a budget of {} s, and `--budget` gives more. Of eight traces a tenth told mechanisms apart as \
                 all of them did, to 12 %; their times were 0.28 to 1.15 of what all of them took.",
                part(replayed),
                self.arguments.budget
            )
        })
    }

    pub(super) fn to_text(&self, form: fn(&Grid) -> String) -> String {
        let Self { arguments, machine, inputs, .. } = self;
        let list = |lines: Vec<String>| -> String {
            lines.iter().map(|line| format!("* {}", wrapped(line, 0))).collect()
        };
        let file = arguments.file.file_name().unwrap_or_default().display();
        let plausible = &self.advice.plausible;
        let tied = match plausible.tied {
            0 => String::new(),
            tied => format!(" On {tied} the best two come to the same."),
        };
        let about = format!(
            "{file} on {}, {}, seed {}: CPU time for each second of the program, its median on {} plausible machines, \
             where at least 90 % of them are, and with the machine file's numbers alone.{tied}",
            machine.key,
            counted(inputs.cpus, "CPU", "CPUs"),
            arguments.seed,
            plausible.machines,
        );
        let mut text = format!("{}\n{}\n", wrapped(&self.answer(), 0), wrapped(&about, 0));
        text += &form(&self.grid());
        let reasons = self.reasons();
        if !reasons.is_empty() {
            text += &format!("\nwhat decides it\n\n{}", list(reasons));
        }
        text + "\nwhat this rests on\n\n" + &list(self.limits())
    }

    pub(super) fn to_json(&self) -> String {
        let Self { arguments, read, machine, inputs, advice } = self;
        let (plausible, reasons) = (&advice.plausible, self.reasons());
        let interval =
            |of: &Interval| json!({ "low": of.low, "median": of.median, "high": of.high });
        let mechanism = |(i, of): (usize, &Mechanism)| {
            json!({
                "strategy": of.strategy,
                "ms_per_second": interval(&of.time),
                "file_ms_per_second": of.file_time(),
                "share": of.share(of.time.median),
                "interrupts_per_second": interval(&of.interrupts),
                "broadcasts_per_second": interval(&of.broadcasts),
                "best_on": plausible.best[i],
                "behind_on": of.behind_on,
                "lost_ms_per_second": { "mean": of.lost[0], "most": of.lost[1] },
                "refills_share": of.refills,
            })
        };
        let mechanisms: Vec<Value> = advice.mechanisms.iter().enumerate().map(mechanism).collect();
        let costs_of = CostsOf::of(&read.trace.origin, machine, inputs.chosen);
        let document = json!({
            "version": VERSION,
            "file": read.name,
            "program": read.subject(),
            "machine": machine.key,
            "cpus": inputs.cpus,
            "recorded_cpus": inputs.script.cpus.len(),
            "traced": inputs.script.length,
            "part": advice.part,
            "flushes": if inputs.flushes == Flushes::Recorded { "recorded" } else { "calls" },
            "seed": arguments.seed,
            "verdict": advice.verdict.name(),
            "answer": self.answer(),
            "first": advice.mechanisms[plausible.pair[0]].strategy,
            "second": advice.mechanisms[plausible.pair[1]].strategy,
            "certainty": advice.certainty(),
            "machines": plausible.machines,
            "tied_on": plausible.tied,
            "mechanisms": mechanisms,
            "turns_on": plausible.influences.iter().map(super::super::run::influence).collect::<Vec<_>>(),
            "measure": words::measurement(plausible)
                .filter(|_| !reasons.is_empty())
                .map(|price| format!("lookaside calibrate --only {price}")),
            "machine_is": costs_of.name(),
            "costs": costs_of.sentence(&read.trace.origin, machine),
            "unpriced": plausible.gaps.unpriced,
            "flush_tag_as": plausible.gaps.tag_as,
            "assumed_prices": plausible.gaps.assumed,
            "record": super::super::run::record(),
            "reasons": reasons,
            "assumptions": self.limits(),
        });
        format!("{document:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_best_without_the_library_is_no_rival_of_the_table() {
        let best = [("INVLPGB".to_owned(), 19), ("interrupts".to_owned(), 0)];
        assert_eq!(
            without_the_library(&best, 19),
            "Without the library, INVLPGB would be best on 19 of 19 machines, interrupts on 0."
        );
    }
}
