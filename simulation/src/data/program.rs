//! Workloads as files: `workloads/*.toml`. What statements mean is in [`crate::workload::file`].

use std::{fs, path::Path};

use lookaside_terminal::Refused;

use super::{
    experiment::{Experiment, experiment},
    read::{Section, Text, list},
};

/// A workload of a file, before its statements are read.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file, as messages name it.
    pub file: String,
    /// What it does, in one line.
    pub about: String,
    /// Where it was published, if it was.
    pub source: Option<String>,
    /// How many CPUs it has unless a run says otherwise; none for as many as the machine has.
    pub cpus: Option<u32>,
    /// How long loops without end go on, in nanoseconds; none if there must be no such loops.
    pub time: Option<f64>,
    /// How long a thread runs before the next one of its CPU has its turn, in nanoseconds.
    pub quantum: f64,
    /// Whether the kernel has tables of its own, so that every way into it and out of it writes the root register: not 0.
    pub isolation: Words,
    /// Whether a CPU with nothing to run sleeps until it is interrupted: not 0. It polls otherwise.
    pub sleeps: Words,
    /// Numbers that a run may set.
    pub parameters: Vec<Parameter>,
    /// Address spaces.
    pub spaces: Vec<Space>,
    /// Semaphores and pipes.
    pub semaphores: Vec<Semaphore>,
    /// Locks.
    pub locks: Vec<String>,
    /// Words that all share.
    pub words: Vec<String>,
    /// Groups of threads that are alike.
    pub threads: Vec<Threads>,
    /// What was published of it.
    pub experiment: Option<Experiment>,
}

/// A number that a run may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it is unless a run says otherwise: nanoseconds if it is a time.
    pub value: f64,
    /// Whether it is a time; it is set in nanoseconds then.
    pub is_time: bool,
    /// The line of the file.
    pub line: usize,
}

/// A semaphore, or a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semaphore {
    /// Its name.
    pub name: String,
    /// What is in it at first.
    pub first: u64,
    /// Whether there is one for each number that a thread of a group can have: threads of the same number share it.
    pub each: bool,
}

/// An address space, or one for each thread of the group that runs in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// How many pages it has addresses for.
    pub pages: Words,
    /// How many of the first of them are mapped at first.
    pub mapped: Words,
    /// Whether each thread has one of its own.
    pub each: bool,
    /// Whether its pages are of a file that is mapped privately: the first write to one copies it.
    pub private: bool,
    /// How many aligned pages a fault of reading maps.
    pub around: u32,
    /// How large its memory comes, if not in pages of 4 KiB.
    pub unit: Option<Unit>,
    /// The line of its name.
    pub line: usize,
}

/// How large the memory of a space comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// How many pages of 4 KiB.
    pub pages: Words,
    /// Whether it comes in huge pages, which take one entry each, and not in large folios, of which each page has one.
    pub is_huge: bool,
    /// Whether a call changes the entries of a folio together: not 0.
    pub batched: Words,
    /// Whether the first write to a huge page after a fork copies all of it, and does not split it: not 0.
    pub whole: Words,
}

/// Text of a file that is read later, with its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// The text.
    pub text: String,
    /// The line in which it begins.
    pub line: usize,
}

/// Threads that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Threads {
    /// Their name.
    pub name: String,
    /// The space that they run in.
    pub space: String,
    /// How many.
    pub count: Words,
    /// The CPU of each.
    pub cpu: Words,
    /// What each does.
    pub program: Words,
    /// The line of the table.
    pub line: usize,
}

const KEYS: &[&str] = &[
    "about",
    "source",
    "cpus",
    "time",
    "quantum",
    "isolation",
    "sleeps",
    "parameters",
    "space",
    "semaphores",
    "locks",
    "words",
    "threads",
    "experiment",
    "published",
];
/// A quantum that is usual: 4 ms.
const QUANTUM: f64 = 4e6;

impl Program {
    /// The workload of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or with the first thing that is wrong in it, with its line.
    pub fn open(path: &Path) -> Result<Self, Refused> {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| Refused(format!("{name}: {error}")))?;
        match String::from_utf8(bytes) {
            Ok(text) => Self::read(&Text { name, text }),
            Err(error) => {
                let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
                let why = "it is no text; a workload is a file in TOML";
                Err(Refused(format!("{name}:{line}: {why}")))
            }
        }
    }

    /// The workload of a text.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in it.
    pub fn read(file: &Text) -> Result<Self, Refused> {
        let document = file.parse()?;
        let root = file.root(&document);
        root.only(KEYS)?;
        not_below_the_head(&root)?;
        let text = |key: &str| root.text(key).map(|text| text.map(str::to_owned));
        let spaces: Vec<Space> =
            root.sections("space")?.iter().map(space).collect::<Result<_, _>>()?;
        let threads: Vec<Threads> =
            root.sections("threads")?.iter().map(threads).collect::<Result<_, _>>()?;
        if threads.is_empty() {
            return Err(root.refuse("threads", "is missing: a workload has `[[threads]]`"));
        }
        for (one, section) in threads.iter().zip(root.sections("threads")?) {
            if !spaces.iter().any(|space| space.name == one.space) {
                let known: Vec<&str> = spaces.iter().map(|space| space.name.as_str()).collect();
                let why = format!("names no space of the file: there are {}", list(&known));
                return Err(section.refuse("space", why));
            }
        }
        let semaphores = semaphores(&root)?;
        let parameters = parameters(&root)?;
        Ok(Self {
            file: file.name.clone(),
            about: root.needed("about", text("about"))?,
            source: text("source")?,
            cpus: whole(&root, "cpus")?,
            time: time(&root, "time")?,
            quantum: time(&root, "quantum")?.unwrap_or(QUANTUM),
            isolation: choice(&root, "isolation")?,
            sleeps: choice(&root, "sleeps")?,
            experiment: experiment(&root, &parameters)?,
            parameters,
            spaces,
            semaphores,
            locks: root.texts("locks")?.unwrap_or_default(),
            words: root.texts("words")?.unwrap_or_default(),
            threads,
        })
    }
}

/// A whole number of one at least.
fn whole(section: &Section<'_>, key: &str) -> Result<Option<u32>, Refused> {
    let Some(number) = section.number(key)? else { return Ok(None) };
    match number.fract() == 0.0 && (1.0..=4096.0).contains(&number) {
        true => Ok(Some(number as u32)),
        false => Err(section.refuse(key, "is not a whole number from 1 to 4096")),
    }
}

/// The units of times, in nanoseconds.
pub const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// The longest time of a workload, in nanoseconds: a second of many CPUs takes minutes to simulate.
pub(crate) const LONGEST: f64 = 1e9;

/// A time as text, `"5 us"`, in nanoseconds.
fn time(section: &Section<'_>, key: &str) -> Result<Option<f64>, Refused> {
    if let Ok(Some(number)) = section.number(key) {
        let why = format!("is {number} without a unit; write it as \"{number} us\"");
        return Err(section.refuse(key, why));
    }
    let Some(text) = section.text(key)? else { return Ok(None) };
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [number, unit] = parts[..] else {
        return Err(section.refuse(key, "is no time; write it as \"5 us\""));
    };
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let known = UNITS.map(|(name, _)| name);
        let why = format!("has the unknown unit `{unit}`; there are {}", list(&known));
        return Err(section.refuse(key, why));
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number * scale <= LONGEST => Ok(Some(number * scale)),
        Ok(number) if number > 0.0 => Err(section.refuse(
            key,
            format!("is {text}, and a second at most: more takes minutes to simulate; shipped workloads have up to \"20 ms\""),
        )),
        _ => Err(section.refuse(key, "is no time above 0; write it as \"5 us\"")),
    }
}

/// Refuses keys of the head that stand below it, where TOML takes them for keys of a table.
fn not_below_the_head(root: &Section<'_>) -> Result<(), Refused> {
    let mut tables: Vec<Section<'_>> = ["space", "threads", "published"]
        .iter()
        .map(|key| root.sections(key))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    tables.extend(root.section("experiment")?);
    let lists = [root.section("parameters")?, root.section("semaphores")?];
    let misplaced = |section: &Section<'_>, keys: &[&str]| {
        section.keys().find(|key| keys.contains(key)).map(|key| {
            section.refuse(key, "is a key of the head: write it above the first table of the file")
        })
    };
    let head = ["about", "source", "time", "quantum", "isolation", "sleeps"];
    let head = [&head[..], &LISTS, &["parameters", "semaphores"]].concat();
    let below = tables.iter().find_map(|section| misplaced(section, &head));
    let among = lists.iter().flatten().find_map(|section| misplaced(section, &LISTS));
    below.or(among).map_or(Ok(()), Err)
}

/// Lists of the head, which are no numbers and so neither parameters nor semaphores.
const LISTS: [&str; 2] = ["locks", "words"];

/// `ready = 0`, or `ready = { each = 0 }` for one for each number of a thread.
fn semaphores(root: &Section<'_>) -> Result<Vec<Semaphore>, Refused> {
    let Some(section) = root.section("semaphores")? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for key in section.keys() {
        let (each, first) = match section.section(key) {
            Ok(Some(one)) => {
                one.only(&["each"])?;
                (true, one.needed("each", one.number("each"))?)
            }
            _ => (false, section.needed(key, section.number(key))?),
        };
        if first < 0.0 || first.fract() != 0.0 {
            return Err(section.refuse(key, "is not a whole number"));
        }
        all.push(Semaphore { name: key.to_owned(), first: first as u64, each });
    }
    Ok(all)
}

fn parameters(root: &Section<'_>) -> Result<Vec<Parameter>, Refused> {
    let Some(section) = root.section("parameters")? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for key in section.keys() {
        let line = section.line(key);
        let size = || section.text(key).ok().flatten().and_then(|text| size(text).ok().flatten());
        let (value, is_time) = match section.number(key) {
            Ok(number) => (section.needed(key, Ok(number))?, false),
            Err(_) => match size() {
                Some(pages) => (pages, false),
                None => (section.needed(key, time(&section, key))?, true),
            },
        };
        all.push(Parameter { name: key.to_owned(), value, is_time, line });
    }
    Ok(all)
}

/// An expression: a number or a text.
fn words(section: &Section<'_>, key: &str) -> Result<Option<Words>, Refused> {
    let line = section.line(key);
    let text = match section.number(key) {
        Ok(number) => number.map(|number| number.to_string()),
        Err(_) => section.text(key)?.map(str::to_owned),
    };
    Ok(text.map(|text| Words { text, line }))
}

/// `true`, `false`, or an expression, such as a parameter.
fn choice(root: &Section<'_>, key: &str) -> Result<Words, Refused> {
    match root.flag(key) {
        Ok(flag) => Ok(Words { text: u8::from(flag).to_string(), line: root.line(key) }),
        Err(_) => root.needed(key, words(root, key)),
    }
}

fn or(words: Option<Words>, text: &str) -> Words {
    words.unwrap_or_else(|| Words { text: text.to_owned(), line: 0 })
}

/// The units of sizes, in pages of 4 KiB.
const SIZES: [(&str, f64); 3] = [("KiB", 0.25), ("MiB", 256.0), ("GiB", 262_144.0)];

/// A size as text, `"64 KiB"`, in pages of 4 KiB; none if it is none.
fn size(text: &str) -> Result<Option<f64>, String> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let known = SIZES.map(|(name, _)| name);
    match parts[..] {
        [number, unit] => match number.parse::<f64>() {
            Ok(number) => match SIZES.iter().find(|(name, _)| *name == unit) {
                Some((_, pages)) => Ok(Some(number * pages)),
                None => Err(format!("has the unknown unit `{unit}`; there are {}", list(&known))),
            },
            Err(_) => Ok(None),
        },
        [one] if one.starts_with(|c: char| c.is_ascii_digit()) && one.parse::<f64>().is_err() => {
            let digits = one.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            match one.strip_suffix(digits) {
                Some(number) if digits.chars().all(char::is_alphabetic) => {
                    Err(format!("is no size; write it as \"{number} MiB\", with {}", list(&known)))
                }
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

fn has(section: &Section<'_>, key: &str) -> bool {
    section.keys().any(|one| one == key)
}

/// How large the memory of a space comes: by a size, or a number of pages of 4 KiB.
fn unit(section: &Section<'_>) -> Result<Option<Unit>, Refused> {
    let of = |key: &str| -> Result<Option<Words>, Refused> {
        let Some(words) = words(section, key)? else { return Ok(None) };
        let pages = size(&words.text).map_err(|why| section.refuse(key, why))?;
        let text = pages.map_or(words.text, |pages| pages.to_string());
        Ok(Some(Words { text, ..words }))
    };
    let flag = |key: &str, otherwise: &str| -> Result<Words, Refused> {
        match has(section, key) {
            true => choice(section, key),
            false => Ok(or(None, otherwise)),
        }
    };
    let (is_huge, pages) = match (of("size")?, of("folio")?) {
        (Some(_), Some(_)) => {
            let why = "stands beside `size`: memory comes in huge pages or in large folios; leave one out";
            return Err(section.refuse("folio", why));
        }
        (Some(pages), None) => (true, pages),
        (None, Some(pages)) => (false, pages),
        (None, None) => {
            let stray = ["batched", "whole"].into_iter().find(|key| has(section, key));
            return match stray {
                Some(key) => {
                    let of = if key == "batched" { "`folio`" } else { "`size`" };
                    Err(section.refuse(
                        key,
                        format!(
                            "says something of memory of another `size` or `folio`: write {of} too"
                        ),
                    ))
                }
                None => Ok(None),
            };
        }
    };
    let stray = if is_huge { "batched" } else { "whole" };
    if has(section, stray) {
        let (of, is) = if is_huge { ("folio", "size") } else { ("size", "folio") };
        return Err(section.refuse(stray, format!("goes with `{of}`, and the space has a `{is}`")));
    }
    for key in ["private", "around"] {
        if has(section, key) {
            let why = "is of pages of 4 KiB: folios and huge pages of files are not modelled; leave it out, or `size` and `folio`";
            return Err(section.refuse(key, why));
        }
    }
    let (batched, whole) = (flag("batched", "1")?, flag("whole", "0")?);
    Ok(Some(Unit { pages, is_huge, batched, whole }))
}

fn space(section: &Section<'_>) -> Result<Space, Refused> {
    section.only(&[
        "name", "pages", "mapped", "each", "private", "around", "size", "folio", "batched", "whole",
    ])?;
    Ok(Space {
        name: section.needed("name", section.text("name"))?.to_owned(),
        pages: section.needed("pages", words(section, "pages"))?,
        mapped: or(words(section, "mapped")?, "0"),
        each: section.flag("each")?,
        private: section.flag("private")?,
        around: whole(section, "around")?.unwrap_or(1),
        unit: unit(section)?,
        line: section.line("name"),
    })
}

fn threads(section: &Section<'_>) -> Result<Threads, Refused> {
    section.only(&["name", "space", "count", "cpu", "program"])?;
    let program = section.needed("program", words(section, "program"))?;
    Ok(Threads {
        name: section.needed("name", section.text("name"))?.to_owned(),
        space: section.needed("space", section.text("space"))?.to_owned(),
        count: or(words(section, "count")?, "1"),
        cpu: or(words(section, "cpu")?, "me % cpus"),
        program,
        line: section.line("name"),
    })
}
