//! What a flush executes, instruction by instruction: every configuration against a sequence that is
//! written out.

use crate::aarch64::*;
use lookaside::{
    VaRange,
    arch::{
        Errata, Invalidation, Mmu, TableChange, Tag,
        aarch64::{Aarch64, Config, Level, RangeFlush, Reach, Scope},
        errata,
    },
};

#[test]
fn asid_16_flushes_carry_the_tag_between_their_barriers() {
    let none = Errata::NONE;
    runs(
        config(),
        |m| m.flush(none, Invalidation::All, Scope::Local),
        "dsb nshst; tlbi vmall; dsb nsh; isb",
    );
    runs(
        config(),
        |m| m.flush(none, Invalidation::Tag(Tag(7)), Scope::Local),
        "dsb nshst; tlbi aside 7; dsb nsh; isb",
    );
    runs(
        config(),
        |m| m.flush(none, Invalidation::All, Scope::Broadcast),
        "dsb ishst; tlbi vmallis; dsb ish; isb",
    );
    runs(
        config(),
        |m| m.flush(none, Invalidation::Tag(Tag(7)), Scope::Broadcast),
        "dsb ishst; tlbi asideis 7; dsb ish; isb",
    );
    runs(
        paired(),
        |m| m.flush(none, Invalidation::Tag(Tag(7)), Scope::Broadcast),
        "dsb ishst; tlbi asideis 14; tlbi asideis 15; dsb ish; isb",
    );
    runs(
        paired(),
        |m| m.flush(none, Invalidation::Tag(Tag(7)), Scope::Local),
        "dsb nshst; tlbi aside 14; tlbi aside 15; dsb nsh; isb",
    );
}

#[test]
fn one_page_of_a_size_that_the_granule_has_not_takes_the_tag() {
    // 2^48 bytes, of which the largest block has 2^30.
    let page = [VaRange::new(0, 1 << 48, 48).unwrap()];
    runs(
        config(),
        |m| {
            let pages = Invalidation::ranges(Tag(7), &page, TableChange::LastLevel);
            m.flush(Errata::NONE, pages, Scope::Local);
        },
        "dsb nshst; tlbi aside 7; dsb nsh; isb",
    );
}

#[test]
fn the_second_broadcast_follows_each_completion_once() {
    let e = errata::REPEAT_BROADCAST;
    runs(
        config(),
        |m| m.flush(e, Invalidation::All, Scope::Broadcast),
        "dsb ishst; tlbi vmallis; dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    runs(
        paired(),
        |m| m.flush(e, Invalidation::Tag(Tag(1)), Scope::Broadcast),
        "dsb ishst; tlbi asideis 2; tlbi asideis 3; dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    // Local invalidation is not affected.
    runs(
        config(),
        |m| m.flush(e, Invalidation::All, Scope::Local),
        "dsb nshst; tlbi vmall; dsb nsh; isb",
    );
}

fn three_pages(scope: Scope) -> RangeFlush {
    RangeFlush {
        range: VaRange::new(0x40_0000, 3 << 12, 12).unwrap(),
        reach: Reach::LastLevel,
        level: Some(Level::L3),
        scope,
    }
}

#[test]
fn asid_16_the_tag_is_loaded_after_the_store_barrier() {
    let recorder = Recorder::default();
    let machine = Aarch64::new(&recorder, config()).unwrap();
    machine.invalidate(Errata::NONE, &three_pages(Scope::Broadcast), || {
        recorder.line("load tag");
        Some(Tag(7))
    });
    assert_executed(
        &recorder,
        "dsb ishst; load tag; tlbi rvalis 0x7406000000400; tlbi valis 0x7700000000402; dsb ish; isb",
    );
}

#[test]
fn asid_16_a_space_without_a_tag_needs_no_invalidation() {
    runs(
        config(),
        |m| m.invalidate(Errata::NONE, &three_pages(Scope::Broadcast), || None),
        "dsb ishst",
    );
}

#[test]
fn a_range_of_a_pair_goes_out_for_both_and_completes_once() {
    runs(
        paired(),
        |m| m.invalidate(errata::REPEAT_BROADCAST, &three_pages(Scope::Broadcast), || Some(Tag(1))),
        "dsb ishst; tlbi rvalis 0x2406000000400; tlbi valis 0x2700000000402;
         tlbi rvalis 0x3406000000400; tlbi valis 0x3700000000402;
         dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    runs(
        config(),
        |m| m.invalidate(errata::REPEAT_BROADCAST, &three_pages(Scope::Local), || Some(Tag(1))),
        "dsb nshst; tlbi rval 0x1406000000400; tlbi val 0x1700000000402; dsb nsh; isb",
    );
}

#[test]
fn the_smallest_page_is_that_of_the_granule_of_user_addresses() {
    for (tg0, page_shift) in [(0b00, 12), (0b10, 14), (0b01, 16)] {
        let tcr = TCR & !(0b11 << 14) | tg0 << 14;
        runs(Config { tcr, ..config() }, |m| assert_eq!(m.properties().page_shift, page_shift), "");
    }
}

#[test]
fn asid_16_kernel_ranges_name_all_tags_and_the_granule_of_their_half() {
    // TG1 is 64 KiB, TG0 4 KiB.
    let config = Config { tcr: TCR | 0b11 << 30, ..config() };
    let what = RangeFlush {
        range: VaRange::new(0xffff_8000_0000_0000, 2 << 16, 16).unwrap(),
        reach: Reach::AllLevels,
        level: None,
        scope: Scope::Broadcast,
    };
    runs(
        config,
        |m| m.invalidate_all_tags(Errata::NONE, &what),
        "dsb ishst; tlbi rvaais 0xc01f80000000; dsb ish; isb",
    );
    // A reserved TG1 claims nothing: single pages of the smallest granule.
    let config = Config { tcr: TCR & !(0b11 << 30), ..config };
    let what =
        RangeFlush { range: VaRange::new(0xffff_8000_0000_0000, 2 << 12, 12).unwrap(), ..what };
    runs(
        config,
        |m| m.invalidate_all_tags(Errata::NONE, &what),
        "dsb ishst; tlbi vaais 0xff800000000; tlbi vaais 0xff800000001; dsb ish; isb",
    );
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "too wide")]
fn a_tag_that_would_be_cut_off_is_refused() {
    runs(paired(), |m| m.flush(Errata::NONE, Invalidation::Tag(Tag(0x8000)), Scope::Local), "");
}
