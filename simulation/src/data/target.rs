//! Which published value a number is fitted to.

use core::{fmt, str::FromStr};

use lookaside_terminal::Refused;

use super::{Point, Published, Series};

/// A published value, as `fitted` of a machine file names it: `RESULT` for the baseline, `RESULT:2`
/// for the second variant, either with `@x` for one point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The name of the result.
    pub result: String,
    /// Which variant, from 1; 0 for the baseline.
    pub variant: usize,
    /// Which point of a curve.
    pub x: Option<f64>,
}

/// What a [`Target`] names.
#[derive(Clone, Copy, Debug)]
pub struct Found<'p> {
    /// The result.
    pub result: &'p Published,
    /// The baseline or the variant.
    pub series: &'p Series,
    /// The point.
    pub point: &'p Point,
    /// The key of the machine that the point is for.
    pub machine: &'p str,
}

impl Target {
    /// The published value.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn find<'p>(&self, published: &'p [Published]) -> Result<Found<'p>, Refused> {
        let ids = || published.iter().map(|result| result.id.as_str());
        let result = published
            .iter()
            .find(|result| result.id == self.result)
            .ok_or_else(|| lookaside_terminal::names::unknown("result", &self.result, ids()))?;
        let Some(series) = result.series().nth(self.variant) else {
            return Err(Refused(format!(
                "`{}` has no variant {}, only {}",
                self.result,
                self.variant,
                result.variants.len()
            )));
        };
        let place = match self.x {
            None if series.points.len() > 1 || series.points.iter().any(|p| p.x.is_some()) => {
                return Err(Refused(format!("`{self}` is a curve; name a point of it with `@x`")));
            }
            None => 0,
            Some(x) => {
                let place = series.points.iter().position(|point| point.x == Some(x));
                place.ok_or_else(|| Refused(format!("`{}` has no point {x}", self.result)))?
            }
        };
        let point = series.points.get(place);
        let point = point.ok_or_else(|| Refused(format!("`{self}` has no value")))?;
        Ok(Found { result, series, point, machine: result.machine(place) })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.result)?;
        if self.variant > 0 {
            write!(f, ":{}", self.variant)?;
        }
        match self.x {
            Some(x) => write!(f, "@{x}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Target {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let wrong = || {
            Refused(format!(
                "`{text}` is not of the form RESULT, RESULT:VARIANT, RESULT@X or RESULT:VARIANT@X"
            ))
        };
        let (name, x) = match text.split_once('@') {
            Some((name, x)) => {
                let x: f64 = x.parse().map_err(|_| wrong())?;
                (name, Some(x).filter(|x| x.is_finite()).ok_or_else(wrong)?.into())
            }
            None => (text, None),
        };
        let (result, variant) = match name.split_once(':') {
            Some((result, variant)) => (result, variant.parse().map_err(|_| wrong())?),
            None => (name, 0),
        };
        if result.is_empty() {
            return Err(wrong());
        }
        Ok(Self { result: result.to_owned(), variant, x })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_is_written() {
        for text in ["a-1", "a-1:2", "a-1@4", "a-1:2@0.25"] {
            assert_eq!(text.parse::<Target>().expect(text).to_string(), text);
        }
        for text in ["", ":1", "@2", "a:", "a:x", "a@", "a@x", "a@inf", "a:1:2"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
