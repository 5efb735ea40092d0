//! The pages of the kernel's ring buffer, as `trace_pipe_raw` gives them.
//!
//! A page begins with the time of its first event and the number of bytes that follow. Each event has a
//! header of 32 bits: five for a type or length, 27 for the nanoseconds since the event before. Longer
//! times, absolute times and events that were taken back are entries of their own. `events/header_page`
//! and `events/header_event` of tracefs say so, and *Lockless Ring Buffer Design* of the kernel's
//! documentation says why.

use super::format::Format;

/// Types of entries that are no events; what is below is a length.
mod entry {
    /// The largest type that is a length, in words.
    pub(crate) const DATA_MAX: u32 = 28;
    /// Room that holds no event.
    pub(crate) const PADDING: u32 = 29;
    /// More bits of the time since the event before.
    pub(crate) const TIME_EXTEND: u32 = 30;
    /// A time that does not depend on the event before.
    pub(crate) const TIME_STAMP: u32 = 31;
}

/// Bits of the time in the header of an entry.
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time; those above are those of the page's time.
const STAMP_BITS: u32 = 59;
/// What the word with the number of bytes holds besides.
const LENGTH_MASK: u64 = (1 << 27) - 1;
/// In that word: events before this page were lost.
const MISSED: u64 = 1 << 31;
/// In that word: how many, stands behind the last byte.
const MISSED_STORED: u64 = 1 << 30;

/// The layout of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where the number of bytes stands, and how wide it is.
    length: (usize, usize),
    /// Where the events begin.
    data: usize,
    /// How large a page is.
    pub(crate) size: usize,
}

/// A page that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Page<'p> {
    data: &'p [u8],
    place: usize,
    time: u64,
    base: u64,
    /// Events that the kernel had no room for, before the first of this page; 0 if it does not know how
    /// many. None if there are none.
    pub(crate) lost: Option<u64>,
}

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

impl Layout {
    /// Reads `events/header_page`; none if it is not understood.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // It has the form of a `format` without number.
        let format = Format::parse(&format!("ID: 0\n{text}"))?;
        let (commit, data) = (format.field("commit")?, format.field("data")?);
        let (start, length) = (data.place(), data.size());
        let size = start.checked_add(length).filter(|&size| size > 0)?;
        Some(Self { length: (commit.place(), commit.size()), data: start, size })
    }
}

impl<'p> Page<'p> {
    /// Opens a page.
    ///
    /// # Errors
    ///
    /// If it says that it holds more than it can.
    pub(crate) fn open(layout: Layout, page: &'p [u8]) -> Result<Self, Damaged> {
        let time = number(page, 0, 8).ok_or(Damaged)?;
        let word = number(page, layout.length.0, layout.length.1).ok_or(Damaged)?;
        let length = usize::try_from(word & LENGTH_MASK).map_err(|_| Damaged)?;
        let all = page.get(layout.data..).ok_or(Damaged)?;
        let data = all.get(..length).ok_or(Damaged)?;
        let lost = (word & MISSED != 0).then(|| {
            let stored = (word & MISSED_STORED != 0).then(|| number(all, length, 8)).flatten();
            stored.unwrap_or(0)
        });
        Ok(Self { data, place: 0, time, base: time, lost })
    }

    /// The time of the latest event; of the page, before the first.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// The next event, with its time in nanoseconds. None at the end.
    ///
    /// # Errors
    ///
    /// If an event goes on beyond the end of the page.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &'p [u8])>, Damaged> {
        while self.place < self.data.len() {
            let header = self.word(self.place)?;
            let (kind, delta) = (header & 0x1f, u64::from(header >> 5));
            let body = self.place + 4;
            match kind {
                entry::PADDING => {
                    // Without a time it stands for the rest of the page.
                    if delta == 0 {
                        break;
                    }
                    self.advance(delta);
                    self.place = body + usize::try_from(self.word(body)?).map_err(|_| Damaged)?;
                }
                entry::TIME_EXTEND => {
                    self.advance((u64::from(self.word(body)?) << DELTA_BITS) + delta);
                    self.place = body + 4;
                }
                entry::TIME_STAMP => {
                    let low = (u64::from(self.word(body)?) << DELTA_BITS) + delta;
                    self.time = self.base >> STAMP_BITS << STAMP_BITS | low;
                    self.place = body + 4;
                }
                _ => {
                    self.advance(delta);
                    let event = self.event(kind, body)?;
                    return Ok(Some((self.time, event)));
                }
            }
        }
        Ok(None)
    }

    /// The event whose header ends at `body`; the next entry is behind it.
    fn event(&mut self, kind: u32, body: usize) -> Result<&'p [u8], Damaged> {
        let (start, end) = if kind == 0 {
            // The length stands in a word of its own, and counts that word.
            let length = usize::try_from(self.word(body)?).map_err(|_| Damaged)?;
            (body + 4, body.checked_add(length).ok_or(Damaged)?)
        } else {
            debug_assert!(kind <= entry::DATA_MAX, "the others are no events");
            (body, body + 4 * kind as usize)
        };
        self.place = end.next_multiple_of(4);
        self.data.get(start..end).ok_or(Damaged)
    }

    fn advance(&mut self, delta: u64) {
        self.time = self.time.wrapping_add(delta);
    }

    fn word(&self, place: usize) -> Result<u32, Damaged> {
        let value = number(self.data, place, 4).ok_or(Damaged)?;
        u32::try_from(value).map_err(|_| Damaged)
    }
}

/// The number of `size` bytes, 8 at most, at a place.
fn number(bytes: &[u8], place: usize, size: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..size)?.copy_from_slice(bytes.get(place..place.checked_add(size)?)?);
    Some(u64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\
	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
";

    fn layout() -> Layout {
        Layout::parse(HEADER).expect("the layout of a page")
    }

    /// A page with these words, at this time.
    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = Vec::new();
        page.extend(time.to_le_bytes());
        page.extend((flags | (words.len() as u64 * 4)).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.resize(4096, 0);
        page
    }

    fn all(page: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Damaged> {
        let mut page = Page::open(layout(), page)?;
        let mut events = Vec::new();
        while let Some((time, event)) = page.next()? {
            events.push((time, event.to_vec()));
        }
        Ok(events)
    }

    fn header(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn the_layout_of_a_page_is_read() {
        assert_eq!(layout(), Layout { length: (8, 8), data: 16, size: 4096 });
        assert_eq!(Layout::parse("\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"), None);
    }

    #[test]
    fn times_add_up_across_all_kinds_of_entries() {
        let words = [
            header(1, 0), // an event of one word, at the time of the page
            7,
            header(entry::TIME_EXTEND, 5), // 2 << 27 and 5 later ...
            2,
            header(0, 3), // ... and 3 more: an event with its length in a word of its own
            8,
            9,
            header(entry::PADDING, 10), // one that was taken back, four bytes after its length
            8,
            0xdead,
            header(1, 1),
            11,
            header(entry::TIME_STAMP, 4), // an absolute time
            1,
            header(1, 0),
            12,
        ];
        let base = 3 << STAMP_BITS;
        let later = base + (2 << DELTA_BITS) + 8;
        let events = all(&page(base, 0, &words)).expect("a sound page");
        let expected =
            [(base, 7_u32), (later, 9), (later + 11, 11), (base + (1 << DELTA_BITS) + 4, 12)];
        assert_eq!(events, expected.map(|(time, word)| (time, word.to_le_bytes().to_vec())));
    }

    #[test]
    fn a_page_that_ends_in_padding_ends_there() {
        let page = page(1, 0, &[header(1, 0), 7, header(entry::PADDING, 0), 0, 0, 0]);
        assert_eq!(all(&page).map(|events| events.len()), Ok(1));
    }

    #[test]
    fn lost_events_are_told() {
        let mut counted = page(1, MISSED | MISSED_STORED, &[header(1, 0), 7]);
        counted[24..32].copy_from_slice(&99_u64.to_le_bytes());
        assert_eq!(Page::open(layout(), &counted).map(|page| page.lost), Ok(Some(99)));
        let unknown = page(1, MISSED, &[header(1, 0), 7]);
        assert_eq!(Page::open(layout(), &unknown).map(|page| page.lost), Ok(Some(0)));
        let none = page(1, 0, &[header(1, 0), 7]);
        assert_eq!(Page::open(layout(), &none).map(|page| page.lost), Ok(None));
    }

    #[test]
    fn a_layout_without_room_is_none() {
        let none = HEADER.replace("offset:16;\tsize:4080", "offset:0;\tsize:0");
        assert_ne!(none, HEADER);
        assert_eq!(Layout::parse(&none), None);
    }

    #[test]
    fn a_damaged_page_is_refused_and_never_read_beyond() {
        assert_eq!(all(&[0; 12]), Err(Damaged), "shorter than its own header");
        assert_eq!(all(&page(1, 8192, &[])), Err(Damaged), "more bytes than a page has");
        assert_eq!(all(&page(1, 0, &[header(3, 0), 7])), Err(Damaged), "longer than the page");
        assert_eq!(all(&page(1, 0, &[header(0, 0), u32::MAX])), Err(Damaged));
        assert_eq!(all(&page(1, 0, &[header(entry::TIME_EXTEND, 0)])), Err(Damaged));
        // Whatever stands in a page: an end, and no panic.
        let mut state = 1_u64;
        for _ in 0..2000 {
            let words: Vec<u32> = (0..64)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    (state >> 33) as u32 & if state & 1 == 0 { 0x3f } else { u32::MAX }
                })
                .collect();
            let _ = all(&page(state, state & (MISSED | MISSED_STORED), &words));
        }
    }
}
