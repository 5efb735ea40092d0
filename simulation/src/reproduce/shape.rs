//! Shapes of curves: where they peak and decline, which way they step, and what is level.

use super::{
    ratio::TIE,
    reference::Member,
    row::Comparison,
    summary::{LIMIT, reference},
};
use crate::data::Published;

/// A step between two points of a curve that is at least this large says something.
const STEP: f64 = 0.05;

/// A point: where it is, what was published, what the model gives.
type Point = (f64, f64, f64);

/// What the model has another way than it was published, a sentence each: peaks of curves, steps from one point
/// of a curve to the next, ties at one point, and the order of values in different results of one study.
pub(super) fn unlike(comparisons: &[Comparison<'_>]) -> Vec<String> {
    let mut all = Vec::new();
    for comparison in comparisons {
        for member in members(comparison.result) {
            let points = curve(comparison, member);
            let name = reference(comparison.result, member, None).to_string();
            all.extend(peak(&points).map(|why| format!("{name}: {why}")));
            all.extend(points.windows(2).filter_map(|two| {
                let why = step(two[0], two[1])?;
                Some(format!("{name} from {} to {}: {why}", two[0].0, two[1].0))
            }));
        }
        all.extend(ties(comparison));
    }
    all.extend(across(comparisons));
    all
}

fn members(result: &Published) -> impl Iterator<Item = Member> {
    [Member::Baseline].into_iter().chain((1..=result.variants.len()).map(Member::Variant))
}

/// The points of a series, unless they are given: the baseline of changes in percent is level by definition.
fn curve(comparison: &Comparison<'_>, member: Member) -> Vec<Point> {
    if comparison.result.relative && member == Member::Baseline {
        return Vec::new();
    }
    // Changes in percent are compared as what they make of the baseline.
    let value = |pair: super::ratio::Pair| match comparison.result.relative {
        true => pair.ratio,
        false => Some(pair.value),
    };
    let of = |place: &super::row::Place<'_>| {
        let row = place.rows.iter().find(|row| row.member == Some(member))?;
        Some((place.x?, row.published.and_then(value)?, row.modelled.and_then(value)?))
    };
    comparison.places.iter().filter_map(of).collect()
}

/// Where the highest value is, if it is higher than both ends.
fn summit(values: &[f64]) -> Option<usize> {
    let top = (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b]).then(b.cmp(&a)))?;
    let ends = [values.first()?, values.last()?];
    ends.iter().all(|&&end| values[top] > end * (1.0 + STEP)).then_some(top)
}

/// What is wrong with where a curve peaks: a peak may be at a neighbouring point.
fn peak(points: &[Point]) -> Option<String> {
    let published: Vec<f64> = points.iter().map(|point| point.1).collect();
    let modelled: Vec<f64> = points.iter().map(|point| point.2).collect();
    let fall = |values: &[f64], top: usize| {
        values.last().map_or(0.0, |last| 100.0 * (1.0 - last / values[top]))
    };
    match (summit(&published), summit(&modelled)) {
        (Some(here), Some(there)) if here.abs_diff(there) <= 1 => None,
        (Some(here), Some(there)) => Some(format!(
            "published, it peaks at {} and falls by {:.0} %; modelled, at {} and by {:.0} %",
            points[here].0,
            fall(&published, here),
            points[there].0,
            fall(&modelled, there)
        )),
        (Some(here), None) => Some(format!(
            "published, it peaks at {} and falls by {:.0} %; modelled, it has no peak",
            points[here].0,
            fall(&published, here)
        )),
        (None, Some(there)) => Some(format!(
            "published, it has no peak; modelled, it peaks at {} and falls by {:.0} %",
            points[there].0,
            fall(&modelled, there)
        )),
        (None, None) => None,
    }
}

/// What is wrong with a step: it leads the other way.
fn step((_, p1, m1): Point, (_, p2, m2): Point) -> Option<String> {
    let (published, modelled) = (p2 / p1 - 1.0, m2 / m1 - 1.0);
    let opposite = published * modelled < 0.0;
    (published.abs() > STEP && modelled.abs() > TIE && opposite).then(|| {
        format!("published {:+.1} %, modelled {:+.1} %", 100.0 * published, 100.0 * modelled)
    })
}

/// Values of one point that were published as the same, and that the model has apart.
fn ties(comparison: &Comparison<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for place in &comparison.places {
        for (i, second) in place.rows.iter().enumerate() {
            for first in &place.rows[..i] {
                let ratio = |row: &super::row::Row| row.published?.ratio.zip(row.modelled?.ratio);
                let (Some((p1, m1)), Some((p2, m2))) = (ratio(first), ratio(second)) else {
                    continue;
                };
                let (published, modelled) = (p2 / p1 - 1.0, m2 / m1 - 1.0);
                if published.abs() < TIE && modelled.abs() > LIMIT {
                    let name = |row: &super::row::Row| {
                        let member = row.member.unwrap_or(Member::Baseline);
                        reference(comparison.result, member, place.x).to_string()
                    };
                    all.push(format!(
                        "{} and {}: published the same, modelled {:+.1} %",
                        name(second),
                        name(first),
                        100.0 * modelled
                    ));
                }
            }
        }
    }
    all
}

/// Values of different results of one study that measure the same on the same machine.
fn across(comparisons: &[Comparison<'_>]) -> Vec<String> {
    let mut all = Vec::new();
    for (i, second) in comparisons.iter().enumerate() {
        for first in &comparisons[..i] {
            let (one, other) = (first.result, second.result);
            let alike = one.source == other.source
                && one.machines == other.machines
                && one.measure == other.measure
                && one.workload == other.workload
                && one.unit == other.unit
                && !one.relative
                && !other.relative;
            if !alike {
                continue;
            }
            for (x, a, b) in pairs(first, second) {
                let values =
                    |row: &super::row::Row| Some((row.published?.value, row.modelled?.value));
                let (Some((p1, m1)), Some((p2, m2))) = (values(a), values(b)) else { continue };
                if super::ratio::is_reversed(p2 / p1, m2 / m1) {
                    let name = |result, row: &super::row::Row| {
                        reference(result, row.member.unwrap_or(Member::Baseline), x).to_string()
                    };
                    all.push(format!(
                        "{} over {}: published {:+.1} %, modelled {:+.1} %",
                        name(other, b),
                        name(one, a),
                        100.0 * (p2 / p1 - 1.0),
                        100.0 * (m2 / m1 - 1.0)
                    ));
                }
            }
        }
    }
    all
}

/// The rows of two results at the points that both have.
fn pairs<'c>(
    first: &'c Comparison<'_>,
    second: &'c Comparison<'_>,
) -> Vec<(Option<f64>, &'c super::row::Row, &'c super::row::Row)> {
    let mut all = Vec::new();
    for place in &first.places {
        let Some(other) = second.places.iter().find(|other| other.x == place.x) else { continue };
        for a in place.rows.iter().filter(|row| row.member.is_some()) {
            for b in other.rows.iter().filter(|row| row.member.is_some()) {
                all.push((place.x, a, b));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(published: &[f64], modelled: &[f64]) -> Vec<Point> {
        let all = published.iter().zip(modelled).enumerate();
        all.map(|(i, (&p, &m))| ((1 << i) as f64, p, m)).collect()
    }

    #[test]
    fn a_curve_that_peaks_must_peak_there_and_decline() {
        let published = [1.0, 2.0, 4.0, 3.0, 2.0];
        assert_eq!(peak(&points(&published, &[1.0, 2.0, 3.0, 2.5, 2.0])), None);
        assert_eq!(peak(&points(&published, &[1.0, 2.0, 3.0, 3.5, 2.0])), None, "a neighbour");
        let flat = peak(&points(&published, &[1.0, 2.0, 4.0, 4.0, 4.0])).unwrap();
        assert_eq!(flat, "published, it peaks at 4 and falls by 50 %; modelled, it has no peak");
        let early = peak(&points(&published, &[9.0, 2.0, 1.0, 1.0, 1.0])).unwrap();
        assert!(early.ends_with("has no peak"), "{early}");
        let none = peak(&points(&[1.0, 2.0, 3.0], &[1.0, 3.0, 1.0])).unwrap();
        assert!(none.contains("peaks at 2 and falls by 67 %"), "{none}");
    }

    #[test]
    fn a_step_must_not_lead_the_other_way() {
        let step = |p: [f64; 2], m: [f64; 2]| step((1.0, p[0], m[0]), (2.0, p[1], m[1]));
        assert!(step([1.0, 1.2], [1.0, 0.8]).is_some());
        assert!(step([1.0, 1.2], [1.0, 1.01]).is_none());
        assert!(step([1.0, 1.2], [1.0, 0.99]).is_none(), "level within what is a tie");
        assert!(step([1.0, 1.02], [1.0, 0.8]).is_none(), "published level");
    }
}
