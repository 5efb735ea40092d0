//! The operands of `TLBI`, as pure functions.
//!
//! ```text
//! by address  63      48 47 46 45 44 43                                  0
//!             |  ASID   |  TG  |level|             VA[55:12]             |
//!                       '---- TTL ---'
//! by ASID     |  ASID   |                       0                        |
//! by range    63      48 47 46 45   44 43   39 38   37 36                0
//!             |  ASID   |  TG |SCALE  |  NUM  |  TTL  |     BaseADDR     |
//! ```
//!
//! Source: manual C5.5, `TLBI VAE1`, `TLBI ASIDE1`, `TLBI RVAE1`. A hint that is wrong, and a `TG`
//! that is not the granule of the table, are legally no invalidation at all. So a hint that the
//! granule does not allow cannot be expressed: the encoders fall back to "unknown".

/// The size of a page: the granule of a translation table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granule {
    /// 4 KiB.
    K4,
    /// 16 KiB.
    K16,
    /// 64 KiB.
    K64,
}

impl Granule {
    /// The binary logarithm of the page size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            Self::K4 => 12,
            Self::K16 => 14,
            Self::K64 => 16,
        }
    }

    /// How many bits of an address each level resolves: a table is one page of eight-byte entries.
    #[must_use]
    pub const fn bits_per_level(self) -> u32 {
        self.shift() - 3
    }

    /// The field `TG` of `TLBI` operands. It is not the encoding that `TCR_EL1.TG0` has.
    const fn tg(self) -> u64 {
        match self {
            Self::K4 => 0b01,
            Self::K16 => 0b10,
            Self::K64 => 0b11,
        }
    }
}

/// A level of the translation table at which a page or a block can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Level 0: blocks of 512 GiB, only with a 4 KiB granule and 52-bit addresses.
    L0,
    /// Level 1.
    L1,
    /// Level 2.
    L2,
    /// Level 3: pages.
    L3,
}

impl Level {
    /// The number of the level.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// How wide addresses in descriptors and in range operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressSize {
    /// 48 bits.
    Bits48,
    /// 52 bits: `TCR_EL1.DS = 1` (FEAT_LPA2) for granules of 4 KiB and 16 KiB; physical addresses
    /// of 52 bits (FEAT_LPA) for the granule of 64 KiB.
    Bits52,
}

/// The granule of a table and the size of its addresses: what the layout of descriptors and of
/// range operands depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// The granule.
    pub granule: Granule,
    /// The size of addresses.
    pub addresses: AddressSize,
}

impl Geometry {
    /// A granule with addresses of a size.
    #[must_use]
    pub const fn new(granule: Granule, addresses: AddressSize) -> Self {
        Self { granule, addresses }
    }

    /// The binary logarithm of what a page or block at `level` maps, in bytes; `None` if there are
    /// none at that level.
    ///
    /// Source: manual D8.3, block descriptors by granule.
    #[must_use]
    pub const fn leaf_shift(self, level: Level) -> Option<u32> {
        let large = matches!(self.addresses, AddressSize::Bits52);
        let exists = match (self.granule, level) {
            (_, Level::L2 | Level::L3) | (Granule::K4, Level::L1) => true,
            (Granule::K4, Level::L0) | (Granule::K16 | Granule::K64, Level::L1) => large,
            (Granule::K16 | Granule::K64, Level::L0) => false,
        };
        if exists {
            Some(self.granule.shift() + (3 - level.number()) * self.granule.bits_per_level())
        } else {
            None
        }
    }

    /// The binary logarithm of the unit of `BaseADDR` in range operands, in bytes: the page, but
    /// always 64 KiB with 52-bit addresses.
    #[must_use]
    pub const fn range_base_shift(self) -> u32 {
        match self.addresses {
            AddressSize::Bits48 => self.granule.shift(),
            AddressSize::Bits52 => 16,
        }
    }
}

/// `VA[55:12]` in bits 43:0, and nothing else: the rest of a kernel address must not reach `TTL`.
const ADDRESS_MASK: u64 = (1 << 44) - 1;
/// `BaseADDR`, bits 36:0.
const BASE_MASK: u64 = (1 << 37) - 1;

/// The operand of `ASIDE1`.
///
/// With 8-bit ASIDs the upper half of the field is RES0; it is as long as `asid` is below 256.
#[must_use]
pub const fn by_asid(asid: u16) -> u64 {
    (asid as u64) << 48
}

/// The operand of the by-address forms, for the page or block at `va` of `asid` (0 for the forms
/// that name all ASIDs).
///
/// `level` is where the only descriptor is that has changed; `None` if that is not known.
#[must_use]
pub const fn by_address(geometry: Geometry, asid: u16, va: u64, level: Option<Level>) -> u64 {
    by_asid(asid) | ttl(geometry, level) << 44 | (va >> 12) & ADDRESS_MASK
}

/// The operand of the range forms, for `span` from `va`, a multiple of
/// [`Geometry::range_base_shift`].
///
/// # Panics
///
/// In debug builds, if `va` is not such a multiple: the range would begin too early and end too
/// early.
#[must_use]
pub const fn by_range(
    geometry: Geometry,
    asid: u16,
    va: u64,
    span: Span,
    level: Option<Level>,
) -> u64 {
    let unit = geometry.range_base_shift();
    debug_assert!(va & ((1 << unit) - 1) == 0);
    by_asid(asid)
        | geometry.granule.tg() << 46
        | (span.scale as u64) << 44
        | (span.num as u64) << 39
        | range_ttl(geometry, level) << 37
        | (va >> unit) & BASE_MASK
}

/// The four bits of `TTL`: granule and level, or 0 for "any level".
///
/// A level at which the granule has no leaf is "any level" too: such a hint could only be wrong.
#[must_use]
pub const fn ttl(geometry: Geometry, level: Option<Level>) -> u64 {
    match level {
        Some(level) if geometry.leaf_shift(level).is_some() => {
            geometry.granule.tg() << 2 | level.number() as u64
        }
        _ => 0,
    }
}

/// The two bits of `TTL` in range operands: the level, or 0 for "any level". Level 0 has no code of
/// its own.
#[must_use]
pub const fn range_ttl(geometry: Geometry, level: Option<Level>) -> u64 {
    ttl(geometry, level) & 0b11
}

/// How many pages one range instruction covers: `(NUM + 1) * 2^(5 * SCALE + 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    scale: u8,
    num: u8,
}

impl Span {
    /// The widest: 2^21 pages.
    pub const WIDEST: Self = Self { scale: 3, num: 31 };

    /// The widest span of at most `pages` pages; `None` below two pages, which no span can express.
    #[must_use]
    pub const fn widest_within(pages: u64) -> Option<Self> {
        let mut scale = 3;
        loop {
            // NUM has five bits and each scale is 2^5 times the one below, so a scale takes at most
            // 31 units before the next one would have been chosen; only the top one can be asked
            // for more, and then must not wrap.
            let units = pages >> (5 * scale + 1);
            if units > 0 {
                let num = if units > 32 { 31 } else { (units - 1) as u8 };
                return Some(Self { scale, num });
            }
            if scale == 0 {
                return None;
            }
            scale -= 1;
        }
    }

    /// How many pages it covers.
    #[must_use]
    pub const fn pages(self) -> u64 {
        (self.num as u64 + 1) << (5 * self.scale + 1)
    }
}

const _: () = assert!(Span::WIDEST.pages() == 1 << 21);
// The address ends where TTL begins, and BaseADDR where its own TTL does.
const _: () = assert!(ADDRESS_MASK + 1 == 1 << 44 && BASE_MASK + 1 == 1 << 37);
