//! The descriptors of a litmus test: Arm leaves of the last level, in the adversary's encoding.

use crate::adversary::{
    config::Arch,
    flags::{self, Flag},
    format::{Access, Decoded, Frame, decode, leaf},
};

use super::test::Variable;

const VALID: u64 = 1;
const USER: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const ACCESSED: u64 = 1 << 10;
const DIRTY_MANAGED: u64 = 1 << 51;

/// A descriptor by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Whose frame it leads to.
    pub output: Variable,
    /// It maps something.
    pub valid: bool,
    /// AF.
    pub accessed: bool,
    /// Stores are permitted: AP\[2\] is clear.
    pub dirty: bool,
    /// DBM: hardware may permit stores.
    pub managed: bool,
    /// EL0 may use it.
    pub user: bool,
}

impl Descriptor {
    /// What a field that is not named has.
    #[must_use]
    pub const fn to(output: Variable) -> Self {
        Self { output, valid: true, accessed: true, dirty: true, managed: false, user: true }
    }

    /// The descriptor as it lies in memory.
    #[must_use]
    pub fn encode(self) -> u64 {
        let frame = Frame(self.output as u64 + 1);
        let mut word = leaf(Arch::Arm, 0, frame, Access { write: self.dirty, global: false });
        for (mask, on) in [
            (VALID, self.valid),
            (USER, self.user),
            (ACCESSED, self.accessed),
            (DIRTY_MANAGED, self.managed),
        ] {
            word = if on { word | mask } else { word & !mask };
        }
        word
    }

    /// The descriptor that a word is, if it leads to one of so many variables and has no bits that
    /// [`Descriptor::encode`] would not make.
    #[must_use]
    pub fn decode(word: u64, variables: usize) -> Option<Self> {
        let output = usize::try_from((word & 0xffff_ffff_f000) >> 12).ok()?.checked_sub(1)?;
        let found = Self {
            output,
            valid: word & VALID != 0,
            accessed: word & ACCESSED != 0,
            dirty: word & READ_ONLY == 0,
            managed: word & DIRTY_MANAGED != 0,
            user: word & USER != 0,
        };
        (output < variables && found.encode() == word).then_some(found)
    }
}

/// Whether a TLB may hold it (A1).
pub(crate) fn cacheable(word: u64) -> bool {
    matches!(decode(Arch::Arm, 0, word), Decoded::Leaf { .. })
}

/// The descriptor with the access flag set, as hardware sets it.
pub(crate) fn with_accessed(word: u64) -> u64 {
    flags::set(Arch::Arm, word, Flag::Accessed)
}

/// The descriptor after hardware has made it permit stores.
pub(crate) fn with_dirty(word: u64) -> u64 {
    flags::set(Arch::Arm, word, Flag::Dirty)
}
