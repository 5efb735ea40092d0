//! Files of `perf record`, read without `perf`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{Cursor, ErrorKind, Read},
};

use linux_perf_data::{
    Error, PerfFile, PerfFileReader, PerfFileRecord,
    linux_perf_event_reader::{CpuMode, EventRecord, RawDataU64, SampleRecord},
};

use super::{Bad, callers, tasks::named_as_kernel};
use crate::{
    BadPlace, Event, Kind, Names, Origin, Task, Trace,
    binary::{
        events::{self, Decoded},
        setup::Setup,
        symbols::Symbols,
    },
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

/// Where the code of a process comes from: by first address, its end, the place in the file, and the file's name.
type Maps = BTreeMap<u64, (u64, u64, String)>;

/// Reads a file of `perf record`.
pub(super) fn read(mut from: Box<dyn Read>) -> Result<Trace, Bad> {
    // The format names places in itself, so that all of it has to be there.
    let mut all = Vec::new();
    let cut = match from.read_to_end(&mut all) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
        Err(error) => return Err(whole(format!("it cannot be read: {error}"))),
        Ok(_) => false,
    };
    // A stream (`perf record -o -`) has a head of 16 bytes.
    let stream = all.get(8..16) == Some(&16_u64.to_le_bytes());
    if !stream && !is_within(&all) {
        return Err(whole(
            "it is a damaged or cut recording of perf: a part of it lies beyond its end",
        ));
    }
    let reader = if stream { Reader::stream(all) } else { Reader::file(all) };
    let mut trace = reader?.all()?;
    trace.origin.losses.truncated |= cut;
    Ok(trace)
}

/// Whether all parts that the head of a file names are within the file: memory is set aside for them as they are named.
fn is_within(all: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = all.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let end = |at: usize| {
        let end = number(at)?.checked_add(number(at + 8)?)?;
        usize::try_from(end).ok().filter(|&end| end <= all.len())
    };
    let check = || {
        // Magic, size of the head, size of an attribute; then the parts: attributes, records, types; then features.
        end(24)?;
        let records = end(40)?;
        let features: u32 =
            (0..4).map(|word| Some(number(72 + 8 * word)?.count_ones())).sum::<Option<u32>>()?;
        (0..features as usize).try_for_each(|place| end(records + 16 * place).map(drop))
    };
    check().is_some()
}

fn whole(why: impl Into<String>) -> Bad {
    Bad(BadPlace::Whole, why.into())
}

fn damaged(error: &Error) -> Bad {
    whole(format!("it is a damaged or cut recording of perf: {error}"))
}

struct Reader {
    file: PerfFile,
    records: linux_perf_data::PerfRecordIter<Cursor<Vec<u8>>>,
    notes: Notes,
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
    maps: HashMap<i32, Maps>,
    /// Whether any thread has an event that a program alone can cause.
    seen: bool,
}

impl Reader {
    fn file(all: Vec<u8>) -> Result<Self, Bad> {
        let reader =
            PerfFileReader::parse_file(Cursor::new(all)).map_err(|error| damaged(&error))?;
        Self::new(reader)
    }

    fn stream(all: Vec<u8>) -> Result<Self, Bad> {
        let reader =
            PerfFileReader::parse_pipe(Cursor::new(all)).map_err(|error| damaged(&error))?;
        Self::new(reader)
    }

    fn new(reader: PerfFileReader<Cursor<Vec<u8>>>) -> Result<Self, Bad> {
        let PerfFileReader { perf_file: file, record_iter: records } = reader;
        let section = file.feature_section_data(linux_perf_data::Feature::TRACING_DATA);
        let Some(section) = section else {
            return Err(whole(
                "it is a recording of perf without tracepoints: record with `-e tlb:tlb_flush -e sched:sched_switch` and \
                 the others that docs/recording.md lists",
            ));
        };
        let mut setup = Setup::read(section).map_err(|why| {
            whole(format!(
                "it is a recording of perf whose description of events cannot be read: {why}"
            ))
        })?;
        let text = |text: Result<Option<&str>, Error>| text.ok().flatten().map(str::to_owned);
        let mut origin = Origin {
            architecture: text(file.arch()),
            kernel: text(file.os_release()).map(|release| version(&release)),
            ..Origin::default()
        };
        if let Ok(Some(cpus)) = file.nr_cpus() {
            origin.cpus = cpus.nr_cpus_online.min(1 << 16);
        }
        origin.hardware.name = text(file.cpu_desc());
        origin.hardware.processor = text(file.cpu_id()).and_then(|id| processor(&id));
        let here = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if !setup.decoder.knows_functions()
            && text(file.os_release()).as_deref() == Some(here.trim())
        {
            // `perf` keeps no names of functions. On the kernel that recorded they are at hand; after another boot the
            // addresses are those of no function.
            setup.decoder.set_functions(Symbols::of_kernel(|| None));
        }
        let known: BTreeSet<&String> = setup.events.iter().collect();
        origin.absent = events::names(false).filter(|name| !known.contains(name)).collect();
        if !setup.decoder.knows_functions() {
            origin.absent.push(NO_FUNCTIONS.to_owned());
        }
        let notes = Notes {
            setup,
            names: Names::default(),
            events: Vec::new(),
            origin,
            tasks: BTreeMap::new(),
            made: BTreeSet::new(),
            maps: HashMap::new(),
            seen: false,
        };
        Ok(Self { file, records, notes })
    }

    fn all(mut self) -> Result<Trace, Bad> {
        let mut first = None;
        loop {
            match self.records.next_record(&mut self.file) {
                Ok(None) => break,
                Ok(Some(PerfFileRecord::UserRecord(_))) => {}
                Ok(Some(PerfFileRecord::EventRecord { record, .. })) => match record.parse() {
                    Ok(record) => self.notes.note(record),
                    Err(_) => self.notes.origin.losses.damaged += 1,
                },
                Err(error) if self.notes.events.is_empty() => return Err(damaged(&error)),
                Err(error) => {
                    first = Some(error);
                    break;
                }
            }
        }
        let Notes { names, mut events, mut origin, mut tasks, made, .. } = self.notes;
        if events.is_empty() {
            return Err(whole(
                "it is a recording of perf in which none of the events is that traces hold",
            ));
        }
        origin.losses.truncated |= first.is_some();
        origin.losses.reordered = order(&mut events);
        origin.cpus = origin.cpus.max(cpus(&events));
        tasks.retain(|id, _| !made.contains(id));
        let tasks = tasks.into_values().collect();
        Ok(Trace { origin, tasks, names: names.into_all(), events })
    }
}

impl Notes {
    fn note(&mut self, record: EventRecord<'_>) {
        match record {
            EventRecord::Sample(sample) => self.sample(&sample),
            // Before the first event these are the threads that there were.
            EventRecord::Comm(comm) if !self.seen => {
                if let (Ok(id), Ok(process)) = (u32::try_from(comm.tid), u32::try_from(comm.pid)) {
                    let name = comm.name.as_slice();
                    let kernel = named_as_kernel(&name);
                    let name = self.names.number(&name);
                    self.tasks.insert(id, Task { id, process, name, kernel });
                }
            }
            EventRecord::Mmap2(map) if map.cpu_mode == CpuMode::User => {
                self.map(map.pid, map.address, map.length, map.page_offset, &map.path.as_slice());
            }
            EventRecord::Mmap(map) if map.cpu_mode == CpuMode::User => {
                self.map(map.pid, map.address, map.length, map.page_offset, &map.path.as_slice());
            }
            EventRecord::Fork(fork) if fork.pid != fork.ppid => {
                if let Some(parent) = self.maps.get(&fork.ppid).cloned() {
                    self.maps.insert(fork.pid, parent);
                }
            }
            EventRecord::Lost(lost) => self.origin.losses.lost += lost.count,
            _ => {}
        }
    }

    fn map(&mut self, process: i32, start: u64, length: u64, offset: u64, path: &[u8]) {
        let path = String::from_utf8_lossy(path).into_owned();
        let map = (start.saturating_add(length), offset, path);
        self.maps.entry(process).or_default().insert(start, map);
    }

    fn sample(&mut self, sample: &SampleRecord<'_>) {
        let Self { setup, names, events, origin, made, maps, seen, .. } = self;
        let (Some(time), Some(cpu), Some(raw)) = (sample.timestamp, sample.cpu, &sample.raw) else {
            origin.losses.foreign += 1;
            return;
        };
        let Ok(cpu) = u16::try_from(cpu) else {
            origin.losses.damaged += 1;
            return;
        };
        match setup.decoder.decode(time, cpu, &raw.as_slice(), |name| names.number(name)) {
            Decoded::Event(event) => {
                *seen = true;
                if let Kind::Create { task, .. } = event.kind {
                    made.insert(task);
                }
                let of_program = matches!(
                    event.kind,
                    Kind::Call { .. } | Kind::Fault { .. } | Kind::Flush { .. }
                );
                let chain = sample.callchain.as_ref().filter(|_| of_program);
                let maps = maps.get(&sample.pid.unwrap_or(-1));
                if let Some(name) = chain.zip(maps).and_then(|(chain, maps)| caller(chain, maps)) {
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

/// The function of the program that an event comes from, by its call chain.
fn caller(chain: &RawDataU64<'_>, maps: &Maps) -> Option<String> {
    let addresses = (0..chain.len()).filter_map(|place| chain.get(place));
    let mut of_user = addresses
        .skip_while(|&address| address != USER_MARK)
        .filter(|&address| address < FIRST_MARK);
    let named = |address: u64| {
        let (start, (end, offset, path)) = maps.range(..=address).next_back()?;
        (address < *end).then(|| callers::Frame {
            function: None,
            module: path.clone(),
            offset: address - start + offset,
        })
    };
    let frames: Vec<callers::Frame> =
        of_user.by_ref().take(callers::DEPTH).filter_map(named).collect();
    callers::caller(&frames)
}

/// The version in the name of a release, without what those who built it have added.
fn version(release: &str) -> String {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.');
    release[..end.unwrap_or(release.len())].trim_end_matches('.').to_owned()
}

/// The processor by what `perf` notes of it: `GenuineIntel,6,85,7` or `AuthenticAMD,26,2,1`.
fn processor(id: &str) -> Option<String> {
    let mut parts = id.split(',');
    let (vendor, family, model) = (parts.next()?, parts.next()?, parts.next()?);
    (family.parse::<u32>().is_ok() && model.parse::<u32>().is_ok())
        .then(|| format!("{vendor} {family}/{model}"))
}
