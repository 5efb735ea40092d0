//! Arm's contiguous bit, stage 1, level 3.
//!
//! # When is a page dirty?
//!
//! A descriptor has no dirty bit. Its state is in three bits, two of which hardware knows:
//!
//! | `DBM` | read-only | software's | stores | dirty |
//! | --- | --- | --- | --- | --- |
//! | 1 | 1 | 0 | hardware clears *read-only* first, or a fault comes | no |
//! | 1 | 1 | 1 | the same | yes: kept from before |
//! | 1 | 0 | any | go through | yes: somebody cleared *read-only* |
//! | 0 | 0 | any | go through and leave no trace | yes: nobody could tell |
//! | 0 | 1 | 0 | fault | no |
//! | 0 | 1 | 1 | fault | yes: written to before it was protected |
//!
//! So a page is dirty if it is not read-only, or if software's bit says so (manual D8.5.6, dirty
//! state). To protect a page from stores clears `DBM` too, for otherwise hardware would undo it; what
//! was dirty then moves to software's bit in the same atomic operation. To forget that a page is dirty
//! makes it read-only: on a CPU without hardware updates the next store faults, and
//! [`super::Locked::set_access`] repairs it.

use super::{
    Flags,
    format::{Format, Raw},
    shape::Shape,
};
use crate::{
    arch::aarch64::{
        AddressSize, Geometry,
        descriptor::{
            self, ACCESSED, CONTIGUOUS, DIRTY_BIT_MODIFIER, READ_ONLY, TABLE_OR_PAGE, VALID,
        },
    },
    error::Error,
};

const PAGE: u64 = VALID | TABLE_OR_PAGE;

/// The bits that hardware ignores and leaves to software (manual D8.3.2).
const SOFTWARE_BITS: core::ops::RangeInclusive<u32> = 55..=58;

/// Page descriptors of stage 1, at any granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arm {
    geometry: Geometry,
    /// Where the address stands.
    address: u64,
    /// Software's own dirty bit.
    dirty: u64,
}

impl Arm {
    /// Descriptors of this geometry, with bit 55 as software's dirty bit.
    #[must_use]
    pub const fn new(geometry: Geometry) -> Self {
        let page = (1 << geometry.granule.shift()) - 1;
        let largest = (1 << bits(geometry)) - 1;
        let Some(address) = descriptor::address_bits(geometry, largest & !page) else {
            unreachable!()
        };
        Self { geometry, address, dirty: 1 << 55 }
    }

    /// The same with another bit for software's dirty bit, which no other use may be made of.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the bit is none of 55 to 58, which are software's.
    pub fn with_dirty_bit(self, bit: u32) -> Result<Self, Error> {
        if !SOFTWARE_BITS.contains(&bit) {
            return Err(Error::Unsupported("that bit as software's dirty bit"));
        }
        Ok(Self { dirty: 1 << bit, ..self })
    }
}

const fn bits(geometry: Geometry) -> u32 {
    match geometry.addresses {
        AddressSize::Bits48 => 48,
        AddressSize::Bits52 => 52,
    }
}

impl Format for Arm {
    #[inline]
    fn shape(&self) -> Shape {
        Shape::arm(self.geometry.granule)
    }

    #[inline]
    fn output_bits(&self) -> u32 {
        bits(self.geometry)
    }

    #[inline]
    fn is_present(&self, entry: Raw) -> bool {
        entry.0 & PAGE == PAGE
    }

    #[inline]
    fn is_folded(&self, entry: Raw) -> bool {
        entry.0 & (PAGE | CONTIGUOUS) == PAGE | CONTIGUOUS
    }

    #[inline]
    fn output(&self, page: Raw) -> u64 {
        descriptor::output_of(self.geometry, page.0)
    }

    #[inline]
    fn at(&self, page: Raw, output: u64) -> Raw {
        let address = descriptor::address_bits(self.geometry, output).unwrap_or_default();
        Raw(page.0 & !self.address | address & self.address)
    }

    #[inline]
    fn fold(&self, page: Raw) -> Raw {
        Raw(page.0 | CONTIGUOUS)
    }

    #[inline]
    fn unfold(&self, folded: Raw, _: usize) -> Raw {
        // Each descriptor of a block holds the address of its own page.
        Raw(folded.0 & !CONTIGUOUS)
    }

    #[inline]
    fn attributes(&self, present: Raw) -> u64 {
        // With `DBM`, *read-only* is a flag of hardware's and no permission.
        let flags = if present.0 & DIRTY_BIT_MODIFIER != 0 { READ_ONLY } else { 0 };
        present.0 & !(self.address | ACCESSED | CONTIGUOUS | self.dirty | flags)
    }

    #[inline]
    fn flags(&self, present: Raw) -> Flags {
        Flags {
            accessed: present.0 & ACCESSED != 0,
            dirty: present.0 & (READ_ONLY | self.dirty) != READ_ONLY,
        }
    }

    #[inline]
    fn with(&self, present: Raw, flags: Flags) -> Raw {
        let mut bits = present.0;
        if flags.accessed {
            bits |= ACCESSED;
        }
        if flags.dirty {
            if bits & DIRTY_BIT_MODIFIER != 0 {
                bits &= !READ_ONLY;
            } else if bits & READ_ONLY != 0 {
                bits |= self.dirty;
            }
        }
        Raw(bits)
    }

    #[inline]
    fn without(&self, present: Raw, flags: Flags) -> Raw {
        let mut bits = present.0;
        if flags.accessed {
            bits &= !ACCESSED;
        }
        if flags.dirty {
            // Stores stay permitted, and the next one says so: hardware or its fault clears `READ_ONLY` again.
            let writable = if self.is_writable(present) { DIRTY_BIT_MODIFIER } else { 0 };
            bits = bits & !self.dirty | READ_ONLY | writable;
        }
        Raw(bits)
    }

    #[inline]
    fn is_writable(&self, present: Raw) -> bool {
        present.0 & (READ_ONLY | DIRTY_BIT_MODIFIER) != READ_ONLY
    }

    #[inline]
    fn writable(&self, present: Raw) -> Raw {
        Raw(present.0 | DIRTY_BIT_MODIFIER)
    }

    #[inline]
    fn write_protected(&self, present: Raw) -> Raw {
        let kept = if self.flags(present).dirty { self.dirty } else { 0 };
        Raw(present.0 & !DIRTY_BIT_MODIFIER | READ_ONLY | kept)
    }

    #[inline]
    fn may_be_held(&self, present: Raw) -> bool {
        // An access through a descriptor without `AF` faults, or sets it first; what faults is not
        // held (manual D8.16.3).
        present.0 & ACCESSED != 0
    }
}
