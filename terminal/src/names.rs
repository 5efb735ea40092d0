//! Names that people type.

use crate::Refused;

/// What `lookaside list` has all names of.
const LISTED: [&str; 4] = ["machine", "workload", "strategy", "result"];

/// A refusal of a name that does not exist, with the nearest that does, or else where all are.
#[must_use]
pub fn unknown<'n>(kind: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Refused {
    let known: Vec<&str> = known.collect();
    let help = match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if LISTED.contains(&kind) => "`lookaside list` has all of them".to_owned(),
        None if kind.ends_with("scenario") => {
            "`lookaside explore` lists the scenarios, by protocol".to_owned()
        }
        None if known.is_empty() => "there is none at all".to_owned(),
        None => format!("there are `{}`", known.join("`, `")),
    };
    Refused(format!("there is no {kind} `{name}`; {help}"))
}

/// The known name that is most like `name`, if any is like it at all.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|&(distance, known)| is_like(name, known, distance))
        .map(|(_, nearest)| nearest)
}

/// A name that is there twice.
#[must_use]
pub fn repeated<'n>(names: &[&'n str]) -> Option<&'n str> {
    names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, name)| *name)
}

/// Whether a known name at that distance may have been meant. Each name contains a letter or two of every other.
fn is_like(name: &str, known: &str, distance: usize) -> bool {
    let most = (1 + known.len() / 3).min(name.len());
    distance <= most && distance < known.len() || name.len() > 2 && known.contains(name)
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
        assert_eq!(
            unknown("option", "zzz", known.into_iter()).0,
            "there is no option `zzz`; there are `lookaside`, `shared-counter`"
        );
        assert_eq!(repeated(&["a", "b", "a"]), Some("a"));
        assert_eq!(repeated(&["a", "b"]), None);
        assert_eq!(nearest("", known.into_iter().chain(["robust"])), None);
        assert_eq!(nearest("a", known.into_iter().chain(["d8041-rate"])), None);
        assert_eq!(nearest("counter", known.into_iter()), Some("shared-counter"));
    }
}
