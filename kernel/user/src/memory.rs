//! Mapped memory, as words that threads share.

use core::sync::atomic::AtomicU64;

use crate::system::{self, Kind, Parameter, Result};

/// The size of a page, in bytes.
pub(crate) const PAGE: usize = 4096;
/// How many words a page has.
pub(crate) const WORDS: usize = PAGE / 8;

/// Pages at consecutive addresses. They may be unmapped: a program that touches them then is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) start: usize,
    pub(crate) pages: usize,
}

impl Area {
    /// New pages, somewhere.
    pub(crate) fn map(pages: usize, kind: Kind) -> Result<Self> {
        let start = system::map(0, pages * PAGE, kind)?;
        Ok(Self { start, pages })
    }

    /// New pages, at an address that is free.
    pub(crate) fn map_at(start: usize, pages: usize, kind: Kind) -> Result<Self> {
        let got = system::map(start, pages * PAGE, kind)?;
        assert!(got == start, "asked for {start:#x}, got {got:#x}");
        Ok(Self { start, pages })
    }

    /// Addresses that are free: for a moment there was something.
    pub(crate) fn free(pages: usize) -> Result<Self> {
        let area = Self::map(pages, Kind::Pages)?;
        area.unmap();
        Ok(area)
    }

    /// Some of the pages.
    pub(crate) fn part(self, first: usize, pages: usize) -> Self {
        assert!(first + pages <= self.pages);
        Self { start: self.start + first * PAGE, pages }
    }

    pub(crate) fn bytes(self) -> usize {
        self.pages * PAGE
    }

    /// A word of a page.
    pub(crate) fn word(self, page: usize, word: usize) -> &'static AtomicU64 {
        assert!(page < self.pages && word < WORDS);
        let address = self.start + page * PAGE + word * 8;
        // SAFETY: the memory came from the kernel, is aligned, and is only ever seen as atomic words.
        // If it is gone the kernel ends this program at the touch, which is what some are here for.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }
    }

    /// # Panics
    ///
    /// If the kernel refuses: it has no reason to, here and below.
    pub(crate) fn unmap(self) {
        system::unmap(self.start, self.bytes()).expect("unmap");
    }

    pub(crate) fn protect(self, protection: usize) {
        system::protect(self.start, self.bytes(), protection).expect("protect");
    }

    pub(crate) fn discard(self) {
        system::discard(self.start, self.bytes()).expect("discard");
    }

    /// Moves the pages to `to`, where there must be none.
    pub(crate) fn move_to(self, to: usize) -> Self {
        let got = system::move_pages(self.start, self.bytes(), to).expect("move");
        assert!(got == to, "asked for {to:#x}, got {got:#x}");
        Self { start: to, ..self }
    }
}

/// How many frames may be missing for a while: of spaces that a CPU has not left yet, for example.
const TOLERATED: usize = 32;

/// How many frames are free.
pub(crate) fn free_frames() -> usize {
    system::parameter(Parameter::FreeFrames)
}

/// How many frames are missing, of so many that were free before something that is over now. They
/// may take a moment to come back.
pub(crate) fn missing_frames(before: usize) -> usize {
    let missing = || before.saturating_sub(free_frames());
    for _ in 0..1000 {
        if missing() <= TOLERATED {
            return 0;
        }
        system::sleep(10);
    }
    missing()
}
