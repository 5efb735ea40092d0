//! Records of the kernel (`linux/perf_event.h`), and the layout that their events give them.

use std::collections::HashMap;

use crate::bytes::{Front, u32_at, u64_at};

/// Kinds of record.
pub(super) mod kind {
    pub(crate) const MAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const NAME: u32 = 3;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MAP_2: u32 = 10;
    /// From here on they are of `perf`, not of the kernel.
    pub(crate) const OF_PERF: u32 = 64;
    pub(crate) const ATTRIBUTE: u32 = 64;
    pub(crate) const TRACING_DATA: u32 = 66;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED_2: u32 = 83;
}

/// What samples hold, in `sample_type` of `perf_event_attr`.
mod holds {
    pub(super) const IP: u64 = 1 << 0;
    pub(super) const TASK: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDRESS: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
    /// What also ends the records that are no samples.
    pub(super) const TRAILER: u64 = TASK | TIME | ID | STREAM | CPU | IDENTIFIER;
    /// All that comes before the raw data. What comes after it is not read.
    pub(super) const BEFORE_RAW: u64 = TRAILER | IP | ADDRESS | READ | CHAIN | PERIOD;
}

/// What counters hold that samples read, in `read_format`.
mod counter {
    pub(super) const ENABLED: u64 = 1 << 0;
    pub(super) const RUNNING: u64 = 1 << 1;
    pub(super) const ID: u64 = 1 << 2;
    pub(super) const GROUP: u64 = 1 << 3;
    pub(super) const LOST: u64 = 1 << 4;
}

/// In `flags`: records that are no samples end with a part of what samples hold.
const TRAILER_EVERYWHERE: u64 = 1 << 18;
/// The type of a tracepoint.
const TRACEPOINT: u32 = 2;
/// In the flags of a record: where the CPU was.
const MODE: u16 = 7;
/// There: in the program.
const MODE_USER: u16 = 2;

/// There, of a mapping: the record has the build of the file.
const MAP_BUILD: u16 = 1 << 14;

/// What is needed of `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    tracepoint: bool,
    samples: u64,
    read: u64,
    trailer: bool,
}

impl Attribute {
    /// As many bytes as its first version has.
    pub(super) const SIZE_MIN: usize = 64;

    fn read(bytes: &[u8]) -> Option<Self> {
        let _whole = bytes.get(..Self::SIZE_MIN)?;
        Some(Self {
            tracepoint: u32_at(bytes, 0)? == TRACEPOINT,
            samples: u64_at(bytes, 24)?,
            read: u64_at(bytes, 32)?,
            trailer: u64_at(bytes, 40)? & TRAILER_EVERYWHERE != 0,
        })
    }

    fn has(&self, what: u64) -> bool {
        self.samples & what != 0
    }

    /// Where the number of the event is: of a sample from its beginning, of another record from its end.
    fn id_places(&self) -> Option<(u32, u32)> {
        if self.has(holds::IDENTIFIER) {
            return Some((0, 8));
        }
        let count = |what: u64| 8 * (self.samples & what).count_ones();
        self.has(holds::ID).then(|| {
            let before = holds::IP | holds::TASK | holds::TIME | holds::ADDRESS;
            (count(before), count(holds::ID | holds::STREAM | holds::CPU))
        })
    }
}

/// The layouts of all events of a recording.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    attributes: Vec<Attribute>,
    /// Which layout the event of a number has.
    of: HashMap<u64, usize>,
}

/// What a record says.
#[derive(Debug)]
pub(super) enum Says<'r> {
    /// A tracepoint.
    Sample(Sample<'r>),
    /// A thread has this name.
    Name { process: u32, thread: u32, name: &'r [u8] },
    /// A program mapped a file.
    Map(Map<'r>),
    /// A process is made from another.
    Fork { process: u32, parent: u32 },
    /// So many events were lost.
    Lost(u64),
    /// Anything else.
    Other,
}

/// A file that a program mapped.
#[derive(Debug)]
pub(super) struct Map<'r> {
    pub(super) process: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) offset: u64,
    pub(super) path: &'r [u8],
    /// The build of the file, where `perf` was told to note it here (`--buildid-mmap`).
    pub(super) build: Option<&'r [u8]>,
}

/// What is read of a sample.
#[derive(Debug, Default)]
pub(super) struct Sample<'r> {
    pub(super) process: Option<u32>,
    pub(super) cpu: Option<u32>,
    pub(super) timed: bool,
    /// Addresses, eight bytes each.
    pub(super) chain: Option<&'r [u8]>,
    pub(super) raw: Option<&'r [u8]>,
}

/// A record of the kernel.
#[derive(Debug)]
pub(super) struct Record<'r> {
    /// When it was written; 0 if it has no time.
    pub(super) time: u64,
    pub(super) says: Says<'r>,
}

impl Layouts {
    /// Adds an event and its numbers; none if it is no event.
    pub(super) fn add(&mut self, attribute: &[u8], ids: &[u8]) -> Option<()> {
        let attribute = Attribute::read(attribute)?;
        for id in ids.chunks_exact(8) {
            self.of.insert(u64_at(id, 0)?, self.attributes.len());
        }
        self.attributes.push(attribute);
        Some(())
    }

    /// Whether it can be known which event a record is of.
    ///
    /// # Errors
    ///
    /// If not.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let [first, others @ ..] = &self.attributes[..] else { return Err("it has no events") };
        let alike = |other: &Attribute| {
            (other.id_places(), other.trailer) == (first.id_places(), first.trailer)
        };
        let same =
            |other: &Attribute| (other.samples, other.trailer) == (first.samples, first.trailer);
        let known =
            others.iter().all(same) || first.id_places().is_some() && others.iter().all(alike);
        known.then_some(()).ok_or("its events differ in what they hold, and have no numbers")
    }

    /// The event that a record is of; the first where nothing else is known, as `perf` takes it.
    fn of_record(&self, sample: bool, body: &[u8]) -> Option<&Attribute> {
        let first = self.attributes.first()?;
        let id = || {
            let (from_start, from_end) = first.id_places()?;
            let place = match sample {
                true => from_start as usize,
                false => body.len().checked_sub(from_end as usize).filter(|_| first.trailer)?,
            };
            self.of.get(&u64_at(body, place)?)
        };
        self.attributes.get(id().copied().unwrap_or(0))
    }

    /// Reads a record; none if it is damaged.
    pub(super) fn record<'r>(&self, kind: u32, flags: u16, body: &'r [u8]) -> Option<Record<'r>> {
        let attribute = self.of_record(kind == kind::SAMPLE, body)?;
        if kind == kind::SAMPLE {
            return sample(attribute, body);
        }
        let time = match attribute.trailer {
            true => trailer_time(attribute, body)?,
            false => 0,
        };
        let mut front = Front(body);
        let program = flags & MODE == MODE_USER;
        let says = match kind {
            kind::NAME => {
                let [process, thread] = front.pair()?;
                Says::Name { process, thread, name: text(front.0) }
            }
            kind::MAP | kind::MAP_2 if program => {
                let [process, _] = front.pair()?;
                let (start, length, offset) = (front.word()?, front.word()?, front.word()?);
                // The file by its device and number or by its build, then protection and flags.
                let file = front.take(if kind == kind::MAP_2 { 24 + 8 } else { 0 })?;
                let build = match file {
                    [length, _, _, _, rest @ ..] if flags & MAP_BUILD != 0 => {
                        rest.get(..(*length).into())
                    }
                    _ => None,
                };
                Says::Map(Map { process, start, length, offset, path: text(front.0), build })
            }
            kind::FORK => {
                let [process, parent] = front.pair()?;
                Says::Fork { process, parent }
            }
            kind::LOST => {
                front.word()?;
                Says::Lost(front.word()?)
            }
            _ => Says::Other,
        };
        Some(Record { time, says })
    }
}

/// When a record was written that is no sample.
fn trailer_time(attribute: &Attribute, body: &[u8]) -> Option<u64> {
    let words = (attribute.samples & holds::TRAILER).count_ones() as usize;
    let mut trailer = Front(body.get(body.len().checked_sub(8 * words)?..)?);
    if attribute.has(holds::TASK) {
        trailer.word()?;
    }
    if attribute.has(holds::TIME) { trailer.word() } else { Some(0) }
}

fn sample<'r>(attribute: &Attribute, body: &'r [u8]) -> Option<Record<'r>> {
    if !attribute.tracepoint || !attribute.has(holds::RAW) {
        return Some(Record { time: 0, says: Says::Other });
    }
    let mut front = Front(body);
    let mut time = 0;
    let mut sample = Sample::default();
    // In the order in which the kernel writes them, which is not that of their bits.
    let order = [
        holds::IDENTIFIER,
        holds::IP,
        holds::TASK,
        holds::TIME,
        holds::ADDRESS,
        holds::ID,
        holds::STREAM,
        holds::CPU,
        holds::PERIOD,
        holds::READ,
        holds::CHAIN,
    ];
    debug_assert_eq!(order.iter().fold(0, |all, one| all | one), holds::BEFORE_RAW);
    for what in order.into_iter().filter(|&what| attribute.has(what)) {
        match what {
            holds::TASK => sample.process = Some(front.pair()?[0]),
            holds::TIME => (time, sample.timed) = (front.word()?, true),
            holds::CPU => sample.cpu = Some(front.pair()?[0]),
            holds::READ => counters(attribute.read, &mut front)?,
            holds::CHAIN => {
                let length = front.word()?.checked_mul(8)?;
                sample.chain = Some(front.take(length)?);
            }
            _ => drop(front.word()?),
        }
    }
    let length = u32_at(front.0, 0)?;
    front.take(4)?;
    sample.raw = Some(front.take(length.into())?);
    Some(Record { time, says: Says::Sample(sample) })
}

/// Passes over the counters that a sample reads.
fn counters(format: u64, front: &mut Front<'_>) -> Option<()> {
    let words = |what: u64| u64::from((format & what).count_ones());
    let each = 1 + words(counter::ID | counter::LOST);
    let times = words(counter::ENABLED | counter::RUNNING);
    let count = if format & counter::GROUP != 0 { front.word()? } else { 1 };
    let length = count.checked_mul(each)?.checked_add(times)?.checked_mul(8)?;
    front.take(length).map(drop)
}

/// Text up to a zero.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
