//! The range planner against an oracle: what the instructions of a plan invalidate, decoded from
//! the operand layouts of the manual (C5.5), is exactly what was asked for.
//!
//! The decoder shares no code with the encoder. It reads bits.

use lookaside::{
    VaRange,
    arch::{
        TableChange,
        aarch64::{
            AddressSize, Asid, Geometry, Granule, Level, Planner, Reach, Scope, Tlbi, TlbiOp,
        },
    },
};
use proptest::prelude::*;

const GEOMETRIES: [Geometry; 6] = [
    Geometry::new(Granule::K4, AddressSize::Bits48),
    Geometry::new(Granule::K4, AddressSize::Bits52),
    Geometry::new(Granule::K16, AddressSize::Bits48),
    Geometry::new(Granule::K16, AddressSize::Bits52),
    Geometry::new(Granule::K64, AddressSize::Bits48),
    Geometry::new(Granule::K64, AddressSize::Bits52),
];
const K4: Geometry = GEOMETRIES[0];
const K4_LPA2: Geometry = GEOMETRIES[1];
const K16_LPA2: Geometry = GEOMETRIES[3];

/// What an operand says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decoded {
    /// First and last byte.
    first: u64,
    last: u64,
    asid: u16,
    /// The level that the hint names.
    level: Option<u64>,
    range: bool,
}

fn page_shift(granule: Granule) -> u32 {
    match granule {
        Granule::K4 => 12,
        Granule::K16 => 14,
        Granule::K64 => 16,
    }
}

fn tg(granule: Granule) -> u64 {
    match granule {
        Granule::K4 => 1,
        Granule::K16 => 2,
        Granule::K64 => 3,
    }
}

fn sign_extend(value: u64, bits: u32) -> u64 {
    ((value << (64 - bits)) as i64 >> (64 - bits)) as u64
}

/// Bytes of a leaf, by the usual table: 9, 11 or 13 bits a level.
fn leaf_bytes(granule: Granule, level: u64) -> u64 {
    let per_level = u64::from(page_shift(granule)) - 3;
    1 << (u64::from(page_shift(granule)) + (3 - level) * per_level)
}

/// Decodes one instruction. `leaf` is the size of the pages or blocks that the tables really hold,
/// which is what an operand without a hint removes at its address.
fn decode(tlbi: Tlbi, geometry: Geometry, leaf: u64) -> Decoded {
    let Tlbi { op, operand, .. } = tlbi;
    let granule = geometry.granule;
    let page = page_shift(granule);
    let asid = (operand >> 48) as u16;
    match op {
        TlbiOp::Va | TlbiOp::Vaa | TlbiOp::Val | TlbiOp::Vaal => {
            let ttl = operand >> 44 & 0xf;
            let level = if ttl == 0 {
                None
            } else {
                assert_eq!(ttl >> 2, tg(granule), "a hint for another granule");
                Some(ttl & 3)
            };
            let bytes = level.map_or(leaf, |level| leaf_bytes(granule, level));
            let va = sign_extend((operand & ((1 << 44) - 1)) << 12, 56);
            let first = va & !(bytes - 1);
            Decoded { first, last: first + (bytes - 1), asid, level, range: false }
        }
        TlbiOp::Rva | TlbiOp::Rvaa | TlbiOp::Rval | TlbiOp::Rvaal => {
            assert_eq!(operand >> 46 & 3, tg(granule), "TG names another granule");
            let scale = operand >> 44 & 3;
            let num = operand >> 39 & 0x1f;
            let level = operand >> 37 & 3;
            let unit = match geometry.addresses {
                AddressSize::Bits48 => page,
                AddressSize::Bits52 => 16,
            };
            let first = sign_extend((operand & ((1 << 37) - 1)) << unit, 37 + unit);
            let bytes = ((num + 1) << (5 * scale + 1)) << page;
            Decoded {
                first,
                last: first + (bytes - 1),
                asid,
                level: (level != 0).then_some(level),
                range: true,
            }
        }
        _ => panic!("{op:?} is no instruction of a range"),
    }
}

/// Asserts that the union of what the plan invalidates is `first..=last`: no gap, nothing beyond.
fn assert_covers(decoded: &mut [Decoded], first: u64, last: u64) {
    decoded.sort_unstable_by_key(|d| d.first);
    assert_eq!(decoded[0].first, first, "begins elsewhere");
    let mut reached = decoded[0].last;
    for d in &decoded[1..] {
        assert!(d.first <= reached.saturating_add(1), "gap after {reached:#x}: {d:x?}");
        reached = reached.max(d.last);
    }
    assert_eq!(reached, last, "ends elsewhere");
}

fn planner(geometry: Geometry) -> Planner {
    Planner::new(geometry, true, true)
}

fn check_pages(geometry: Geometry, start: u64, pages: u64, scratch: &mut Vec<Decoded>) {
    let page = page_shift(geometry.granule);
    let range = VaRange::new(start, pages << page, page).unwrap();
    let plan = planner(geometry).plan(
        range,
        Asid::One(0x8001),
        Reach::LastLevel,
        Some(Level::L3),
        Scope::Broadcast,
    );
    scratch.clear();
    let operations = plan.operations();
    scratch.extend(plan.map(|tlbi| decode(tlbi, geometry, 1 << page)));
    for d in &*scratch {
        assert_eq!((d.asid, d.level), (0x8001, Some(3)));
    }
    assert_eq!(operations, scratch.len() as u64, "{pages} pages");
    assert!(scratch.len() < 16 + 4 + 2, "{} instructions for {pages} pages", scratch.len());
    assert_covers(scratch, start, range.last());
}

#[test]
fn every_page_count_to_two_to_the_21_and_one_more_is_covered_exactly() {
    let mut scratch = Vec::new();
    for pages in 1..=(1 << 21) + 1 {
        // The alignment class changes with the count, by a step that meets all classes.
        let start = 0x5555_5000_0000 + ((pages * 7 % 16) << 12);
        check_pages(K4, start, pages, &mut scratch);
    }
}

#[test]
fn every_page_count_is_covered_exactly_at_the_other_granules_and_address_sizes() {
    let mut scratch = Vec::new();
    for geometry in &GEOMETRIES[1..] {
        let page = page_shift(geometry.granule);
        for pages in 1..=(1 << 21) + 1 {
            check_pages(
                *geometry,
                0x1000_0000_0000 + ((pages * 7 % 16) << page),
                pages,
                &mut scratch,
            );
        }
    }
}

#[test]
fn every_alignment_class_is_covered_exactly_at_every_granule() {
    let mut scratch = Vec::new();
    for geometry in GEOMETRIES {
        let page = page_shift(geometry.granule);
        for class in 0..16 {
            for start in [0, 0x7f00_0000_0000, 0xffff_8000_0000_0000] {
                for pages in (1..=200).chain([2047, 2048, 2049, (1 << 21) - 1, 1 << 21]) {
                    check_pages(geometry, start + (class << page), pages, &mut scratch);
                }
            }
        }
    }
}

#[test]
fn more_pages_than_one_range_instruction_covers_are_split_and_not_cut_off() {
    for geometry in GEOMETRIES {
        for pages in [(1 << 21) + 2, 1 << 22, (3 << 21) + 12345, (1 << 24) + 1] {
            check_pages(geometry, 0x0010_0000_0000, pages, &mut Vec::new());
        }
    }
}

#[test]
fn exactly_two_to_the_21_pages_are_one_instruction() {
    // NUM is 31 at the top scale here: one more than the next would be cut off to 0.
    let range = VaRange::new(0, 1 << 33, 12).unwrap();
    let mut plan = planner(K4).plan(range, Asid::One(3), Reach::AllLevels, None, Scope::Local);
    let only = plan.next().unwrap();
    assert_eq!(only.op, TlbiOp::Rva);
    assert_eq!(only.operand, 3 << 48 | 1 << 46 | 3 << 44 | 31 << 39);
    assert_eq!(plan.next(), None);
}

#[test]
fn a_range_ends_at_the_top_of_the_address_space() {
    for geometry in GEOMETRIES {
        let page = page_shift(geometry.granule);
        for pages in 1_u64..300 {
            check_pages(geometry, (pages << page).wrapping_neg(), pages, &mut Vec::new());
        }
    }
}

#[test]
fn pages_go_out_one_by_one_until_a_64_kib_base_can_be_expressed() {
    for (geometry, shift, singles) in [(K4_LPA2, 12, 13), (K16_LPA2, 14, 1)] {
        // Three pages above a 64 KiB boundary.
        let range = VaRange::new(0x7_0000_0000 + (3 << shift), 64 << shift, shift).unwrap();
        let plan = planner(geometry).plan(
            range,
            Asid::One(1),
            Reach::LastLevel,
            Some(Level::L3),
            Scope::Broadcast,
        );
        let ops: Vec<_> = plan.map(|tlbi| tlbi.op).collect();
        assert_eq!(ops.iter().take_while(|&&op| op == TlbiOp::Val).count(), singles);
        assert_eq!(ops[singles], TlbiOp::Rval);
    }
}

#[test]
fn without_range_instructions_each_page_has_its_own() {
    let planner = Planner::new(K4, false, false);
    let range = VaRange::new(0xffff_8000_0000_0000, 5 << 12, 12).unwrap();
    let plan = planner.plan(range, Asid::Every, Reach::AllLevels, None, Scope::Broadcast);
    assert!(plan.fits(5) && !plan.fits(4));
    let operands: Vec<_> = plan.map(|tlbi| (tlbi.op, tlbi.operand)).collect();
    let first = 0x0ff8_0000_0000;
    assert_eq!(operands, [0, 1, 2, 3, 4].map(|i| (TlbiOp::Vaa, first + i)));
}

#[test]
fn blocks_are_stepped_over_whole() {
    for (level, shift) in [(Level::L1, 30), (Level::L2, 21)] {
        for range_ops in [false, true] {
            let planner = Planner::new(K4, range_ops, true);
            let range = VaRange::new(3 << shift, 5 << shift, shift).unwrap();
            let plan =
                planner.plan(range, Asid::One(9), Reach::LastLevel, Some(level), Scope::Local);
            let mut decoded: Vec<_> = plan.map(|tlbi| decode(tlbi, K4, 1 << shift)).collect();
            assert!(decoded.iter().all(|d| d.level == Some(u64::from(level.number()))));
            assert_eq!(decoded.len(), if range_ops { decoded.len().min(5) } else { 5 });
            assert_covers(&mut decoded, range.start(), range.last());
        }
    }
}

#[test]
fn one_block_is_one_instruction_by_address() {
    let range = VaRange::new(7 << 21, 1 << 21, 21).unwrap();
    let plan =
        planner(K4).plan(range, Asid::One(2), Reach::LastLevel, Some(Level::L2), Scope::Broadcast);
    let all: Vec<_> = plan.collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].op, TlbiOp::Val);
    assert_eq!(all[0].operand, 2 << 48 | 0b0110 << 44 | 7 << 9);
}

#[test]
fn a_hint_is_not_given_where_tables_were_unlinked_or_the_level_does_not_exist() {
    let range = VaRange::new(0x20_0000, 3 << 12, 12).unwrap();
    let scope = Scope::Local;
    for (reach, level) in [(Reach::AllLevels, Some(Level::L2)), (Reach::LastLevel, Some(Level::L0))]
    {
        let plan = planner(K4).plan(range, Asid::One(1), reach, level, scope);
        let mut decoded: Vec<_> = plan.map(|tlbi| decode(tlbi, K4, 1 << 12)).collect();
        assert!(decoded.iter().all(|d| d.level.is_none()), "{decoded:x?}");
        assert_covers(&mut decoded, range.start(), range.last());
    }
}

#[test]
fn a_cpu_without_hints_gets_none_by_address() {
    let planner = Planner::new(K4, false, false);
    let range = VaRange::new(0x20_0000, 3 << 21, 21).unwrap();
    let plan = planner.plan(range, Asid::One(1), Reach::LastLevel, Some(Level::L2), Scope::Local);
    let operands: Vec<_> = plan.map(|tlbi| tlbi.operand >> 44 & 0xf).collect();
    assert_eq!(operands, [0, 0, 0]);
}

#[test]
fn ranges_that_are_not_whole_blocks_are_widened() {
    // Two pages around a 2 MiB boundary: two blocks.
    let range = VaRange::new((1 << 21) - (1 << 12), 2 << 12, 12).unwrap();
    for range_ops in [false, true] {
        let planner = Planner::new(K4, range_ops, true);
        let plan =
            planner.plan(range, Asid::One(1), Reach::LastLevel, Some(Level::L2), Scope::Local);
        let mut decoded: Vec<_> = plan.map(|tlbi| decode(tlbi, K4, 1 << 21)).collect();
        assert_covers(&mut decoded, 0, (2 << 21) - 1);
    }
    // Pages of 4 KiB where tables have 64 KiB.
    let plan = planner(GEOMETRIES[4]).plan(
        VaRange::new(0x1_f000, 2 << 12, 12).unwrap(),
        Asid::One(1),
        Reach::AllLevels,
        None,
        Scope::Local,
    );
    let mut decoded: Vec<_> = plan.map(|tlbi| decode(tlbi, GEOMETRIES[4], 1 << 16)).collect();
    assert_covers(&mut decoded, 0x1_0000, 0x2_ffff);
}

#[test]
fn the_mnemonic_follows_tag_reach_and_scope() {
    let range = VaRange::new(0, 3 << 12, 12).unwrap();
    for (asid, reach, ops) in [
        (Asid::One(1), Reach::AllLevels, [TlbiOp::Rva, TlbiOp::Va]),
        (Asid::One(1), Reach::LastLevel, [TlbiOp::Rval, TlbiOp::Val]),
        (Asid::Every, Reach::AllLevels, [TlbiOp::Rvaa, TlbiOp::Vaa]),
        (Asid::Every, Reach::LastLevel, [TlbiOp::Rvaal, TlbiOp::Vaal]),
    ] {
        for scope in [Scope::Local, Scope::Broadcast] {
            let plan = planner(K4).plan(range, asid, reach, None, scope);
            let all: Vec<_> = plan.map(|tlbi| (tlbi.op, tlbi.scope)).collect();
            assert_eq!(all, ops.map(|op| (op, scope)));
        }
    }
}

fn levels() -> impl Strategy<Value = Option<Level>> {
    prop_oneof![
        Just(None),
        Just(Some(Level::L0)),
        Just(Some(Level::L1)),
        Just(Some(Level::L2)),
        Just(Some(Level::L3)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    /// Any start, length, geometry and level. What must be covered is the range, widened to the
    /// leaves that the hint names.
    #[test]
    fn any_range_is_covered_exactly(
        which in 0_usize..6,
        upper in any::<bool>(),
        page_number in any::<u64>(),
        bits in 0_u32..24,
        length in any::<u64>(),
        level in levels(),
        all_levels in any::<bool>(),
        range_ops in any::<bool>(),
        asid in any::<u16>(),
    ) {
        let geometry = GEOMETRIES[which];
        let page = page_shift(geometry.granule);
        let reach = if all_levels { Reach::AllLevels } else { Reach::LastLevel };
        let hinted = level.filter(|&level| {
            !all_levels && geometry.leaf_shift(level).is_some()
        });
        let leaf = hinted.map_or(page, |level| geometry.leaf_shift(level).unwrap());
        // Page by page, a million instructions: too slow and no different from a hundred.
        let bits = if range_ops || leaf > page { bits } else { bits.min(7) };
        let pages = (length & ((1 << bits) - 1)) + 1;
        // 47 bits of address in either half, so that nothing crosses from one into the other.
        let mut start = (page_number << page) & ((1 << 47) - 1);
        if upper {
            start |= 0xffff_8000_0000_0000;
            start = start.min(((pages << page) - 1) ^ u64::MAX);
        }
        let range = VaRange::new(start, pages << page, page).unwrap();
        let plan = Planner::new(geometry, range_ops, true)
            .plan(range, Asid::One(asid), reach, level, Scope::Broadcast);
        let operations = plan.operations();
        let mut decoded: Vec<_> = plan.map(|tlbi| decode(tlbi, geometry, 1 << leaf)).collect();
        prop_assert_eq!(operations, decoded.len() as u64);
        for d in &decoded {
            prop_assert_eq!(d.asid, asid);
            let expected = hinted.map(|level| u64::from(level.number()));
            // Ranges cannot name level 0.
            let expected = expected.filter(|&level| !(d.range && level == 0));
            prop_assert_eq!(d.level, expected);
        }
        let within = (1 << leaf) - 1;
        assert_covers(&mut decoded, range.start() & !within, range.last() | within);
    }

    /// Any range. The tables hold leaves of the largest size that is not above that of its pages.
    #[test]
    fn any_range_is_covered_exactly_and_hinted_at_only_where_the_level_is_certain(
        which in 0_usize..6,
        upper in any::<bool>(),
        start in any::<u64>(),
        shift in prop_oneof![Just(12), Just(14), Just(16), Just(21), Just(30), 12_u32..=47],
        pages in 1_u64..100,
        uniform in any::<bool>(),
        tables in any::<bool>(),
        range_ops in any::<bool>(),
    ) {
        let geometry = GEOMETRIES[which];
        let levels = [Level::L0, Level::L1, Level::L2, Level::L3];
        let exists = |level: &&Level| geometry.leaf_shift(**level).is_some();
        let sizes = levels.iter().filter(exists).map(|l| (l.number(), leaf_bytes(geometry.granule, l.number().into())));
        let page = 1 << page_shift(geometry.granule);
        let (level, leaf) = sizes.clone().find(|&(_, b)| b <= 1 << shift).unwrap_or((3, page));
        let pages = pages.min((1 << 47 >> shift).max(1));
        // Page by page, a million instructions: too slow and no different from a hundred.
        prop_assume!(range_ops || (pages << shift) / leaf <= 4096);
        let mut start = start & ((1 << 47) - 1) & !((1 << shift) - 1);
        if upper {
            start = (start | 0xffff_8000_0000_0000).min(((pages << shift) - 1) ^ u64::MAX);
        }
        let range = VaRange::new(start, pages << shift, shift).unwrap();
        let change = if tables { TableChange::FreedTables } else { TableChange::LastLevel };
        let named = if uniform { range } else { range.mixed() };
        let plan = Planner::new(geometry, range_ops, true)
            .plan_range(&named, Asid::One(5), change, Scope::Local);
        prop_assert_eq!(plan.operations(), plan.clone().count() as u64);
        let hinted = (uniform && !tables && leaf == 1 << shift).then_some(u64::from(level));
        let mut decoded = Vec::new();
        for tlbi in plan {
            let all_levels = matches!(tlbi.op, TlbiOp::Va | TlbiOp::Rva);
            prop_assert_eq!(all_levels, tables, "eco-M5");
            let d = decode(tlbi, geometry, leaf);
            prop_assert_eq!(d.level, hinted.filter(|&level| !(d.range && level == 0)));
            decoded.push(d);
        }
        assert_covers(&mut decoded, start & !(page - 1), range.last() | (page - 1));
    }
}

#[test]
fn operations_of_any_length_are_counted_at_once() {
    let half = VaRange::new(0, 1 << 55, 12).unwrap();
    for (range_ops, expected) in [(false, 1 << 43), (true, 1 << 22)] {
        let planner = Planner::new(K4, range_ops, true);
        let plan = planner.plan(half, Asid::One(1), Reach::AllLevels, None, Scope::Local);
        assert_eq!(plan.operations(), expected);
    }
}
