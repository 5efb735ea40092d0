//! Dealing rounds out to several machines.

use core::{fmt, str::FromStr};

/// One of several parts of all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl Shard {
    /// All rounds.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether a round of the scenario of this number belongs to this part. Every part has some of
    /// the early rounds and some of the late ones, of every scenario.
    #[must_use]
    pub fn has(self, scenario: usize, round: u32) -> bool {
        (scenario as u64 + u64::from(round)) % u64::from(self.of) == u64::from(self.index)
    }
}

/// Why a text names no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardError {
    /// It is not two numbers with a slash between.
    Shape,
    /// There is no such part.
    Beyond {
        /// The part.
        index: u32,
        /// How many there are.
        of: u32,
    },
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => write!(f, "a shard is I/N, for example 0/4"),
            Self::Beyond { of: 0, .. } => write!(f, "there are no shards of 0"),
            Self::Beyond { index, of } => {
                write!(f, "there is no shard {index} of {of}: they are 0 to {}", of - 1)
            }
        }
    }
}

impl core::error::Error for ShardError {}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (index, of) = text.split_once('/').ok_or(ShardError::Shape)?;
        let number = |text: &str| text.parse().map_err(|_| ShardError::Shape);
        let (index, of) = (number(index)?, number(of)?);
        if index < of { Ok(Self { index, of }) } else { Err(ShardError::Beyond { index, of }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_belongs_to_one_shard() {
        for of in 1..5 {
            for (scenario, round) in [(0, 0), (3, 1), (7, 12)] {
                let has = |&index: &u32| Shard { index, of }.has(scenario, round);
                assert_eq!((0..of).filter(has).count(), 1);
            }
        }
    }

    #[test]
    fn malformed_and_out_of_range_shards_are_refused() {
        assert_eq!("1/3".parse(), Ok(Shard { index: 1, of: 3 }));
        for wrong in ["", "1", "/", "a/2", "1/", "-1/2"] {
            assert_eq!(wrong.parse::<Shard>(), Err(ShardError::Shape), "{wrong}");
        }
        for (text, index, of) in [("3/3", 3, 3), ("0/0", 0, 0)] {
            assert_eq!(text.parse::<Shard>(), Err(ShardError::Beyond { index, of }));
        }
    }
}
