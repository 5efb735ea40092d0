//! Rank correlation.

/// Ranks from 0, those of equal numbers averaged.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for run in order.chunk_by(|&a, &b| values[a].total_cmp(&values[b]).is_eq()) {
        let first = order.iter().position(|&i| i == run[0]).unwrap_or(0) as f64;
        let mean = first + (run.len() - 1) as f64 / 2.0;
        run.iter().for_each(|&i| ranks[i] = mean);
    }
    ranks
}

/// Spearman's rank correlation, from -1 to 1; 0 if one of the two does not vary.
pub(super) fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(&b).map(|(a, b)| f(a - mean, b - mean)).sum()
    };
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    if scale > 0.0 { sum(&|a, b| a * b) / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_counts_and_not_distance() {
        assert!((correlation(&[1.0, 2.0, 3.0], &[1.0, 10.0, 1000.0]) - 1.0).abs() < 1e-9);
        assert!((correlation(&[1.0, 2.0, 3.0], &[9.0, 5.0, 4.0]) + 1.0).abs() < 1e-9);
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[5.0, 5.0, 5.0]), 0.0);
        // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 x 5).
        let tied = correlation(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]);
        assert!((tied - 0.948_683).abs() < 1e-6, "{tied}");
    }
}
