//! Setting the fitted numbers of machines: each so that the model gives the published value that it
//! names.
//!
//! Numbers are solved in the order of the file, by secants that stay within what is known to be too
//! low and too high. They may depend on each other, so that is repeated until all are met at once.

use lookaside_terminal::Refused;
use rayon::prelude::*;

use super::{
    book::Book,
    execute::Execute,
    plan::run,
    ratio,
    reference::{Member, Reference},
};
use crate::data::{self, Machine, Origin, Published};

/// By how much the model may be off from what a number is fitted to, as a fraction, for the number to
/// be called fitted.
const TOLERANCE: f64 = 0.005;
/// So close all numbers of a machine are to be brought at once.
const ENOUGH: f64 = 0.001;
/// How close a number is brought by itself.
const GOAL: f64 = 0.0003;
/// How often all numbers of a machine are gone through.
const PASSES: usize = 12;
/// How often the model is asked for one number in one pass.
const STEPS: usize = 40;

/// A number of a machine file that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The key of the machine.
    pub machine: String,
    /// The number: `paths.exit`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// What it is fitted to.
    pub to: String,
    /// What it was.
    pub old: f64,
    /// What it is now.
    pub new: f64,
    /// By how much the model is off now, as a fraction; none if it gives nothing.
    pub error: Option<f64>,
    /// Why the model cannot be brought to give the published value.
    pub problem: Option<String>,
}

impl Fitted {
    /// Whether the model gives the published value.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.error.is_some_and(|error| error.abs() <= TOLERANCE)
    }
}

/// What a number is fitted to.
struct Target<'b> {
    result: &'b Published,
    member: Member,
    x: Option<f64>,
    /// The machine that it was published for.
    machine: &'b str,
}

/// Fits the numbers of these machines, or of all: what they were and what they should be, in the order
/// of the files.
///
/// # Errors
///
/// If there is no such machine.
pub fn fit(
    book: &Book,
    machines: &[String],
    execute: &Execute<'_>,
    seed: u64,
) -> Result<Vec<Fitted>, Refused> {
    let chosen: Vec<&Machine> = if machines.is_empty() {
        book.machines.iter().collect()
    } else {
        machines.iter().map(|key| book.machine(key)).collect::<Result<_, _>>()?
    };
    // Numbers that are fitted to values of another machine are those of that machine: so that is first.
    let mut book = book.clone();
    let mut fitted: Vec<Option<Vec<Fitted>>> = vec![None; chosen.len()];
    for shares in [false, true] {
        let turn = |(_, machine): &(usize, &&Machine)| shares_numbers(&book, machine) == shares;
        let now: Vec<(usize, &Machine)> =
            chosen.iter().enumerate().filter(turn).map(|(i, &machine)| (i, machine)).collect();
        let one = |&(i, machine): &(usize, &Machine)| {
            fit_machine(&book, machine, execute, seed).map(|fitted| (i, fitted))
        };
        let done: Result<Vec<_>, _> = now.par_iter().with_max_len(1).map(one).collect();
        for (i, numbers) in done? {
            for number in numbers.iter().filter(|number| number.new != number.old) {
                let machine = book.machines.iter_mut().find(|m| m.key == number.machine);
                if let Some(machine) = machine {
                    machine.set_number(&number.name, number.new)?;
                }
            }
            fitted[i] = Some(numbers);
        }
    }
    Ok(fitted.into_iter().flatten().flatten().collect())
}

/// Whether a machine has numbers that are fitted to values of another.
fn shares_numbers(book: &Book, machine: &Machine) -> bool {
    machine.values.iter().any(|value| match &value.origin {
        Origin::Fitted { to } => target(book, to).is_ok_and(|target| target.machine != machine.key),
        Origin::Source { .. } | Origin::Assumed { .. } => false,
    })
}

fn fit_machine(
    book: &Book,
    machine: &Machine,
    execute: &Execute<'_>,
    seed: u64,
) -> Result<Vec<Fitted>, Refused> {
    let mut machine = machine.clone();
    let mut numbers = Vec::new();
    let mut targets = Vec::new();
    for value in &machine.values {
        let Origin::Fitted { to } = &value.origin else { continue };
        let target = target(book, to);
        let shared = target.as_ref().ok().map(|target| target.machine);
        let mut new = value.number;
        if let Some(other) = shared.filter(|&other| other != machine.key) {
            new = book.machine(other)?.number(&value.name).unwrap_or(new);
        }
        let problem = target.as_ref().err().map(|Refused(why)| why.clone());
        targets.push(target.ok());
        numbers.push(Fitted {
            machine: machine.key.clone(),
            name: value.name.clone(),
            unit: value.unit.clone(),
            to: to.clone(),
            old: value.number,
            new,
            error: None,
            problem,
        });
    }
    for number in numbers.iter().filter(|number| number.new != number.old) {
        machine.set_number(&number.name, number.new)?;
    }
    let off = |machine: &Machine, target: &Target<'_>| {
        let machine =
            if target.machine == machine.key { machine } else { book.machine(target.machine)? };
        target.off(book, machine, execute, seed)
    };
    for _ in 0..PASSES {
        let mut changed = false;
        for (number, target) in numbers.iter_mut().zip(&targets) {
            let Some(target) = target.as_ref().filter(|target| target.machine == machine.key)
            else {
                continue;
            };
            let mut ask = |value: f64| {
                machine.set_number(&number.name, value)?;
                off(&machine, target)
            };
            let before = number.new;
            match solve(number.new, &mut ask) {
                Ok(value) => (number.new, number.problem) = (value, None),
                Err(Refused(why)) => number.problem = Some(why),
            }
            changed |= number.new != before;
            if let Err(Refused(why)) = machine.set_number(&number.name, number.new) {
                number.problem = Some(why);
            }
        }
        for (number, target) in numbers.iter_mut().zip(&targets) {
            number.error = target.as_ref().and_then(|target| off(&machine, target).ok());
        }
        let enough = |error: Option<f64>| error.is_some_and(|error| error.abs() <= ENOUGH);
        if !changed || numbers.iter().all(|number| enough(number.error)) {
            break;
        }
    }
    for (number, target) in numbers.iter_mut().zip(&targets) {
        let Some(target) = target else { continue };
        if !number.is_met() && number.problem.is_none() {
            number.problem = Some(if target.machine == machine.key {
                "gets no nearer, however the fitted numbers are set".to_owned()
            } else {
                format!("is that of `{}`, which is not met", target.machine)
            });
        }
    }
    Ok(numbers)
}

fn target<'b>(book: &'b Book, to: &str) -> Result<Target<'b>, Refused> {
    let found = to.parse::<data::Target>()?.find(&book.published)?;
    let Reference { member, .. } = to.parse()?;
    Ok(Target { result: found.result, member, x: found.point.x, machine: found.machine })
}

impl Target<'_> {
    /// By how much a machine is off, as a fraction.
    fn off(
        &self,
        book: &Book,
        machine: &Machine,
        execute: &Execute<'_>,
        seed: u64,
    ) -> Result<f64, Refused> {
        let Self { result, member, x, .. } = *self;
        let modelled = |member: Member| {
            let series = member.of(result)?;
            let series = (series.strategy.as_str(), &series.options);
            let run = run(book, result, machine, series, x, seed);
            execute(machine, &run)?.metric(&result.measure)
        };
        let published = |member: Member| {
            let points = &member.of(result)?.points;
            let point = points.iter().find(|point| point.x == x);
            point.map(|point| point.value).ok_or_else(|| Refused("nothing is published".to_owned()))
        };
        // Only changes in percent are fitted as ratios.
        let base = if result.relative {
            (Some(modelled(Member::Baseline)?), Some(published(Member::Baseline)?))
        } else {
            (None, None)
        };
        let value = modelled(member)?;
        let modelled = ratio::modelled(value, base.0, result.scale, result.relative);
        let published = ratio::published(published(member)?, base.1, result.relative);
        modelled
            .and_then(|modelled| {
                ratio::error(published, modelled, !result.relative, result.relative)
            })
            .ok_or_else(|| Refused("there is no ratio".to_owned()))
    }
}

/// A number as a file has it: with five digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// Looks for the value at which `ask` gives zero.
fn solve(start: f64, ask: &mut dyn FnMut(f64) -> Result<f64, Refused>) -> Result<f64, Refused> {
    let mut a = (start, ask(start)?);
    if a.1.abs() <= GOAL {
        return Ok(start);
    }
    let mut best = a;
    let (mut b, mut tries) = (a, 0);
    // A second point, far enough away to see that the number matters.
    while (b.1 - a.1).abs() < 1e-9 {
        if tries == 4 {
            return Err(Refused("changes nothing in what it is fitted to".to_owned()));
        }
        let value = rounded(if start > 0.0 { start * (1.1 + f64::from(tries)) } else { 1.0 });
        let value = value * 10_f64.powi(if start > 0.0 { 0 } else { tries });
        b = (value, ask(value)?);
        tries += 1;
    }
    // What is known to be on either side: a value at which the model is too low, and too high.
    let mut sides: [Option<f64>; 2] = [None; 2];
    for (value, off) in [a, b] {
        sides[usize::from(off > 0.0)] = Some(value);
    }
    for _ in 0..STEPS {
        if b.1.abs() < best.1.abs() {
            best = b;
        }
        if best.1.abs() <= GOAL {
            return Ok(best.0);
        }
        let slope = (b.1 - a.1) / (b.0 - a.0);
        let next = b.0 - b.1 / slope;
        let next = match sides {
            [Some(low), Some(high)] => {
                let (from, to) = (low.min(high), low.max(high));
                let inside = next > from && next < to;
                if inside { next } else { f64::midpoint(from, to) }
            }
            _ if next.is_finite() => next.clamp(0.0, 10.0 * b.0.max(a.0)),
            _ => 2.0 * b.0,
        };
        let next = rounded(next);
        if next == b.0 || next == a.0 {
            break;
        }
        a = b;
        b = (next, ask(next)?);
        sides[usize::from(b.1 > 0.0)] = Some(next);
    }
    // What the model gives may jump; nearest is best.
    Ok(if b.1.abs() < best.1.abs() { b.0 } else { best.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solved(start: f64, f: fn(f64) -> f64) -> Result<f64, Refused> {
        solve(start, &mut |x| Ok(f(x)))
    }

    #[test]
    fn straight_and_bent_lines_are_solved() {
        assert!((solved(1.0, |x| x / 6.5 - 1.0).unwrap() - 6.5).abs() < 0.01);
        assert!((solved(100.0, |x| (3.0 + x * x) / 28.0 - 1.0).unwrap() - 5.0).abs() < 0.01);
        assert!((solved(0.0, |x| (10.0 + 2.0 * x) / 20.0 - 1.0).unwrap() - 5.0).abs() < 0.01);
        // More of it gives less.
        assert!((solved(2.0, |x| 3.0 / x - 1.0).unwrap() - 3.0).abs() < 0.01);
    }

    #[test]
    fn an_unreachable_target_is_approached_as_near_as_possible() {
        assert_eq!(
            solved(5.0, |x| (10.0 + x) / 8.0 - 1.0).unwrap(),
            0.0,
            "the nearest that there is"
        );
        assert!(solved(5.0, |_| 0.5).unwrap_err().0.contains("changes nothing"));
    }

    #[test]
    fn a_number_that_is_right_stays() {
        assert_eq!(solved(6.501, |x| x / 6.5 - 1.0).unwrap(), 6.501);
    }
}
