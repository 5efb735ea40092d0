//! What a last-level entry says, whatever the architecture.

use super::shape::Shape;
use crate::flags::Flags;

/// What one slot of a table holds: an entry, or something of software's that no walk uses.
///
/// Two of these are equal if the slots hold the same. That is the test for "nothing changes".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raw(pub u64);

/// The layout of last-level entries: pure functions of what an entry holds.
///
/// Entries have one of three states. *Absent*: no walk uses it, all but what makes it absent is
/// software's. *Page*: it maps one page by itself. *Folded*: it is one of a block's. A method whose
/// argument is called `page` is called with a page only, and so on.
///
/// # Obligations of implementers
///
/// Hardware changes nothing of an entry but what [`Self::flags`] reads, never changes an absent one,
/// and never takes a flag back.
pub trait Format: Copy {
    /// The sizes.
    fn shape(&self) -> Shape;

    /// How many bits the addresses of pages have.
    fn output_bits(&self) -> u32;

    /// Whether a walk can use the entry.
    fn is_present(&self, entry: Raw) -> bool;

    /// Whether the entry is present and one of a block's.
    fn is_folded(&self, entry: Raw) -> bool;

    /// The address in memory of the page that `page` maps.
    fn output(&self, page: Raw) -> u64;

    /// `page` with another address, which is a multiple of the page size and has no more than
    /// [`Self::output_bits`] bits.
    fn at(&self, page: Raw, output: u64) -> Raw;

    /// `page` as one of a block's entries.
    fn fold(&self, page: Raw) -> Raw;

    /// The page that slot `slot` of a block maps, given what the slot holds.
    fn unfold(&self, folded: Raw, slot: usize) -> Raw;

    /// All that must be the same in all entries of a block: neither the address nor the flags, nor
    /// what says that it is a block.
    fn attributes(&self, present: Raw) -> u64;

    /// The flags of a present entry.
    fn flags(&self, present: Raw) -> Flags;

    /// The entry with more flags. Where the entry allows stores, [`Flags::DIRTY`] makes it one
    /// through which a store goes without a fault or an update.
    fn with(&self, present: Raw, flags: Flags) -> Raw;

    /// The entry with fewer flags, so that hardware, or a fault, sets them again at the next use.
    fn without(&self, present: Raw, flags: Flags) -> Raw;

    /// Whether the entry allows stores, if need be after hardware or a fault has noted that the page
    /// is dirty.
    fn is_writable(&self, present: Raw) -> bool;

    /// The entry with stores allowed.
    fn writable(&self, present: Raw) -> Raw;

    /// The entry without stores, and with the flags that it had.
    fn write_protected(&self, present: Raw) -> Raw;

    /// Whether hardware may hold what this present entry says, if the entry has been as it is since
    /// the last flush.
    fn may_be_held(&self, present: Raw) -> bool;
}
