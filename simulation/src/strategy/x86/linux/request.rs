//! A request to flush, as a CPU makes it and as others read it.

use lookaside::{
    arch::x86_64::Instructions as _,
    platform::{Ordering, Word as _},
};
use lookaside_machine::timed::{KERNEL, Word, x86::Insn};
use lookaside_traces::Pages;

use crate::strategy::Flush;

/// The space number of a request for kernel addresses.
const KERNEL_SPACE: u64 = 0;
/// The space number of a request for whichever space a CPU has loaded.
const ANY_SPACE: u64 = u64::MAX;
/// The value of `pages` for a full flush.
const EVERYTHING: u64 = u64::MAX;

/// A request as one CPU reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The context of the space, [`KERNEL_SPACE`], or [`ANY_SPACE`].
    space: u64,
    /// The generation that the flush brought the space to.
    pub(super) generation: u64,
    /// The first page, and above it the order of the entries.
    first: u64,
    /// How many entries.
    pages: u64,
}

/// Where the order of the entries stands in `first`: no page number is so large.
const ORDER: u32 = 56;

impl Request {
    /// The flush as Linux classifies it: by page up to `ceiling` pages, else full; always full for a batch, which may be of
    /// several spaces and names none.
    pub(super) fn new(flush: &Flush, generation: u64, ceiling: u64) -> Self {
        let space = match flush.space {
            None => KERNEL_SPACE,
            Some(_) if flush.batch => ANY_SPACE,
            Some(space) => u64::from(space.0) + 1,
        };
        let all = flush.everything || flush.batch || flush.entries() > ceiling;
        let pages = if all { EVERYTHING } else { flush.entries() };
        let first = flush.first | u64::from(flush.order) << ORDER;
        Self { space, generation, first, pages }
    }

    /// The context of the space; `None` for kernel addresses.
    pub(super) fn context(&self) -> Option<u64> {
        (self.space != KERNEL_SPACE).then_some(self.space)
    }

    /// Whether it is a batch.
    pub(super) const fn is_batch(&self) -> bool {
        self.space == ANY_SPACE
    }

    /// Whether it names pages.
    pub(super) const fn is_range(&self) -> bool {
        self.pages != EVERYTHING
    }

    /// How many pages it names, as Linux counts them.
    pub(super) fn pages(&self) -> Pages {
        match self.is_range() {
            true => Pages::Some(u32::try_from(self.pages).unwrap_or(u32::MAX)),
            false => Pages::Everything,
        }
    }

    /// The addresses that it names, one for each entry.
    fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, order) = (self.first & ((1 << ORDER) - 1), self.first >> ORDER);
        (0..self.pages).map(move |entry| (first + (entry << order)) << 12)
    }

    /// Invalidates its pages under the tag that the root register names.
    pub(super) fn flush_pages(&self) {
        for address in self.addresses() {
            Insn.invlpg(address);
        }
    }

    /// Invalidates kernel addresses.
    pub(super) fn flush_kernel(&self) {
        if self.is_range() {
            for address in self.addresses() {
                Insn.invlpg(KERNEL + address);
            }
        } else {
            flush_globally();
        }
    }
}

/// Invalidates everything on this CPU, global entries too.
pub(super) fn flush_globally() {
    const GLOBAL_PAGES: u64 = 1 << 7;
    let cr4 = Insn.read_cr4();
    Insn.write_cr4(cr4 & !GLOBAL_PAGES);
    Insn.write_cr4(cr4 | GLOBAL_PAGES);
}

/// Where a request is in memory, for others to read.
pub(super) struct Slip {
    space: Word,
    generation: Word,
    first: Word,
    pages: Word,
}

impl Slip {
    pub(super) const fn new() -> Self {
        Self { space: Word::ZERO, generation: Word::ZERO, first: Word::ZERO, pages: Word::ZERO }
    }

    pub(super) fn write(&self, request: &Request) {
        self.space.store(request.space, Ordering::Relaxed);
        self.generation.store(request.generation, Ordering::Relaxed);
        self.first.store(request.first, Ordering::Relaxed);
        self.pages.store(request.pages, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Request {
        Request {
            space: self.space.load(Ordering::Relaxed),
            generation: self.generation.load(Ordering::Relaxed),
            first: self.first.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
        }
    }
}
