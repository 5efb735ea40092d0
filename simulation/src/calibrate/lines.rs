//! Straight lines through what a call takes by how many pages it changes, and what they tell.

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// What each more page takes.
    pub slope: f64,
    /// What no page would take.
    pub at_zero: f64,
    /// How far the farthest point is from it, as a share of the point.
    pub residual: f64,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// The line whose slope is the median of all slopes between two points, so that single points that
/// are far off do not move it; none through fewer than three points.
#[must_use]
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    if points.len() < 3 {
        return None;
    }
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        slopes.extend(points[i + 1..].iter().map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    let slope = median(slopes);
    let at_zero = median(points.iter().map(|point| point.1 - slope * point.0).collect());
    let off = |&(x, y): &(f64, f64)| ((at_zero + slope * x - y) / y).abs();
    let residual = points.iter().map(off).fold(0.0, f64::max);
    Some(Line { slope, at_zero, residual })
}

/// What a call takes that invalidates page by page up to a limit, and everything beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranged {
    /// The most pages that are invalidated one by one.
    pub limit: usize,
    /// What each page takes in the table.
    pub table: f64,
    /// What each page takes to invalidate.
    pub page: f64,
    /// What it takes to invalidate everything.
    pub all: f64,
}

/// A point farther from its line than this disturbs.
const RESIDUAL: f64 = 0.08;
/// A step down of this share is the limit.
const STEP: f64 = 0.04;

/// Tells the three apart: beyond the limit the call takes only the table's work for each page, and once
/// what it takes to invalidate everything.
///
/// # Errors
///
/// If there is not one step down, or if the points on one of its sides are not in a line.
pub fn ranged(points: &[(usize, f64)]) -> Result<Ranged, String> {
    let falls = |pair: &[(usize, f64)]| pair[1].1 < (1.0 - STEP) * pair[0].1;
    let steps: Vec<usize> =
        points.windows(2).enumerate().filter(|(_, pair)| falls(pair)).map(|(i, _)| i).collect();
    let [step] = steps[..] else {
        let why = "a limit from which on everything is invalidated is one step down";
        return Err(format!("{} steps down; {why}", steps.len()));
    };
    let floats = |points: &[(usize, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|&(x, y)| (x as f64, y)).collect()
    };
    let (below, above) = points.split_at(step + 1);
    let (Some(below), Some(above)) = (line(&floats(below)), line(&floats(above))) else {
        return Err("there are fewer than three points on one side of the limit".to_owned());
    };
    let residual = below.residual.max(above.residual);
    if residual > RESIDUAL {
        return Err(format!("a point is {:.0} % off its line", residual * 100.0));
    }
    let (table, page, all) =
        (above.slope, below.slope - above.slope, above.at_zero - below.at_zero);
    if table > 0.0 && page > 0.0 && all > 0.0 {
        return Ok(Ranged { limit: points[step].0, table, page, all });
    }
    Err(format!("{table:.0}, {page:.0} and {all:.0} ns cannot be told apart"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [usize; 12] = [1, 4, 8, 16, 24, 33, 34, 48, 64, 128, 192, 256];

    fn call(limit: usize) -> Vec<(usize, f64)> {
        PAGES
            .map(|n| {
                let flush = if n <= limit { 38.0 * n as f64 } else { 110.0 };
                (n, 1700.0 + 71.0 * n as f64 + flush)
            })
            .to_vec()
    }

    #[test]
    fn the_limit_tells_three_prices_apart() {
        let found = ranged(&call(33)).unwrap();
        assert_eq!(found.limit, 33);
        assert!((found.table - 71.0).abs() < 1e-6);
        assert!((found.page - 38.0).abs() < 1e-6);
        assert!((found.all - 110.0).abs() < 1e-6);
    }

    #[test]
    fn single_points_that_are_off_a_little_move_nothing_much() {
        let mut points = call(33);
        points[2].1 *= 1.05;
        points[9].1 *= 1.05;
        let found = ranged(&points).unwrap();
        assert!((found.page - 38.0).abs() < 4.0, "{found:?}");
    }

    #[test]
    fn calls_without_a_limit_or_with_disturbances_are_refused() {
        assert!(ranged(&call(1000)).unwrap_err().starts_with("0 steps down"));
        let mut twice = call(33);
        twice[9].1 *= 3.0;
        assert!(ranged(&twice).unwrap_err().starts_with("2 steps down"));
        let mut off = call(33);
        off[3].1 *= 0.9;
        assert!(ranged(&off).unwrap_err().contains("off its line"), "{:?}", ranged(&off));
        assert!(ranged(&call(33)[..7]).unwrap_err().contains("fewer than three"));
        assert!(ranged(&[]).is_err());
        // A full flush that costs less than nothing.
        let mut cheap = call(33);
        cheap[6..].iter_mut().for_each(|point| point.1 -= 400.0);
        assert!(ranged(&cheap).unwrap_err().contains("cannot be told apart"));
    }

    #[test]
    fn two_points_are_no_line() {
        assert_eq!(line(&[(0.0, 1.0), (1.0, 2.0)]), None);
        let line = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert_eq!((line.slope, line.at_zero, line.residual), (2.0, 1.0, 0.0));
    }
}
