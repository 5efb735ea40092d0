//! How a kernel runs the hardware: what [`X86`] must know once.

use super::Levels;
#[cfg(doc)]
use {
    super::X86,
    crate::arch::{Held, Mmu, Root},
};

/// Whether a feature is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Not even where the hardware has it.
    Never,
    /// Where the hardware has it.
    WherePresent,
}

/// Which tables user mode runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// The kernel's own: [`Root::table`].
    One,
    /// Separate ones, [`Root::user_table`], loaded on the way out to user mode with the value that
    /// [`X86::user_cr3`] returns. Each tag stands for a pair of PCIDs.
    Separate(UserFlush),
}

/// When the user half of a pair is flushed, if a space is loaded with [`Held::Drop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFlush {
    /// In [`Mmu::load`], as the contract of that method says. Right with any ASID allocator.
    OnLoad,
    /// On the way out to user mode, where it is free. **[`Mmu::load`] with [`Held::Drop`] then
    /// leaves the user half alone**: the caller must pass [`Held::Drop`] to the next
    /// [`X86::user_cr3`] of that tag on this CPU, or a call of [`X86::flush_user_half`] before. The same holds after
    /// [`Mmu::flush_kernel_under`] that has left entries in the user half.
    AtExit,
}

/// How the kernel runs the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether PCIDs are used.
    pub pcids: Use,
    /// Whether `INVLPGB` is used. Never where code walks user tables without the lock, with interrupts off, and tables are
    /// freed after the flush and not after a grace period: without `INVLPGB` a flush interrupts each CPU that runs the space.
    pub invlpgb: Use,
    /// Which tables user mode runs on.
    pub tables: Tables,
    /// How many levels the tables have.
    pub levels: Levels,
    /// Physical address of a root table that maps the kernel and nothing for user mode.
    pub reserved_root: u64,
}

impl Config {
    /// A kernel that uses all features where they are present, with one table of four levels for both modes. Others
    /// change fields of this.
    #[must_use]
    pub const fn new(reserved_root: u64) -> Self {
        Self {
            pcids: Use::WherePresent,
            invlpgb: Use::WherePresent,
            tables: Tables::One,
            levels: Levels::Four,
            reserved_root,
        }
    }
}
