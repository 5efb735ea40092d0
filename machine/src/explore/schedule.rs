//! Schedules: which of the things that could happen did, as a short printable string.
//!
//! Wherever more than one thing can happen, the machine has a default: the CPU that executed the
//! last step goes on. A schedule lists only the deviations: `v1:<scenario>:<deviations>`, where a
//! deviation is the number of points that went by default before it and the index of what was
//! chosen instead, both in base 36, joined by `.`; deviations are joined by `-`.

use core::{fmt, str::FromStr};

/// A way through a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    scenario: String,
    /// The number of the point and the index of the choice, in ascending order of points.
    deviations: Vec<(u32, u32)>,
}

/// Why a string is no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The string has not three parts with colons between.
    Shape,
    /// The schedule was written by another version.
    Version {
        /// Its version.
        found: String,
    },
    /// A deviation is not two numbers.
    Deviation {
        /// The deviation.
        text: String,
    },
    /// The schedule is of another scenario.
    Scenario {
        /// The scenario it is replayed on.
        expected: String,
        /// Its own.
        found: String,
    },
    /// The schedule chooses something that cannot happen: the scenario or the library has changed.
    Stale {
        /// The number of the point.
        point: u32,
        /// How many choices there are.
        choices: u32,
    },
}

const VERSION: &str = "v1";

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "a schedule looks like `{VERSION}:scenario:deviations`"),
            Self::Version { found } => {
                write!(f, "the schedule is of version {found}, this machine replays {VERSION}")
            }
            Self::Deviation { text } => write!(f, "`{text}` is not two numbers in base 36"),
            Self::Scenario { expected, found } => {
                write!(f, "the schedule is of scenario {found}, not of {expected}")
            }
            Self::Stale { point, choices } => {
                write!(f, "point {point} has {choices} choices: the code has changed")
            }
        }
    }
}

impl core::error::Error for ScheduleError {}

impl Schedule {
    pub(crate) fn new(scenario: String, choices: &[u32]) -> Self {
        let deviates =
            |(point, &choice): (usize, &u32)| (choice != 0).then_some((point as u32, choice));
        Self { scenario, deviations: choices.iter().enumerate().filter_map(deviates).collect() }
    }

    /// The schedule on which nothing deviates.
    #[must_use]
    pub fn default_of(scenario: impl Into<String>) -> Self {
        Self { scenario: scenario.into(), deviations: Vec::new() }
    }

    pub(crate) fn with(&self, deviations: Vec<(u32, u32)>) -> Self {
        Self { scenario: self.scenario.clone(), deviations }
    }

    /// The scenario that it is of.
    #[must_use]
    pub fn scenario(&self) -> &str {
        &self.scenario
    }

    /// The points at which it deviates and what it chooses there.
    #[must_use]
    pub fn deviations(&self) -> &[(u32, u32)] {
        &self.deviations
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:", self.scenario)?;
        let mut next = 0;
        for (index, &(point, choice)) in self.deviations.iter().enumerate() {
            let joint = if index == 0 { "" } else { "-" };
            write!(f, "{joint}{}.{}", base36(point - next), base36(choice))?;
            next = point + 1;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let (version, rest) = text.split_once(':').ok_or(ScheduleError::Shape)?;
        if version != VERSION {
            let versioned = version.len() > 1
                && version.starts_with('v')
                && version[1..].bytes().all(|byte| byte.is_ascii_digit());
            return Err(if versioned {
                ScheduleError::Version { found: version.to_owned() }
            } else {
                ScheduleError::Shape
            });
        }
        let (scenario, list) = rest.rsplit_once(':').ok_or(ScheduleError::Shape)?;
        let mut deviations = Vec::new();
        let mut next = 0u32;
        for part in list.split('-').filter(|_| !list.is_empty()) {
            let wrong = || ScheduleError::Deviation { text: part.to_owned() };
            let (gap, choice) = part.split_once('.').ok_or_else(wrong)?;
            let gap = parse36(gap).ok_or_else(wrong)?;
            let choice = parse36(choice).filter(|&choice| choice != 0).ok_or_else(wrong)?;
            let point = next.checked_add(gap).ok_or_else(wrong)?;
            deviations.push((point, choice));
            next = point.checked_add(1).ok_or_else(wrong)?;
        }
        Ok(Self { scenario: scenario.to_owned(), deviations })
    }
}

fn base36(mut value: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(value % 36, 36).unwrap_or('0'));
        value /= 36;
        if value == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Digits and lower-case letters only: one spelling for each number.
fn parse36(text: &str) -> Option<u32> {
    let plain = !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    if plain { u32::from_str_radix(text, 36).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_survive_printing() {
        for choices in [&[][..], &[0, 0, 3], &[1, 1, 0, 0, 40, 0], &[0; 100]] {
            let schedule = Schedule::new("a/b".to_owned(), choices);
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        let mut long = vec![0; 1000];
        long.push(7);
        assert_eq!(Schedule::new("x".to_owned(), &long).to_string(), "v1:x:rs.7");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let parse = |text: &str| text.parse::<Schedule>().unwrap_err();
        assert_eq!(parse("nothing"), ScheduleError::Shape);
        assert_eq!(parse("v1:x"), ScheduleError::Shape);
        assert_eq!(parse("w1:x:"), ScheduleError::Shape);
        let error = parse("v2:x:0.1");
        assert_eq!(error, ScheduleError::Version { found: "v2".to_owned() });
        assert!(error.to_string().contains("v2"));
        for text in ["1", "1.", "1.0", "!.1", "1.1--1.1", "1.A", "zzzzzzzzz.1", "+1.1"] {
            let error = parse(&format!("v1:x:{text}"));
            assert!(matches!(error, ScheduleError::Deviation { .. }), "{text}: {error:?}");
        }
    }
}
