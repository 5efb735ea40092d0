//! The descriptors of `INVPCID`.
//!
//! ```text
//!            63                              12 11         0
//! quad 0    ┌──────────────────────────────────┬────────────┐
//!           │ reserved, must be zero           │ PCID       │
//! quad 1    ├──────────────────────────────────┴────────────┤
//!           │ linear address (type 0 only)                  │
//!           └───────────────────────────────────────────────┘
//! ```
//!
//! Source: SDM vol. 2, INVPCID; APM vol. 3, INVPCID. The instruction raises `#GP` if a reserved bit
//! is set, if the address of type 0 is not canonical, or if types 0 and 1 name a PCID other than 0
//! while `CR4.PCIDE` is clear. Types 2 and 3 look at neither field but still at the reserved bits.

use super::{Invpcid, Levels, Pcid};
use crate::error::Error;

/// The operands of one `INVPCID`, free of what makes it fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    kind: Invpcid,
    descriptor: [u64; 2],
}

impl Command {
    /// Everything, global entries too.
    pub const ALL: Self = Self { kind: Invpcid::All, descriptor: [0, 0] };

    /// Everything but global entries, of every PCID.
    pub const ALL_BUT_GLOBAL: Self = Self { kind: Invpcid::AllButGlobal, descriptor: [0, 0] };

    /// One address of one PCID; global entries stay.
    ///
    /// Of cached upper levels the manual says less than of `INVLPG`: "mappings" of the address go
    /// (SDM vol. 3, 4.10.4.1). Where a table was unlinked, [`Self::context`] is certain.
    ///
    /// # Errors
    ///
    /// [`Error::NonCanonical`] where the instruction would fault.
    pub const fn address(pcid: Pcid, address: u64, levels: Levels) -> Result<Self, Error> {
        if let Err(error) = levels.check(address) {
            return Err(error);
        }
        Ok(Self { kind: Invpcid::Address, descriptor: [pcid.get() as u64, address] })
    }

    /// One PCID; global entries stay.
    #[must_use]
    pub const fn context(pcid: Pcid) -> Self {
        Self { kind: Invpcid::Context, descriptor: [pcid.get() as u64, 0] }
    }

    /// The type.
    #[must_use]
    pub const fn kind(self) -> Invpcid {
        self.kind
    }

    /// The two quadwords in memory order.
    #[must_use]
    pub const fn descriptor(self) -> [u64; 2] {
        self.descriptor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pcid(number: u16) -> Pcid {
        Pcid::new(number).unwrap()
    }

    /// The 16 bytes as the CPU reads them from memory.
    fn bytes(command: Command) -> [u8; 16] {
        let [low, high] = command.descriptor().map(u64::to_le_bytes);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low);
        bytes[8..].copy_from_slice(&high);
        bytes
    }

    #[test]
    fn the_pcid_comes_first_and_the_address_second() {
        let command = Command::address(pcid(0xabc), 0xffff_8123_4567_8000, Levels::Four).unwrap();
        // Bits 11:0 PCID, bits 63:12 zero, bits 127:64 address; little-endian.
        let expected =
            [0xbc, 0x0a, 0, 0, 0, 0, 0, 0, 0x00, 0x80, 0x67, 0x45, 0x23, 0x81, 0xff, 0xff];
        assert_eq!(bytes(command), expected);
    }

    #[test]
    fn the_numbers_of_the_types_are_the_manuals() {
        let address = Command::address(pcid(1), 0, Levels::Four).unwrap();
        let all = [address, Command::context(pcid(1)), Command::ALL, Command::ALL_BUT_GLOBAL];
        assert_eq!(all.map(|command| command.kind() as u64), [0, 1, 2, 3]);
    }

    #[test]
    fn unused_descriptor_fields_are_zero() {
        assert_eq!(Command::context(pcid(0xfff)).descriptor(), [0xfff, 0]);
        assert_eq!(Command::ALL.descriptor(), [0, 0]);
        assert_eq!(Command::ALL_BUT_GLOBAL.descriptor(), [0, 0]);
    }

    #[test]
    fn an_address_that_would_fault_is_refused() {
        let hole = 0x0000_8000_0000_0000;
        let refusal = Err(Error::NonCanonical { address: hole });
        assert_eq!(Command::address(pcid(1), hole, Levels::Four), refusal);
        assert!(Command::address(pcid(1), hole, Levels::Five).is_ok());
        assert!(Command::address(pcid(1), 1 << 57, Levels::Five).is_err());
    }
}
