//! Machine files.

use std::collections::BTreeMap;

use lookaside_machine::timed::{
    CacheShape, Hops, MAX_CPUS, Model, Price, Prices, Ps, TlbShape, Topology,
};
use lookaside_terminal::Refused;

use super::{
    Features, Isa, Machine, Origin, Value,
    read::{Section, Text},
    reading,
    value::{self, Kind},
};

/// The tables of a machine file.
const TABLES: &[&str] = &[
    "name",
    "isa",
    "note",
    "topology",
    "hops",
    "cpu",
    "features",
    "tlb",
    "prices",
    "broadcast",
    "interrupts",
    "paths",
    "reading",
    "sources",
];

/// The words for [`Isa`].
pub(super) const ISAS: &[(&str, Isa)] =
    &[("aarch64", Isa::Aarch64), ("riscv64", Isa::Riscv64), ("x86_64", Isa::X86_64)];

/// The numbers of a machine file beside prices and paths.
const NUMBERS: &[(&str, &[(&str, Kind)])] = &[
    (
        "topology",
        &[
            ("threads", Kind::Count("threads")),
            ("cores_per_cluster", Kind::Count("cores")),
            ("clusters", Kind::Count("clusters")),
            ("sockets", Kind::Count("sockets")),
            ("nodes", Kind::Count("nodes")),
        ],
    ),
    ("cpu", &[("clock", Kind::Clock)]),
    (
        "features",
        &[
            ("tag_bits", Kind::Bits),
            ("invpcid", Kind::Flag),
            ("invlpgb", Kind::Flag),
            ("tlbi_range", Kind::Flag),
            ("paired", Kind::Flag),
            ("virtualised", Kind::Flag),
        ],
    ),
    (
        "tlb",
        &[
            ("first", Kind::Count("entries")),
            ("first_ways", Kind::Count("ways")),
            ("second", Kind::Count("entries")),
            ("second_ways", Kind::Count("ways")),
            ("walk_cache", Kind::Count("entries")),
            ("blocks", Kind::Flag),
            ("fractured", Kind::Flag),
        ],
    ),
    ("broadcast", &[("window", Kind::Count("operations"))]),
    ("interrupts", &[("group", Kind::Count("CPUs"))]),
];

/// The kind of a number by its table and key, or the keys that the table has.
pub(super) fn kind(table: &str, key: &str) -> Result<Kind, Vec<&'static str>> {
    if table == "paths" {
        return Ok(Kind::Time);
    }
    let known: Vec<(&'static str, Kind)> = if table == "prices" {
        Price::ALL.iter().map(|price| (price.key(), Kind::Time)).collect()
    } else {
        NUMBERS.iter().find(|(name, _)| *name == table).map_or(Vec::new(), |(_, of)| of.to_vec())
    };
    match known.iter().find(|(name, _)| *name == key) {
        Some(&(_, kind)) => Ok(kind),
        None => Err(known.into_iter().map(|(name, _)| name).collect()),
    }
}

/// Linux's default, since 2014; chosen by measurement ("x86: mm: set TLB flush tunable to sane value (33)").
const FLUSH_CEILING: u32 = 33;

/// Reads a machine file.
pub(super) fn read(file: &Text) -> Result<Machine, Refused> {
    let document = file.parse()?;
    let root = file.root(&document);
    root.only(TABLES)?;
    let name = root.needed("name", root.text("name"))?.to_owned();
    let isa = root.needed("isa", root.word("isa", ISAS))?;
    let note = root.text("note")?.map(str::to_owned);
    let sources = value::sources(&root)?;
    let values = numbers(&root, &sources)?;
    let numbers = Numbers { file, root: &root, values: &values };
    let (prices, paths) = numbers.times()?;
    numbers.parts(&prices)?;
    let model = Model {
        topology: numbers.topology(hops(&root, &sources)?)?,
        tlb: numbers.tlb()?,
        prices,
        fabric_window: numbers.count("broadcast.window").unwrap_or(1) as usize,
        interrupt_group: numbers.count("interrupts.group").unwrap_or(1),
    };
    model.check().map_err(|bad| Refused(format!("{}: {bad}", file.name)))?;
    let readings = reading::read(&root, &sources, &values)?;
    let features = Features {
        tag_bits: numbers.count("features.tag_bits").unwrap_or(0),
        invpcid: numbers.flag("features.invpcid"),
        invlpgb: numbers.flag("features.invlpgb"),
        tlbi_range: numbers.flag("features.tlbi_range"),
        paired: numbers.flag("features.paired"),
        flush_ceiling: FLUSH_CEILING,
    };
    let (key, file) = (file.stem().to_owned(), file.name.clone());
    Ok(Machine {
        key,
        file,
        name,
        isa,
        note,
        model,
        given_sockets: None,
        features,
        paths,
        values,
        readings,
        sources,
    })
}

/// How far sockets are from each other: rows of links, with their source.
fn hops(root: &Section<'_>, sources: &BTreeMap<String, String>) -> Result<Hops, Refused> {
    let Some(section) = root.section("hops")? else { return Ok(Hops::ONE) };
    section.only(&["rows", "source", "note"])?;
    let source = section.needed("source", section.text("source"))?;
    if !sources.contains_key(source) {
        return Err(section.refuse("source", format!("`{source}` is not in `[sources]`")));
    }
    let rows = section.needed("rows", section.text("rows"))?;
    rows.parse().map_err(|why: String| section.refuse("rows", why))
}

/// All numbers, in the order of the file.
fn numbers(root: &Section<'_>, sources: &BTreeMap<String, String>) -> Result<Vec<Value>, Refused> {
    let mut values = Vec::new();
    for table in root
        .keys()
        .filter(|key| !["name", "isa", "note", "hops", "reading", "sources"].contains(key))
    {
        let Some(section) = root.section(table)? else { continue };
        for key in section.keys() {
            let kind = kind(table, key).map_err(|known| section.unknown(key, &known))?;
            values.push(value::value(&section, key, kind, sources)?);
        }
    }
    Ok(values)
}

/// The numbers of a file by name.
struct Numbers<'f> {
    file: &'f Text,
    root: &'f Section<'f>,
    values: &'f [Value],
}

impl Numbers<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|value| value.name == name)
    }

    /// A whole number; its kind was checked when it was read.
    fn count(&self, name: &str) -> Option<u32> {
        self.get(name).map(|value| value.number as u32)
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.number != 0.0)
    }

    /// Prices, and paths by name.
    fn times(&self) -> Result<(Prices, BTreeMap<String, Ps>), Refused> {
        let clock = self.get("cpu.clock").map(|clock| clock.number);
        let (mut prices, mut paths) = (Prices::new(), BTreeMap::new());
        for value in self.values {
            let time = || {
                value::picoseconds(value, clock)
                    .map_err(|why| self.file.refuse(value.line, &value.name, why))
            };
            if let Some(key) = value.name.strip_prefix("paths.") {
                paths.insert(key.to_owned(), time()?);
            } else if let Some(key) = value.name.strip_prefix("prices.") {
                let price = Price::ALL.iter().find(|price| price.key() == key);
                if let Some(&price) = price {
                    prices.set(price, time()?);
                }
            }
        }
        Ok((prices, paths))
    }

    /// Refuses a part of what is no measured sum, or of a sum that is smaller than the part may be: what is drawn for the part
    /// would not come out of the sum.
    fn parts(&self, prices: &Prices) -> Result<(), Refused> {
        let clock = self.get("cpu.clock").map(|clock| clock.number);
        for part in self.values.iter().filter(|value| !value.part_of.is_empty()) {
            let refuse = |why: String| Err(self.file.refuse(part.line, &part.name, why));
            if !part.name.starts_with("prices.") {
                return refuse("has `part_of`: only a price is part of another".to_owned());
            }
            for (place, name) in part.part_of.iter().enumerate() {
                if name == part.key() {
                    return refuse("is part of itself".to_owned());
                }
                if part.part_of[..place].contains(name) {
                    return refuse(format!("is part of `{name}` twice"));
                }
                let Some(whole) = self.get(&format!("prices.{name}")) else {
                    return refuse(format!("is part of `{name}`, for which the file has no price"));
                };
                if matches!(whole.origin, Origin::Assumed { .. }) {
                    let why = "which is assumed: only of a sum that was measured something is left";
                    return refuse(format!("is part of `{name}`, {why}"));
                }
                if !whole.part_of.is_empty() {
                    return refuse(format!("is part of `{name}`, which is a part itself"));
                }
                let charge = |value: &Value| {
                    let price = Price::ALL.iter().find(|price| price.key() == value.key());
                    price.map_or(0.0, |&price| prices.charge(price) as f64)
                };
                let sum = (charge(part) + charge(whole)) / 1000.0;
                let Origin::Assumed { high, .. } = part.origin else { continue };
                let end = Value { number: high, ..part.clone() };
                let end = value::picoseconds(&end, clock).unwrap_or(Ps::MAX) as f64 / 1000.0;
                if end > sum {
                    return refuse(format!(
                        "may be {end} ns, which is more than the {sum} ns of both `{name}` and its part: nothing would be \
                         left of `{name}`"
                    ));
                }
            }
        }
        Ok(())
    }

    fn topology(&self, hops: Hops) -> Result<Topology, Refused> {
        let count = |key: &str| self.count(&format!("topology.{key}")).unwrap_or(1);
        let topology = Topology {
            threads: count("threads"),
            cores_per_cluster: count("cores_per_cluster"),
            clusters: count("clusters"),
            sockets: count("sockets"),
            hops,
            nodes: count("nodes"),
        };
        let Topology { threads, cores_per_cluster, clusters, sockets, nodes, .. } = topology;
        let cpus = [threads, cores_per_cluster, clusters, sockets]
            .iter()
            .fold(1_u64, |product, &count| product.saturating_mul(count.into()));
        if cpus > MAX_CPUS as u64 {
            let why = format!("makes {cpus} CPUs; a machine can have {MAX_CPUS}");
            return Err(self.root.refuse("topology", why));
        }
        if u64::from(nodes) > cpus {
            let why = format!("has more nodes ({nodes}) than CPUs ({cpus})");
            return Err(self.root.refuse("topology", why));
        }
        Ok(topology)
    }

    fn tlb(&self) -> Result<TlbShape, Refused> {
        let first = self.cache("first")?;
        Ok(TlbShape {
            first: first.ok_or_else(|| match self.root.section("tlb") {
                Ok(Some(tlb)) => tlb.refuse("first", "is missing"),
                _ => self.root.refuse("tlb", "is missing"),
            })?,
            second: self.cache("second")?,
            walk_cache: self.count("tlb.walk_cache").unwrap_or(0),
            blocks: self.flag("tlb.blocks"),
            fractured: self.flag("tlb.fractured"),
        })
    }

    fn cache(&self, key: &str) -> Result<Option<CacheShape>, Refused> {
        let ways = self.get(&format!("tlb.{key}_ways"));
        let refuse = |why: String| match ways {
            Some(ways) => self.file.refuse(ways.line, &ways.name, why),
            None => self.root.refuse("tlb", why),
        };
        let Some(entries) = self.count(&format!("tlb.{key}")) else {
            return match ways {
                Some(_) => Err(refuse(format!("is there, but no `{key}`"))),
                None => Ok(None),
            };
        };
        let ways = ways.map_or(entries, |ways| ways.number as u32);
        if entries % ways != 0 {
            return Err(refuse(format!("is {ways}, which does not divide {entries} entries")));
        }
        Ok(Some(CacheShape { entries, ways }))
    }
}
