//! Names that people type.

use crate::Refused;

/// A refusal of a name that does not exist, with the nearest that does.
#[must_use]
pub fn unknown<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Refused {
    Refused(match nearest(name, known) {
        Some(nearest) => format!("there is no {kind} `{name}`; did you mean `{nearest}`?"),
        None => format!("there is no {kind} `{name}`; `lookaside list` has all of them"),
    })
}

/// The known name that is most like `name`, if any is like it at all.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|&(distance, known)| distance <= 1 + known.len() / 3 || known.contains(name))
        .map(|(_, nearest)| nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let known = ["lookaside", "shared-counter"];
        let refused = unknown("strategy", "lokaside", known.into_iter());
        assert_eq!(refused.0, "there is no strategy `lokaside`; did you mean `lookaside`?");
        assert!(unknown("strategy", "zzz", known.into_iter()).0.contains("lookaside list"));
    }
}
