//! Page-table formats: from an address and a root to the entries on the walk and the page that it ends at.

mod arm;
mod riscv;
mod x86;

use lookaside_hardware::{arm as arm_rules, riscv as riscv_rules, x86 as x86_rules};

use crate::{Memory, PAGE_SHIFT};

/// What an entry permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Loads.
    pub const READ: Self = Self(1);
    /// Stores.
    pub const WRITE: Self = Self(2);
    /// Instruction fetches.
    pub const EXECUTE: Self = Self(4);
    /// Accesses of user mode.
    pub const USER: Self = Self(8);

    /// The same and `more`, if `condition`.
    #[must_use]
    const fn with(self, more: Self, condition: bool) -> Self {
        if condition { Self(self.0 | more.0) } else { self }
    }

    /// What one of the two permits.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether everything that `other` permits is permitted.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// How the tables below a root are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// RISC-V with three, four or five levels: Sv39, Sv48, Sv57.
    Riscv {
        /// How many levels there are.
        levels: u8,
    },
    /// Arm64 with the 4 KiB granule.
    Arm {
        /// How many bits of an address are translated: 64 less `TxSZ`.
        bits: u8,
    },
    /// x86-64.
    X86 {
        /// Four, or five with `CR4.LA57`.
        levels: u8,
        /// `CR4.PGE`: the `G` bit is looked at.
        globals: bool,
    },
}

/// A top table and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The physical address of the top table.
    pub base: u64,
    /// How it is read.
    pub regime: Regime,
}

/// The levels of the deepest format.
pub(crate) const MAX_LEVELS: usize = 5;

/// The way to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The physical addresses of the entries that were read, from the top.
    slots: [u64; MAX_LEVELS],
    /// How many there are.
    depth: u8,
    /// How many entries above the leaf were read, and the level of the first.
    pub top: u8,
    /// The first page that the leaf translates.
    pub first: u64,
    /// How many pages it translates, as a power of two.
    pub order: u8,
    /// The frame of the first page.
    pub frame: u64,
    /// What the leaf permits.
    pub rights: Rights,
    /// It holds under every tag.
    pub global: bool,
    /// The level of the leaf, counted from the last, which is 0.
    pub level: u8,
    /// How many entries, side by side, hardware may hold as this one: 1, or the size of a contiguous group.
    pub group: u8,
}

impl Walk {
    /// The entries above the leaf: their address and level.
    pub fn tables(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        let above = usize::from(self.depth) - 1;
        self.slots[..above].iter().enumerate().map(|(at, &slot)| (slot, self.top - at as u8))
    }

    /// The first entry of the group that the leaf is of.
    #[must_use]
    pub fn leaf(&self) -> u64 {
        self.slots[usize::from(self.depth) - 1] & !(u64::from(self.group) * 8 - 1)
    }

    /// The frame of a page that the leaf translates.
    #[must_use]
    pub const fn frame_of(&self, page: u64) -> u64 {
        self.frame + (page - self.first)
    }
}

/// An entry, as its format reads it.
pub(crate) enum Entry {
    Invalid,
    Table { table: u64, global: bool },
    Leaf { frame: u64, rights: Rights, global: bool, group_order: u8 },
}

impl Root {
    /// The page of an address, as operands of fences count pages.
    #[must_use]
    pub const fn page(&self, address: u64) -> u64 {
        match self.regime {
            // VA[55:12]: what is above is a copy of bit 55, or a tag of software.
            Regime::Arm { .. } => address >> PAGE_SHIFT & arm_rules::PAGE_MASK,
            Regime::Riscv { .. } | Regime::X86 { .. } => address >> PAGE_SHIFT,
        }
    }

    /// The levels of the tables.
    pub(crate) const fn levels(&self) -> u8 {
        match self.regime {
            Regime::Riscv { levels } | Regime::X86 { levels, .. } => levels,
            Regime::Arm { bits } => arm::levels(bits),
        }
    }

    /// Walks to the page of an address. Nothing if an entry on the way is invalid or cannot be read.
    pub fn walk(&self, memory: &impl Memory, address: u64) -> Option<Walk> {
        let page = self.page(address);
        let top = self.levels() - 1;
        let mut slots = [0; MAX_LEVELS];
        let mut table = self.base;
        let mut inherited = false;
        for (at, level) in (0..=top).rev().enumerate() {
            let shift = 9 * u32::from(level);
            let slot = table + 8 * (page >> shift & self.index_mask(level == top));
            slots[at] = slot;
            match self.read(memory.word(slot)?, level) {
                Entry::Invalid => return None,
                Entry::Table { table: next, global } => {
                    table = next;
                    inherited |= global;
                }
                Entry::Leaf { frame, rights, global, group_order } => {
                    let order = shift as u8 + group_order;
                    let pages = 1 << order;
                    return Some(Walk {
                        slots,
                        depth: at as u8 + 1,
                        top,
                        first: page & !(pages - 1),
                        order,
                        frame: frame & !(pages - 1),
                        rights,
                        global: global || inherited,
                        level,
                        group: 1 << group_order,
                    });
                }
            }
        }
        None
    }

    /// Which bits of a page number index a table. The top table of Arm may be larger or smaller than a page.
    pub(crate) const fn index_mask(&self, top: bool) -> u64 {
        match self.regime {
            Regime::Arm { bits } if top => arm::top_mask(bits),
            _ => 0x1ff,
        }
    }

    pub(crate) fn read(&self, entry: u64, level: u8) -> Entry {
        match self.regime {
            Regime::Riscv { .. } => riscv::read(entry, level),
            Regime::Arm { .. } => arm::read(entry, level),
            Regime::X86 { globals, .. } => x86::read(entry, level, globals),
        }
    }

    /// The first page that an entry of the top table leads to. Where addresses are sign-extended, the upper half
    /// is at the end of the page numbers.
    pub(crate) const fn top_page(&self, index: u64, upper: bool) -> u64 {
        let shift = 9 * (self.levels() as u32 - 1);
        let page = index << shift;
        match self.regime {
            Regime::Arm { bits } if upper => {
                page | (arm_rules::PAGE_MASK & !((1 << (bits - 12)) - 1))
            }
            Regime::Arm { .. } => page,
            Regime::Riscv { .. } | Regime::X86 { .. } if index & 0x100 != 0 => {
                page | ((1 << (64 - PAGE_SHIFT)) - (1 << (shift + 9)))
            }
            Regime::Riscv { .. } | Regime::X86 { .. } => page,
        }
    }

    /// Whether hardware may cache an entry that nothing has accessed. Arm's may not (D8.5.1: an entry that raises an
    /// Access-flag fault is not cached).
    pub(crate) const fn may_be_cached(&self, entry: u64) -> bool {
        match self.regime {
            Regime::Arm { .. } => entry & arm::ACCESSED != 0,
            Regime::Riscv { .. } | Regime::X86 { .. } => true,
        }
    }

    /// An address of a page: the inverse of [`Root::page`].
    #[must_use]
    pub const fn address(&self, page: u64) -> u64 {
        let address = page << PAGE_SHIFT;
        match self.regime {
            Regime::Arm { .. } if address >> 55 & 1 != 0 => address | 0xff << 56,
            _ => address,
        }
    }

    /// The frame of the table that an entry of a level names.
    pub(crate) fn table_of(&self, entry: u64, level: u8) -> Option<u64> {
        match self.read(entry, level) {
            Entry::Table { table, .. } => Some(table >> PAGE_SHIFT),
            Entry::Invalid | Entry::Leaf { .. } => None,
        }
    }

    /// Whether a walker that still reads the page of a freed table would take a word in it for an entry.
    #[must_use]
    pub const fn is_valid(entry: u64) -> bool {
        // V, P and the valid bit of a descriptor are the lowest of all three architectures.
        entry & 1 != 0
    }
}

/// What the root registers of a CPU hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Translation is off.
    Off,
    /// RISC-V.
    Riscv {
        /// `satp`.
        satp: u64,
    },
    /// Arm64.
    Arm {
        /// `TTBR0_EL1`.
        ttbr0: u64,
        /// `TTBR1_EL1`.
        ttbr1: u64,
        /// `TCR_EL1`.
        tcr: u64,
    },
    /// x86-64.
    X86(x86_rules::Registers),
}

impl Roots {
    /// The tag that walks cache under.
    #[must_use]
    pub const fn tag(&self) -> u16 {
        match *self {
            Self::Off => 0,
            Self::Riscv { satp } => (satp >> 44) as u16,
            Self::Arm { ttbr0, ttbr1, tcr } => arm_rules::loaded(ttbr0, ttbr1, tcr).asid,
            Self::X86(registers) => registers.pcid(),
        }
    }

    /// The roots that translate the lower and the upper half of the addresses. Where both are the same, it is
    /// given once.
    #[must_use]
    pub fn halves(&self) -> [Option<Root>; 2] {
        const UPPER: u64 = 1 << 63 | 1 << 55;
        match self {
            Self::Arm { .. } => [self.root(0), self.root(UPPER)],
            _ => [self.root(0), None],
        }
    }

    /// The root that translates an address; nothing if translation is off there, or in a way that is not modelled.
    #[must_use]
    pub fn root(&self, address: u64) -> Option<Root> {
        match *self {
            Self::Off => None,
            Self::Riscv { satp } => {
                let (base, _) = riscv_rules::root(satp)?;
                let levels = riscv::levels(satp)?;
                Some(Root { base, regime: Regime::Riscv { levels } })
            }
            Self::Arm { ttbr0, ttbr1, tcr } => arm::root(ttbr0, ttbr1, tcr, address),
            Self::X86(registers) => {
                let levels = if registers.cr4 & x86_rules::LA57 == 0 { 4 } else { 5 };
                let globals = registers.has_globals();
                Some(Root { base: registers.base(), regime: Regime::X86 { levels, globals } })
            }
        }
    }
}
