//! RISC-V's Svnapot: sixteen entries of the last level that say the same.
//!
//! Unlike Arm's, the entries of a block are identical but for A and D: each page takes the low bits
//! of its frame from its own address, and their place in the entry holds the size of the block.
//!
//! # Must a change of size be flushed?
//!
//! The manual allows a hart to hold, for any of the sixteen addresses, what it read through any of
//! the sixteen entries since the last fence; where entries differ it may use either, unpredictably.
//! It raises no exception over that and mixes nothing. A change of size keeps frames and permissions,
//! so either is right, and [`super::SizeChange::Free`] is: what a hart holds with D set had D set in
//! one of the entries when we took them all out, and what it holds with D clear it compares with the
//! table before it sets D there, finds changed, and walks again (privileged manual, "Virtual Address
//! Translation Process", step 9).
//!
//! What may *not* be done is to convert entry by entry, without taking all sixteen out first: a hart
//! could set D through an entry not yet converted, for a page whose own entry already is plain and
//! clean. The code has no such path.
//!
//! With either choice a hart may hold that an entry is *absent*, as after any change from absent to
//! present: the handler of a page fault fences and tries again.

use super::{
    Flags,
    format::{Format, Raw},
    shape::Shape,
};
use crate::arch::riscv64::svnapot::{self, Entry};

const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const A: u64 = 1 << 6;
const D: u64 = 1 << 7;
const N: u64 = 1 << 63;
const PPN_SHIFT: u32 = 10;
const PPN: u64 = ((1 << 44) - 1) << PPN_SHIFT;
const SIZE: u64 = (svnapot::ENTRIES - 1) << PPN_SHIFT;
const SIZE_64K: u64 = (svnapot::ENTRIES / 2) << PPN_SHIFT;

/// Last-level entries of Sv39, Sv48 and Sv57.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Svnapot;

impl Format for Svnapot {
    #[inline]
    fn shape(&self) -> Shape {
        Shape::SVNAPOT
    }

    #[inline]
    fn output_bits(&self) -> u32 {
        44 + self.shape().page_shift
    }

    #[inline]
    fn is_present(&self, entry: Raw) -> bool {
        match svnapot::decode(entry.0) {
            Entry::Page => entry.0 & (R | X) != 0,
            Entry::Block => true,
            // What faults in every walk is as good as absent.
            Entry::Invalid | Entry::Reserved => false,
        }
    }

    #[inline]
    fn is_folded(&self, entry: Raw) -> bool {
        matches!(svnapot::decode(entry.0), Entry::Block)
    }

    #[inline]
    fn output(&self, page: Raw) -> u64 {
        (page.0 & PPN) >> PPN_SHIFT << self.shape().page_shift
    }

    #[inline]
    fn at(&self, page: Raw, output: u64) -> Raw {
        Raw(page.0 & !PPN | output >> self.shape().page_shift << PPN_SHIFT & PPN)
    }

    #[inline]
    fn fold(&self, page: Raw) -> Raw {
        Raw(page.0 & !SIZE | SIZE_64K | N)
    }

    #[inline]
    fn unfold(&self, folded: Raw, slot: usize) -> Raw {
        Raw(folded.0 & !(N | SIZE) | (slot as u64) << PPN_SHIFT & SIZE)
    }

    #[inline]
    fn attributes(&self, present: Raw) -> u64 {
        present.0 & !(PPN | N | A | D)
    }

    #[inline]
    fn flags(&self, present: Raw) -> Flags {
        Flags { accessed: present.0 & A != 0, dirty: present.0 & D != 0 }
    }

    #[inline]
    fn with(&self, present: Raw, flags: Flags) -> Raw {
        Raw(present.0 | bits(flags))
    }

    #[inline]
    fn without(&self, present: Raw, flags: Flags) -> Raw {
        Raw(present.0 & !bits(flags))
    }

    #[inline]
    fn is_writable(&self, present: Raw) -> bool {
        present.0 & W != 0
    }

    #[inline]
    fn writable(&self, present: Raw) -> Raw {
        // W without R is reserved.
        Raw(present.0 | W | R)
    }

    #[inline]
    fn write_protected(&self, present: Raw) -> Raw {
        Raw(present.0 & !W)
    }

    #[inline]
    fn may_be_held(&self, _: Raw) -> bool {
        // The manual excludes nothing, not even entries that fault.
        true
    }
}

const fn bits(flags: Flags) -> u64 {
    (if flags.accessed { A } else { 0 }) | (if flags.dirty { D } else { 0 })
}
