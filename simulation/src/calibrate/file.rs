//! A machine file of what was found.

use core::fmt::Write as _;

use lookaside_machine::timed::Price;
use lookaside_terminal::Refused;
use toml_edit::Value;

use super::{
    facts::{Facts, ISA},
    findings::{Finding, Known},
};
use crate::data::{Files, Machine, Range, Text};

/// The tables, in their order in a file.
const TABLES: [&str; 5] = ["topology", "features", "tlb", "prices", "paths"];

/// A number with as many digits as were measured.
#[must_use]
pub fn number(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() || value.fract() == 0.0 {
        return value;
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6);
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The note of a number: how it was come by and how it is spread.
fn note(known: &Known) -> String {
    match &known.summary {
        None => known.remark.clone(),
        Some(all) => format!(
            "{}; quartiles {} and {}, n = {}",
            known.remark,
            number(all.lower),
            number(all.upper),
            all.n
        ),
    }
}

/// What an interrupt takes of its target, which no round trip tells apart from its way.
struct Target;

impl Target {
    /// What a round trip of so many nanoseconds leaves for the way, what it includes beside, and the lines of the file for
    /// what the target loses: the middle of its range. A round trip shorter than the range is not split.
    fn of(round: f64) -> (f64, &'static str, String) {
        let ranges = Files::own().ranges().unwrap_or_default();
        let range = |price| ISA.and_then(|(isa, _)| ranges.price(isa, price));
        let (Some(entry), Some(exit)) = (range(Price::InterruptEntry), range(Price::InterruptExit))
        else {
            return (round, "", String::new());
        };
        if round <= entry.high {
            return (round, ", includes = [\"interrupt_entry\"]", String::new());
        }
        let line = |key: &str, of: &Range, part: &str, note: &str| {
            format!(
                "\n{key} = {{ value = {}, unit = \"ns\", {part}assumed = {{ low = {}, high = {} }}, note = {} }}",
                number(of.middle()),
                of.low,
                of.high,
                quoted(note)
            )
        };
        let more = line(
            "interrupt_entry",
            entry,
            "part_of = [\"interrupt_deliver\"], ",
            "time of the target; the round trip has it",
        ) + &line(
            "interrupt_exit",
            exit,
            "",
            "time of the target, for which the sender does not wait",
        );
        (round - number(entry.middle()), "", more)
    }
}

/// What a price that was measured sets, in ns: itself, or of a round trip of interrupts its parts, as [`text`] writes them.
#[must_use]
pub fn settings(name: &str, value: f64) -> Vec<(String, f64)> {
    let ranges = Files::own().ranges().unwrap_or_default();
    let middle = |price| ISA.and_then(|(isa, _)| ranges.price(isa, price)).map(Range::middle);
    let parts = (middle(Price::InterruptEntry), middle(Price::InterruptExit));
    match (name, Target::of(value), parts) {
        ("interrupt_deliver", (way, _, more), (Some(entry), Some(exit))) if !more.is_empty() => {
            vec![
                (name.to_owned(), way),
                (Price::InterruptEntry.key().to_owned(), number(entry)),
                (Price::InterruptExit.key().to_owned(), number(exit)),
            ]
        }
        _ => vec![(name.to_owned(), value)],
    }
}

/// The text of the file. What has no number is in its note, with what the model does without it.
#[must_use]
pub fn text(findings: &[Finding], facts: &Facts) -> String {
    let Facts { cpu, kernel, cpus, .. } = facts;
    let guest = if facts.virtualised() == Some(true) { ", as a guest sees it" } else { "" };
    let name = format!("{cpu}, {} CPUs{guest}", cpus.numbers().count());
    let mut notes = facts.warnings();
    for Finding { key, outcome, without, .. } in findings {
        if let (Some(key), Err(why)) = (key, outcome) {
            notes.push(format!("No {key}: {why}; without it: {without}."));
        }
    }
    let mut text =
        format!("name = {}\nisa = {}\n", quoted(&name), quoted(ISA.map_or("", |isa| isa.1)));
    if !notes.is_empty() {
        let _ = writeln!(text, "note = {}", quoted(&notes.join(" ")));
    }
    for table in TABLES {
        let mut begun = false;
        for Finding { key, unit, outcome, .. } in findings {
            let (Some((of, key)), Ok(known)) = (key.and_then(|key| key.split_once('.')), outcome)
            else {
                continue;
            };
            if of != table {
                continue;
            }
            if !begun {
                let _ = writeln!(text, "\n[{table}]");
                begun = true;
            }
            let confidence = if known.derived { "D" } else { "V" };
            let target = (key == "interrupt_deliver").then(|| Target::of(known.value));
            let (value, includes, more) = target.unwrap_or((known.value, "", String::new()));
            let _ = writeln!(
                text,
                "{key} = {{ value = {}, unit = {}{includes}, source = \"here\", confidence = \"{confidence}\", \
                 note = {} }}{more}",
                number(value),
                quoted(unit),
                quoted(&note(known))
            );
        }
    }
    let source = format!(
        "Measured from user space by lab calibrate on the machine itself, {kernel}: medians of short \
         blocks of pinned threads, without those in which anything else ran or the counts of \
         interrupts were not those expected"
    );
    let _ = writeln!(text, "\n[sources]\nhere = {}", quoted(&source));
    text
}

/// The machine of a text, if it is one by all the rules for machine files.
///
/// # Errors
///
/// What is against them.
pub fn check(name: &str, text: &str) -> Result<Machine, Refused> {
    let file = Text::new(name, text);
    let machine = Machine::read(&file)?;
    let files = Files { machines: vec![file], published: Vec::new() };
    match files.breaches().into_iter().next() {
        None => Ok(machine),
        Some(breach) => Err(Refused(breach)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_sets_its_parts_and_counts_none_twice() {
        let set = settings("interrupt_deliver", 900.0);
        let of = |name: &str| set.iter().find(|(one, _)| one == name).map_or(0.0, |&(_, ns)| ns);
        let round = of("interrupt_deliver") + of("interrupt_entry");
        assert!((round - 900.0).abs() < 0.1, "{set:?}");
        // The exit is outside of it.
        assert_eq!(of("interrupt_entry") > 0.0, of("interrupt_exit") > 0.0, "{set:?}");
        assert_eq!(settings("flush_page", 38.0), [("flush_page".to_owned(), 38.0)]);
        // Shorter than an entry may be: it is not split.
        assert_eq!(settings("interrupt_deliver", 10.0).len(), 1);
    }
}
