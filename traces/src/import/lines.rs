//! Lines of a file that may be anything.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

/// How long a line may be. Those of events take some hundred bytes.
const LONGEST: usize = 256 << 10;

/// A line.
pub(crate) struct Line<'l> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Its bytes without what ends it; nothing of a line that is too long.
    pub(crate) bytes: &'l [u8],
    /// How it ends.
    pub(crate) end: End,
}

/// How a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As lines do.
    Whole,
    /// The file ends first: the line may have been longer.
    Cut,
    /// Not within what is reasonable.
    TooLong,
}

/// Reads lines one by one, in memory that does not grow.
pub(crate) struct Lines<R> {
    from: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    number: u64,
    /// Nothing more comes.
    over: bool,
    /// A decoder said that its file ends early.
    cut: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        let buffer = vec![0; LONGEST].into_boxed_slice();
        Self { from, buffer, start: 0, end: 0, number: 0, over: false, cut: false }
    }

    /// Whether the file ended within what a decoder reads.
    pub(crate) fn cut(&self) -> bool {
        self.cut
    }

    /// The number of the latest line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut too_long = false;
        let mut searched = self.start;
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[searched..self.end]) {
                let stop = searched + length;
                let line = self.start..if too_long { self.start } else { stop };
                self.start = stop + 1;
                self.number += 1;
                let bytes = &self.buffer[line];
                let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
                let end = if too_long { End::TooLong } else { End::Whole };
                return Ok(Some(Line { number: self.number, bytes, end }));
            }
            if self.over {
                let rest = self.start..self.end;
                self.start = self.end;
                if rest.is_empty() && !too_long {
                    return Ok(None);
                }
                self.number += 1;
                let bytes = if too_long { &[][..] } else { &self.buffer[rest] };
                return Ok(Some(Line { number: self.number, bytes, end: End::Cut }));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.buffer.len() {
                too_long = true;
                self.end = 0;
            }
            searched = self.end;
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    self.over = read == 0;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    (self.over, self.cut) = (true, true);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<(usize, End)> {
        let mut lines = Lines::new(bytes);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            assert_eq!(line.number, found.len() as u64 + 1);
            found.push((line.bytes.len(), line.end));
        }
        found
    }

    #[test]
    fn lines_end_as_they_end() {
        use End::{Cut, Whole};
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\n\nab\r\n"), [(0, Whole), (0, Whole), (2, Whole)]);
        assert_eq!(all(b"ab\nabc"), [(2, Whole), (3, Cut)]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let mut bytes = vec![b'a'; 3 * LONGEST];
        bytes.extend_from_slice(b"\nnext\n");
        assert_eq!(all(&bytes), [(0, End::TooLong), (4, End::Whole)]);
        bytes.truncate(2 * LONGEST);
        assert_eq!(all(&bytes), [(0, End::Cut)]);
        let longest = [vec![b'a'; LONGEST - 1], vec![b'\n']].concat();
        assert_eq!(all(&longest), [(LONGEST - 1, End::Whole)]);
    }
}
