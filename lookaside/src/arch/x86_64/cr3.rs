//! The root register: `CR3`, and the PCIDs that it names.
//!
//! ```text
//!  63        62       61       60    52 51                     12 11      0
//! ┌─────────┬────────┬────────┬────────┬─────────────────────────┬─────────┐
//! │ keep    │ LAM_U48│ LAM_U57│   0    │ root table, 4 KiB units │  PCID   │
//! └─────────┴────────┴────────┴────────┴─────────────────────────┴─────────┘
//! ```
//!
//! Sources: SDM vol. 3, 4.5 (the register with four and five levels), 4.10.4.1 (what a write
//! invalidates, bit 63), "Linear-Address Masking" (bits 61 and 62); APM vol. 2, 5.5 (PCIDs). With
//! `CR4.PCIDE` clear, bits 3 and 4 are `PWT` and `PCD` and bit 63 must be zero, or the write
//! faults.

use crate::{arch::Held, error::Error};

/// Bits 51:12: the physical address of the root table.
pub const ROOT_MASK: u64 = 0x000f_ffff_ffff_f000;

/// Bit 63 in a write: entries of the PCID that is loaded stay. Always reads as zero.
pub const KEEP: u64 = 1 << 63;

const PCID_MASK: u64 = 0xfff;

// The fields are disjoint, and none is lost by combining them with `|`.
const _: () = assert!(ROOT_MASK & PCID_MASK == 0 && (ROOT_MASK | PCID_MASK) >> 52 == 0);
const _: () = assert!((ROOT_MASK | PCID_MASK) & (KEEP | Lam::U57.bits() | Lam::U48.bits()) == 0);
const _: () = assert!(KEEP >> 61 | Lam::U57.bits() >> 61 | Lam::U48.bits() >> 61 == 0b111);

/// A process-context identifier: 12 bits.
///
/// PCID 0 is [`Pcid::RESERVED`]: that of early boot, and of parked CPUs. Tag *t* is PCID *t*. A kernel with separate user tables runs tag *t* under
/// PCID *t* while it is in the kernel and under its [twin](Self::twin) in user mode, which halves
/// the number of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pcid(u16);

impl Pcid {
    /// How many PCIDs there are.
    pub const COUNT: u32 = 1 << 12;

    /// The bit in which the two PCIDs of a pair differ: set in user mode's.
    pub const USER: u16 = 1 << 11;

    /// The PCID of everything that has no address space of its own.
    pub const RESERVED: Self = Self(0);

    /// The PCID of that number.
    ///
    /// # Errors
    ///
    /// [`Error::TagOutOfRange`] from 4096 on.
    pub const fn new(number: u16) -> Result<Self, Error> {
        if (number as u32) < Self::COUNT {
            Ok(Self(number))
        } else {
            Err(Error::TagOutOfRange { tag: number as u32, tags: Self::COUNT })
        }
    }

    /// The PCID that a value of `CR3` names.
    #[inline]
    pub(super) const fn of_cr3(value: u64) -> Self {
        Self((value & PCID_MASK) as u16)
    }

    /// The PCID of a number of which is known that it is one.
    #[inline]
    pub(super) const fn of_checked(number: u16) -> Self {
        debug_assert!((number as u32) < Self::COUNT, "the number was not checked");
        Self(number & 0xfff)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The PCID that user mode has where this one is the kernel's.
    ///
    /// # Errors
    ///
    /// [`Error::TagOutOfRange`] if this PCID is itself the upper one of a pair.
    pub const fn twin(self) -> Result<Self, Error> {
        if self.0 & Self::USER == 0 {
            Ok(Self(self.0 | Self::USER))
        } else {
            Err(Error::TagOutOfRange { tag: self.0 as u32, tags: Self::USER as u32 })
        }
    }
}

/// Linear-address masking for user pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lam {
    /// User pointers carry no metadata.
    #[default]
    Off,
    /// Metadata in bits 62:57.
    U57,
    /// Metadata in bits 62:48.
    U48,
}

impl Lam {
    /// The bits in `CR3`.
    #[must_use]
    pub const fn bits(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::U57 => 1 << 61,
            Self::U48 => 1 << 62,
        }
    }
}

/// A value of `CR3` with its fields apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cr3 {
    /// Physical address of the root table in bytes; bits outside [`ROOT_MASK`] are not encoded.
    pub root: u64,
    /// The PCID; [`Pcid::RESERVED`] with `CR4.PCIDE` clear.
    pub pcid: Pcid,
    /// Linear-address masking. [`super::X86`] always loads [`Lam::Off`].
    pub lam: Lam,
    /// What becomes of the entries of `pcid`. [`Held::Keep`] needs `CR4.PCIDE` set.
    pub held: Held,
}

impl Cr3 {
    /// The value to write.
    #[must_use]
    pub const fn encode(self) -> u64 {
        let keep = match self.held {
            Held::Keep => KEEP,
            Held::Drop => 0,
        };
        keep | self.lam.bits() | (self.root & ROOT_MASK) | self.pcid.0 as u64
    }

    /// The fields of a value.
    ///
    /// A value read from the register yields [`Held::Drop`]: bit 63 is not stored. `LAM_U48` is
    /// ignored where `LAM_U57` is set, as hardware does.
    #[must_use]
    pub const fn decode(value: u64) -> Self {
        let lam = if value & Lam::U57.bits() != 0 {
            Lam::U57
        } else if value & Lam::U48.bits() != 0 {
            Lam::U48
        } else {
            Lam::Off
        };
        Self {
            root: value & ROOT_MASK,
            pcid: Pcid::of_cr3(value),
            lam,
            held: if value & KEEP == 0 { Held::Drop } else { Held::Keep },
        }
    }
}

/// Whether `CR3` can hold `root` on a CPU with physical addresses of `physical_bits` bits: it is
/// 4 KiB aligned and no bit above is set. Where memory encryption takes a bit of the address (AMD's
/// C-bit), that bit counts as an address bit.
///
/// # Errors
///
/// [`Error::BadRoot`].
pub const fn check_root(root: u64, physical_bits: u32) -> Result<(), Error> {
    // The mask alone decides from 52 bits on: the architecture has no more.
    if root & !ROOT_MASK == 0 && (physical_bits >= 52 || root >> physical_bits == 0) {
        Ok(())
    } else {
        Err(Error::BadRoot { address: root })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cr3(root: u64, pcid: u16, held: Held) -> Cr3 {
        Cr3 { root, pcid: Pcid::new(pcid).unwrap(), lam: Lam::Off, held }
    }

    #[test]
    fn pcid_03_bit_63_says_keep() {
        assert_eq!(cr3(0x1234_5000, 7, Held::Keep).encode(), 0x8000_0000_1234_5007);
        assert_eq!(cr3(0x1234_5000, 7, Held::Drop).encode(), 0x0000_0000_1234_5007);
    }

    #[test]
    fn every_field_is_where_the_manual_puts_it() {
        assert_eq!(cr3(0, 0xfff, Held::Drop).encode(), 0xfff);
        assert_eq!(cr3(ROOT_MASK, 0, Held::Drop).encode(), 0x000f_ffff_ffff_f000);
        assert_eq!(Cr3 { lam: Lam::U57, ..cr3(0, 0, Held::Drop) }.encode(), 0x2000_0000_0000_0000);
        assert_eq!(Cr3 { lam: Lam::U48, ..cr3(0, 0, Held::Drop) }.encode(), 0x4000_0000_0000_0000);
        // Stray bits of a root never become a PCID, a LAM bit or the keep bit.
        assert_eq!(cr3(u64::MAX, 0, Held::Drop).encode(), 0x000f_ffff_ffff_f000);
        assert_eq!(Cr3::decode(0x6000_0000_0000_0000).lam, Lam::U57);
    }

    #[test]
    fn a_pcid_has_twelve_bits_and_a_pair_eleven() {
        assert_eq!(Pcid::new(4095).map(Pcid::get), Ok(4095));
        assert_eq!(Pcid::new(4096), Err(Error::TagOutOfRange { tag: 4096, tags: 4096 }));
        assert_eq!(Pcid::new(u16::MAX), Err(Error::TagOutOfRange { tag: 65535, tags: 4096 }));
        assert_eq!(Pcid::new(5).unwrap().twin().map(Pcid::get), Ok(0x805));
        assert_eq!(Pcid::new(0x7ff).unwrap().twin().map(Pcid::get), Ok(0xfff));
        let upper = Pcid::new(0x800).unwrap();
        assert_eq!(upper.twin(), Err(Error::TagOutOfRange { tag: 0x800, tags: 0x800 }));
    }

    #[test]
    fn no_two_pairs_share_a_pcid() {
        let mut seen = [false; 4096];
        for tag in 0..0x800 {
            let kernel = Pcid::new(tag).unwrap();
            for pcid in [kernel, kernel.twin().unwrap()] {
                assert!(!core::mem::replace(&mut seen[usize::from(pcid.get())], true), "{pcid:?}");
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn a_root_is_aligned_and_below_the_limit() {
        assert_eq!(check_root(0x7f_ffff_f000, 39), Ok(()));
        assert_eq!(check_root(0x80_0000_0000, 39), Err(Error::BadRoot { address: 0x80_0000_0000 }));
        assert_eq!(check_root(0x1800, 39), Err(Error::BadRoot { address: 0x1800 }));
        assert_eq!(check_root(0x000f_ffff_ffff_f000, 52), Ok(()));
        assert_eq!(check_root(1 << 52, 52), Err(Error::BadRoot { address: 1 << 52 }));
        // A CPU cannot have more, whatever it says.
        assert_eq!(check_root(1 << 52, 64), Err(Error::BadRoot { address: 1 << 52 }));
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(frame in 0..1_u64 << 40, pcid in 0..4096_u16, keep: bool) {
            let held = if keep { Held::Keep } else { Held::Drop };
            for lam in [Lam::Off, Lam::U57, Lam::U48] {
                let value = Cr3 { lam, ..cr3(frame << 12, pcid, held) };
                prop_assert_eq!(Cr3::decode(value.encode()), value);
            }
        }
    }
}
