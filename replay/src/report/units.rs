//! Numbers as readers want them.

/// Three digits that count, without an exponent.
fn digits(value: f64) -> String {
    let text = format!("{value:.2e}");
    let exponent: i32 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(2 - exponent).unwrap_or(0).min(9);
    let text = format!("{value:.decimals$}");
    if exponent > 2 { grouped(value.round() as u64) } else { text }
}

/// A whole number in groups of three digits, with narrow spaces that no line is broken at.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A length of time, in picoseconds.
pub(super) fn time(ps: f64) -> String {
    const UNITS: [(f64, &str); 5] =
        [(1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1.0, "ps")];
    if ps == 0.0 {
        return "0".to_owned();
    }
    // What shows as 1000 in one unit is 1 in the next.
    let (unit, name) =
        UNITS.into_iter().find(|(unit, _)| ps >= unit * 0.9995).unwrap_or((1.0, "ps"));
    format!("{}\u{a0}{name}", digits(ps / unit))
}

/// A share, in percent with two digits that count.
pub(super) fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if value == 0.0 {
        return "0\u{a0}%".to_owned();
    }
    if value < 0.0001 {
        return "under 0.0001\u{a0}%".to_owned();
    }
    let text = format!("{value:.1e}");
    let exponent: i32 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(1 - exponent).unwrap_or(0);
    format!("{value:.decimals$}\u{a0}%")
}

/// A round share, in percent with as many digits as it has.
pub(super) fn plain_percent(share: f64) -> String {
    let text = format!("{:.8}", 100.0 * share);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}\u{a0}%")
}

/// How many times.
pub(super) fn factor(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value {
        ..0.01 => format!("{value:.1e}"),
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => grouped(value.round() as u64),
    }
}

/// A value of a machine file.
pub(super) fn value(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e9 { format!("{value}") } else { digits(value) }
}

/// A name that every file system takes.
pub(super) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        let shown = [0.0, 7.0, 999.4, 999.6, 12_345.0, 1.5e6, 2.0e9, 61.2e12, 4.5e15];
        let expected =
            ["0", "7.00 ps", "999 ps", "1.00 ns", "12.3 ns", "1.50 µs", "2.00 ms", "61.2 s"];
        for (ps, expected) in shown.into_iter().zip(expected) {
            assert_eq!(time(ps), expected.replace(' ', "\u{a0}"));
        }
        assert_eq!(time(4.5e15), "4\u{202f}500\u{a0}s");
    }

    #[test]
    fn shares_have_two_digits() {
        let shown = [0.0, 0.018, 0.0091, 0.5, 0.123_4, 1.0, 0.000_012, 1e-9];
        let expected = ["0 %", "1.8 %", "0.91 %", "50 %", "12 %", "100 %", "0.0012 %"];
        for (share, expected) in shown.into_iter().zip(expected) {
            assert_eq!(percent(share), expected.replace(' ', "\u{a0}"));
        }
        assert_eq!(plain_percent(1e-4), "0.01\u{a0}%");
        assert_eq!(plain_percent(0.0), "0\u{a0}%");
        assert_eq!(percent(1e-9), "under 0.0001\u{a0}%");
    }

    #[test]
    fn a_strategy_cannot_name_a_file_elsewhere() {
        assert_eq!(file_name("linux-ipi-2025"), "linux-ipi-2025");
        assert_eq!(file_name("../a b/ü"), ".._a_b__");
    }
}
