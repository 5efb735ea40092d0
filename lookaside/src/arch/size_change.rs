//! What hardware does where a block of contiguous entries and plain ones meet.

/// What stands between a block's entries and plain ones for the same addresses.
///
/// In every case all entries are taken out first, for only that finds all flags, and then the new ones
/// are written. The question is whether hardware may meet both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SizeChange {
    /// A flush: right everywhere.
    #[default]
    Flushed,
    /// A flush, unless none of the entries that were taken out could be held. On Arm that is so if
    /// none had its access flag ([`crate::contig::Format::may_be_held`]); on RISC-V it never is.
    ///
    /// Only for kernels that flush after each [`crate::contig::Locked::clear_accessed`] before they change the same
    /// table again: a clear flag proves nothing about what was held while it was set.
    FlushedIfHeld,
    /// Nothing: hardware that meets both uses one or the other, mixes nothing and raises no conflict.
    ///
    /// On Arm this takes break-before-make level 2 *and* a CPU that is known to raise no conflict
    /// abort, which level 2 alone does not say (manual D8.7.1.1), on every CPU of the machine. On
    /// RISC-V it is what the manual says of Svnapot; see [`crate::contig::Svnapot`]'s source.
    Free,
}
