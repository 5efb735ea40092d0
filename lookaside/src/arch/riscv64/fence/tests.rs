//! The four forms one by one, and plans against the pages that they reach.

extern crate std;

use std::{collections::BTreeSet, vec, vec::Vec};

use proptest::prelude::*;

use super::{super::testing::*, *};

const TAG: Reach = Reach::Tag(Tag(5));
const PLAIN: Extensions = Extensions::NONE;
const SVINVAL: Extensions = Extensions::SVINVAL;

fn steps(planner: Planner, changed: Changed, reach: Reach) -> Vec<Event> {
    let hart = Recorder::with_asid_bits(16, 0);
    planner.plan(changed, reach).unwrap().for_each(|step| step.execute(&hart));
    hart.take()
}

fn range(start: u64, bytes: u64, page_shift: u32) -> VaRange {
    VaRange::new(start, bytes, page_shift).unwrap()
}

#[test]
fn the_four_forms() {
    let hart = Recorder::with_asid_bits(16, 0);
    let leaf = |reach| Fence::leaf(Mode::Sv39, 0x7000, reach).unwrap();
    let forms = [
        (Fence::EVERYTHING, None, None),
        (Fence::tables(Reach::Global), None, None),
        (Fence::tables(TAG), None, Some(5)),
        (Fence::tables(Reach::Tag(Tag(0))), None, Some(0)),
        (leaf(Reach::Global), Some(0x7000), None),
        (leaf(TAG), Some(0x7000), Some(5)),
        (Fence::leaf(Mode::Sv39, 0, Reach::Tag(Tag(0))).unwrap(), Some(0), Some(0)),
    ];
    for (fence, address, asid) in forms {
        assert_eq!((fence.address(), fence.asid()), (address, asid));
        Step::SfenceVma(fence).execute(&hart);
        Step::SinvalVma(fence).execute(&hart);
        let expected = [Event::SfenceVma(address, asid), Event::SinvalVma(address, asid)];
        assert_eq!(hart.take(), expected);
    }
}

#[test]
fn an_address_that_hardware_would_ignore_is_refused() {
    for address in [1 << 38, 1 << 63, 0x00ab_0000_0000_7000] {
        let refused = Fence::leaf(Mode::Sv39, address, TAG);
        assert_eq!(refused, Err(Error::NonCanonical { address }));
        let planner = Planner::new(Mode::Sv39, PLAIN, Errata::NONE, 100);
        let plan = planner.plan(Changed::Leaves(range(address, 0x1000, 12)), TAG);
        assert_eq!(plan, Err(Error::NonCanonical { address }));
    }
    assert!(Fence::leaf(Mode::Sv48, 1 << 38, TAG).is_ok());
}

#[test]
fn a_range_across_the_hole_is_refused() {
    let planner = Planner::new(Mode::Sv57, PLAIN, Errata::NONE, u64::MAX);
    let whole = VaRange::new(0x1000, 0xffff_ffff_ffff_f000, 12).unwrap();
    let refused = Err(Error::NonCanonical { address: u64::MAX });
    assert_eq!(planner.plan(Changed::Leaves(whole), TAG), refused);
    assert_eq!(planner.plan(Changed::NapotLeaves(whole), TAG), refused);
}

#[test]
fn tables_and_large_ranges_take_one_fence_without_address() {
    for extensions in [PLAIN, SVINVAL] {
        let planner = Planner::new(Mode::Sv39, extensions, Errata::NONE, 4);
        let many = Changed::Leaves(range(0, 5 << 12, 12));
        for changed in [Changed::Tables, many] {
            assert_eq!(steps(planner, changed, TAG), [Event::SfenceVma(None, Some(5))]);
            assert_eq!(steps(planner, changed, Reach::Global), [Event::SfenceVma(None, None)]);
            assert_eq!(planner.span(changed), Ok(None));
        }
        let few = Changed::Leaves(range(0, 4 << 12, 12));
        assert!(steps(planner, few, TAG).len() >= 4);
    }
}

#[test]
fn where_operands_fail_none_is_used() {
    let planner = Planner::new(Mode::Sv39, SVINVAL, FENCE_OPERANDS, 8);
    let leaf = range(0x4020_0000, 0x2000, 12);
    for changed in [Changed::Tables, Changed::Leaves(leaf), Changed::NapotLeaves(leaf)] {
        assert_eq!(steps(planner, changed, TAG), [Event::SfenceVma(None, None)]);
        assert_eq!((planner.span(changed), planner.asid(TAG)), (Ok(None), None));
    }
}

#[test]
fn one_leaf_takes_one_instruction_with_svinval_too() {
    for extensions in [PLAIN, SVINVAL] {
        let planner = Planner::new(Mode::Sv39, extensions, Errata::NONE, 8);
        let leaf = Changed::Leaves(range(0x4020_0000, 0x20_0000, 21));
        assert_eq!(steps(planner, leaf, TAG), [Event::SfenceVma(Some(0x4020_0000), Some(5))]);
    }
}

#[test]
fn svinval_brackets_its_invalidations() {
    let changed = Changed::Leaves(range(u64::MAX - 0x1fff, 0x2000, 12));
    let (a, b) = (Some(u64::MAX - 0x1fff), Some(u64::MAX - 0xfff));
    let plain = Planner::new(Mode::Sv39, PLAIN, Errata::NONE, 8);
    let expected = [Event::SfenceVma(a, None), Event::SfenceVma(b, None)];
    assert_eq!(steps(plain, changed, Reach::Global), expected);
    let svinval = Planner::new(Mode::Sv39, SVINVAL, Errata::NONE, 8);
    let expected = [
        Event::SfenceWInval,
        Event::SinvalVma(a, Some(5)),
        Event::SinvalVma(b, Some(5)),
        Event::SfenceInvalIr,
    ];
    assert_eq!(steps(svinval, changed, TAG), expected);
}

#[test]
fn one_page_of_a_napot_block_takes_all_sixteen() {
    let planner = Planner::new(Mode::Sv39, PLAIN, Errata::NONE, 16);
    for page in 0..16 {
        let changed = Changed::NapotLeaves(range(0x123_0000 + page * 0x1000, 0x1000, 12));
        let expected: Vec<_> = (0..16)
            .map(|page| Event::SfenceVma(Some(0x123_0000 + page * 0x1000), Some(5)))
            .collect();
        assert_eq!(steps(planner, changed, TAG), expected);
        assert_eq!(planner.span(changed), Ok(Some((0x123_0000, 0x123_ffff))));
    }
    let two = Changed::NapotLeaves(range(0x123_f000, 0x2000, 12));
    assert_eq!(planner.span(two), Ok(None), "32 pages are more than 16");
}

#[test]
fn page_sizes_that_no_level_has_are_fenced_in_smaller_ones() {
    let cases = [
        (Mode::Sv39, [(12, 12), (16, 12), (20, 12), (21, 21), (25, 21), (30, 30), (39, 30)]),
        (Mode::Sv48, [(12, 12), (16, 12), (20, 12), (21, 21), (30, 30), (39, 39), (48, 39)]),
        (Mode::Sv57, [(12, 12), (16, 12), (21, 21), (30, 30), (39, 39), (47, 39), (48, 48)]),
    ];
    for (mode, shifts) in cases {
        for (page_shift, leaf_shift) in shifts {
            let planner = Planner::new(mode, PLAIN, Errata::NONE, 4);
            assert_eq!(planner.leaf_shift(page_shift), leaf_shift, "{mode:?} {page_shift}");
        }
    }
}

/// The pages of 4 KiB that the steps reach in a tree whose leaves have `1 << shift` bytes.
fn reached(plan: Plan, shift: u32, universe: &[u64]) -> BTreeSet<u64> {
    let mut pages = BTreeSet::new();
    for step in plan {
        if let Step::SfenceVma(fence) | Step::SinvalVma(fence) = step {
            let hit = |page: &&u64| fence.address.is_none_or(|a| a >> shift == **page >> shift);
            pages.extend(universe.iter().filter(hit));
        }
    }
    pages
}

#[test]
fn small_ranges_are_covered_exactly() {
    let universe: Vec<u64> = (0..64).map(|page| page << 12).collect();
    for (start, pages) in (0..40).flat_map(|s| (1..=20).map(move |p| (s << 12, p << 12))) {
        for extensions in [PLAIN, SVINVAL] {
            let planner = Planner::new(Mode::Sv39, extensions, Errata::NONE, 64);
            let range = range(start, pages, 12);
            let inside = |p: &u64| (start..start + pages).contains(p);
            let expected: BTreeSet<_> = universe.iter().copied().filter(inside).collect();
            let plan = planner.plan(Changed::Leaves(range), TAG).unwrap();
            assert_eq!(reached(plan, 12, &universe), expected);

            let block = |p: u64| p >> 16;
            let inside = |p: &u64| (block(start)..=block(start + pages - 1)).contains(&block(*p));
            let expected: BTreeSet<_> = universe.iter().copied().filter(inside).collect();
            let plan = planner.plan(Changed::NapotLeaves(range), TAG).unwrap();
            assert_eq!(reached(plan, 12, &universe), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn ranges_are_covered_and_nothing_else(
        mode in prop::sample::select(vec![Mode::Sv39, Mode::Sv48, Mode::Sv57]),
        page_shift in prop::sample::select(vec![12_u32, 14, 16, 21, 23, 30]),
        first in any::<u64>(), count in 1_u64..40, high in any::<bool>(),
        svinval in any::<bool>(), most in 0_u64..100,
    ) {
        let half = 1_u64 << (mode.virtual_bits() - 1);
        let low = first % half;
        let start = if high { half.wrapping_neg() + low } else { low } >> page_shift << page_shift;
        let top = if high { u64::MAX } else { half - 1 };
        let count = count.min(((top - start) >> page_shift) + 1);
        let range = range(start, count << page_shift, page_shift);
        let planner = Planner::new(mode, if svinval { SVINVAL } else { PLAIN }, Errata::NONE, most);

        let plan = planner.plan(Changed::Leaves(range), TAG).unwrap();
        let leaf_shift = planner.leaf_shift(page_shift);
        let leaves: Vec<u64> =
            (0..=((range.last() - start) >> leaf_shift)).map(|n| start + (n << leaf_shift)).collect();
        let steps: Vec<Step> = plan.collect();
        let fenced: Vec<Fence> = steps.iter().filter_map(|step| match *step {
            Step::SfenceVma(fence) | Step::SinvalVma(fence) => Some(fence),
            _ => None,
        }).collect();
        prop_assert!(fenced.iter().all(|fence| fence.asid() == Some(5)));
        if leaves.len() as u64 > most {
            prop_assert_eq!(&steps, &[Step::SfenceVma(Fence::tables(TAG))]);
            prop_assert_eq!(planner.span(Changed::Leaves(range)), Ok(None));
        } else {
            let addresses: Vec<u64> = fenced.iter().map(|f| f.address().unwrap()).collect();
            prop_assert_eq!(addresses, leaves);
            prop_assert_eq!(planner.span(Changed::Leaves(range)), Ok(Some((start, range.last()))));
            let batched = svinval && fenced.len() > 1;
            prop_assert_eq!(steps.first() == Some(&Step::SfenceWInval), batched);
            prop_assert_eq!(steps.last() == Some(&Step::SfenceInvalIr), batched);
            prop_assert_eq!(steps.len(), fenced.len() + if batched { 2 } else { 0 });
        }
    }
}
