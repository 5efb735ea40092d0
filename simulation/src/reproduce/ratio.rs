//! The arithmetic of a comparison: ratios to the baseline, their errors, and which way is better.

use crate::data::Better;

/// What is published or modelled of one series at one point, and of its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The value, in the unit of the result.
    pub value: f64,
    /// Its ratio to the baseline; 1 for the baseline itself, none if there is no baseline here.
    pub ratio: Option<f64>,
}

/// A quotient, where it is a number.
fn quotient(a: f64, b: f64) -> Option<f64> {
    let quotient = a / b;
    quotient.is_finite().then_some(quotient)
}

/// A published value beside that of its baseline. Values of a `relative` result are changes in
/// percent.
#[must_use]
pub fn published(value: f64, baseline: Option<f64>, relative: bool) -> Pair {
    let percent = if relative { 100.0 } else { 0.0 };
    let ratio = baseline.and_then(|baseline| quotient(percent + value, percent + baseline));
    Pair { value, ratio }
}

/// What the model gives, in the unit of the result: `value` and `baseline` are in the workload's
/// unit, which `scale` converts.
#[must_use]
pub fn modelled(value: f64, baseline: Option<f64>, scale: f64, relative: bool) -> Option<Pair> {
    let ratio = baseline.and_then(|baseline| quotient(value, baseline));
    let value = if relative { 100.0 * (ratio? - 1.0) } else { value * scale };
    Some(Pair { value, ratio })
}

/// By how much the model is off, as a fraction: for a variant that of the ratio to its baseline, for a
/// baseline that of the value.
#[must_use]
pub fn error(published: Pair, modelled: Pair, is_baseline: bool, relative: bool) -> Option<f64> {
    if is_baseline && !relative {
        return quotient(modelled.value, published.value).map(|quotient| quotient - 1.0);
    }
    quotient(modelled.ratio?, published.ratio?).map(|quotient| quotient - 1.0)
}

/// How many times as good a value is as the baseline that it has this ratio to.
#[must_use]
pub fn gain(ratio: f64, better: Better) -> Option<f64> {
    match better {
        Better::Lower => quotient(1.0, ratio),
        Better::Higher => Some(ratio),
    }
}

/// Published values that differ by less than this fraction say nothing about which is greater: many
/// are given with two digits.
pub const TIE: f64 = 0.02;

/// Whether the model has two values the other way round than they were published. Each argument is
/// the second value over the first.
#[must_use]
pub fn is_reversed(published: f64, modelled: f64) -> bool {
    if (published - 1.0).abs() < TIE {
        return false;
    }
    let agrees = if published > 1.0 { modelled > 1.0 } else { modelled < 1.0 };
    !agrees
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_error_of_a_variant_is_that_of_its_ratio() {
        // Published 2.0 to 0.5; modelled 4.0 to 1.1: the ratio is 0.275, not 0.25.
        let p = published(0.5, Some(2.0), false);
        let m = modelled(1100.0, Some(4000.0), 0.001, false).unwrap();
        assert!(close(m.value, 1.1) && close(m.ratio.unwrap(), 0.275));
        assert!(close(error(p, m, false, false).unwrap(), 0.1));
    }

    #[test]
    fn the_error_of_a_baseline_is_that_of_its_value() {
        let p = published(2.0, Some(2.0), false);
        let m = modelled(1900.0, Some(1900.0), 0.001, false).unwrap();
        assert!(close(error(p, m, true, false).unwrap(), -0.05));
    }

    #[test]
    fn changes_in_percent_are_compared_as_what_they_make() {
        // Published +190 %, modelled +161 %: 2.61 where 2.9 was measured.
        let p = published(190.0, Some(0.0), true);
        let m = modelled(2610.0, Some(1000.0), 1.0, true).unwrap();
        assert!(close(m.value, 161.0) && close(p.ratio.unwrap(), 2.9));
        assert!(close(error(p, m, false, true).unwrap(), -0.1));
        let base = modelled(1000.0, Some(1000.0), 1.0, true).unwrap();
        assert!(close(base.value, 0.0));
        assert!(close(error(published(0.0, Some(0.0), true), base, true, true).unwrap(), 0.0));
    }

    #[test]
    fn a_missing_or_zero_divisor_gives_no_ratio() {
        assert_eq!(published(1.0, Some(0.0), false).ratio, None);
        assert_eq!(published(1.0, None, false).ratio, None);
        assert_eq!(modelled(1.0, None, 1.0, true), None);
        assert_eq!(modelled(1.0, Some(0.0), 1.0, false).unwrap().ratio, None);
    }

    #[test]
    fn better_may_be_more_or_less() {
        assert!(close(gain(0.25, Better::Lower).unwrap(), 4.0));
        assert!(close(gain(0.25, Better::Higher).unwrap(), 0.25));
        assert_eq!(gain(0.0, Better::Lower), None);
    }

    #[test]
    fn a_direction_is_wrong_if_it_is_not_that_of_the_publication() {
        assert!(!is_reversed(0.5, 0.99));
        assert!(is_reversed(0.5, 1.0));
        assert!(is_reversed(1.2, 0.9));
        assert!(!is_reversed(1.0164, 0.9), "6.1 and 6.2 are the same with two digits");
        assert!(is_reversed(1.2, f64::NAN));
    }
}
