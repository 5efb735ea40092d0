//! What flushes by address execute, instruction by instruction.
//!
//! Operands by address are `ASID << 48 | TTL << 44 | VA[55:12]`, those of ranges
//! `ASID << 48 | TG << 46 | SCALE << 44 | NUM << 39 | TTL << 37 | page`. With 4 KiB pages TG is 1, and
//! TTL 7 by address is level 3.

use crate::aarch64::*;
use lookaside::{
    VaRange,
    arch::{
        Errata, Invalidation, Mmu, Scope,
        TableChange::{self, FreedTables, LastLevel},
        Tag, Wait,
        aarch64::{Aarch64, Config, Features},
        errata,
    },
};

const NONE: Errata = Errata::NONE;
const TAG: Tag = Tag(7);
const TOP: u64 = 0xffff_ffff_ffff_f000;

fn uniform(start: u64, pages: u64, shift: u32) -> VaRange {
    VaRange::new(start, pages << shift, shift).unwrap()
}

fn mixed(start: u64, pages: u64, shift: u32) -> VaRange {
    uniform(start, pages, shift).mixed()
}

/// Without range instructions.
fn plain() -> Config {
    Config { features: Features { range_ops: false, ..features() }, ..config() }
}

fn this_cpu(ranges: &[VaRange], change: TableChange) -> impl Fn(&Aarch64<&Recorder>) {
    move |m| m.flush(NONE, Invalidation::ranges(TAG, ranges, change), Scope::Local)
}

fn everywhere(
    errata: Errata,
    ranges: &[VaRange],
    change: TableChange,
    wait: Wait,
) -> impl Fn(&Aarch64<&Recorder>) {
    let entries = Invalidation::ranges(TAG, ranges, change);
    move |m| match wait {
        Wait::Now => m.flush(errata, entries, Scope::Broadcast),
        Wait::Later => m.begin_broadcast(errata, entries),
    }
}

#[test]
fn all_ranges_share_one_barrier_and_one_completion() {
    let two = [uniform(0x40_0000, 3, 12), uniform(0x80_0000, 1, 12)];
    runs(
        config(),
        this_cpu(&two, LastLevel),
        "dsb nshst; tlbi rval 0x7406000000400; tlbi val 0x7700000000402;
         tlbi val 0x7700000000800; dsb nsh; isb",
    );
    runs(
        config(),
        everywhere(NONE, &two, LastLevel, Wait::Now),
        "dsb ishst; tlbi rvalis 0x7406000000400; tlbi valis 0x7700000000402;
         tlbi valis 0x7700000000800; dsb ish; isb",
    );
    runs(
        plain(),
        this_cpu(&two, LastLevel),
        "dsb nshst; tlbi val 0x7700000000400; tlbi val 0x7700000000401;
         tlbi val 0x7700000000402; tlbi val 0x7700000000800; dsb nsh; isb",
    );
    let paired = Config { features: plain().features, ..paired() };
    runs(
        paired,
        everywhere(NONE, &two[1..], LastLevel, Wait::Now),
        "dsb ishst; tlbi valis 0xe700000000800; tlbi valis 0xf700000000800; dsb ish; isb",
    );
    runs(config(), this_cpu(&[], LastLevel), "dsb nshst; dsb nsh; isb");
}

#[test]
fn later_leaves_the_completion_and_its_erratum_to_one_call() {
    let page = [uniform(0x40_0000, 1, 12)];
    let e = errata::REPEAT_BROADCAST;
    for errata in [NONE, e] {
        let later = everywhere(errata, &page, LastLevel, Wait::Later);
        runs(config(), later, "dsb ishst; tlbi valis 0x7700000000400");
    }
    runs(config(), |m| m.complete_broadcast(NONE), "dsb ish; isb");
    let repeated = "dsb ish; tlbi valis 0x0; dsb ish; isb";
    runs(config(), |m| m.complete_broadcast(e), repeated);
    runs(
        config(),
        everywhere(e, &page, LastLevel, Wait::Now),
        &format!("dsb ishst; tlbi valis 0x7700000000400; {repeated}"),
    );
    // Local invalidation is not affected.
    runs(
        config(),
        |m| m.flush(e, Invalidation::ranges(TAG, &page, LastLevel), Scope::Local),
        "dsb nshst; tlbi val 0x7700000000400; dsb nsh; isb",
    );
}

#[test]
fn eco_m5_where_tables_were_unlinked_all_levels_go_and_none_is_hinted_at() {
    let pages = [uniform(0x40_0000, 3, 12)];
    runs(
        config(),
        this_cpu(&pages, FreedTables),
        "dsb nshst; tlbi rva 0x7400000000400; tlbi va 0x7000000000402; dsb nsh; isb",
    );
    runs(
        plain(),
        everywhere(NONE, &[uniform(0x20_0000, 2, 21)], FreedTables, Wait::Now),
        "dsb ishst; tlbi vais 0x7000000000200; tlbi vais 0x7000000000400; dsb ish; isb",
    );
}

#[test]
fn a_level_is_hinted_at_only_where_it_is_certain() {
    // Blocks of 2 MiB, level 2.
    let blocks = "dsb nshst; tlbi val 0x7600000000200; tlbi val 0x7600000000400; dsb nsh; isb";
    runs(plain(), this_cpu(&[uniform(0x20_0000, 2, 21)], LastLevel), blocks);
    // Of 1 GiB, level 1.
    let blocks = "dsb nshst; tlbi val 0x7500000040000; dsb nsh; isb";
    runs(plain(), this_cpu(&[uniform(0x4000_0000, 1, 30)], LastLevel), blocks);
    // Larger ones may be among them.
    let blocks = "dsb nshst; tlbi val 0x7000000000200; tlbi val 0x7000000000400; dsb nsh; isb";
    runs(plain(), this_cpu(&[mixed(0x20_0000, 2, 21)], LastLevel), blocks);
    // No level has the size: contiguous pages, and contiguous blocks.
    let pages: String = (0x10..0x20).map(|n| format!("tlbi val 0x70000000000{n:x}; ")).collect();
    let pages = format!("dsb nshst; {pages} dsb nsh; isb");
    runs(plain(), this_cpu(&[uniform(0x1_0000, 1, 16)], LastLevel), &pages);
    let range = "dsb nshst; tlbi rval 0x7438000000010; dsb nsh; isb";
    runs(config(), this_cpu(&[uniform(0x1_0000, 1, 16)], LastLevel), range);
    let blocks = "dsb nshst; tlbi val 0x7000000000400; tlbi val 0x7000000000600; dsb nsh; isb";
    runs(plain(), this_cpu(&[uniform(0x40_0000, 1, 22)], LastLevel), blocks);
    // One page, which may be part of something larger or not.
    let page = "dsb nshst; tlbi val 0x7700000000005; dsb nsh; isb";
    runs(plain(), this_cpu(&[uniform(0x5000, 1, 12)], LastLevel), page);
    let page = "dsb nshst; tlbi val 0x7000000000005; dsb nsh; isb";
    runs(plain(), this_cpu(&[mixed(0x5000, 1, 12)], LastLevel), page);
    // The hardware takes no hints.
    let silent = Features { level_hints: false, ..plain().features };
    let silent = Config { features: silent, ..config() };
    let block = "dsb nshst; tlbi val 0x7000000000200; dsb nsh; isb";
    runs(silent, this_cpu(&[uniform(0x20_0000, 1, 21)], LastLevel), block);
    runs(silent, this_cpu(&[uniform(0x5000, 1, 12)], LastLevel), page);
}

#[test]
fn pages_smaller_than_the_granule_are_widened_and_not_hinted_at() {
    // A granule of 64 KiB, pages of 4 KiB on both sides of a border.
    let config = Config { tcr: TCR | 0b01 << 14, ..plain() };
    runs(
        config,
        this_cpu(&[uniform(0xf000, 2, 12)], LastLevel),
        "dsb nshst; tlbi val 0x7000000000000; tlbi val 0x7000000000010; dsb nsh; isb",
    );
    let page = "dsb nshst; tlbi val 0x7000000000000; dsb nsh; isb";
    runs(config, this_cpu(&[uniform(0xf000, 1, 12)], LastLevel), page);
    // TTL 15: 64 KiB, level 3.
    let page = "dsb nshst; tlbi val 0x7f00000000010; dsb nsh; isb";
    runs(config, this_cpu(&[uniform(0x1_0000, 1, 16)], LastLevel), page);
}

#[test]
fn a_range_that_operands_cannot_name_takes_the_tag_with_it() {
    let page = uniform(0x40_0000, 1, 12);
    for bad in [
        // Across the halves; a pointer with a tag; the hole.
        uniform(0x007f_ffff_ffff_f000, 2, 12),
        uniform(0x0a00_0000_0040_0000, 1, 12),
        uniform(0x0080_0000_0000_0000, 1, 12),
        uniform(0, (1 << 52) - 1, 12),
    ] {
        for ranges in [[bad, page], [page, bad]] {
            for change in [LastLevel, FreedTables] {
                runs(config(), this_cpu(&ranges, change), "dsb nshst; tlbi aside 7; dsb nsh; isb");
                runs(
                    config(),
                    |m| m.flush(NONE, Invalidation::kernel(&ranges, change), Scope::Local),
                    "dsb nshst; tlbi vmall; dsb nsh; isb",
                );
            }
        }
        runs(config(), |m| assert_eq!(m.operations(&bad, LastLevel, Scope::Local), None), "");
    }
}

#[test]
fn eco_m1_what_widens_is_broadcast_all_the_same() {
    let bad = [uniform(0x0080_0000_0000_0000, 1, 12)];
    runs(
        paired(),
        everywhere(NONE, &bad, LastLevel, Wait::Now),
        "dsb ishst; tlbi asideis 14; tlbi asideis 15; dsb ish; isb",
    );
    for ranges in [&bad[..], &[]] {
        runs(
            config(),
            |m| m.flush(NONE, Invalidation::kernel(ranges, LastLevel), Scope::Broadcast),
            "dsb ishst; tlbi vmallis; dsb ish; isb",
        );
    }
}

#[test]
fn eco_m2_every_flush_begins_with_a_store_barrier() {
    let page = [uniform(0x40_0000, 1, 12)];
    let recorder = Recorder::default();
    let m = Aarch64::new(&recorder, config()).unwrap();
    let first = |flush: &dyn Fn()| {
        flush();
        recorder.take().swap_remove(0)
    };
    for change in [LastLevel, FreedTables] {
        let (user, kernel) =
            (Invalidation::ranges(TAG, &page, change), Invalidation::kernel(&page, change));
        for entries in [user, kernel] {
            assert_eq!(first(&|| m.flush(NONE, entries, Scope::Local)), "dsb nshst");
            assert_eq!(first(&|| m.flush(NONE, entries, Scope::Broadcast)), "dsb ishst");
            assert_eq!(first(&|| m.begin_broadcast(NONE, entries)), "dsb ishst");
        }
    }
}

#[test]
fn eco_m2_publishing_waits_for_all_accesses() {
    // Not a store barrier: the look at who runs the space comes after it.
    runs(config(), |m| m.publish(Wait::Now), "dsb ish");
    guests(stage2_config(), |s| s.publish(Wait::Now), "dsb ish");
}

#[test]
fn what_is_published_in_a_batch_waits_for_no_tlbi() {
    // No barrier here is for loads and stores at once, and both are there.
    runs(config(), |m| m.publish(Wait::Later), "dsb ishld; dsb ishst");
    guests(stage2_config(), |s| s.publish(Wait::Later), "dsb ishld; dsb ishst");
}

#[test]
fn eco_m3_the_upper_bits_of_an_address_reach_no_other_field() {
    // VA[55:12] of the last page is all ones; TTL is 7, and the ASID that of the tag.
    let top = [uniform(TOP, 1, 12)];
    runs(config(), this_cpu(&top, LastLevel), "dsb nshst; tlbi val 0x77fffffffffff; dsb nsh; isb");
    runs(config(), this_cpu(&top, FreedTables), "dsb nshst; tlbi va 0x70fffffffffff; dsb nsh; isb");
    let top = [uniform(0xffff_ffff_ffe0_0000, 512, 12)];
    // 512 pages are SCALE 1, NUM 7; the base has 37 bits.
    runs(
        config(),
        |m| m.flush(NONE, Invalidation::kernel(&top, FreedTables), Scope::Broadcast),
        "dsb ishst; tlbi rvaais 0x539ffffffe00; dsb ish; isb",
    );
}

#[test]
fn eco_m4_every_operand_names_an_asid_of_the_tag() {
    let ranges = [uniform(0x40_0000, 37, 12), mixed(0x20_0000, 3, 21), uniform(0x4000_0000, 1, 30)];
    for (config, asids) in [(config(), vec![7]), (plain(), vec![7]), (paired(), vec![14, 15])] {
        let recorder = Recorder::default();
        let m = Aarch64::new(&recorder, config).unwrap();
        for change in [LastLevel, FreedTables] {
            m.flush(NONE, Invalidation::ranges(TAG, &ranges, change), Scope::Broadcast);
            let mut named: Vec<_> = recorder.take().iter().filter_map(|l| asid(l)).collect();
            named.dedup();
            assert_eq!(named, asids);
        }
    }
}

/// The ASID in the operand of a `TLBI`.
fn asid(line: &str) -> Option<u64> {
    let (_, operand) = line.strip_prefix("tlbi ")?.split_once(" 0x")?;
    Some(u64::from_str_radix(operand, 16).unwrap() >> 48)
}

#[test]
fn kernel_addresses_go_for_every_asid() {
    let two = [uniform(TOP, 1, 12), uniform(0xffff_8000_0020_0000, 1, 21)];
    runs(
        plain(),
        |m| m.flush(NONE, Invalidation::kernel(&two, LastLevel), Scope::Local),
        "dsb nshst; tlbi vaal 0x7fffffffffff; tlbi vaal 0x6ff800000200; dsb nsh; isb",
    );
    runs(
        plain(),
        |m| {
            m.flush(
                errata::REPEAT_BROADCAST,
                Invalidation::kernel(&two, FreedTables),
                Scope::Broadcast,
            )
        },
        "dsb ishst; tlbi vaais 0xfffffffffff; tlbi vaais 0xff800000200;
         dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    // A pair has nothing to do with it.
    runs(
        Config { features: plain().features, ..paired() },
        |m| m.flush(NONE, Invalidation::kernel(&two[..1], LastLevel), Scope::Local),
        "dsb nshst; tlbi vaal 0x7fffffffffff; dsb nsh; isb",
    );
    runs(
        config(),
        |m| m.flush(NONE, Invalidation::kernel(&[], LastLevel), Scope::Local),
        "dsb nshst; tlbi vmall; dsb nsh; isb",
    );
    // Nothing is known of the upper half, not even the size of a page: TG1 is reserved.
    let blind = Config { tcr: TCR & !(0b11 << 30), ..config() };
    runs(
        blind,
        |m| m.flush(NONE, Invalidation::kernel(&two, LastLevel), Scope::Local),
        "dsb nshst; tlbi vmall; dsb nsh; isb",
    );
    runs(blind, this_cpu(&two[..1], LastLevel), "dsb nshst; tlbi aside 7; dsb nsh; isb");
}

#[test]
fn operations_are_counted_as_they_are_executed() {
    for config in [config(), plain(), paired()] {
        let recorder = Recorder::default();
        let m = Aarch64::new(&recorder, config).unwrap();
        for range in [
            uniform(0x40_0000, 1, 12),
            uniform(0x40_3000, 37, 12),
            mixed(0x40_0000, 3, 21),
            uniform(0x20_0000, 513, 21),
            uniform(0x4000_0000, 9, 30),
            uniform(0x1_0000, 1, 16),
            uniform(TOP, 1, 12),
        ] {
            for change in [LastLevel, FreedTables] {
                m.flush(NONE, Invalidation::ranges(TAG, &[range], change), Scope::Local);
                let executed = recorder.take().len() as u64 - 3;
                for place in [Scope::Local, Scope::Broadcast] {
                    assert_eq!(m.operations(&range, change, place), Some(executed));
                }
            }
        }
        // At once, however many.
        let half = uniform(0, 1 << 43, 12);
        let pages = if config.features.range_ops { 1 << 22 } else { 1 << 43 };
        let tags = if config == paired() { 2 } else { 1 };
        assert_eq!(m.operations(&half, LastLevel, Scope::Local), Some(pages * tags));
        assert!(m.properties().walks_outlive_tags && !m.properties().faults_forget);
        let costs = m.properties().typical_costs;
        for place in [costs.local, costs.broadcast] {
            assert!(costs.by_address(place, 256, 256) && !costs.by_address(place, 512, 512));
        }
    }
}

#[test]
fn guests_lose_all_entries_for_any_range() {
    let page = [uniform(0x40_0000, 1, 12)];
    let local = "dsb nshst; tlbi alle1; dsb nsh; isb";
    let all = "dsb ishst; tlbi alle1is; dsb ish; isb";
    let c = stage2_config();
    for change in [LastLevel, FreedTables] {
        guests(c, |s| s.flush(NONE, Invalidation::ranges(TAG, &page, change), Scope::Local), local);
        guests(c, |s| s.flush(NONE, Invalidation::kernel(&page, change), Scope::Local), local);
        guests(c, |s| s.flush(NONE, Invalidation::kernel(&page, change), Scope::Broadcast), all);
        guests(
            c,
            |s| s.flush(NONE, Invalidation::ranges(TAG, &page, change), Scope::Broadcast),
            all,
        );
        guests(
            c,
            |s| s.begin_broadcast(NONE, Invalidation::ranges(TAG, &page, change)),
            "dsb ishst; tlbi alle1is",
        );
    }
    guests(
        c,
        |s| s.complete_broadcast(errata::REPEAT_BROADCAST),
        "dsb ish; tlbi valis 0x0; dsb ish; isb",
    );
    guests(c, |s| assert_eq!(s.operations(&page[0], LastLevel, Scope::Broadcast), None), "");
    guests(c, |s| assert!(s.properties().walks_outlive_tags), "");
}
