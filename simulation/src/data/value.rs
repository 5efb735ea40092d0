//! Numbers with a unit and with where they come from.

use std::collections::BTreeMap;

use lookaside_machine::timed::{Price, Ps};
use lookaside_terminal::Refused;

use super::{
    Confidence, Origin, Value,
    read::{Section, list},
    target::Target,
};

/// What a number says, and hence in which units it can be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// How many of something there are, named by the unit: at least one.
    Count(&'static str),
    /// How many bits.
    Bits,
    /// Yes (1) or no (0).
    Flag,
    /// A frequency.
    Clock,
    /// A length of time.
    Time,
    /// What a workload makes of it, in the unit that the workload expects.
    Free,
}

impl Kind {
    /// The units in which it can be; empty for any.
    fn units(self) -> Vec<&'static str> {
        match self {
            Self::Count(unit) => vec![unit],
            Self::Bits => vec!["bits"],
            Self::Flag => vec!["flag"],
            Self::Clock => vec!["GHz"],
            Self::Time => vec!["cycles", "ps", "ns", "us"],
            Self::Free => Vec::new(),
        }
    }

    /// What is wrong with a number of this kind.
    fn wrong(self, number: f64) -> Option<&'static str> {
        let whole = number.fract() == 0.0 && number <= f64::from(u32::MAX);
        match self {
            _ if number.is_sign_negative() && number != 0.0 => Some("is negative"),
            Self::Count(_) | Self::Clock if number == 0.0 => Some("is zero"),
            Self::Count(_) if !whole => Some("is not a whole number of reasonable size"),
            Self::Bits if !whole || number > 16.0 => Some("is not a whole number from 0 to 16"),
            Self::Flag if number != 0.0 && number != 1.0 => Some("is neither 0 nor 1"),
            _ => None,
        }
    }
}

/// The keys of a number.
const KEYS: &[&str] = &[
    "value",
    "unit",
    "source",
    "confidence",
    "proxy",
    "fitted",
    "assumed",
    "note",
    "includes",
    "part_of",
];

/// The words for [`Confidence`].
pub(super) const CONFIDENCE: &[(&str, Confidence)] = &[
    ("R", Confidence::Read),
    ("R2", Confidence::Quoted),
    ("D", Confidence::Derived),
    ("V", Confidence::Measured),
];

/// The table `[sources]` of a file.
pub(super) fn sources(root: &Section<'_>) -> Result<BTreeMap<String, String>, Refused> {
    let mut sources = BTreeMap::new();
    if let Some(section) = root.section("sources")? {
        for key in section.keys() {
            let text = section.needed(key, section.text(key))?;
            sources.insert(key.to_owned(), text.to_owned());
        }
    }
    Ok(sources)
}

/// The key of a source that `section` names, which must be one of `sources`.
pub(super) fn source(
    section: &Section<'_>,
    sources: &BTreeMap<String, String>,
) -> Result<Option<String>, Refused> {
    let Some(key) = section.text("source")? else { return Ok(None) };
    if sources.contains_key(key) {
        return Ok(Some(key.to_owned()));
    }
    let known: Vec<_> = sources.keys().map(String::as_str).collect();
    let help = match lookaside_terminal::names::nearest(key, known.into_iter()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`[sources]` of the file must say what that is".to_owned(),
    };
    Err(section.refuse("source", format!("names an unknown source `{key}`; {help}")))
}

/// The number `key` of a table.
pub(super) fn value(
    section: &Section<'_>,
    key: &str,
    kind: Kind,
    sources: &BTreeMap<String, String>,
) -> Result<Value, Refused> {
    if section.number(key).is_ok_and(|number| number.is_some()) {
        let why = "is a bare number; write it as { value = ..., unit = \"...\", source = \"...\", \
                   confidence = \"...\" }";
        return Err(section.refuse(key, why));
    }
    let parts = section.needed(key, section.section(key))?;
    parts.only(KEYS)?;
    let number = parts.needed("value", parts.number("value"))?;
    if let Some(wrong) = kind.wrong(number) {
        return Err(section.refuse(key, wrong));
    }
    let Some(unit) = parts.text("unit")? else {
        return Err(section.refuse(key, "has no unit"));
    };
    let units = kind.units();
    if !units.is_empty() && !units.contains(&unit) {
        let why = format!("has the unit `{unit}`, which does not fit; it can be {}", list(&units));
        return Err(section.refuse(key, why));
    }
    let note = parts.text("note")?.map(str::to_owned);
    let origin = origin(section, key, &parts, sources, note.is_some())?;
    let prices = |list: &str, verb: &str| {
        let named = parts.texts(list)?.unwrap_or_default();
        match named.iter().find(|part| !Price::ALL.iter().any(|price| price.key() == *part)) {
            Some(part) => Err(section.refuse(key, format!("{verb} `{part}`, which is no price"))),
            None => Ok(named),
        }
    };
    let (includes, part_of) = (prices("includes", "includes")?, prices("part_of", "is part of")?);
    if let Origin::Assumed { low, high } = origin
        && !(0.0 < low && low <= number && number <= high)
    {
        let why = format!("is {number}, which is not between the ends {low} and {high}");
        return Err(section.refuse(key, why));
    }
    Ok(Value {
        name: section.name(key),
        number,
        unit: unit.to_owned(),
        origin,
        note,
        includes,
        part_of,
        line: section.line(key),
    })
}

/// Where a number comes from.
fn origin(
    section: &Section<'_>,
    key: &str,
    parts: &Section<'_>,
    sources: &BTreeMap<String, String>,
    noted: bool,
) -> Result<Origin, Refused> {
    let confidence = parts.word("confidence", CONFIDENCE)?;
    let proxy = parts.flag("proxy")?;
    if let Some(ends) = parts.section("assumed")? {
        if parts.text("source")?.is_some()
            || parts.text("fitted")?.is_some()
            || confidence.is_some()
            || proxy
        {
            let why = "is assumed: `source`, `confidence`, `proxy` and `fitted` are for numbers that are not";
            return Err(section.refuse(key, why));
        }
        if !noted {
            return Err(section.refuse(key, "is assumed, but no `note` says why"));
        }
        ends.only(&["low", "high"])?;
        let end = |name: &str| ends.needed(name, ends.number(name));
        return Ok(Origin::Assumed { low: end("low")?, high: end("high")? });
    }
    match (source(parts, sources)?, parts.text("fitted")?) {
        (None, None) => Err(section.refuse(key, "has neither `source` nor `fitted` nor `assumed`")),
        (Some(_), Some(_)) => Err(section.refuse(key, "has both `source` and `fitted`")),
        (Some(key_of_source), None) => {
            let Some(confidence) = confidence else {
                return Err(section.refuse(key, "has a source but no `confidence`"));
            };
            if confidence == Confidence::Derived && !noted {
                return Err(section.refuse(key, "is derived, but no `note` says how"));
            }
            Ok(Origin::Source { key: key_of_source, confidence, proxy })
        }
        (None, Some(to)) => {
            if confidence.is_some() || proxy {
                let why = "is fitted: `confidence` and `proxy` are for numbers with a source";
                return Err(section.refuse(key, why));
            }
            if let Err(Refused(why)) = to.parse::<Target>() {
                return Err(section.refuse(key, format!("is fitted to nothing: {why}")));
            }
            Ok(Origin::Fitted { to: to.to_owned() })
        }
    }
}

/// The longest time that a file can give: a quarter of an hour, in picoseconds.
const LONGEST: f64 = 900e12;

/// A length of time in whole picoseconds, at a clock in GHz.
pub(super) fn picoseconds(value: &Value, clock: Option<f64>) -> Result<Ps, &'static str> {
    let unit = match value.unit.as_str() {
        "ps" => 1.0,
        "ns" => 1e3,
        "us" => 1e6,
        _ => 1e3 / clock.ok_or("is in cycles, but the machine has no `cpu.clock`")?,
    };
    let time = (value.number * unit).round();
    if time <= LONGEST { Ok(time as Ps) } else { Err("is longer than a quarter of an hour") }
}
