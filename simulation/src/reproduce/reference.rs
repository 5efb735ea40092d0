//! How a run of a published result is named: as machine files name what they are fitted to (`RESULT`,
//! `RESULT:2`, `RESULT@4`, `RESULT:2@4`), or `RESULT:recommended`.

use core::{fmt, str::FromStr};

use lookaside_terminal::Refused;

use crate::data::{Published, Series, Target};

/// Which series of a published result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// What the others are compared with.
    Baseline,
    /// A variant, by its number from 1.
    Variant(usize),
    /// The recommended strategy on the same run.
    Recommended,
}

impl Member {
    /// The series that this is of a result.
    ///
    /// # Errors
    ///
    /// If the result has fewer variants.
    pub fn of(self, result: &Published) -> Result<&Series, Refused> {
        match self {
            Self::Baseline => Ok(&result.baseline),
            Self::Recommended => Ok(&result.recommended),
            Self::Variant(number) => {
                number.checked_sub(1).and_then(|i| result.variants.get(i)).ok_or_else(|| {
                    let (id, count) = (&result.id, result.variants.len());
                    Refused(format!("result `{id}` has no variant {number}; it has {count}"))
                })
            }
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline => Ok(()),
            Self::Variant(number) => write!(f, ":{number}"),
            Self::Recommended => f.write_str(":recommended"),
        }
    }
}

/// The name of a published value, or of a whole series.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The name of the result.
    pub id: String,
    /// Which of its series.
    pub member: Member,
    /// Which point of the series; none for its only point, or for all.
    pub x: Option<f64>,
}

impl Reference {
    /// Whether this names that value.
    #[must_use]
    pub fn names(&self, id: &str, member: Member, x: Option<f64>) -> bool {
        self.id == id && self.member == member && (self.x.is_none() || self.x == x)
    }
}

impl FromStr for Reference {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let plain = text.replacen(":recommended", "", 1);
        let Target { result, variant, x } = plain.parse()?;
        let member = match variant {
            _ if plain != text => Member::Recommended,
            0 => Member::Baseline,
            number => Member::Variant(number),
        };
        Ok(Self { id: result, member, x })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, self.member)?;
        self.x.map_or(Ok(()), |x| write!(f, "@{x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_they_are_written() {
        for text in ["a-b", "a-b:2", "a-b@4", "a-b:2@0.5", "a-b:recommended@64"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        assert_eq!("a:0".parse::<Reference>().unwrap().member, Member::Baseline);
        assert!("a:b".parse::<Reference>().is_err());
        assert!("a@".parse::<Reference>().is_err());
    }

    #[test]
    fn a_reference_without_a_point_names_the_whole_series() {
        let all: Reference = "a:1".parse().unwrap();
        assert!(all.names("a", Member::Variant(1), Some(3.0)));
        assert!(!all.names("a", Member::Baseline, None));
        let one: Reference = "a:1@3".parse().unwrap();
        assert!(one.names("a", Member::Variant(1), Some(3.0)));
        assert!(!one.names("a", Member::Variant(1), Some(4.0)));
    }
}
