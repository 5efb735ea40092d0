//! What a tracing tool copies from tracefs beside events: the layout of pages and events, and names of functions.
//!
//! `trace-cmd` begins its files with this (`trace-cmd.dat.v6(5)`), and `perf` has the same bytes in a section of its own.

use super::{events::Decoder, format::Format, page::Layout, symbols::Symbols};

/// What both begin with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The latest version whose parts follow each other uncompressed.
const VERSION: u32 = 6;

/// What was copied.
#[derive(Debug)]
pub(crate) struct Setup {
    /// How events are read.
    pub(crate) decoder: Decoder,
    /// How pages are read, where the tool kept pages.
    pub(crate) layout: Option<Layout>,
    /// The names of the known events that were recorded: `tlb/tlb_flush`.
    pub(crate) events: Vec<String>,
    /// The names of threads: number and name.
    pub(crate) threads: Vec<(u32, Vec<u8>)>,
    /// How many bytes all of it has.
    pub(crate) length: usize,
}

/// Bytes that are read from the front.
struct Bytes<'b> {
    all: &'b [u8],
    at: usize,
}

impl<'b> Bytes<'b> {
    fn take(&mut self, length: u64) -> Result<&'b [u8], &'static str> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let part = end
            .and_then(|end| self.all.get(self.at..end))
            .ok_or("it ends before its first event")?;
        self.at += part.len();
        Ok(part)
    }

    fn number(&mut self, size: u64) -> Result<u64, &'static str> {
        let mut wide = [0; 8];
        wide[..size as usize].copy_from_slice(self.take(size)?);
        Ok(u64::from_le_bytes(wide))
    }

    /// Text up to a zero.
    fn text(&mut self) -> Result<&'b [u8], &'static str> {
        let rest = self.all.get(self.at..).unwrap_or_default();
        let length =
            rest.iter().position(|&byte| byte == 0).ok_or("it ends before its first event")?;
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn expect(&mut self, text: &[u8]) -> Result<(), &'static str> {
        if self.take(text.len() as u64)? == text { Ok(()) } else { Err("its head is damaged") }
    }

    fn sized(&mut self, size: u64) -> Result<&'b [u8], &'static str> {
        let length = self.number(size)?;
        self.take(length)
    }
}

impl Setup {
    /// Reads it from the beginning of `all`.
    ///
    /// # Errors
    ///
    /// If it is damaged, cut, or of a version that is not read, in one sentence.
    pub(crate) fn read(all: &[u8]) -> Result<Self, &'static str> {
        let mut bytes = Bytes { all, at: 0 };
        bytes.expect(MAGIC)?;
        let version = core::str::from_utf8(bytes.text()?).unwrap_or_default();
        // `perf` writes 0.5 and 0.6.
        let number = version.strip_prefix("0.").unwrap_or(version).parse::<u32>();
        let number = number.map_err(|_| "its version is not a number")?;
        if number > VERSION {
            return Err(
                "it is of a version whose parts are compressed: `trace-cmd convert --file-version 6` makes one \
                        that can be read",
            );
        }
        if bytes.number(1)? != 0 {
            return Err("it is of a machine with the other order of bytes");
        }
        let long = bytes.number(1)?;
        if long != 8 {
            return Err("it is of a machine of 32 bits");
        }
        bytes.number(4)?;
        bytes.expect(b"header_page\0")?;
        let page = String::from_utf8_lossy(bytes.sized(8)?).into_owned();
        bytes.expect(b"header_event\0")?;
        bytes.sized(8)?;
        for _ in 0..bytes.number(4)? {
            bytes.sized(8)?;
        }
        let mut formats = Vec::new();
        for _ in 0..bytes.number(4)? {
            let system = String::from_utf8_lossy(bytes.text()?).into_owned();
            for _ in 0..bytes.number(4)? {
                let text = String::from_utf8_lossy(bytes.sized(8)?).into_owned();
                formats.push((system.clone(), text));
            }
        }
        let symbols = Symbols::parse(&String::from_utf8_lossy(bytes.sized(4)?));
        bytes.sized(4)?;
        let threads = if number >= VERSION { threads(bytes.sized(8)?) } else { Vec::new() };
        let mut decoder = Decoder::new(symbols);
        let mut events = Vec::new();
        for (system, text) in formats {
            let name = text.lines().find_map(|line| line.strip_prefix("name:")).map(str::trim);
            if let (Some(name), Some(format)) = (name, Format::parse(&text)) {
                let name = format!("{system}/{name}");
                if decoder.learn(&name, &format) {
                    events.push(name);
                }
            }
        }
        let layout = Layout::parse(&page);
        Ok(Self { decoder, layout, events, threads, length: bytes.at })
    }
}

/// Reads lines of a number and a name.
fn threads(text: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let thread = |line: &[u8]| {
        let blank = line.iter().position(|&byte| byte == b' ')?;
        let number = core::str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
        Some((number, line[blank + 1..].to_vec()))
    };
    text.split(|&byte| byte == b'\n').filter_map(thread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TLB: &str = "name: tlb_flush\nID: 9\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:int reason;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned long pages;\toffset:16;\tsize:8;\tsigned:0;\n";

    fn setup(version: &str) -> Vec<u8> {
        let mut all = MAGIC.to_vec();
        all.extend(version.as_bytes());
        all.extend([0, 0, 8]);
        all.extend(4096_u32.to_le_bytes());
        let sized = |all: &mut Vec<u8>, text: &[u8]| {
            all.extend((text.len() as u64).to_le_bytes());
            all.extend(text);
        };
        all.extend(b"header_page\0");
        sized(&mut all, b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n");
        all.extend(b"header_event\0");
        sized(&mut all, b"");
        all.extend(0_u32.to_le_bytes());
        all.extend(1_u32.to_le_bytes());
        all.extend(b"tlb\0");
        all.extend(1_u32.to_le_bytes());
        sized(&mut all, TLB.as_bytes());
        all.extend(0_u32.to_le_bytes());
        all.extend(0_u32.to_le_bytes());
        sized(&mut all, b"7 a name\nx\n");
        all
    }

    #[test]
    fn events_and_threads_are_found() {
        for version in ["6", "0.6"] {
            let bytes = setup(version);
            let read = Setup::read(&bytes).unwrap();
            assert_eq!(read.events, ["tlb/tlb_flush"]);
            assert_eq!(read.threads, [(7, b"a name".to_vec())]);
            assert_eq!((read.length, read.layout), (bytes.len(), None));
        }
    }

    #[test]
    fn what_is_cut_or_unknown_is_refused() {
        let whole = setup("6");
        for length in 0..whole.len() {
            assert!(Setup::read(&whole[..length]).is_err(), "{length}");
        }
        assert!(Setup::read(&setup("7")).unwrap_err().contains("convert"));
        let mut wide = setup("6");
        wide[MAGIC.len() + 2] = 1;
        assert!(Setup::read(&wide).unwrap_err().contains("order of bytes"));
        let mut huge = setup("6");
        let place = huge.windows(12).position(|part| part == b"header_page\0").unwrap() + 12;
        huge[place..place + 8].fill(0xff);
        assert!(Setup::read(&huge).is_err());
    }
}
