//! What a descriptor looks like: the bits that a walk looks at, for each architecture.
//!
//! Levels are counted from the last: a descriptor of level 0 maps a page, one of level 1 names a
//! table of pages or maps a block of them.

use super::config::Arch;

/// The number of a physical frame of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u64);

impl Frame {
    /// The physical address of the frame, in bytes.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0 << 12
    }

    /// The frame that holds a physical address.
    #[must_use]
    pub const fn holding(address: u64) -> Self {
        Self(address >> 12)
    }
}

/// What a page may be used for, as far as the machine cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether it may be written.
    pub write: bool,
    /// Whether the translation holds under every tag.
    pub global: bool,
}

impl Access {
    /// Reading only, in one space.
    pub const READ: Self = Self { write: false, global: false };
    /// Reading and writing, in one space.
    pub const WRITE: Self = Self { write: true, global: false };
    /// Reading and writing, in every space.
    pub const GLOBAL: Self = Self { write: true, global: true };
}

/// What a walk makes of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Nothing is mapped.
    Invalid,
    /// The next table.
    Table { frame: Frame, global: bool },
    /// A page or a block of pages.
    Leaf { frame: Frame, global: bool },
}

impl Decoded {
    /// Whether it is a leaf that maps the frame.
    pub(crate) fn leads_to(self, target: Frame) -> bool {
        matches!(self, Self::Leaf { frame, .. } if frame == target)
    }
}

const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// Reads a descriptor of `level`.
pub(crate) fn decode(arch: Arch, level: u32, descriptor: u64) -> Decoded {
    match arch {
        Arch::Arm => arm(level, descriptor),
        Arch::X86 => x86(level, descriptor),
        Arch::Riscv => riscv(level, descriptor),
    }
}

/// Bits 1:0 are `11` for a table above the last level and for a page in it, `01` for a block; bit
/// 10 is AF; bit 11 is nG.
fn arm(level: u32, descriptor: u64) -> Decoded {
    let frame = Frame::holding(descriptor & ADDRESS);
    let global = descriptor & 1 << 11 == 0;
    let accessed = descriptor & 1 << 10 != 0;
    match (descriptor & 0b11, level) {
        (0b11, 1..) => Decoded::Table { frame, global: false },
        // A leaf that raises an Access-flag fault is never cached.
        (0b11, 0) | (0b01, 1..) if accessed => Decoded::Leaf { frame, global },
        _ => Decoded::Invalid,
    }
}

/// Bit 0 is P, bit 7 is PS above the last level, bit 8 is G in a leaf. The machine sets A before it
/// caches, so that A does not decide what is cacheable.
fn x86(level: u32, descriptor: u64) -> Decoded {
    let frame = Frame::holding(descriptor & ADDRESS);
    if descriptor & 1 == 0 {
        Decoded::Invalid
    } else if level == 0 || descriptor & 1 << 7 != 0 {
        Decoded::Leaf { frame, global: descriptor & 1 << 8 != 0 }
    } else {
        Decoded::Table { frame, global: false }
    }
}

/// Bit 0 is V, bits 3:1 are XWR and all zero in a descriptor that names a table, bit 5 is G and
/// holds for everything below.
fn riscv(level: u32, descriptor: u64) -> Decoded {
    let frame = Frame(descriptor << 10 >> 20);
    let global = descriptor & 1 << 5 != 0;
    if descriptor & 1 == 0 {
        Decoded::Invalid
    } else if descriptor & 0b1110 != 0 {
        Decoded::Leaf { frame, global }
    } else if level > 0 {
        Decoded::Table { frame, global }
    } else {
        Decoded::Invalid
    }
}

/// Makes a descriptor that names a table.
pub(crate) fn table(arch: Arch, frame: Frame) -> u64 {
    match arch {
        Arch::Arm => frame.address() | 0b11,
        Arch::X86 => frame.address() | 0b10_0111,
        Arch::Riscv => frame.0 << 10 | 1,
    }
}

/// Makes a descriptor that maps a page (level 0) or a block of pages.
pub(crate) fn leaf(arch: Arch, level: u32, frame: Frame, access: Access) -> u64 {
    let set = |bit: u32, on: bool| u64::from(on) << bit;
    match arch {
        Arch::Arm => {
            frame.address()
                | if level == 0 { 0b11 } else { 0b01 }
                | set(6, true) // AP[1]: user mode may
                | set(7, !access.write) // AP[2]: read-only
                | set(10, true)
                | set(11, !access.global)
        }
        Arch::X86 => {
            frame.address()
                | 0b10_0101
                | set(1, access.write)
                | set(7, level > 0)
                | set(8, access.global)
        }
        Arch::Riscv => frame.0 << 10 | 0b1101_0011 | set(2, access.write) | set(5, access.global),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_decode_to_what_they_encode() {
        for arch in [Arch::Arm, Arch::X86, Arch::Riscv] {
            let frame = Frame(0x1234);
            for level in 0..3 {
                for access in [Access::READ, Access::WRITE, Access::GLOBAL] {
                    let descriptor = leaf(arch, level, frame, access);
                    let expected = Decoded::Leaf { frame, global: access.global };
                    assert_eq!(decode(arch, level, descriptor), expected, "{arch:?} {level}");
                }
                assert_eq!(decode(arch, level, 0), Decoded::Invalid);
            }
            let expected = Decoded::Table { frame, global: false };
            assert_eq!(decode(arch, 1, table(arch, frame)), expected, "{arch:?}");
        }
    }

    #[test]
    fn an_arm_leaf_without_access_flag_is_not_cacheable() {
        let descriptor = leaf(Arch::Arm, 0, Frame(1), Access::READ) & !(1 << 10);
        assert_eq!(decode(Arch::Arm, 0, descriptor), Decoded::Invalid);
    }
}
