//! The root register: `satp`.
//!
//! ```text
//!  63   60 59              44 43                                         0
//! +-------+------------------+-------------------------------------------+
//! | MODE  |       ASID       |          PPN of the root table            |
//! +-------+------------------+-------------------------------------------+
//! ```
//!
//! Privileged manual, "Supervisor Address Translation and Protection (`satp`) Register". Root and
//! ASID stand in one register, so that one write changes both; that is what makes the sequences of
//! [`super::Riscv`] possible. Two things it does not do: a write orders nothing and invalidates
//! nothing (`norm:satp_op_sfence_vma`), and with MODE = Bare every other field must be zero
//! (`norm:satp_mode_bare_zero_fields`), which is why no [`Satp`] is ever built for Bare.

use super::Instructions;
use crate::error::Error;

const MODE_SHIFT: u32 = 60;
const ASID_SHIFT: u32 = 44;
const PPN_BITS: u32 = 44;
const PAGE_SHIFT: u32 = 12;
const PPN_MASK: u64 = (1 << PPN_BITS) - 1;
const ASID_MASK: u64 = 0xffff << ASID_SHIFT;

const _: () = assert!(PPN_BITS == ASID_SHIFT && ASID_SHIFT + 16 == MODE_SHIFT);

/// A paged mode of translation. A wider one implies the narrower ones (`norm:Sv48_requires_Sv39`,
/// `norm:Sv57_requires_Sv48`), so that the order of the variants is the order of ability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// 39-bit virtual addresses, three levels.
    Sv39 = 8,
    /// 48-bit virtual addresses, four levels.
    Sv48 = 9,
    /// 57-bit virtual addresses, five levels.
    Sv57 = 10,
}

impl Mode {
    /// The mode with this number in `satp.MODE`; `None` for Bare and for what is reserved.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            8 => Some(Self::Sv39),
            9 => Some(Self::Sv48),
            10 => Some(Self::Sv57),
            _ => None,
        }
    }

    /// How many levels of tables a walk visits.
    #[must_use]
    pub const fn levels(self) -> u32 {
        self as u32 - 5
    }

    /// How many bits of a virtual address are translated.
    #[must_use]
    pub const fn virtual_bits(self) -> u32 {
        PAGE_SHIFT + 9 * self.levels()
    }

    /// The binary logarithm of the largest page, in bytes.
    #[must_use]
    pub const fn largest_page_shift(self) -> u32 {
        self.virtual_bits() - 9
    }

    /// Whether all bits of `address` above the translated ones equal the highest translated one
    /// (`norm:Sv39_va_signext` and its siblings).
    ///
    /// It matters here because `SFENCE.VMA` of an address that is not valid silently does nothing
    /// (`norm:sfence_vma_invalid_va`).
    #[must_use]
    pub const fn is_canonical(self, address: u64) -> bool {
        let unused = 64 - self.virtual_bits();
        ((address << unused) as i64 >> unused) as u64 == address
    }
}

/// A value of `satp` in a paged mode, or whatever was read from the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Satp(u64);

impl Satp {
    /// The value that names the root table at the physical address `root` under `asid`.
    ///
    /// # Errors
    ///
    /// [`Error::BadRoot`] if `root` is not on a page boundary or beyond 56 bits: the surplus bits
    /// would land in the ASID.
    pub const fn new(mode: Mode, asid: u16, root: u64) -> Result<Self, Error> {
        if root & ((1 << PAGE_SHIFT) - 1) != 0 || root >> PAGE_SHIFT > PPN_MASK {
            return Err(Error::BadRoot { address: root });
        }
        Ok(Self((mode as u64) << MODE_SHIFT | (asid as u64) << ASID_SHIFT | root >> PAGE_SHIFT))
    }

    /// A mode, with ASID and root left blank.
    pub(super) const fn blank(mode: Mode) -> Self {
        Self((mode as u64) << MODE_SHIFT)
    }

    /// A blank filled in, with a root that [`Self::new`] would accept.
    #[inline]
    pub(super) const fn fill(self, asid: u16, root: u64) -> Self {
        Self(self.0 | (asid as u64) << ASID_SHIFT | root >> PAGE_SHIFT)
    }

    /// What the register holds.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// What to write to the register.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The mode; `None` for Bare and for what is reserved.
    #[must_use]
    pub const fn mode(self) -> Option<Mode> {
        Mode::from_number(self.0 >> MODE_SHIFT)
    }

    /// The ASID.
    #[must_use]
    pub const fn asid(self) -> u16 {
        ((self.0 & ASID_MASK) >> ASID_SHIFT) as u16
    }

    /// The physical address of the root table, in bytes.
    #[must_use]
    pub const fn root(self) -> u64 {
        (self.0 & PPN_MASK) << PAGE_SHIFT
    }
}

/// How many ASID bits the calling hart has, 0 to 16.
///
/// Writes ones to every bit of `satp.ASID`, reads them back and restores the register
/// (`norm:asidlen`); the least significant bits are implemented first (`norm:asid_lsb_first`). Ends
/// with a full `SFENCE.VMA`, so that a hart that is probed when it comes up also starts without
/// entries of whatever ran on it before.
///
/// Call with interrupts off. The root in `satp` must be one that the hart can go on executing
/// under; it stays loaded throughout.
///
/// # Errors
///
/// [`Error::Unsupported`] if `satp` is in Bare mode, in which an ASID other than zero is reserved,
/// or in a mode this library does not know. Nothing is written then.
pub fn probe_asid_bits<I: Instructions>(instructions: &I) -> Result<u32, Error> {
    let before = Satp::from_bits(instructions.read_satp());
    if before.mode().is_none() {
        return Err(Error::Unsupported("the probing of ASID bits outside a paged mode"));
    }
    instructions.write_satp(before.bits() | ASID_MASK);
    let probed = Satp::from_bits(instructions.read_satp());
    instructions.write_satp(before.bits());
    // FENCE F-RV-PROBE (pairs with the first load of the highest tag): for two instructions the
    // present root stood under the highest ASID, and walks may have left entries there. The first
    // space with that tag must not meet them. All ASIDs, because entries from before this kernel may
    // stand under any of them.
    instructions.sfence_vma(None, None);
    Ok(probed.asid().trailing_ones())
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    #[test]
    fn fields_are_where_the_manual_puts_them() {
        let satp = Satp::new(Mode::Sv39, 0xabcd, 0x00ff_edcb_a987_6000).unwrap();
        assert_eq!(satp.bits(), 0x8abc_dffe_dcba_9876);
        assert_eq!(Satp::new(Mode::Sv48, 0, 0).unwrap().bits(), 0x9000_0000_0000_0000);
        assert_eq!(Satp::new(Mode::Sv57, 1, 0x1000).unwrap().bits(), 0xa000_1000_0000_0001);
    }

    #[test]
    fn satp_fields_read_back_as_written() {
        for mode in [Mode::Sv39, Mode::Sv48, Mode::Sv57] {
            for asid in [0, 1, 0x8000, 0xffff] {
                for root in [0, 0x1000, 0x8020_0000, 0x00ff_ffff_ffff_f000] {
                    let satp = Satp::new(mode, asid, root).unwrap();
                    assert_eq!((satp.mode(), satp.asid(), satp.root()), (Some(mode), asid, root));
                    assert_eq!(Satp::from_bits(satp.bits()), satp);
                }
            }
        }
    }

    #[test]
    fn a_root_that_would_spill_into_the_asid_is_refused() {
        for root in [1, 0xfff, 0x1800, 1 << 56, !0xfff] {
            let refused = Satp::new(Mode::Sv39, 0, root);
            assert_eq!(refused, Err(Error::BadRoot { address: root }));
        }
    }

    #[test]
    fn only_the_three_modes_are_known() {
        for number in 0..=16 {
            assert_eq!(Mode::from_number(number).is_some(), (8..=10).contains(&number));
        }
        assert_eq!(Satp::from_bits(0).mode(), None);
        assert_eq!(Satp::from_bits(u64::MAX).mode(), None);
    }

    #[test]
    fn canonical_addresses_by_mode() {
        for (mode, levels, bits) in [(Mode::Sv39, 3, 39), (Mode::Sv48, 4, 48), (Mode::Sv57, 5, 57)]
        {
            assert_eq!((mode.levels(), mode.virtual_bits()), (levels, bits));
            let half = 1_u64 << (bits - 1);
            for good in [0, half - 1, half.wrapping_neg(), u64::MAX] {
                assert!(mode.is_canonical(good), "{mode:?} {good:#x}");
            }
            for bad in [half, half.wrapping_neg() - 1, 1 << 63, u64::MAX >> 1] {
                assert!(!mode.is_canonical(bad), "{mode:?} {bad:#x}");
            }
        }
    }

    #[test]
    fn every_width_is_probed_and_the_register_restored() {
        for bits in 0..=16 {
            for mode in [Mode::Sv39, Mode::Sv48, Mode::Sv57] {
                let before = Satp::new(mode, 0, 0x8020_0000).unwrap().bits();
                let hart = Recorder::with_asid_bits(bits, before);
                assert_eq!(probe_asid_bits(&hart), Ok(bits));
                assert_eq!(hart.satp(), before);
                let ones = before | 0xffff << 44;
                let expected = [
                    Event::ReadSatp,
                    Event::WriteSatp(ones),
                    Event::ReadSatp,
                    Event::WriteSatp(before),
                    Event::SfenceVma(None, None),
                ];
                assert_eq!(hart.take(), expected);
            }
        }
    }

    #[test]
    fn the_asid_in_use_does_not_count_as_probed() {
        let before = Satp::new(Mode::Sv39, 0b11, 0x8020_0000).unwrap().bits();
        let hart = Recorder::with_asid_bits(5, before);
        assert_eq!(probe_asid_bits(&hart), Ok(5));
        assert_eq!(hart.satp(), before);
    }

    #[test]
    fn a_bit_above_a_gap_is_no_tag_bit() {
        let before = Satp::new(Mode::Sv39, 0, 0x8020_0000).unwrap().bits();
        let hart = Recorder::with_asid_mask(0b1011, before);
        assert_eq!(probe_asid_bits(&hart), Ok(2));
    }

    #[test]
    fn probing_is_refused_in_bare_mode() {
        for satp in [0, 1 << 60, 0xb << 60, 0xf << 60] {
            let hart = Recorder::with_asid_bits(16, satp);
            assert!(matches!(probe_asid_bits(&hart), Err(Error::Unsupported(_))));
            assert_eq!(hart.take(), [Event::ReadSatp]);
        }
    }
}
