//! What a completed flush hands back: the frames that its gather has held.

use crate::flags::Flags;

/// What was gathered is flushed: no program and no kernel code can use it on any CPU, no CPU walks tables that were freed, and
/// none has an access under way that it translated by what was gathered. The frames may be used again.
///
/// A CPU that does not run the space may hold it in its TLB until it switches to the space, and flushes first. So may one that
/// is lazy in the space, on x86-64 and RISC-V, unless a table was freed. As its root is loaded still, hardware may read there
/// speculatively: frames that become device memory need a flush that reaches such CPUs, too
/// ([`crate::Gather::unlink_table`] makes it one).
///
/// Only [`crate::CurrentCpu::flush`] and its like make one, so that an allocator which asks for one before it takes a
/// frame back is given none too early.
#[derive(Debug)]
#[must_use = "it has the frames that the gather held"]
#[non_exhaustive]
pub struct Flushed<F = ()> {
    /// The container that the gather was given, with what it has held.
    pub frames: F,
    /// The accessed and dirty flags of the entries, all together ([`crate::Gather::found`]). They are final.
    pub flags: Flags,
}

/// No program can use what was gathered any more, although TLBs may hold it for a moment: every CPU that runs the
/// space has stopped, and invalidates before it goes on.
///
/// It is enough to give *pages* to others that are ordinary memory. It is not enough for frames that become device
/// memory, which hardware may still read speculatively: not even after a flush by their next owner, who flushes the CPUs of
/// his space and not these; nor on Arm to map another page at the same address:
/// break-before-make requires that the invalidation is complete in between. If the gather held page tables, or one was
/// unlinked, the flush was not early, and the tables may be used again.
#[derive(Debug)]
#[must_use = "it has the frames that the gather held"]
#[non_exhaustive]
pub struct Acknowledged<F = ()> {
    /// As [`Flushed::frames`].
    pub frames: F,
    /// As [`Flushed::flags`].
    pub flags: Flags,
}

impl<F> From<Flushed<F>> for Acknowledged<F> {
    fn from(Flushed { frames, flags }: Flushed<F>) -> Self {
        Self { frames, flags }
    }
}
