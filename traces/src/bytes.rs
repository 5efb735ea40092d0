//! Numbers in bytes that may be damaged: whatever a place or a length is, there is an answer, and nothing is set aside for it.

use core::ops::Range;

/// The part of `all` that begins at `start` and has `length` bytes, if it is within.
pub(crate) fn part(all: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    all.get(range(start, length)?)
}

fn range(start: u64, length: u64) -> Option<Range<usize>> {
    let end = usize::try_from(start.checked_add(length)?).ok()?;
    Some(usize::try_from(start).ok()?..end)
}

/// The number of 16 bits at a place.
pub(crate) fn u16_at(all: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(all.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// The number of 32 bits at a place.
pub(crate) fn u32_at(all: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(all.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The number of 64 bits at a place.
pub(crate) fn u64_at(all: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(all.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Bytes that are taken from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front<'b>(pub(super) &'b [u8]);

impl<'b> Front<'b> {
    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Option<&'b [u8]> {
        let (part, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(part)
    }

    /// The next number of 64 bits.
    pub(crate) fn word(&mut self) -> Option<u64> {
        u64_at(self.take(8)?, 0)
    }

    /// The next two numbers of 32 bits.
    pub(crate) fn pair(&mut self) -> Option<[u32; 2]> {
        let word = self.word()?;
        Some([word as u32, (word >> 32) as u32])
    }
}
