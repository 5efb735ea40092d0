//! The instructions of flushes by address, written out.

extern crate std;

use std::vec::Vec;

use super::super::{
    super::{Extensions, Riscv, testing::*},
    Config, Remote,
    tests::{A, CONFIG, NO_ERRATA, everyone, machine, satp, sfence},
};
use crate::{
    VaRange,
    arch::{
        Errata, Invalidation, Mmu, Scope,
        TableChange::{self, FreedTables, LastLevel},
        Tag, Wait,
        errata::FENCE_OPERANDS,
    },
};

const SBI: Config = Config { remote: Remote::Sbi, ..CONFIG };
const SVINVAL: Config = Config { relies_on: Extensions::SVINVAL, ..CONFIG };
const SVNAPOT: Config = Config { relies_on: Extensions::SVNAPOT, ..CONFIG };
const FENCE: Event = Event::Fence;
const ALL: Event = Event::SfenceVma(None, None);
const TOP: u64 = 0xffff_ffff_ffff_f000;

fn uniform(start: u64, pages: u64, shift: u32) -> VaRange {
    VaRange::new(start, pages << shift, shift).unwrap()
}

fn mixed(start: u64, pages: u64, shift: u32) -> VaRange {
    uniform(start, pages, shift).mixed()
}

/// What is executed on a machine so configured, of which the tag is 7.
fn executed(config: Config, act: impl FnOnce(&Riscv<Recorder>)) -> Vec<Event> {
    let riscv = machine(16, config, satp(A, 1));
    act(&riscv);
    riscv.instructions.take()
}

fn flush(errata: Errata, ranges: &[VaRange], change: TableChange) -> impl Fn(&Riscv<Recorder>) {
    move |riscv| riscv.flush(errata, Invalidation::ranges(Tag(7), ranges, change), Scope::Local)
}

fn everywhere(
    errata: Errata,
    ranges: &[VaRange],
    change: TableChange,
    wait: Wait,
) -> impl Fn(&Riscv<Recorder>) {
    let entries = Invalidation::ranges(Tag(7), ranges, change);
    move |riscv| match wait {
        Wait::Now => riscv.flush(errata, entries, Scope::Broadcast),
        Wait::Later => riscv.begin_broadcast(errata, entries),
    }
}

fn leaf(address: u64) -> Event {
    Event::SfenceVma(Some(address), Some(7))
}

fn global(address: u64) -> Event {
    Event::SfenceVma(Some(address), None)
}

fn part(start: u64, size: u64, asid: Option<u16>) -> Event {
    Event::Sbi { harts: 0, base: u64::MAX, start, size, asid }
}

#[test]
fn leaves_of_all_ranges_are_fenced_and_completed_once() {
    let two = [uniform(0x4000, 2, 12), uniform(0x40_0000, 2, 21)];
    assert_eq!(
        executed(CONFIG, flush(NO_ERRATA, &two, LastLevel)),
        [leaf(0x4000), leaf(0x5000), leaf(0x40_0000), leaf(0x60_0000), FENCE]
    );
    let top = [uniform(TOP, 1, 12)];
    assert_eq!(executed(CONFIG, flush(NO_ERRATA, &top, LastLevel)), [leaf(TOP), FENCE]);
    // A step is a page that there may be among those that changed: 4 KiB of 16, 2 MiB of 4.
    let odd = [mixed(0x4000, 1, 13), mixed(0x40_0000, 1, 22)];
    assert_eq!(
        executed(CONFIG, flush(NO_ERRATA, &odd, LastLevel)),
        [leaf(0x4000), leaf(0x5000), leaf(0x40_0000), leaf(0x60_0000), FENCE]
    );
    assert_eq!(executed(CONFIG, flush(NO_ERRATA, &[], LastLevel)), [FENCE]);
}

#[test]
fn svinval_brackets_all_ranges_at_once() {
    let two = [uniform(0x4000, 2, 12), uniform(0x8000, 1, 12)];
    let sinval = |address| Event::SinvalVma(Some(address), Some(7));
    assert_eq!(
        executed(SVINVAL, flush(NO_ERRATA, &two, LastLevel)),
        [
            Event::SfenceWInval,
            sinval(0x4000),
            sinval(0x5000),
            sinval(0x8000),
            Event::SfenceInvalIr,
            FENCE
        ]
    );
    // One leaf is one instruction; a whole tag is, too.
    assert_eq!(executed(SVINVAL, flush(NO_ERRATA, &two[1..], LastLevel)), [leaf(0x8000), FENCE]);
    assert_eq!(executed(SVINVAL, flush(NO_ERRATA, &two, FreedTables)), [sfence(7), FENCE]);
}

#[test]
fn eco_m5_where_tables_were_unlinked_the_whole_tag_is_fenced() {
    let page = [uniform(0x4000, 1, 12)];
    assert_eq!(executed(CONFIG, flush(NO_ERRATA, &page, FreedTables)), [sfence(7), FENCE]);
    assert_eq!(
        executed(SBI, everywhere(NO_ERRATA, &page, FreedTables, Wait::Now)),
        [FENCE, sfence(7), everyone(Some(7)), FENCE]
    );
}

#[test]
fn a_range_that_no_address_can_name_flushes_the_whole_tag() {
    let page = uniform(0x4000, 1, 12);
    for bad in [uniform(1 << 60, 1, 12), uniform(1 << 38, 1, 12), uniform(0, 1 << 51, 12)] {
        for ranges in [[bad, page], [page, bad]] {
            for config in [CONFIG, SVINVAL] {
                let did = executed(config, flush(NO_ERRATA, &ranges, LastLevel));
                assert_eq!(did, [sfence(7), FENCE]);
            }
            assert_eq!(
                executed(SBI, everywhere(NO_ERRATA, &ranges, LastLevel, Wait::Now)),
                [FENCE, sfence(7), everyone(Some(7)), FENCE]
            );
            let kernel = |riscv: &Riscv<_>| {
                riscv.flush(NO_ERRATA, Invalidation::kernel(&ranges, LastLevel), Scope::Local)
            };
            assert_eq!(executed(CONFIG, kernel), [ALL, FENCE]);
        }
    }
}

#[test]
fn where_operands_fail_ranges_fence_everything() {
    let page = [uniform(0x4000, 1, 12)];
    for change in [LastLevel, FreedTables] {
        assert_eq!(executed(SVINVAL, flush(FENCE_OPERANDS, &page, change)), [ALL, FENCE]);
        assert_eq!(
            executed(SBI, everywhere(FENCE_OPERANDS, &page, change, Wait::Now)),
            [FENCE, ALL, everyone(None), FENCE]
        );
        let kernel = |riscv: &Riscv<_>| {
            riscv.flush(FENCE_OPERANDS, Invalidation::kernel(&page, change), Scope::Local)
        };
        assert_eq!(executed(CONFIG, kernel), [ALL, FENCE]);
    }
}

#[test]
fn a_page_that_may_be_part_of_a_block_takes_the_block_with_it() {
    let block: Vec<_> = (0..16).map(|page| leaf(0x2_0000 + page * 0x1000)).chain([FENCE]).collect();
    let of = |range| executed(SVNAPOT, flush(NO_ERRATA, &[range], LastLevel));
    assert_eq!(of(uniform(0x2_0000, 1, 16)), block);
    assert_eq!(of(mixed(0x2_3000, 2, 12)), block);
    assert_eq!(of(mixed(0x2_3000, 1, 12)), block);
    assert_eq!(of(uniform(0x2_3000, 1, 12)), [leaf(0x2_3000), FENCE]);
    // No level has pages of 8 KiB: that all are of that size says nothing about blocks.
    assert_eq!(of(uniform(0x2_2000, 1, 13)), block);
    assert_eq!(of(mixed(0x20_0000, 1, 21)), [leaf(0x20_0000), FENCE]);
    // Without the extension there are no blocks.
    let plain = executed(CONFIG, flush(NO_ERRATA, &[mixed(0x2_3000, 1, 12)], LastLevel));
    assert_eq!(plain, [leaf(0x2_3000), FENCE]);
}

#[test]
fn eco_m1_everywhere_is_everywhere_by_address_too() {
    let two = [uniform(0x4000, 2, 12), uniform(TOP, 1, 12)];
    let expected = [
        FENCE,
        leaf(0x4000),
        leaf(0x5000),
        leaf(TOP),
        part(0x4000, 0x2000, Some(7)),
        part(TOP, 0x1000, Some(7)),
        FENCE,
    ];
    assert_eq!(executed(SBI, everywhere(NO_ERRATA, &two, LastLevel, Wait::Now)), expected);
    let later = executed(SBI, everywhere(NO_ERRATA, &two, LastLevel, Wait::Later));
    assert_eq!(later, expected[..6]);
    assert_eq!(executed(SBI, |riscv| riscv.complete_broadcast(NO_ERRATA)), [FENCE]);
    // A refusal widens, for each request.
    let riscv = machine(16, SBI, satp(A, 1));
    riscv.instructions.refuses.set(Refuses::Asids);
    everywhere(NO_ERRATA, &two[1..], LastLevel, Wait::Now)(&riscv);
    let asked = [part(TOP, 0x1000, Some(7)), everyone(None)];
    let expected = [FENCE, leaf(TOP), asked[0], asked[1], FENCE];
    assert_eq!(riscv.instructions.take(), expected);
}

#[test]
fn eco_m6_kernel_addresses_are_fenced_for_every_asid_and_globally() {
    let two = [uniform(TOP, 1, 12), uniform(0xffff_ffff_8000_0000, 1, 21)];
    let local = |change| {
        move |riscv: &Riscv<_>| {
            riscv.flush(NO_ERRATA, Invalidation::kernel(&two, change), Scope::Local)
        }
    };
    let fences = [global(TOP), global(0xffff_ffff_8000_0000)];
    assert_eq!(executed(CONFIG, local(LastLevel)), [fences[0], fences[1], FENCE]);
    assert_eq!(executed(CONFIG, local(FreedTables)), [ALL, FENCE]);
    let remote = |change| {
        move |riscv: &Riscv<_>| {
            riscv.flush(NO_ERRATA, Invalidation::kernel(&two, change), Scope::Broadcast)
        }
    };
    let asked = [part(TOP, 0x1000, None), part(0xffff_ffff_8000_0000, 0x20_0000, None)];
    assert_eq!(
        executed(SBI, remote(LastLevel)),
        [FENCE, fences[0], fences[1], asked[0], asked[1], FENCE]
    );
    assert_eq!(executed(SBI, remote(FreedTables)), [FENCE, ALL, everyone(None), FENCE]);
    for change in [LastLevel, FreedTables] {
        let all = |riscv: &Riscv<_>| {
            riscv.flush(NO_ERRATA, Invalidation::kernel(&[], change), Scope::Local)
        };
        assert_eq!(executed(SVINVAL, all), [ALL, FENCE]);
        let all = |riscv: &Riscv<_>| {
            riscv.flush(NO_ERRATA, Invalidation::kernel(&[], change), Scope::Broadcast)
        };
        assert_eq!(executed(SBI, all), [FENCE, ALL, everyone(None), FENCE]);
    }
}

#[test]
fn eco_m2_stores_are_published_before_the_look_at_who_runs() {
    for config in [CONFIG, SVINVAL] {
        assert_eq!(executed(config, |riscv| riscv.publish(Wait::Now)), [FENCE]);
    }
}

#[test]
fn operations_are_counted_as_they_are_executed() {
    let riscv = machine(16, SVNAPOT, satp(A, 1));
    for range in [
        uniform(0x4000, 1, 12),
        uniform(0x4000, 37, 12),
        mixed(0xf000, 2, 12),
        uniform(0x1_0000, 3, 16),
        uniform(0x40_0000, 3, 21),
        uniform(0, 1, 30),
        uniform(0, 8, 34),
    ] {
        riscv.flush(NO_ERRATA, Invalidation::ranges(Tag(7), &[range], LastLevel), Scope::Local);
        let fences = riscv.instructions.take().len() as u64 - 1;
        assert_eq!(riscv.operations(&range, LastLevel, Scope::Local), Some(fences));
        assert_eq!(riscv.operations(&range, LastLevel, Scope::Broadcast), Some(fences + 1));
        assert_eq!(riscv.operations(&range, FreedTables, Scope::Local), None);
    }
    let half = uniform(0, 1 << 26, 12);
    assert_eq!(riscv.operations(&half, LastLevel, Scope::Local), Some(1 << 26));
    assert_eq!(riscv.operations(&uniform(0, 1 << 27, 12), LastLevel, Scope::Local), None);
    assert!(!riscv.properties().walks_outlive_tags && !riscv.properties().faults_forget);
    let costs = riscv.properties().typical_costs;
    assert!(costs.by_address(costs.local, 33, 33) && !costs.by_address(costs.local, 512, 512));
}
