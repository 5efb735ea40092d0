//! The instructions of flushes by address, written out.

extern crate std;

use std::vec::Vec;

use super::{
    super::{Config, Features, Levels, X86},
    BROADCASTING, FULL, NO_INVPCID, NO_PCID, PLAIN,
    cpu::{Cpu, Did},
    sequences::{AT_EXIT, OFF, ON_LOAD, TAG, TOGGLE, emitted},
};
use crate::{
    VaRange,
    arch::{
        Errata, Invalidation, KernelEntriesLeft, Mmu, Scope,
        TableChange::{self, FreedTables, LastLevel},
        Tag, Wait,
        errata::INVLPG_KEEPS_GLOBALS,
    },
};

const FENCE: Did = Did::Mfence;
const SYNC: Did = Did::Tlbsync;
const OTHER: Tag = Tag(6);
const TOP: u64 = 0xffff_ffff_ffff_f000;
const HOLE: u64 = 0x0000_8000_0000_0000;

fn uniform(start: u64, pages: u64, shift: u32) -> VaRange {
    VaRange::new(start, pages << shift, shift).unwrap()
}

fn mixed(start: u64, pages: u64, shift: u32) -> VaRange {
    uniform(start, pages, shift).mixed()
}

fn flush(tag: Tag, ranges: &[VaRange], change: TableChange) -> impl Fn(&X86<&Cpu>) {
    move |x86| x86.flush(Errata::NONE, Invalidation::ranges(tag, ranges, change), Scope::Local)
}

fn everywhere(ranges: &[VaRange], change: TableChange, wait: Wait) -> impl Fn(&X86<&Cpu>) {
    move |x86| {
        let tag = if x86.properties().tag_bits == 0 { Tag::RESERVED } else { TAG };
        let (errata, entries) = (Errata::NONE, Invalidation::ranges(tag, ranges, change));
        match wait {
            Wait::Now => x86.flush(errata, entries, Scope::Broadcast),
            Wait::Later => x86.begin_broadcast(errata, entries),
        }
    }
}

fn kernel(errata: Errata, ranges: &[VaRange], change: TableChange) -> impl Fn(&X86<&Cpu>) {
    move |x86| x86.flush(errata, Invalidation::kernel(ranges, change), Scope::Local)
}

fn invlpgs(addresses: &[u64]) -> Vec<Did> {
    addresses.iter().map(|&address| Did::Invlpg(address)).collect()
}

#[test]
fn the_current_pcid_takes_one_invlpg_for_each_page_of_every_range() {
    let two = [uniform(0x7000, 2, 12), uniform(0x20_0000, 1, 12)];
    for change in [LastLevel, FreedTables] {
        let expected = invlpgs(&[0x7000, 0x8000, 0x20_0000]);
        assert_eq!(emitted(FULL, PLAIN, flush(TAG, &two, change)), expected);
        assert_eq!(emitted(NO_INVPCID, PLAIN, flush(TAG, &two, change)), expected);
        for (features, config) in [(NO_PCID, PLAIN), (FULL, OFF), (NO_PCID, AT_EXIT)] {
            assert_eq!(emitted(features, config, flush(Tag::RESERVED, &two, change)), expected);
        }
        assert_eq!(emitted(FULL, PLAIN, flush(TAG, &[], change)), []);
    }
}

#[test]
fn without_pcids_the_low_bits_of_cr3_name_none() {
    let page = [uniform(0x7000, 1, 12)];
    for (features, config) in [(NO_PCID, PLAIN), (FULL, OFF)] {
        let did = emitted(features, config, |x86| {
            // As firmware may leave it: cached write-through.
            x86.insn.cr3.set(0x9_0008);
            flush(Tag::RESERVED, &page, LastLevel)(x86);
        });
        assert_eq!(did, invlpgs(&[0x7000]));
    }
}

#[test]
fn a_step_is_the_smallest_page_that_changed() {
    let steps = |range| emitted(FULL, PLAIN, flush(TAG, &[range], LastLevel));
    assert_eq!(steps(uniform(0x40_0000, 2, 21)), invlpgs(&[0x40_0000, 0x60_0000]));
    assert_eq!(steps(uniform(0x4000_0000, 2, 30)), invlpgs(&[0x4000_0000, 0x8000_0000]));
    // A size that no level has: the next smaller one.
    assert_eq!(steps(uniform(0x40_0000, 1, 22)), invlpgs(&[0x40_0000, 0x60_0000]));
    assert_eq!(steps(uniform(0x1_0000, 1, 13)), invlpgs(&[0x1_0000, 0x1_1000]));
    // Larger ones go with any address in them.
    assert_eq!(steps(mixed(0x40_0000, 1, 21)), invlpgs(&[0x40_0000]));
    assert_eq!(steps(mixed(0x4000_0000, 1, 30)), invlpgs(&[0x4000_0000]));
    assert_eq!(steps(mixed(0x7000, 2, 12)), invlpgs(&[0x7000, 0x8000]));
    // So many steps are never the cheapest.
    let tag = emitted(FULL, PLAIN, |x86| {
        x86.flush(Errata::NONE, Invalidation::Tag(TAG), Scope::Local);
    });
    let entry_of_no_page = uniform(1 << 39, 1, 39);
    assert_eq!(steps(entry_of_no_page), tag);
    let _ = emitted(FULL, PLAIN, |x86| {
        assert_eq!(x86.operations(&entry_of_no_page, LastLevel, Scope::Local), None);
    });
}

#[test]
fn other_pcids_take_invpcid_after_one_barrier() {
    let two = [uniform(0x7000, 1, 12), uniform(0x9000, 1, 12)];
    let single = |pcid, address| Did::Invpcid(0, [pcid, address]);
    assert_eq!(
        emitted(FULL, PLAIN, flush(OTHER, &two, LastLevel)),
        [FENCE, single(6, 0x7000), single(6, 0x9000)]
    );
    let halves =
        [FENCE, single(6, 0x7000), single(6, 0x9000), single(0x806, 0x7000), single(0x806, 0x9000)];
    assert_eq!(emitted(FULL, AT_EXIT, flush(OTHER, &two, LastLevel)), halves);
    // The kernel's half of the pair is the current PCID.
    let current = [
        Did::Invlpg(0x7000),
        Did::Invlpg(0x9000),
        FENCE,
        single(0x805, 0x7000),
        single(0x805, 0x9000),
    ];
    assert_eq!(emitted(FULL, ON_LOAD, flush(TAG, &two, LastLevel)), current);
}

#[test]
fn eco_m5_where_tables_were_unlinked_another_pcid_goes_as_a_whole() {
    let page = [uniform(0x7000, 1, 12)];
    let whole = |pcid| Did::Invpcid(1, [pcid, 0]);
    assert_eq!(emitted(FULL, PLAIN, flush(OTHER, &page, FreedTables)), [FENCE, whole(6)]);
    let halves = [Did::Cr3(0x5_0005), FENCE, whole(0x805)];
    assert_eq!(emitted(FULL, ON_LOAD, flush(TAG, &page, FreedTables)), halves);
}

#[test]
fn pages_that_no_instruction_can_name_flush_the_whole_tag() {
    let page = [uniform(0x7000, 1, 12)];
    for change in [LastLevel, FreedTables] {
        assert_eq!(emitted(NO_INVPCID, PLAIN, flush(OTHER, &page, change)), TOGGLE);
        assert_eq!(emitted(NO_INVPCID, AT_EXIT, flush(TAG, &page, change)), TOGGLE);
    }
}

#[test]
fn xsa_279_a_range_that_is_not_canonical_widens_and_never_faults() {
    let page = uniform(0x7000, 1, 12);
    let five = Features { la57: true, ..FULL };
    let five_levels = Config { levels: Levels::Five, ..PLAIN };
    for bad in [
        uniform(HOLE, 1, 12),
        uniform(0xffff_7fff_ffff_f000, 2, 12),
        uniform(HOLE - 0x1000, 2, 12),
        uniform(0, 0x000f_ffff_ffff_ffff, 12),
        uniform(1 << 63, 1, 12),
    ] {
        for ranges in [[bad, page], [page, bad]] {
            for change in [LastLevel, FreedTables] {
                let whole = [Did::Cr3(0x5_0005)];
                assert_eq!(emitted(FULL, PLAIN, flush(TAG, &ranges, change)), whole);
                let whole = [FENCE, Did::Invpcid(1, [6, 0])];
                assert_eq!(emitted(FULL, PLAIN, flush(OTHER, &ranges, change)), whole);
                let all = [FENCE, Did::Invlpgb(6, 0, 0x5_0000), SYNC];
                let broadcast = everywhere(&ranges, change, Wait::Now);
                assert_eq!(emitted(BROADCASTING, PLAIN, broadcast), all);
                let everything = [FENCE, Did::Invpcid(2, [0, 0])];
                // Without PCIDs kernel addresses go by address, if they can.
                for config in [PLAIN, OFF] {
                    let did = emitted(FULL, config, kernel(Errata::NONE, &ranges, change));
                    assert_eq!(did, everything);
                }
                let everything = [FENCE, Did::Invlpgb(12, 0, 0), SYNC];
                let broadcast = |x86: &X86<&Cpu>| {
                    x86.flush(Errata::NONE, Invalidation::kernel(&ranges, change), Scope::Broadcast)
                };
                assert_eq!(emitted(BROADCASTING, PLAIN, broadcast), everything);
            }
        }
    }
    // With five levels the hole is elsewhere.
    let low = [uniform(HOLE, 1, 12)];
    assert_eq!(emitted(five, five_levels, flush(TAG, &low, LastLevel)), invlpgs(&[HOLE]));
    let bad = [uniform(1 << 56, 1, 12)];
    let whole = [Did::Cr3(0x5_0005)];
    assert_eq!(emitted(five, five_levels, flush(TAG, &bad, LastLevel)), whole);
}

#[test]
fn the_last_pages_of_the_address_space() {
    let top = [uniform(TOP, 1, 12), uniform(0xffff_ffff_ffe0_0000, 1, 21)];
    let expected = invlpgs(&[TOP, 0xffff_ffff_ffe0_0000]);
    assert_eq!(emitted(FULL, PLAIN, flush(TAG, &top, LastLevel)), expected);
    let global = |x86: &X86<&Cpu>| {
        x86.flush(Errata::NONE, Invalidation::kernel(&top, LastLevel), Scope::Broadcast)
    };
    assert_eq!(
        emitted(BROADCASTING, PLAIN, global),
        [
            FENCE,
            Did::Invlpgb(0xffff_ffff_ffff_f01d, 0, 0),
            Did::Invlpgb(0xffff_ffff_ffe0_001d, 1 << 31, 0),
            SYNC
        ]
    );
}

#[test]
fn broadcasts_of_ranges_are_waited_for_once() {
    let two = [uniform(0x7000, 10, 12), uniform(0x40_0000, 3, 21)];
    // Bits: 0 the address, 1 the PCID, 2 the ASID, 4 final only.
    let expected = [
        FENCE,
        Did::Invlpgb(0x7017, 7, 0x5_0000),
        Did::Invlpgb(0xf017, 1, 0x5_0000),
        Did::Invlpgb(0x40_0017, 1 << 31 | 2, 0x5_0000),
        SYNC,
    ];
    assert_eq!(emitted(BROADCASTING, PLAIN, everywhere(&two, LastLevel, Wait::Now)), expected);
    let later = everywhere(&two, LastLevel, Wait::Later);
    assert_eq!(emitted(BROADCASTING, PLAIN, later), expected[..4]);
    let complete = |x86: &X86<&Cpu>| x86.complete_broadcast(Errata::NONE);
    assert_eq!(emitted(BROADCASTING, PLAIN, complete), [SYNC]);
    assert_eq!(emitted(FULL, PLAIN, complete), []);
    // FreedTables: never final only.
    let page = [uniform(0x7000, 1, 12)];
    assert_eq!(
        emitted(BROADCASTING, PLAIN, everywhere(&page, FreedTables, Wait::Now)),
        [FENCE, Did::Invlpgb(0x7007, 0, 0x5_0000), SYNC]
    );
    // Both halves of a pair; no PCIDs.
    assert_eq!(
        emitted(BROADCASTING, ON_LOAD, everywhere(&page, LastLevel, Wait::Now)),
        [FENCE, Did::Invlpgb(0x7017, 0, 0x5_0000), Did::Invlpgb(0x7017, 0, 0x805_0000), SYNC]
    );
    assert_eq!(
        emitted(BROADCASTING, OFF, everywhere(&page, FreedTables, Wait::Now)),
        [FENCE, Did::Invlpgb(0x7005, 0, 0), SYNC]
    );
    // A mixed range goes by its smallest pages, eight of them at a time.
    let mixed = [mixed(0x40_0000, 12, 12)];
    let did = emitted(BROADCASTING, PLAIN, everywhere(&mixed, LastLevel, Wait::Now));
    assert_eq!(did.len(), 2 + 2);
    assert_eq!(did[1], Did::Invlpgb(0x40_0017, 7, 0x5_0000));
}

#[test]
fn eco_m1_a_range_that_widens_is_still_broadcast() {
    let bad = [uniform(HOLE, 1, 12)];
    let halves = [Did::Invlpgb(6, 0, 0x5_0000), Did::Invlpgb(6, 0, 0x805_0000)];
    for (wait, sync) in [(Wait::Now, Some(SYNC)), (Wait::Later, None)] {
        let expected: Vec<_> = [FENCE].into_iter().chain(halves).chain(sync).collect();
        assert_eq!(emitted(BROADCASTING, AT_EXIT, everywhere(&bad, LastLevel, wait)), expected);
    }
    let expected = [FENCE, Did::Invlpgb(4, 0, 0), SYNC];
    assert_eq!(emitted(BROADCASTING, OFF, everywhere(&bad, LastLevel, Wait::Now)), expected);
}

#[test]
fn kernel_addresses_go_by_address_only_where_that_reaches_all_of_them() {
    let page = [uniform(TOP, 1, 12)];
    let everything = [FENCE, Did::Invpcid(2, [0, 0])];
    // Entries that are not global, and upper levels, may be cached under PCIDs that are not named.
    for change in [LastLevel, FreedTables] {
        for config in [PLAIN, AT_EXIT] {
            assert_eq!(emitted(FULL, config, kernel(Errata::NONE, &page, change)), everything);
        }
        assert_eq!(emitted(NO_INVPCID, PLAIN, kernel(Errata::NONE, &page, change)), TOGGLE);
        for (features, config) in [(NO_PCID, PLAIN), (FULL, OFF), (NO_PCID, AT_EXIT)] {
            for errata in [Errata::NONE, INVLPG_KEEPS_GLOBALS] {
                let did = emitted(features, config, kernel(errata, &page, change));
                assert_eq!(did, invlpgs(&[TOP]));
            }
        }
    }
    let global = |features: Features, config, errata, change| {
        emitted(features, config, move |x86| {
            let x86 = X86::new(x86.insn, &features, config).unwrap().with_global_kernel();
            x86.flush(errata, Invalidation::kernel(&[uniform(TOP, 1, 12)], change), Scope::Local);
        })
    };
    assert_eq!(global(FULL, PLAIN, Errata::NONE, LastLevel), invlpgs(&[TOP]));
    assert_eq!(global(NO_INVPCID, PLAIN, Errata::NONE, LastLevel), invlpgs(&[TOP]));
    assert_eq!(global(FULL, PLAIN, Errata::NONE, FreedTables), everything);
    assert_eq!(global(FULL, PLAIN, INVLPG_KEEPS_GLOBALS, LastLevel), everything);
    assert_eq!(global(NO_INVPCID, PLAIN, INVLPG_KEEPS_GLOBALS, LastLevel), TOGGLE);
    // Separate tables exist to keep the kernel's entries out of user mode.
    assert_eq!(global(FULL, AT_EXIT, Errata::NONE, LastLevel), everything);
}

/// What [`Mmu::flush_kernel_under`] of two pages executes on a CPU that runs `TAG`, and what it says is left: under other tags,
/// and in the user's half.
fn kernel_under(
    (features, config): (Features, Config),
    (errata, tag, change): (Errata, Tag, TableChange),
    is_global: bool,
) -> (Vec<Did>, [bool; 2]) {
    let pages = [uniform(TOP - 0x1000, 2, 12)];
    let said = core::cell::Cell::new([false; 2]);
    let did = emitted(features, config, |x86| {
        let mut x86 = X86::new(x86.insn, &features, config).unwrap();
        if is_global {
            x86 = x86.with_global_kernel();
        }
        let left = x86.flush_kernel_under(errata, tag, &pages, change);
        said.set([left.under_other_tags, left.in_user_half]);
        if left.under_other_tags {
            let count = x86.kernel_operations(&pages[0], change, Scope::Local);
            let counts = |did: &&Did| matches!(did, Did::Invlpg(_) | Did::Invpcid(0, _));
            let executed = x86.insn.peek().iter().filter(counts).count() as u64;
            assert_eq!(count, Some(executed));
        }
    });
    (did, said.get())
}

#[test]
fn kernel_addresses_go_from_the_pcids_that_run_and_what_is_left_is_said() {
    const USER: u64 = 5 + 0x800;
    let of = |features, config, change| {
        kernel_under((features, config), (Errata::NONE, TAG, change), false)
    };
    let pages = [TOP - 0x1000, TOP];
    let by_address = invlpgs(&pages);
    let with = |more: &[Did]| [&by_address, more].concat();
    let (others, user) = ([true, false], [true, true]);
    // One table: nothing is left but under other PCIDs.
    for change in [LastLevel, FreedTables] {
        assert_eq!(of(FULL, PLAIN, change), (by_address.clone(), others));
        assert_eq!(of(NO_INVPCID, PLAIN, change), (by_address.clone(), others));
    }
    // A pair: the user's half by address, if that is enough.
    let named =
        with(&[FENCE, Did::Invpcid(0, [USER, pages[0]]), Did::Invpcid(0, [USER, pages[1]])]);
    for config in [ON_LOAD, AT_EXIT] {
        assert_eq!(of(FULL, config, LastLevel), (named.clone(), others));
    }
    // Else as a whole: at the exit, or now.
    let whole = with(&[FENCE, Did::Invpcid(1, [USER, 0])]);
    assert_eq!(of(FULL, ON_LOAD, FreedTables), (whole, others));
    assert_eq!(of(FULL, AT_EXIT, FreedTables), (by_address.clone(), user));
    for change in [LastLevel, FreedTables] {
        assert_eq!(of(NO_INVPCID, AT_EXIT, change), (by_address.clone(), user));
        // Now means a toggle, which leaves nothing anywhere.
        assert_eq!(of(NO_INVPCID, ON_LOAD, change), (TOGGLE.into(), [false; 2]));
    }
}

#[test]
fn kernel_addresses_leave_nothing_where_the_present_pcid_is_not_all_or_is_not_known() {
    let everything = ([FENCE, Did::Invpcid(2, [0, 0])].to_vec(), [false; 2]);
    let (by_address, nothing) = (invlpgs(&[TOP - 0x1000, TOP]), [false; 2]);
    for change in [LastLevel, FreedTables] {
        for config in [PLAIN, ON_LOAD, AT_EXIT] {
            // The register names another PCID: a foreign root is loaded.
            let other = kernel_under((FULL, config), (Errata::NONE, OTHER, change), false);
            assert_eq!(other, everything);
            // The trampoline's entries may be global.
            let keeps = kernel_under((FULL, config), (INVLPG_KEEPS_GLOBALS, TAG, change), false);
            assert_eq!(keeps, everything);
        }
        for (features, config) in [(NO_PCID, PLAIN), (FULL, OFF), (NO_PCID, AT_EXIT)] {
            for errata in [Errata::NONE, INVLPG_KEEPS_GLOBALS] {
                let request = (errata, Tag::RESERVED, change);
                let did = kernel_under((features, config), request, false);
                assert_eq!(did, (by_address.clone(), nothing));
            }
        }
    }
    let global = |errata, change| kernel_under((FULL, PLAIN), (errata, TAG, change), true);
    assert_eq!(global(Errata::NONE, LastLevel), (by_address.clone(), nothing));
    assert_eq!(global(INVLPG_KEEPS_GLOBALS, LastLevel), everything);
    // Cached upper levels are of one PCID, also those that lead to global entries.
    assert_eq!(global(Errata::NONE, FreedTables), (by_address, [true, false]));
    let _ = emitted(FULL, AT_EXIT, |x86| {
        for ranges in [&[][..], &[uniform(HOLE, 1, 12)]] {
            let left = x86.flush_kernel_under(Errata::NONE, TAG, ranges, LastLevel);
            assert_eq!(left, KernelEntriesLeft::default());
        }
        for none in [uniform(HOLE, 1, 12), uniform(1 << 39, 1, 39)] {
            assert_eq!(x86.kernel_operations(&none, LastLevel, Scope::Local), None);
        }
    });
    let _ = emitted(NO_INVPCID, ON_LOAD, |x86| {
        let page = uniform(TOP, 1, 12);
        assert_eq!(x86.kernel_operations(&page, LastLevel, Scope::Local), None);
    });
}

#[test]
fn a_parked_cpu_has_no_half_of_user_mode() {
    let did = emitted(FULL, ON_LOAD, |x86| {
        x86.park(Errata::NONE);
        let _ = x86.insn.did();
        let page = [uniform(TOP, 1, 12)];
        let left = x86.flush_kernel_under(Errata::NONE, Tag::RESERVED, &page, FreedTables);
        assert_eq!(left, KernelEntriesLeft { under_other_tags: true, in_user_half: false });
    });
    assert_eq!(did, invlpgs(&[TOP]));
}

#[test]
fn no_kernel_addresses_mean_everything() {
    let everything = [FENCE, Did::Invpcid(2, [0, 0])];
    for config in [PLAIN, OFF, ON_LOAD] {
        assert_eq!(emitted(FULL, config, kernel(Errata::NONE, &[], LastLevel)), everything);
    }
    assert_eq!(emitted(NO_PCID, PLAIN, kernel(Errata::NONE, &[], LastLevel)).len(), 2);
    let all = |x86: &X86<&Cpu>| {
        x86.flush(Errata::NONE, Invalidation::kernel(&[], LastLevel), Scope::Broadcast)
    };
    assert_eq!(emitted(BROADCASTING, PLAIN, all), [FENCE, Did::Invlpgb(12, 0, 0), SYNC]);
}

#[test]
fn a_broadcast_for_the_kernel_names_global_entries_of_every_pcid() {
    let two = [uniform(0xffff_8000_0000_0000, 9, 12), uniform(0xffff_ffff_8000_0000, 1, 21)];
    let of = |change| {
        move |x86: &X86<&Cpu>| {
            x86.flush(Errata::NONE, Invalidation::kernel(&two, change), Scope::Broadcast)
        }
    };
    assert_eq!(
        emitted(BROADCASTING, AT_EXIT, of(LastLevel)),
        [
            FENCE,
            Did::Invlpgb(0xffff_8000_0000_001d, 7, 0),
            Did::Invlpgb(0xffff_8000_0000_801d, 0, 0),
            Did::Invlpgb(0xffff_ffff_8000_001d, 1 << 31, 0),
            SYNC
        ]
    );
    assert_eq!(
        emitted(BROADCASTING, PLAIN, of(FreedTables)),
        [
            FENCE,
            Did::Invlpgb(0xffff_8000_0000_000d, 7, 0),
            Did::Invlpgb(0xffff_8000_0000_800d, 0, 0),
            Did::Invlpgb(0xffff_ffff_8000_000d, 1 << 31, 0),
            SYNC
        ]
    );
}

#[test]
fn publishing_executes_nothing() {
    for features in [FULL, NO_PCID, BROADCASTING] {
        assert_eq!(emitted(features, PLAIN, |x86| x86.publish(Wait::Now)), []);
    }
}

#[test]
fn operations_of_the_whole_address_space_are_counted_at_once() {
    let cpu = Cpu::new(BROADCASTING);
    let x86 = X86::new(&cpu, &BROADCASTING, PLAIN).unwrap();
    let half = uniform(0, 1 << 35, 12);
    assert_eq!(x86.operations(&half, LastLevel, Scope::Local), Some(1 << 35));
    assert_eq!(x86.operations(&half, LastLevel, Scope::Broadcast), Some(1 << 32));
    assert_eq!(
        x86.operations(&uniform(0, 1, 47), LastLevel, Scope::Local),
        None,
        "no page has that size"
    );
    assert_eq!(x86.operations(&uniform(0, 1 << 36, 12), LastLevel, Scope::Local), None);
    assert!(x86.properties().faults_forget && !x86.properties().walks_outlive_tags);
    let costs = x86.properties().typical_costs;
    assert!(costs.by_address(costs.local, 33, 33) && !costs.by_address(costs.local, 512, 512));
}
