#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_debug_implementations)]

use core::ops::Range;

use lookaside::{
    AddressSpace, Gather, KernelGather, Platform, Tlb, VaRange,
    flush::{Flushed, PendingFlush},
    tags::{Asids, Tags},
};
use lookaside_changes::Changes;

const PAGE_SIZE: usize = 4096;

/// What is to be flushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlbFlushOp(
    /// None is everything.
    Option<VaRange>,
);

impl TlbFlushOp {
    /// All that the space maps.
    #[must_use]
    pub const fn for_all() -> Self {
        Self(None)
    }

    /// The entry that maps this address, whatever its size.
    #[must_use]
    pub const fn for_single(addr: usize) -> Self {
        let start = addr & !(PAGE_SIZE - 1);
        Self::for_range_of(start, PAGE_SIZE)
    }

    /// The entries that map this range, which may have several sizes.
    ///
    /// # Panics
    ///
    /// If the range is empty, or its ends are not multiples of the page size.
    #[must_use]
    pub const fn for_range(range: Range<usize>) -> Self {
        assert!(range.start.is_multiple_of(PAGE_SIZE), "range start must be page-aligned");
        assert!(range.end.is_multiple_of(PAGE_SIZE), "range end must be page-aligned");
        assert!(range.start < range.end, "range must not be empty");
        Self::for_range_of(range.start, range.end - range.start)
    }

    const fn for_range_of(start: usize, bytes: usize) -> Self {
        match VaRange::new(start as u64, bytes as u64, PAGE_SIZE.trailing_zeros()) {
            Ok(range) => Self(Some(range)),
            Err(_) => Self::for_all(),
        }
    }
}

/// Requests that were issued and not dispatched, and the frames that they hold. `G` is a [`Gather`] or a
/// [`KernelGather`].
///
/// It is made before the first entry is changed. Each request is issued before or after its entry is changed.
#[derive(Debug)]
#[must_use = "nothing is flushed, and what it holds is leaked, unless it is dispatched"]
pub struct TlbFlusher<G> {
    changes: G,
}

impl<'g, P: Platform, F> TlbFlusher<Gather<'g, P, F>> {
    /// For the CPUs that run this space. The frames go into `frames`.
    pub fn new(space: &'g AddressSpace<P>, frames: F) -> Self {
        Self { changes: Gather::holding(space, frames) }
    }

    /// Flushes on this CPU, and asks the others to. The page tables were changed before.
    ///
    /// # Panics
    ///
    /// If the space is of another [`Tlb`].
    #[track_caller]
    pub fn dispatch_tlb_flush<'t, T: Tags<P>>(
        self,
        tlb: &'t Tlb<'_, P, T>,
        irqs_off: &P::IrqsOff,
    ) -> Dispatched<'g, 't, P, F, T> {
        Dispatched(tlb.begin_flush(irqs_off, self.changes))
    }
}

impl<F> TlbFlusher<KernelGather<F>> {
    /// For kernel addresses, which every CPU uses. The frames go into `frames`.
    pub fn for_kernel<P: Platform, T: Tags<P>>(tlb: &Tlb<'_, P, T>, frames: F) -> Self {
        Self { changes: KernelGather::holding(tlb, frames) }
    }

    /// Flushes on this CPU, and asks the others to. The page tables were changed before.
    ///
    /// # Panics
    ///
    /// If it was made for another [`Tlb`].
    #[track_caller]
    pub fn dispatch_tlb_flush<'t, P: Platform, T: Tags<P>>(
        self,
        tlb: &'t Tlb<'_, P, T>,
        irqs_off: &P::IrqsOff,
    ) -> Dispatched<'static, 't, P, F, T> {
        Dispatched(tlb.begin_flush_kernel(irqs_off, self.changes))
    }
}

impl<G: Changes> TlbFlusher<G> {
    /// The entries were changed, and no frame is free by it.
    pub fn issue_tlb_flush(&mut self, op: TlbFlushOp) {
        match op.0 {
            Some(range) => self.changes.revoke_mixed(range),
            None => self.changes.revoke_everything(),
        }
    }

    /// The entries were removed, and the frame is free after the flush.
    pub fn issue_tlb_flush_with<T>(&mut self, op: TlbFlushOp, drop_after_flush: T)
    where
        G::Frames: Extend<T>,
    {
        self.issue_tlb_flush(op);
        self.changes.hold_page(drop_after_flush);
    }

    /// A page table that mapped this was unlinked, and is free after the flush.
    pub fn issue_tlb_flush_with_table<T>(&mut self, op: TlbFlushOp, drop_after_flush: T)
    where
        G::Frames: Extend<T>,
    {
        self.changes.hold_table(op.0, drop_after_flush);
    }
}

/// Requests that were dispatched. CPUs may not have flushed yet.
#[derive(Debug)]
#[must_use = "the TLBs are coherent, and the frames free, when `sync_tlb_flush` returns"]
pub struct Dispatched<'g, 't, P: Platform, F, T: Tags<P> = Asids<'static, P>>(
    PendingFlush<'g, 't, P, T, F>,
);

impl<P: Platform, F, T: Tags<P>> Dispatched<'_, '_, P, F, T> {
    /// Returns when no CPU holds what was dispatched, with the frames. Called with interrupts on, on any CPU.
    pub fn sync_tlb_flush(self) -> Flushed<F> {
        self.0.wait()
    }
}
