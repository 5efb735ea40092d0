//! Accessed and dirty bits: where they are in a descriptor, and what hardware does with them.
//!
//! | | accessed | dirty | stores permitted |
//! | --- | --- | --- | --- |
//! | Arm | AF, bit 10 | AP\[2\], bit 7, *clear* | AP\[2\] clear, or DBM, bit 51, set |
//! | x86 | A, bit 5 | D, bit 6 | W, bit 1 |
//! | RISC-V | A, bit 6 | D, bit 7 | W, bit 2 |

use super::config::Arch;

/// Which of the two bits are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Hardware, or software for it, has noted that the page was looked up.
    pub accessed: bool,
    /// The page may have been written.
    pub dirty: bool,
}

impl Flags {
    /// Neither.
    pub const NONE: Self = Self { accessed: false, dirty: false };
    /// Accessed, not dirty.
    pub const ACCESSED: Self = Self { accessed: true, dirty: false };
    /// Both.
    pub const BOTH: Self = Self { accessed: true, dirty: true };

    /// What is set in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self { accessed: self.accessed | other.accessed, dirty: self.dirty | other.dirty }
    }
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flag {
    Accessed,
    Dirty,
}

const AP2: u64 = 1 << 7;
const DBM: u64 = 1 << 51;

/// The masks of the accessed and the dirty bit, and whether the dirty bit is the other way round.
fn bits(arch: Arch) -> (u64, u64, bool) {
    match arch {
        Arch::Arm => (1 << 10, AP2, true),
        Arch::X86 => (1 << 5, 1 << 6, false),
        Arch::Riscv => (1 << 6, 1 << 7, false),
    }
}

/// The flags of a leaf.
pub(crate) fn read(arch: Arch, leaf: u64) -> Flags {
    let (accessed, dirty, inverted) = bits(arch);
    Flags { accessed: leaf & accessed != 0, dirty: (leaf & dirty != 0) != inverted }
}

/// Whether a leaf permits stores, perhaps after hardware has set its dirty bit.
pub(crate) fn writable(arch: Arch, leaf: u64) -> bool {
    match arch {
        Arch::Arm => leaf & AP2 == 0 || leaf & DBM != 0,
        Arch::X86 => leaf & 1 << 1 != 0,
        Arch::Riscv => leaf & 1 << 2 != 0,
    }
}

/// The leaf with just the given flags. An Arm leaf that permits stores comes to have DBM; one that
/// does not has no dirty bit.
pub(crate) fn with(arch: Arch, leaf: u64, flags: Flags) -> u64 {
    let (accessed, dirty, inverted) = bits(arch);
    let mut leaf = if flags.accessed { leaf | accessed } else { leaf & !accessed };
    if arch == Arch::Arm {
        if !writable(arch, leaf) {
            return leaf;
        }
        leaf |= DBM;
    }
    if flags.dirty != inverted { leaf | dirty } else { leaf & !dirty }
}

/// The leaf after hardware has set a flag.
pub(crate) fn set(arch: Arch, leaf: u64, flag: Flag) -> u64 {
    let (accessed, dirty, inverted) = bits(arch);
    match flag {
        Flag::Accessed => leaf | accessed,
        Flag::Dirty if inverted => leaf & !dirty,
        Flag::Dirty => leaf | dirty,
    }
}

/// Whether two leaves differ in nothing that hardware does not set by itself.
pub(crate) fn alike(arch: Arch, one: u64, other: u64) -> bool {
    let (accessed, dirty, _) = bits(arch);
    let managed = arch != Arch::Arm || one & other & DBM != 0;
    let mask = if managed { accessed | dirty } else { accessed };
    (one ^ other) & !mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adversary::format::{Access, Frame, leaf};

    #[test]
    fn flags_that_are_set_are_read_back() {
        for arch in [Arch::Arm, Arch::X86, Arch::Riscv] {
            let page = leaf(arch, 0, Frame(5), Access::WRITE);
            for flags in [Flags::NONE, Flags::ACCESSED, Flags::BOTH] {
                let page = with(arch, page, flags);
                assert_eq!(read(arch, page), flags, "{arch:?}");
                assert!(writable(arch, page), "{arch:?}");
                let dirty = set(arch, set(arch, page, Flag::Dirty), Flag::Accessed);
                assert_eq!(read(arch, dirty), Flags::BOTH, "{arch:?}");
                assert!(alike(arch, page, dirty), "{arch:?}");
            }
            let fixed = leaf(arch, 0, Frame(5), Access::READ);
            assert!(!writable(arch, with(arch, fixed, Flags::ACCESSED)), "{arch:?}");
            assert!(!alike(arch, fixed, with(arch, page, Flags::NONE)), "{arch:?}");
        }
    }
}
