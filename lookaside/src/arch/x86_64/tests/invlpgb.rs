//! Plans of `INVLPGB` against intervals, decoded independently of the encoder.

use proptest::prelude::*;

use super::super::{
    Levels, Pcid,
    invlpgb::{Entries, PageLimit, Plan},
};
use crate::{Error, VaRange};

const LIMITS: [u32; 8] = [1, 2, 3, 7, 8, 255, 4096, 65536];

fn pcid() -> Pcid {
    Pcid::new(0xabc).unwrap()
}

/// Checks that the plan of `range` covers it without a gap, an overlap or an excess, within
/// `limit`.
fn check(range: &VaRange, entries: Entries, limit: u32, levels: Levels) {
    let (flags, edx) = match entries {
        Entries::Pcid(_) => (0b0111, 0x0abc_0000),
        Entries::EveryPcid => (0b0101, 0),
        Entries::WithGlobal => (0b1101, 0),
    };
    let plan = Plan::new(range, entries, PageLimit::new(limit).unwrap(), levels).unwrap();
    let (expected, _) = plan.size_hint();
    let mut instructions = 0;
    // 128 bits, so that the end of the address space is a number like any other.
    let mut covered_to = u128::from(range.start());
    for operands in plan {
        instructions += 1;
        assert_eq!(operands.rax & 0xfff, flags);
        assert_eq!(operands.edx, edx);
        assert_eq!(operands.ecx & 0x7fff_0000, 0);
        let step: u128 = if operands.ecx & 0x8000_0000 == 0 { 4096 } else { 2 << 20 };
        assert_eq!(step == 2 << 20, range.page_shift() >= 21, "the stride");
        let pages = (operands.ecx & 0xffff) + 1;
        assert!(pages <= limit, "{pages} pages of at most {limit}");
        let first = u128::from(operands.rax & 0xffff_ffff_ffff_f000);
        assert_eq!(first, covered_to, "a gap or an overlap");
        covered_to = first + u128::from(pages) * step;
    }
    assert_eq!(covered_to, u128::from(range.last()) + 1, "less or more than the range");
    assert_eq!(instructions, expected, "size_hint");
}

#[test]
fn counts_around_every_multiple_of_the_limit() {
    for limit in LIMITS {
        for shift in [12, 21] {
            let around = (0..4).flat_map(|n| {
                let middle = n * u64::from(limit);
                middle.saturating_sub(2).max(1)..=middle + 2
            });
            for pages in around {
                let range = VaRange::new(0x4000_0000, pages << shift, shift).unwrap();
                for entries in [Entries::Pcid(pcid()), Entries::EveryPcid, Entries::WithGlobal] {
                    check(&range, entries, limit, Levels::Four);
                }
            }
        }
    }
}

#[test]
fn every_count_up_to_forty() {
    for limit in [1, 2, 3, 7, 8, 16] {
        for pages in 1..=40 {
            for shift in [12, 13, 16, 20, 21, 25, 30] {
                let range = VaRange::new(0, pages << shift, shift).unwrap();
                if range.pages() << shift.saturating_sub(21) <= 1 << 12 {
                    check(&range, Entries::EveryPcid, limit, Levels::Four);
                }
            }
        }
    }
}

#[test]
fn the_last_page_of_the_address_space() {
    for limit in [1, 3, 8] {
        for (start, shift) in [(0xffff_ffff_ffff_f000, 12), (0xffff_ffff_ffe0_0000, 21)] {
            let range = VaRange::new(start, 1 << shift, shift).unwrap();
            check(&range, Entries::WithGlobal, limit, Levels::Four);
        }
        let range = VaRange::new(0xffff_ffff_fff0_0000, 0x10_0000, 12).unwrap();
        check(&range, Entries::WithGlobal, limit, Levels::Four);
    }
}

#[test]
fn a_range_with_an_address_that_is_not_canonical_is_refused() {
    let plan = |start, bytes, levels| {
        let range = VaRange::new(start, bytes, 12).unwrap();
        Plan::new(&range, Entries::EveryPcid, PageLimit::new(8).unwrap(), levels).map(|_| ())
    };
    let refusal = |address| Err(Error::NonCanonical { address });
    let hole = 0x0000_8000_0000_0000;
    assert_eq!(plan(hole - 0x1000, 0x1000, Levels::Four), Ok(()));
    assert_eq!(plan(hole - 0x1000, 0x2000, Levels::Four), refusal(hole));
    assert_eq!(plan(hole - 0x1000, 0x2000, Levels::Five), Ok(()));
    assert_eq!(plan(hole, 0x1000, Levels::Four), refusal(hole));
    // Both ends canonical, the hole in between.
    assert_eq!(plan(0, 0u64.wrapping_sub(0x1000), Levels::Four), refusal(hole));
    assert_eq!(plan(0xffff_7fff_ffff_f000, 0x2000, Levels::Four), refusal(0xffff_7fff_ffff_f000));
    assert_eq!(plan(0xffff_8000_0000_0000, 0x1000, Levels::Four), Ok(()));
    assert_eq!(plan((1 << 56) - 0x1000, 0x2000, Levels::Five), refusal(1 << 56));
}

#[test]
fn the_limit_is_never_above_what_either_reading_of_the_manual_allows() {
    for field in [0, 1, 7, 8, 0xfffe, 0xffff_u16] {
        let limit = PageLimit::from_cpuid(field).pages();
        // As a largest count of further pages, and as a largest number of pages; one page always.
        assert!(limit - 1 <= u32::from(field));
        assert!(limit <= u32::from(field).max(1));
        assert!(limit >= 1);
    }
    assert_eq!(PageLimit::from_cpuid(7).pages(), 7);
    assert_eq!(PageLimit::new(0), None);
    assert_eq!(PageLimit::new(65537), None);
    assert_eq!(PageLimit::new(65536).map(PageLimit::pages), Some(65536));
}

proptest! {
    #[test]
    fn any_range_is_covered_exactly(
        frame in 0_u64..1 << 35,
        pages in 1_u64..3000,
        limit in 1_u32..=65536,
        small_limit: bool,
        large_pages: bool,
        high: bool,
        five: bool,
    ) {
        let limit = if small_limit { limit % 17 + 1 } else { limit };
        let levels = if five { Levels::Five } else { Levels::Four };
        let shift = if large_pages { 21 } else { 12 };
        let half = 1_u64 << (levels.linear_bits() - 1);
        let base = if high { half.wrapping_neg() } else { 0 };
        let offset = ((frame << 12) % half) & !((1 << shift) - 1);
        if let Ok(range) = VaRange::new(base + offset, pages << shift, shift)
            && (high || range.last() < half)
        {
            check(&range, Entries::Pcid(pcid()), limit, levels);
        }
    }
}
