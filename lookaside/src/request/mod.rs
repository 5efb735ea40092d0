//! Requests to flush, and how they get from one CPU to others.
//!
//! | file | concept |
//! | --- | --- |
//! | `ranges.rs` | a set of addresses, and the cheapest instructions that remove them |
//! | `mapped.rs` | what a CPU has mapped under a tag, which the choice between these depends on |
//! | `described.rs` | the request of each CPU as an initiator, which its targets read |
//! | `queue.rs` | the queue of each CPU: requests to some CPUs, and their acknowledgement |
//! | `pending_ipi.rs` | whose IPI is pending, and one range that is requested with it (an inline request) |
//! | `broadcast_ring.rs` | requests to every CPU that is online |

mod broadcast_ring;
mod described;
mod mapped;
mod pending_ipi;
mod queue;
mod ranges;

pub use self::ranges::FlushRanges;
pub(crate) use self::{
    broadcast_ring::{BroadcastRequest, BroadcastRing, MAX_OUTSTANDING, RING_SLOTS, Up},
    described::{DescribedRequest, Outstanding},
    mapped::Mapped,
    pending_ipi::Initiators,
    queue::{MAX_DISTINCT, RequestQueue},
    ranges::{MissedFlush, covering_range},
};

/// The translations that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Those of one space.
    AddressSpace {
        /// The context id of the space ([`crate::tags::Tags::context_id`]).
        context: u64,
        /// The ranges are those of the flushes of all generations from `first` to `last`.
        first: u64,
        /// See `first`. A CPU that had flushed up to `first - 1` has flushed up to `last` afterwards.
        last: u64,
    },
    /// The kernel's, under every tag.
    Kernel,
    /// Those of every space, but not the kernel's.
    EverySpace,
    /// None: the space is being released, and a CPU that has its root loaded parks.
    Leave {
        /// The physical address of the root, in bytes.
        root: u64,
    },
    /// All there are, because the target could not read the request. It parks if the space of its root is being
    /// released.
    Unknown,
}

/// A request to flush, from one CPU to others.
#[doc(alias = "flush_tlb_info")]
#[derive(Clone, Copy, Debug)]
pub struct FlushRequest<'s> {
    /// The space, or the kernel, or every space.
    pub scope: FlushScope,
    /// The addresses.
    pub ranges: &'s FlushRanges,
    /// Whether a target may acknowledge as soon as it is in its IPI handler, and flush before it leaves the
    /// handler. Of no effect if tables are freed.
    pub early: bool,
}

/// A request as its target has read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) scope: FlushScope,
    pub(crate) ranges: FlushRanges,
    pub(crate) early: bool,
}

impl ReceivedRequest {
    /// The request that a target assumes if it cannot read the one that was posted.
    pub(crate) const EVERYTHING: Self =
        Self { scope: FlushScope::Unknown, ranges: FlushRanges::everything(), early: false };

    /// The same, of a request on the broadcast ring, which has none but those for kernel addresses.
    pub(crate) const EVERY_TAG: Self = Self { scope: FlushScope::Kernel, ..Self::EVERYTHING };

    pub(crate) const fn request(&self) -> FlushRequest<'_> {
        FlushRequest { scope: self.scope, ranges: &self.ranges, early: self.early }
    }

    /// Adds another request if both are for one space; returns whether they are.
    pub(crate) fn add(&mut self, other: &Self) -> bool {
        let (
            FlushScope::AddressSpace { context, first, last },
            FlushScope::AddressSpace { context: same, first: from, last: to },
        ) = (self.scope, other.scope)
        else {
            return false;
        };
        if context != same {
            return false;
        }
        self.ranges.merge(&other.ranges);
        self.early &= other.early;
        // The ranges of generations between the two are not known to this CPU.
        if from > last + 1 || first > to + 1 {
            self.ranges.widen();
        }
        self.scope =
            FlushScope::AddressSpace { context, first: first.min(from), last: last.max(to) };
        true
    }
}
