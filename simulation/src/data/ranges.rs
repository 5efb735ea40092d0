//! Where prices lie that nobody has measured on a machine: `published/ranges.toml`.

use std::collections::BTreeMap;

use lookaside_machine::timed::Price;
use lookaside_terminal::Refused;

use super::{
    Confidence, Isa, Machine, Quality,
    machine::ISAS,
    read::{Section, Text},
    value::{self, CONFIDENCE},
};

/// A range with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The low end, in nanoseconds.
    pub low: f64,
    /// The high end, in nanoseconds.
    pub high: f64,
    /// The key of its source.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// What else is to be known.
    pub note: Option<String>,
}

/// The clock at which paths have the ranges of the file, in GHz.
const CLOCK: f64 = 3.0;

/// The source of a range that is assumed.
const ASSUMED: &str = "assumed";

/// The ranges of prices, and by which factor a number may be off.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// The range of a price on machines of an instruction set.
    prices: BTreeMap<(Isa, &'static str), Range>,
    /// The range of a path of the kernel that machine files need not have.
    paths: BTreeMap<String, Range>,
    /// By what factor a number of a quality may be off either way.
    spread: BTreeMap<Quality, f64>,
    /// The sources, by key.
    pub sources: BTreeMap<String, String>,
}

impl Range {
    /// Whether nothing published bounds it.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        self.source == ASSUMED
    }

    /// The middle, in nanoseconds: what is assumed where one number is needed.
    #[must_use]
    pub fn middle(&self) -> f64 {
        (self.low * self.high).sqrt()
    }
}

impl Ranges {
    /// The range of a price on machines of an instruction set, if the literature has one.
    #[must_use]
    pub fn price(&self, isa: Isa, price: Price) -> Option<&Range> {
        self.prices.get(&(isa, price.key()))
    }

    /// The range of a path on a machine, if the literature has one: as long as it takes at 3 GHz, and by as much longer as
    /// the machine's clock is slower, if its file has one.
    #[must_use]
    pub fn path(&self, machine: &Machine, name: &str) -> Option<Range> {
        let range = self.paths.get(name)?;
        let slower = CLOCK / machine.number("cpu.clock").unwrap_or(CLOCK);
        Some(Range { low: range.low * slower, high: range.high * slower, ..range.clone() })
    }

    /// The paths that have a range.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.keys().map(String::as_str)
    }

    /// By what factor a number of that quality may be off either way; 1 for one that is unpriced, which
    /// has a [range](Self::price) instead.
    #[must_use]
    pub fn factor(&self, quality: Quality) -> f64 {
        self.spread.get(&quality).copied().unwrap_or(1.0)
    }
}

const QUALITIES: [(&str, Quality); 3] =
    [("measured", Quality::Measured), ("proxy", Quality::Proxy), ("fitted", Quality::Fitted)];

/// Reads the file.
pub(super) fn read(file: &Text) -> Result<Ranges, Refused> {
    let document = file.parse()?;
    let root = file.root(&document);
    let isas: Vec<&str> = ISAS.iter().map(|&(word, _)| word).collect();
    root.only(&[&["spread", "paths", "sources"], &isas[..]].concat())?;
    let sources = value::sources(&root)?;
    let mut ranges = Ranges { sources, ..Ranges::default() };
    if let Some(section) = root.section("spread")? {
        for key in section.keys() {
            let words = QUALITIES.map(|(word, _)| word);
            let Some(&(_, quality)) = QUALITIES.iter().find(|(word, _)| *word == key) else {
                return Err(section.unknown(key, &words));
            };
            let parts = section.needed(key, section.section(key))?;
            parts.only(&["factor", "source", "confidence", "note"])?;
            let factor = parts.needed("factor", parts.number("factor"))?;
            if !(1.0..=100.0).contains(&factor) {
                return Err(parts.refuse("factor", "is not between 1 and 100"));
            }
            origin(&section, key, &parts, &ranges.sources)?;
            ranges.spread.insert(quality, factor);
        }
    }
    if let Some(section) = root.section("paths")? {
        for key in section.keys() {
            let range = range(&section, key, &ranges.sources)?;
            ranges.paths.insert(key.to_owned(), range);
        }
    }
    for &(word, isa) in ISAS {
        let Some(section) = root.section(word)? else { continue };
        for key in section.keys() {
            let Some(price) = Price::ALL.iter().find(|price| price.key() == key) else {
                let known: Vec<_> = Price::ALL.iter().map(|price| price.key()).collect();
                return Err(section.unknown(key, &known));
            };
            let range = range(&section, key, &ranges.sources)?;
            ranges.prices.insert((isa, price.key()), range);
        }
    }
    Ok(ranges)
}

fn range(
    section: &Section<'_>,
    key: &str,
    sources: &BTreeMap<String, String>,
) -> Result<Range, Refused> {
    let parts = section.needed(key, section.section(key))?;
    parts.only(&["low", "high", "unit", "source", "confidence", "note"])?;
    let unit = match parts.needed("unit", parts.text("unit"))? {
        "ns" => 1.0,
        "us" => 1000.0,
        other => {
            let why = format!("is `{other}`; a range is in `ns` or `us`");
            return Err(parts.refuse("unit", why));
        }
    };
    let end = |name: &str| parts.needed(name, parts.number(name)).map(|number| number * unit);
    let (low, high) = (end("low")?, end("high")?);
    if low <= 0.0 {
        return Err(parts.refuse("low", "is not more than 0"));
    }
    if high < low {
        return Err(parts.refuse("high", "is less than `low`"));
    }
    if high > 1e9 {
        return Err(parts.refuse("high", "is more than a second"));
    }
    let (source, confidence) = origin(section, key, &parts, sources)?;
    let note = parts.text("note")?.map(str::to_owned);
    Ok(Range { low, high, source, confidence, note })
}

/// Where a range comes from: every one has a source, and what is derived says how.
fn origin(
    section: &Section<'_>,
    key: &str,
    parts: &Section<'_>,
    sources: &BTreeMap<String, String>,
) -> Result<(String, Confidence), Refused> {
    let Some(source) = value::source(parts, sources)? else {
        return Err(section.refuse(key, "has no `source`"));
    };
    let Some(confidence) = parts.word("confidence", CONFIDENCE)? else {
        return Err(section.refuse(key, "has a source but no `confidence`"));
    };
    if confidence == Confidence::Derived && parts.text("note")?.is_none() {
        return Err(section.refuse(key, "is derived, but no `note` says how"));
    }
    Ok((source, confidence))
}
