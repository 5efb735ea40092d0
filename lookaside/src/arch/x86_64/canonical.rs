//! Which linear addresses exist: canonical addresses of four and of five levels of tables.

use crate::{error::Error, range::VaRange};

/// How many levels of tables the kernel runs with: the value of `CR4.LA57`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)] // How many bits are not translated.
pub enum Levels {
    /// Four levels: linear addresses of 48 bits.
    Four = 64 - 48,
    /// Five levels: linear addresses of 57 bits.
    Five = 64 - 57,
}

impl Levels {
    /// How many bits of a linear address are translated.
    #[must_use]
    pub const fn linear_bits(self) -> u32 {
        64 - self as u32
    }

    /// Whether `address` is canonical: all bits above the translated ones equal the highest
    /// translated one (SDM vol. 1, 3.3.7.1).
    #[must_use]
    pub const fn is_canonical(self, address: u64) -> bool {
        let unused = self as u32;
        (((address << unused) as i64) >> unused) as u64 == address
    }

    /// Refuses an address that is not canonical.
    ///
    /// Every operand of `INVLPG`, `INVPCID` and `INVLPGB` passes through here first, unless it was seen to be a page of the
    /// lower half, all of which is canonical. The
    /// instructions disagree about such an address: `INVLPG` does nothing, `INVPCID` raises `#GP`
    /// (SDM vol. 2, both entries). A kernel that passes on an address chosen by somebody else and
    /// moves from the one to the other acquires a crash (XSA-279, CVE-2018-19965). Nothing can be
    /// cached for such an address, so nothing is lost by refusing.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`].
    pub const fn check(self, address: u64) -> Result<(), Error> {
        if self.is_canonical(address) { Ok(()) } else { Err(Error::NonCanonical { address }) }
    }

    /// Refuses a range with an address that is not canonical.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`] with the first such address.
    pub const fn check_range(self, range: &VaRange) -> Result<(), Error> {
        if let Err(error) = self.check(range.start()) {
            return Err(error);
        }
        // A range that begins in the lower half must end there too: the hole lies above.
        let hole = 1 << (self.linear_bits() - 1);
        if range.start() < hole && range.last() >= hole {
            return Err(Error::NonCanonical { address: hole });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_borders_of_both_halves() {
        for (levels, low_last, high_first) in [
            (Levels::Four, 0x0000_7fff_ffff_ffff, 0xffff_8000_0000_0000),
            (Levels::Five, 0x00ff_ffff_ffff_ffff, 0xff00_0000_0000_0000_u64),
        ] {
            for good in [0, low_last, high_first, u64::MAX] {
                assert_eq!(levels.check(good), Ok(()), "{levels:?} {good:#x}");
            }
            for bad in [low_last + 1, high_first - 1, 1 << 63] {
                let refusal = Err(Error::NonCanonical { address: bad });
                assert_eq!(levels.check(bad), refusal, "{levels:?} {bad:#x}");
            }
        }
    }

    #[test]
    fn addresses_canonical_with_four_levels_are_so_with_five() {
        for address in [0x7fff_ffff_f000, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_f000] {
            assert!(Levels::Five.is_canonical(address));
        }
        assert!(Levels::Five.is_canonical(0x0000_8000_0000_0000));
        assert!(!Levels::Four.is_canonical(0x0000_8000_0000_0000));
    }
}
