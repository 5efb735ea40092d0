//! What holds the records of `perf record`: a file or a stream, its features, and what it compressed.
//!
//! `tools/perf/Documentation/perf.data-file-format.txt` of Linux describes both. Every place and length in them is
//! checked against the bytes that are there before anything is done with it, so that damage costs no memory.

use std::collections::BTreeMap;

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::record::{Attribute, Layouts, Record, kind};
use crate::bytes::{part, u16_at, u32_at, u64_at};

/// How many bytes a record begins with: its kind, flags and length.
const RECORD_HEAD: usize = 8;
/// How many bytes the head of a file has.
const FILE_HEAD: u64 = 104;
/// How many bytes the head of a stream has.
const STREAM_HEAD: u64 = 16;
/// How many sections there can be.
const FEATURES: u32 = 256;
/// How many times the size of a recording its records may have when they are unpacked. Recordings of `perf record -z` were
/// seen to have 6 to 20 times.
const EXPANSION: usize = 256;

/// Sections of a recording, by the numbers of `perf`.
pub(super) mod feature {
    /// The `format` files of tracefs.
    pub(crate) const TRACING_DATA: u32 = 1;
    /// The builds of files.
    pub(crate) const BUILDS: u32 = 2;
    /// The release of the kernel.
    pub(crate) const RELEASE: u32 = 4;
    /// The architecture.
    pub(crate) const ARCHITECTURE: u32 = 6;
    /// How many CPUs there are, and how many were online.
    pub(crate) const CPUS: u32 = 7;
    /// The name of the processor.
    pub(crate) const PROCESSOR_NAME: u32 = 8;
    /// The numbers of the processor.
    pub(crate) const PROCESSOR: u32 = 9;
}

/// A recording, taken apart.
#[derive(Debug, Default)]
pub(super) struct Container {
    all: Vec<u8>,
    /// Records that were compressed.
    unpacked: Vec<u8>,
    /// Which parts of `all` are sections.
    features: BTreeMap<u32, (u64, u64)>,
    layouts: Layouts,
    /// Which part of `all` has the records.
    records: (u64, u64),
    /// Whether `perf` was ended before it wrote how many records there are.
    pub(super) unfinished: bool,
}

/// The records of the kernel.
pub(super) struct Sorted<'c> {
    /// By time.
    pub(super) records: Vec<Record<'c>>,
    /// How many could not be read.
    pub(super) damaged: u64,
    /// Whether one goes on beyond the end, so that there may have been more.
    pub(super) cut: bool,
}

/// A record with its head.
struct Raw<'c> {
    kind: u32,
    flags: u16,
    body: &'c [u8],
    /// Where the next one begins.
    next: usize,
}

impl Container {
    /// Takes it apart.
    ///
    /// # Errors
    ///
    /// If it is damaged before the first record, cut, or of another kind, in one sentence.
    pub(super) fn open(all: Vec<u8>) -> Result<Self, &'static str> {
        let mut container = Self { all, ..Self::default() };
        let head = u64_at(&container.all, 8).ok_or("it ends in its head")?;
        match head {
            // A stream (`perf record -o -`).
            STREAM_HEAD => container.stream(),
            _ => container.file(),
        }?;
        container.unpack()?;
        Ok(container)
    }

    /// A file names its parts in its head.
    fn file(&mut self) -> Result<(), &'static str> {
        const BEYOND: &str = "a part of it lies beyond its end";
        let all = &self.all;
        let head = part(all, 0, FILE_HEAD).ok_or("it ends in its head")?;
        let number = |at| u64_at(head, at).unwrap_or(0);
        let (size, attributes, records) =
            (number(16), (number(24), number(32)), (number(40), number(48)));
        part(all, records.0, records.1).ok_or(BEYOND)?;
        let attributes = part(all, attributes.0, attributes.1).ok_or(BEYOND)?;
        // Each has the place of its numbers behind it.
        let size = usize::try_from(size).ok().filter(|&size| size >= Attribute::SIZE_MIN + 16);
        let size = size.ok_or("its events have no size")?;
        for entry in attributes.chunks_exact(size) {
            let (attribute, ids) = entry.split_at(size - 16);
            let (start, length) = (u64_at(ids, 0).unwrap_or(0), u64_at(ids, 8).unwrap_or(0));
            let ids = part(all, start, length).ok_or(BEYOND)?;
            self.layouts.add(attribute, ids).ok_or("its events have no size")?;
        }
        self.unfinished = records.1 == 0;
        let mut table = records.0 + records.1;
        for feature in 0..FEATURES {
            let word = number(72 + 8 * (feature / 64) as usize);
            if word >> (feature % 64) & 1 == 0 {
                continue;
            }
            let entry = part(all, table, 16).ok_or(BEYOND)?;
            let section = (u64_at(entry, 0).unwrap_or(0), u64_at(entry, 8).unwrap_or(0));
            part(all, section.0, section.1).ok_or(BEYOND)?;
            self.features.insert(feature, section);
            table += 16;
        }
        self.records = records;
        Ok(())
    }

    /// A stream has everything in records.
    fn stream(&mut self) -> Result<(), &'static str> {
        let start = STREAM_HEAD as usize;
        self.records = (STREAM_HEAD, (self.all.len() - start) as u64);
        let mut at = start;
        while let Some(raw) = raw(&self.all, at) {
            let (place, length) = (at as u64 + 8, raw.body.len() as u64);
            match raw.kind {
                kind::ATTRIBUTE => {
                    let size = u32_at(raw.body, 4).and_then(|size| usize::try_from(size).ok());
                    let split = size.and_then(|size| raw.body.split_at_checked(size));
                    let (attribute, ids) = split.ok_or("its events have no size")?;
                    self.layouts.add(attribute, ids).ok_or("its events have no size")?;
                }
                kind::FEATURE if length >= 8 => {
                    let number = u32_at(raw.body, 0).unwrap_or(0);
                    self.features.insert(number, (place + 8, length - 8));
                }
                kind::TRACING_DATA => {
                    let length = u32_at(raw.body, 0).unwrap_or(0).into();
                    self.features
                        .insert(feature::TRACING_DATA, (place + raw.body.len() as u64, length));
                }
                _ => {}
            }
            at = raw.next;
        }
        Ok(())
    }

    /// Unpacks the records that are compressed, which are one frame after another of one stream.
    fn unpack(&mut self) -> Result<(), &'static str> {
        const PACKED: &str = "its compressed records cannot be unpacked";
        let most = self.all.len().saturating_mul(EXPANSION);
        let mut decoder = None;
        let mut chunk = Vec::new();
        let (records, mut at) = (self.records().0, 0);
        let mut unpacked = Vec::new();
        while let Some(raw) = raw(records, at) {
            at = raw.next;
            let packed = match raw.kind {
                kind::COMPRESSED => Some(raw.body),
                kind::COMPRESSED_2 => {
                    let length = u64_at(raw.body, 0).ok_or(PACKED)?;
                    Some(part(raw.body, 8, length).ok_or(PACKED)?)
                }
                _ => None,
            };
            let Some(packed) = packed else { continue };
            let decoder = match &mut decoder {
                Some(decoder) => decoder,
                none => none.insert(Decoder::new().map_err(|_| PACKED)?),
            };
            chunk.resize(1 << 17, 0);
            let mut from = InBuffer::around(packed);
            loop {
                let mut to = OutBuffer::around(&mut chunk[..]);
                decoder.run(&mut from, &mut to).map_err(|_| PACKED)?;
                let length = to.pos();
                if unpacked.len() + length > most {
                    return Err("its compressed records would have more than 256 times its size");
                }
                unpacked.extend_from_slice(&chunk[..length]);
                if length < chunk.len() && from.pos() == packed.len() {
                    break;
                }
            }
        }
        self.unpacked = unpacked;
        Ok(())
    }

    /// The bytes of all records, as they are and unpacked.
    fn records(&self) -> (&[u8], &[u8]) {
        let (start, length) = self.records;
        (part(&self.all, start, length).unwrap_or_default(), &self.unpacked)
    }

    /// A section.
    pub(super) fn feature(&self, number: u32) -> Option<&[u8]> {
        let &(start, length) = self.features.get(&number)?;
        part(&self.all, start, length)
    }

    /// The text of a section.
    pub(super) fn text(&self, number: u32) -> Option<String> {
        let section = self.feature(number)?;
        let text = part(section, 4, u32_at(section, 0)?.into())?;
        let text = text.split(|&byte| byte == 0).next()?;
        (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// The builds of the files that were mapped, by path. Each has a head, a process, the build with its length, and the
    /// path. Old versions of `perf` leave the length 0, which was always 20.
    pub(super) fn builds(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rest = self.feature(feature::BUILDS).unwrap_or_default();
        let mut builds = Vec::new();
        while let Some(length) = u16_at(rest, 6).map(usize::from)
            && let Some((entry, more)) = rest.split_at_checked(length)
            && let Some((build, path)) =
                entry.get(RECORD_HEAD + 4..).and_then(|entry| entry.split_at_checked(24))
        {
            let length = if build[20] == 0 { 20 } else { usize::from(build[20]).min(20) };
            let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
            builds.push((path.to_vec(), build[..length].to_vec()));
            rest = more;
        }
        builds
    }

    /// How many CPUs were online.
    pub(super) fn cpus(&self) -> Option<u32> {
        u32_at(self.feature(feature::CPUS)?, 4)
    }

    /// All records of the kernel.
    ///
    /// # Errors
    ///
    /// If it is not known how to read them.
    pub(super) fn sorted(&self) -> Result<Sorted<'_>, &'static str> {
        self.layouts.check()?;
        let mut damaged = 0;
        let mut cut = false;
        let mut records = Vec::new();
        let (plain, unpacked) = self.records();
        for bytes in [plain, unpacked] {
            let mut at = 0;
            while let Some(raw) = raw(bytes, at) {
                at = raw.next;
                if raw.kind < kind::OF_PERF {
                    let record = self.layouts.record(raw.kind, raw.flags, raw.body);
                    damaged += u64::from(record.is_none());
                    records.extend(record);
                }
            }
            cut |= at < bytes.len();
        }
        // What has no time was there before all else.
        records.sort_by_key(|record| record.time);
        Ok(Sorted { records, damaged, cut })
    }
}

/// The record at a place; none at the end, and where its length is none.
fn raw(all: &[u8], at: usize) -> Option<Raw<'_>> {
    let length = usize::from(u16_at(all, at.checked_add(6)?)?);
    let end = at.checked_add(length).filter(|_| length >= RECORD_HEAD)?;
    let body = all.get(at + RECORD_HEAD..end)?;
    let kind = u32_at(all, at)?;
    // Two kinds have data behind them which their length does not count.
    let behind = match kind {
        kind::TRACING_DATA => u32_at(body, 0)?.into(),
        kind::AUXTRACE => u64_at(body, 0)?,
        _ => 0,
    };
    let next = end.checked_add(usize::try_from(behind).ok()?).filter(|&next| next <= all.len())?;
    Some(Raw { kind, flags: u16_at(all, at + 4)?, body, next })
}
