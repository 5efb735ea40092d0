//! Files of `perf record`, read without `perf`.

mod container;
mod record;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{ErrorKind, Read},
};

use container::{Container, Sorted, feature};
use record::{Map, Record, Sample, Says};

use super::{Bad, tasks::named_as_kernel};
use crate::{
    BadPlace, Event, Kind, Names, Origin, Task, Trace,
    binary::{
        events::{self, Decoded},
        setup::Setup,
        symbols::Symbols,
    },
    bytes,
    callers::{self, Callers, Mapping, Maps, Place},
    order::{cpus, order},
};

/// What files begin with.
pub(super) const MAGIC: &[u8] = b"PERFILE2";

/// A call chain holds marks beside addresses: of the kernel, of the program, and others. They are the highest numbers.
const FIRST_MARK: u64 = u64::MAX - 4095;
/// The mark of the program: addresses of its own follow.
const USER_MARK: u64 = -512_i64 as u64;

/// What is missing where nobody knows the kernel's functions.
const NO_FUNCTIONS: &str =
    "names of the kernel's functions, so that requests to flush are not told from others";

/// Reads a file of `perf record`.
pub(super) fn read(mut from: Box<dyn Read>) -> Result<Trace, Bad> {
    // The format names places in itself, so that all of it has to be there.
    let mut all = Vec::new();
    let cut = match from.read_to_end(&mut all) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
        Err(error) => return Err(whole(format!("it cannot be read: {error}"))),
        Ok(_) => false,
    };
    let damaged = |why: &str| whole(format!("it is a damaged or cut recording of perf: {why}"));
    let container = Container::open(all).map_err(damaged)?;
    let mut notes = Notes::new(&container)?;
    let Sorted { records, damaged, cut: beyond } = container.sorted().map_err(damaged)?;
    for Record { time, says } in records {
        notes.note(time, says);
    }
    let mut trace = notes.trace()?;
    trace.origin.losses.damaged += damaged;
    trace.origin.losses.truncated |= cut || beyond;
    Ok(trace)
}

fn whole(why: impl Into<String>) -> Bad {
    Bad(BadPlace::Whole, why.into())
}

/// What the records told so far.
struct Notes {
    setup: Setup,
    names: Names,
    events: Vec<Event>,
    origin: Origin,
    tasks: BTreeMap<u32, Task>,
    /// Threads that began after recording did.
    made: BTreeSet<u32>,
    maps: HashMap<u32, Maps>,
    callers: Callers,
    /// What tells the builds of files, by path.
    builds: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether any thread has an event that a program alone can cause.
    seen: bool,
}

impl Notes {
    fn new(container: &Container) -> Result<Self, Bad> {
        let Some(section) = container.feature(feature::TRACING_DATA) else {
            return Err(whole(match container.unfinished {
                true => {
                    "it is a recording of perf that was never finished: end `perf record` with Ctrl-C or SIGINT, and wait \
                     for it"
                }
                false => {
                    "it is a recording of perf without tracepoints: record with `-e tlb:tlb_flush -e sched:sched_switch` and \
                     the others that docs/recording.md lists"
                }
            }));
        };
        let mut setup = Setup::read(section).map_err(|why| {
            whole(format!(
                "it is a recording of perf whose description of events cannot be read: {why}"
            ))
        })?;
        let release = container.text(feature::RELEASE);
        let mut origin = Origin {
            architecture: container.text(feature::ARCHITECTURE),
            kernel: release.as_deref().map(version),
            ..Origin::default()
        };
        origin.cpus = container.cpus().unwrap_or(0).min(1 << 16);
        origin.hardware.name = container.text(feature::PROCESSOR_NAME);
        origin.hardware.processor =
            container.text(feature::PROCESSOR).and_then(|id| processor(&id));
        let here = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if !setup.decoder.knows_functions() && release.as_deref() == Some(here.trim()) {
            // `perf` keeps no names of functions. On the kernel that recorded they are at hand; after another boot the
            // addresses are those of no function.
            setup.decoder.set_functions(Symbols::of_kernel(|| None));
        }
        origin.absent = events::absent(|name| setup.events.iter().any(|known| known == name));
        if !setup.decoder.knows_functions() {
            origin.absent.push(NO_FUNCTIONS.to_owned());
        }
        Ok(Self {
            setup,
            names: Names::default(),
            events: Vec::new(),
            origin,
            tasks: BTreeMap::new(),
            made: BTreeSet::new(),
            maps: HashMap::new(),
            callers: Callers::default(),
            builds: container.builds(),
            seen: false,
        })
    }

    fn trace(self) -> Result<Trace, Bad> {
        let Self { names, mut events, mut origin, mut tasks, made, .. } = self;
        if events.is_empty() {
            return Err(whole(
                "it is a recording of perf in which none of the events is one that traces hold",
            ));
        }
        origin.losses.reordered = order(&mut events);
        origin.cpus = origin.cpus.max(cpus(&events));
        tasks.retain(|id, _| !made.contains(id));
        let tasks = tasks.into_values().collect();
        Ok(Trace { origin, tasks, names: names.into_all(), events })
    }

    fn note(&mut self, time: u64, says: Says<'_>) {
        match says {
            Says::Sample(sample) => self.sample(time, &sample),
            // Before the first event these are the threads that there were.
            Says::Name { process, thread: id, name } if !self.seen => {
                let kernel = named_as_kernel(name);
                let name = self.names.number(name);
                self.tasks.insert(id, Task { id, process, name, kernel });
            }
            Says::Map(map) => self.map(&map),
            Says::Fork { process, parent } if process != parent => {
                if let Some(parent) = self.maps.get(&parent).cloned() {
                    self.maps.insert(process, parent);
                }
            }
            Says::Lost(count) => {
                let lost = &mut self.origin.losses.lost;
                *lost = lost.saturating_add(count);
            }
            Says::Name { .. } | Says::Fork { .. } | Says::Other => {}
        }
    }

    fn map(&mut self, map: &Map<'_>) {
        let Self { builds, callers, .. } = self;
        let file = callers.file(map.path, || {
            let path = String::from_utf8_lossy(map.path).into_owned();
            let listed = || builds.iter().find(|(path, _)| path == map.path);
            let build = map.build.map(<[u8]>::to_vec).or_else(|| Some(listed()?.1.clone()));
            // The file may be another one by now: without its build nobody knows.
            let file = build.as_ref().and_then(|_| File::open(&path).ok());
            (path, file, build)
        });
        let end = map.start.saturating_add(map.length);
        let place = Place { file, offset: map.offset };
        self.maps.entry(map.process).or_default().insert(Mapping { start: map.start, end, place });
    }

    fn sample(&mut self, time: u64, sample: &Sample<'_>) {
        let Self { setup, names, events, origin, made, maps, callers, seen, .. } = self;
        let (true, Some(cpu), Some(raw)) = (sample.timed, sample.cpu, sample.raw) else {
            origin.losses.foreign += 1;
            return;
        };
        let Ok(cpu) = u16::try_from(cpu) else {
            origin.losses.damaged += 1;
            return;
        };
        match setup.decoder.decode(time, cpu, raw, |name| names.number(name)) {
            Decoded::Event(event) => {
                *seen = true;
                if let Kind::Create { task, .. } = event.kind {
                    made.insert(task);
                }
                let chain = sample.chain.filter(|_| event.is_of_its_thread());
                let maps = sample.process.and_then(|process| maps.get(&process));
                let chain = chain.zip(maps).map(|(chain, maps)| places(chain, maps));
                if let Some(name) = chain.and_then(|chain| callers.caller(&chain)) {
                    let kind = Kind::Caller { function: names.number(name.as_bytes()) };
                    events.push(Event { kind, ..event });
                }
                events.push(event);
            }
            Decoded::Foreign => origin.losses.foreign += 1,
            Decoded::Damaged => origin.losses.damaged += 1,
        }
    }
}

/// Where the functions of a call chain are: addresses of eight bytes.
fn places(chain: &[u8], maps: &Maps) -> Vec<Place> {
    let words = || chain.chunks_exact(8).map(|bytes| bytes::u64_at(bytes, 0));
    // The part of the program follows its mark, and ends at the next.
    let after =
        words().position(|word| word == Some(USER_MARK)).map_or(words().len(), |mark| mark + 1);
    let is_mark = |word: Option<u64>| word.is_none_or(|word| word >= FIRST_MARK);
    let length =
        words().skip(after).take(callers::DEPTH).take_while(|&word| !is_mark(word)).count();
    maps.places(&chain[8 * after..][..8 * length])
}

/// The version in the name of a release, without what those who built it have added.
fn version(release: &str) -> String {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.');
    release[..end.unwrap_or(release.len())].trim_end_matches('.').to_owned()
}

/// The processor by what `perf` notes of it: `GenuineIntel,6,85,7` or `AuthenticAMD,26,2,1`; on Arm MIDR_EL1, as in
/// `0x00000000410fd4f0`.
fn processor(id: &str) -> Option<String> {
    if let Some(midr) = id.strip_prefix("0x") {
        let midr = u64::from_str_radix(midr, 16).ok().filter(|&midr| midr != 0)?;
        return Some(format!("{:#x}/{:#x}", midr >> 24 & 0xff, midr >> 4 & 0xfff));
    }
    let mut parts = id.split(',');
    let (vendor, family, model) = (parts.next()?, parts.next()?, parts.next()?);
    (family.parse::<u32>().is_ok() && model.parse::<u32>().is_ok())
        .then(|| format!("{vendor} {family}/{model}"))
}

#[cfg(test)]
mod tests {
    use super::processor;

    #[test]
    fn processors_are_told_as_proc_tells_them() {
        let told = |id| processor(id).unwrap_or_default();
        assert_eq!(told("GenuineIntel,6,143,8"), "GenuineIntel 6/143");
        assert_eq!(told("AuthenticAMD,25,17,1"), "AuthenticAMD 25/17");
        // Neoverse V2 and AmpereOne, by MIDR_EL1.
        assert_eq!(told("0x00000000410fd4f0"), "0x41/0xd4f");
        assert_eq!(told("0x00000000c00fac30"), "0xc0/0xac3");
        assert_eq!(told("0x489-0x8000000000000007-0x4210427"), "");
    }
}
