//! The values of a sweep as a text: `1,2,4..256`.

use lookaside_terminal::Refused;

/// So many values make a curve; more are a mistake.
const MOST: usize = 1000;

/// The name and the values of `NAME=VALUES`. Values have commas between; `A..B` stands for all from A to B, each as
/// many times the one before as A is of the value before it, or twice where there is none.
///
/// # Errors
///
/// If that is not what the text is.
pub fn values(text: &str) -> Result<(String, Vec<f64>), Refused> {
    let refuse = |why: &str| Refused(format!("`{text}` {why}, as in `cpus=1,2,4..256`"));
    let (name, list) = text.split_once('=').ok_or_else(|| refuse("is not NAME=VALUES"))?;
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| refuse(&format!("has `{text}`, which is no number")))
    };
    let mut all: Vec<f64> = Vec::new();
    for part in list.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            all.push(number(part)?);
            continue;
        };
        let (from, to) = (number(from)?, number(to)?);
        let step = match all.last() {
            Some(&before) if before > 0.0 && from > before => from / before,
            _ => 2.0,
        };
        if from <= 0.0 || to < from {
            return Err(refuse(&format!("has `{part}`, which does not ascend from more than 0")));
        }
        let mut value = from;
        // A power that was rounded still counts.
        while value <= to * (1.0 + 1e-9) && all.len() <= MOST {
            all.push(value);
            value *= step;
        }
    }
    if name.is_empty() || all.len() > MOST {
        return Err(refuse("has no name, or more than a thousand values"));
    }
    if all.windows(2).any(|two| two[0] >= two[1]) {
        return Err(refuse("has values that do not ascend"));
    }
    Ok((name.to_owned(), all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_a_list_with_powers() {
        let of = |text| values(text).map(|(_, values)| values);
        assert_eq!(of("cpus=1,2,4..32"), Ok(vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0]));
        assert_eq!(of("cpus=8..64"), Ok(vec![8.0, 16.0, 32.0, 64.0]));
        assert_eq!(of("pages=1,10..1000"), Ok(vec![1.0, 10.0, 100.0, 1000.0]));
        assert_eq!(of("walk=0.5"), Ok(vec![0.5]));
        for bad in ["cpus", "=1", "cpus=", "cpus=a", "cpus=2,1", "cpus=8..4", "cpus=0..4"] {
            assert!(values(bad).is_err(), "{bad}");
        }
    }
}
