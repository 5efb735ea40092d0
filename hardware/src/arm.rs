//! Arm64: Arm ARM (DDI 0487), C5.5 for the operands, D8.16 and D8.17 for what is removed and when.
//!
//! The granule is 4 KiB, and there are 48 bits of address.

use crate::{Invalidation, Partial};

/// The bits of a page number that operands have: `VA[55:12]`.
pub const PAGE_MASK: u64 = (1 << 44) - 1;

/// What a `TLBI` is about. The suffix `E1` of the mnemonics is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the mnemonic")]
pub enum TlbiKind {
    Vmall,
    Aside,
    Va,
    Vaa,
    Val,
    Vaal,
    Rva,
    Rvaa,
    Rval,
    Rvaal,
    Vmalls12,
    Alle1,
}

/// What a `TLBI` names; nothing if its operand names nothing.
///
/// Non-global entries are matched by ASID; those of an address go whatever their ASID if they are global, and
/// so does everything of a stage by `VMALL`. `ASIDE1` spares globals. The `L` forms name entries of the last
/// level, and no partial walks.
///
/// `asid_bits` is how many bits of an ASID the hardware keeps. `vmids` are the VMIDs that may be in effect: an
/// engine that has no second stage gives the one that everything is cached under, one for which stage 2 is a
/// regime like any other the tags of its root register. `VMALLS12E1` is about the current VMID, so if
/// several may be in effect there is nothing that it certainly removes.
#[must_use]
pub fn tlbi(kind: TlbiKind, operand: u64, asid_bits: u32, vmids: &[u16]) -> Option<Invalidation> {
    let asid = (operand >> 48) as u16 & ((1u32 << asid_bits) - 1) as u16;
    let (tag, partial) = match kind {
        TlbiKind::Vmall | TlbiKind::Alle1 => return Some(Invalidation::all(true)),
        TlbiKind::Vmalls12 => {
            let (&vmid, others) = vmids.split_first()?;
            let certain = others.iter().all(|&other| other == vmid);
            return certain.then_some(Invalidation { tag: Some(vmid), ..Invalidation::all(true) });
        }
        TlbiKind::Aside => return Some(Invalidation::of_tag(asid)),
        TlbiKind::Va | TlbiKind::Rva => (Some(asid), Partial::Leading),
        TlbiKind::Vaa | TlbiKind::Rvaa => (None, Partial::Leading),
        TlbiKind::Val | TlbiKind::Rval => (Some(asid), Partial::No),
        TlbiKind::Vaal | TlbiKind::Rvaal => (None, Partial::No),
    };
    let (pages, level) = match kind {
        TlbiKind::Rva | TlbiKind::Rvaa | TlbiKind::Rval | TlbiKind::Rvaal => range(operand)?,
        _ => {
            let page = operand & PAGE_MASK;
            // TTL (bits 47:44): granule and level; no granule means no hint.
            let hint = match operand >> 46 & 0b11 {
                0 => None,
                1 => Some(operand >> 44 & 0b11),
                _ => return None, // not the 4 KiB granule
            };
            ((page, page), hint)
        }
    };
    // The architecture counts levels from the top: 3 is the last.
    let level = level.map(|level| 3 - level as u8);
    Some(Invalidation { tag, globals: true, pages, stride: 1, partial, level })
}

/// The pages of a range operand, and the level that it hints at.
fn range(operand: u64) -> Option<((u64, u64), Option<u64>)> {
    if operand >> 46 & 0b11 != 1 {
        return None; // TG: not the 4 KiB granule
    }
    let scale = operand >> 44 & 0b11;
    let number = operand >> 39 & 0b1_1111;
    let ttl = operand >> 37 & 0b11;
    // BaseADDR is VA[48:12]; the bits of the address above are copies of its highest (C5.5, TLBI RVAE1).
    let base = operand & ((1 << 37) - 1);
    let first = if base >> 36 == 0 { base } else { (base | !((1 << 37) - 1)) & PAGE_MASK };
    let pages = (number + 1) << (5 * scale + 1);
    Some(((first, first + pages - 1), (ttl != 0).then_some(ttl)))
}

/// What a `DSB` waits for, or a `DMB` orders, by the second half of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// Loads and stores: `SY`, `ISH`, `OSH`, `NSH`.
    Full,
    /// Loads before it: `LD`, `ISHLD` and their kin.
    Loads,
    /// Stores before it: `ST`, `ISHST` and their kin.
    Stores,
}

impl Barrier {
    /// Whether it waits for earlier loads.
    #[must_use]
    pub const fn waits_for_loads(self) -> bool {
        matches!(self, Self::Full | Self::Loads)
    }

    /// Whether it waits for earlier stores. As a `DSB` it then makes them visible to what a later `TLBI` of this
    /// CPU has walked anew, and to every walk after that. As a `DMB` it does neither: a walk is not a load, and
    /// a `TLBI` is not an access (`[Exp & W]; po; [dsb.st]; po; [~Imp TTD]`, herd's `aarch64.cat`).
    #[must_use]
    pub const fn waits_for_stores(self) -> bool {
        matches!(self, Self::Full | Self::Stores)
    }

    /// Whether, as a `DSB`, it completes the `TLBI`s that its CPU has issued before. Only then are their entries
    /// gone, and accesses of other CPUs that used them performed (D8.16.6).
    #[must_use]
    pub const fn completes_tlbis(self) -> bool {
        matches!(self, Self::Full)
    }
}

/// How far a `DSB` reaches, by the first half of its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// `NSH`: this CPU.
    Own,
    /// `ISH` and wider: all CPUs.
    Shared,
}

impl Domain {
    /// Whether a full `DSB` of this domain completes a `TLBI` that was issued for all CPUs; those for its own
    /// CPU it completes always.
    #[must_use]
    pub const fn completes_broadcasts(self) -> bool {
        matches!(self, Self::Shared)
    }
}

/// `TCR_EL1.EPD0`: nothing is walked from `TTBR0`.
const EPD0: u64 = 1 << 7;
/// `TCR_EL1.A1`: the ASID is that of `TTBR1`.
const A1: u64 = 1 << 22;
/// `TCR_EL1.AS`: ASIDs have 16 bits.
const AS: u64 = 1 << 36;

/// What a CPU's registers say of one regime, at one value of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The physical address of the top table.
    pub base: u64,
    /// The ASID that walks cache under, before hardware cuts it to the bits that it keeps.
    pub asid: u16,
    /// `TTBR0.CnP`: entries may be shared with CPUs that have set it too.
    pub shared: bool,
    /// Walks may begin.
    pub walks: bool,
}

/// What `TTBR0`, `TTBR1` and `TCR` say together. From a write of any of them until the next context
/// synchronisation the old and the new value may each be in effect, in every combination with those of the
/// others (D8.2, and `ttbr_asid_roots_at` of the ESOP'22 model).
#[must_use]
pub const fn loaded(ttbr0: u64, ttbr1: u64, tcr: u64) -> Loaded {
    let asid_in = if tcr & A1 == 0 { ttbr0 } else { ttbr1 };
    // With AS clear the upper half of an ASID is ignored.
    let width = if tcr & AS == 0 { 0xff } else { 0xffff };
    Loaded {
        base: ttbr0 & 0x0000_ffff_ffff_f000,
        asid: (asid_in >> 48 & width) as u16,
        shared: ttbr0 & 1 != 0,
        walks: tcr & EPD0 == 0,
    }
}

/// `TCR_EL1.EPD1`: nothing is walked from `TTBR1`.
const EPD1: u64 = 1 << 23;

/// `TCR_EL1.DS`: addresses of 52 bits (FEAT_LPA2), and descriptors of another layout.
const DS: u64 = 1 << 59;

/// What the registers say of one half of the addresses of EL1 and EL0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    /// The physical address of the top table.
    pub base: u64,
    /// How many bits of an address are translated: 64 less `TxSZ`, between 25 and 48.
    pub bits: u8,
    /// Walks may begin.
    pub walks: bool,
    /// The granule is 4 KiB and addresses have 48 bits at most; nothing here is about the others.
    pub small_granule: bool,
}

/// What `TTBR0`, or `TTBR1` if `upper`, and `TCR` say of the half of the addresses that it translates (D8.2.3).
#[must_use]
pub const fn half(ttbr0: u64, ttbr1: u64, tcr: u64, upper: bool) -> Half {
    let (ttbr, size, disabled) =
        if upper { (ttbr1, tcr >> 16 & 0x3f, tcr & EPD1) } else { (ttbr0, tcr & 0x3f, tcr & EPD0) };
    // TG0 (15:14) is 0 for 4 KiB, TG1 (31:30) is 2.
    let small_granule = if upper { tcr >> 30 & 0b11 == 0b10 } else { tcr >> 14 & 0b11 == 0 };
    // A size out of range is as if it were the nearest in range; ranges of 52 bits are not modelled.
    let size = if size < 16 {
        16
    } else if size > 39 {
        39
    } else {
        size
    };
    Half {
        base: ttbr & 0x0000_ffff_ffff_fffe,
        bits: (64 - size) as u8,
        walks: disabled == 0,
        small_granule: small_granule && tcr & DS == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cached;

    const PAGE: Cached = Cached { tag: 7, global: false, pages: (5, 5), level: 0, table: false };

    #[test]
    fn vmalls12_is_about_the_current_vmid() {
        let of_seven = tlbi(TlbiKind::Vmalls12, 0, 16, &[7]).unwrap();
        assert!(of_seven.names(&PAGE));
        assert!(of_seven.names(&Cached { table: true, level: 2, ..PAGE }));
        assert!(!of_seven.names(&Cached { tag: 8, ..PAGE }));
        assert!(tlbi(TlbiKind::Alle1, 0, 16, &[7]).unwrap().names(&Cached { tag: 8, ..PAGE }));
        // Before the context is synchronised it may be either.
        assert_eq!(tlbi(TlbiKind::Vmalls12, 0, 16, &[7, 8]), None);
        assert_eq!(tlbi(TlbiKind::Vmalls12, 0, 16, &[7, 7]), Some(of_seven));
        assert_eq!(tlbi(TlbiKind::Vmalls12, 0, 16, &[]), None);
    }

    #[test]
    fn a_range_of_high_addresses_has_the_page_numbers_of_single_pages() {
        let address = 0xffff_8000_1234_5000_u64;
        let page = address >> 12 & PAGE_MASK;
        let one = tlbi(TlbiKind::Vaa, page, 16, &[0]).unwrap();
        let granule = 1 << 46;
        let range = tlbi(TlbiKind::Rvaa, address >> 12 & ((1 << 37) - 1) | granule, 16, &[0]);
        assert_eq!(one.pages, (page, page));
        assert_eq!(range.unwrap().pages, (page, page + 1));
    }

    #[test]
    fn each_half_has_its_root() {
        // T0SZ 16, T1SZ 25, TG1 4 KiB.
        let tcr = 16 | 25 << 16 | 0b10 << 30;
        let low = half(0x5001, 0x6000, tcr, false);
        assert_eq!((low.base, low.bits, low.walks, low.small_granule), (0x5000, 48, true, true));
        let high = half(0x5001, 0x6000, tcr, true);
        assert_eq!((high.base, high.bits), (0x6000, 39));
        assert!(!half(0, 0, tcr | EPD1, true).walks);
        assert!(!half(0, 0, tcr | 1 << 14, false).small_granule);
        assert!(!half(0, 0, tcr | DS, true).small_granule);
    }

    #[test]
    fn registers_are_read_together() {
        let tcr = AS | A1;
        let read = loaded(0x5000 | 3 << 48 | 1, 0x1_0004 << 48, tcr);
        assert_eq!(read, Loaded { base: 0x5000, asid: 4, shared: true, walks: true });
        assert_eq!(loaded(0x5000 | 0x103 << 48, 0, EPD0).asid, 3);
        assert!(!loaded(0x5000, 0, EPD0).walks);
    }
}
