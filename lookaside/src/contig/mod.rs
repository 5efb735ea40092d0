//! Blocks: runs of last-level entries that hardware may hold as one.
//!
//! Arm's contiguous bit and RISC-V's Svnapot let a TLB hold 16, 32 or 128 pages in one place. The
//! table still has one entry for each page; the entries of a block say that they belong together. A
//! kernel gains reach of its TLBs, at the price of rules:
//!
//! * *One state, many carriers.* Hardware sets the accessed and the dirty flag in **any one** entry
//!   of a block, at any moment, also between two of our loads. What a block's flags are is the OR of
//!   all; a clear flag in one entry means nothing.
//! * *Break before make.* Between a block and plain pages for the same addresses stands a moment at
//!   which nothing is mapped and nothing is held: all entries are taken out, a flush completes, and
//!   only then are the new entries written. What happens otherwise depends on the CPU, up to a
//!   mixture of two entries ([`SizeChange`]).
//!
//! So this module touches each entry once, with an operation that takes what hardware put there; it
//! changes a block as a whole, or turns it into pages first; and it turns into pages only those blocks
//! that a request cuts through, at most two. The work is linear in the entries.
//!
//! [`Entries`] are the last-level entries of a table page (or some whole blocks of it), for reading
//! without a lock. [`Locked`] is the same for the holder of the table's lock, with all that changes
//! them. What an entry looks like is a [`Format`]: [`Arm`] and [`Svnapot`]. How large blocks are is
//! data: [`Shape`]. Memory, locks and the flush afterwards are the kernel's.
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use lookaside::{
//!     VaRange,
//!     arch::aarch64::{AddressSize, Geometry, Granule, descriptor::*},
//!     contig::{Arm, Entries, Full, Raw, SizeChange},
//!     platform::Word,
//! };
//!
//! # fn main() -> Result<(), lookaside::Error> {
//! let arm = Arm::new(Geometry::new(Granule::K4, AddressSize::Bits48));
//! let words = [const { AtomicU64::new(0) }; 512];
//! // SAFETY: no hardware walks this table, and no other thread knows it.
//! let mut table = unsafe { Entries::new(arm, &words, 0x20_0000)?.locked(SizeChange::Flushed) };
//!
//! // 24 pages from an aligned frame: one block of sixteen, and eight plain pages.
//! let page = VALID | TABLE_OR_PAGE | NOT_GLOBAL | READ_ONLY | DIRTY_BIT_MODIFIER;
//! table.set(0..24, Raw(0x8000_0000 | page))?;
//! assert!(table.get(3)?.is_folded() && !table.get(16)?.is_folded());
//!
//! // A store to the fourth page: the hardware may note it in any entry of the block.
//! words[11].fetch_and(!READ_ONLY, lookaside::platform::Ordering::Relaxed);
//! assert!(table.get(3)?.dirty());
//!
//! // All go. No block is cut through, so nothing is flushed but by the caller, once, afterwards.
//! let mut flush = |_: VaRange| unreachable!();
//! let cleared = table.get_and_clear(0..24, Full::No, &mut flush)?;
//! assert!(cleared.flags.dirty && cleared.present == 24);
//! # Ok(())
//! # }
//! ```
//!
//! # Raw and gathered
//!
//! [`Raw`] is what one entry holds. [`Gathered`] is what a page's state *is*, with the flags of its
//! whole block. The two cannot be compared. Linux asked the gathered state whether a fault had
//! anything to repair, found "already writable and dirty", wrote nothing, and the walker that looks
//! at one entry faulted for ever (March 2026, a fix of commit 4602e575).
//!
//! ```
//! # use lookaside::contig::Raw;
//! fn nothing_changes(now: Raw, then: Raw) -> bool {
//!     now == then
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use lookaside::contig::{Raw, Gathered};
//! fn nothing_changes(now: Gathered, then: Raw) -> bool {
//!     then == now
//! }
//! ```
//!
//! ```compile_fail,E0369
//! # use lookaside::contig::{Raw, Gathered};
//! fn nothing_changes(now: Gathered, then: Raw) -> bool {
//!     now == then
//! }
//! ```
//!
//! ```compile_fail,E0369
//! # use lookaside::contig::{Raw, Gathered};
//! fn nothing_changes(now: Gathered, then: Gathered) -> bool {
//!     now == then
//! }
//! ```
//!
//! # What is not here
//!
//! Blocks of entries above the last level, stage 2, and 16 KiB granules' blocks of level 2. Whether a
//! block should be made at all is the kernel's policy: the caller of [`Locked::set`] or
//! [`Locked::fold`] says that the pages live and die together.

mod access;
mod arm;
mod clear;
mod format;
mod gathered;
mod resize;
mod set;
mod shape;
mod svnapot;
mod table;
mod word;

pub use crate::{arch::SizeChange, flags::Flags};
pub use access::Access;
pub use arm::Arm;
pub use clear::{Cleared, Full};
pub use format::{Format, Raw};
pub use gathered::Gathered;
pub use resize::Flush;
pub use shape::Shape;
pub use svnapot::Svnapot;
pub use table::{ATTEMPTS, Entries, Locked};
