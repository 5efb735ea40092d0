//! What others recorded of a test: herd's final states, and the table of answers.

use std::collections::BTreeSet;

use super::{
    condition::{Observation, Taken},
    names::{Names, Place},
    text::{Trouble, Words},
};

/// The recorded final states of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The states.
    pub states: BTreeSet<Observation>,
    /// A change needed break-before-make and lacked it, in some execution.
    pub broke: bool,
}

impl Recorded {
    /// Reads herd's output for a test.
    ///
    /// # Errors
    ///
    /// If it is not such an output.
    pub fn read(text: &str, names: &mut Names) -> Result<Self, Trouble> {
        let mut lines = text.lines().enumerate();
        let count = lines.find_map(|(at, line)| {
            line.strip_prefix("States ").map(|count| (at + 1, count.trim().parse::<usize>()))
        });
        let Some((line, Ok(count))) = count else {
            return Err(Trouble { line: 1, what: "no line `States N`".into() });
        };
        let mut states = BTreeSet::new();
        for _ in 0..count {
            let Some((at, state)) = lines.next() else {
                return Err(Trouble { line, what: format!("fewer than {count} states") });
            };
            if !states.insert(observation(state, at + 1, names)?) {
                return Err(Trouble { line: at + 1, what: "a state for the second time".into() });
            }
        }
        let broke = lines.any(|(_, line)| line.trim() == "Flag Warning-BBM-expected");
        Ok(Self { states, broke })
    }
}

fn observation(text: &str, line: usize, names: &mut Names) -> Result<Observation, Trouble> {
    let mut words = Words::new(text, line);
    let mut found = Observation::default();
    while words.peek().is_some() {
        if words.accept(";") {
            continue;
        }
        if words.accept("~") {
            words.expect("fault")?;
            Taken::read(&mut words, names)?;
        } else if words.accept("fault") {
            found.faults.insert(Taken::read(&mut words, names)?);
        } else {
            let place = names.place(&mut words)?;
            words.expect("=")?;
            let own = match place {
                Place::Descriptor(of) => Some(of),
                _ => None,
            };
            let value = names.value(&mut words, own)?;
            found.values.insert(place, value);
        }
        if !words.accept(";") {
            return words.fail("expected `;`");
        }
    }
    Ok(found)
}
