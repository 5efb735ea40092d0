//! Translations: two levels, walks, blocks, staleness.

use lookaside::{
    arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
    platform::{Ordering::Relaxed, Word as _},
};
use lookaside_machine::timed::{
    Failure, arm::Insn, idle_until, now, tables, touch, touch_kernel, touch_mapped,
};

use crate::support::{arena, model, run, try_run, words};

/// What it takes to touch a page.
fn cost(page: u64) -> u64 {
    let before = now();
    touch(page, 1).expect("the page is mapped");
    now() - before
}

fn invalidate(op: TlbiOp, scope: Scope, operand: u64) {
    Insn.tlbi(Tlbi { op, scope, operand });
}

#[test]
fn each_level_has_its_price() {
    let arena = arena();
    let program = |_| {
        let root = tables::create(1024);
        tables::map(root, 0, 5, 0);
        tables::map(root, 512, 1, 0);
        Insn.write_ttbr0(root | 1 << 48);
        assert_eq!(now(), 11);
        assert_eq!(cost(0), 40 + 17);
        assert_eq!(cost(0), 0);
        assert_eq!([cost(1), cost(2)], [40, 40]);
        assert_eq!([cost(0), cost(0)], [3, 0], "the first level has room for two");
        // Pages 0 and 4 share a set of two in the second level with page 512.
        assert_eq!([cost(4), cost(512)], [40, 40 + 17]);
        assert_eq!([cost(1), cost(2)], [3, 3]);
        assert_eq!(
            cost(0),
            40 + 17,
            "page 0 was used least recently; the walk cache has one entry"
        );
        assert_eq!(touch(3, 3), Err(5), "what is not mapped is a fault");
    };
    let report = run(&model(), 1, &arena, program, || ());
    let counters = report.counters();
    assert_eq!((counters.walks, counters.second_level), (8, 3));
}

#[test]
fn tags_keep_spaces_apart() {
    let arena = arena();
    let program = |_| {
        let roots = [1_u64, 2].map(|tag| {
            let root = tables::create(8);
            tables::map(root, 0, 8, 0);
            root | tag << 48
        });
        let mut costs = Vec::new();
        for i in 0..4 {
            Insn.write_ttbr0(roots[i % 2]);
            costs.push(cost(0));
        }
        assert_eq!(costs, [57, 57, 0, 0]);
        invalidate(TlbiOp::Aside, Scope::Local, 1 << 48);
        assert_eq!(cost(0), 0, "it is the other's tag");
        Insn.write_ttbr0(roots[0]);
        assert_eq!(cost(0), 57);
    };
    run(&model(), 1, &arena, program, || ());
}

#[test]
fn a_block_takes_one_entry_where_the_machine_has_them() {
    for blocks in [true, false] {
        let arena = arena();
        let mut model = model();
        model.tlb.blocks = blocks;
        let program = |_| {
            let root = tables::create(64);
            tables::map(root, 0, 64, 4);
            Insn.write_ttbr0(root);
            touch(0, 16).unwrap();
            let walked = if blocks { 40 } else { 16 * 40 };
            assert_eq!(now(), 11 + 17 + walked);
            invalidate(TlbiOp::Val, Scope::Local, 3);
            assert_eq!(cost(15), if blocks { 40 } else { 0 }, "one page goes, and its block");
        };
        run(&model, 1, &arena, program, || ());
    }
}

#[test]
fn invalidations_by_address_spare_or_remove_upper_levels() {
    let arena = arena();
    let program = |_| {
        let root = tables::create(8);
        tables::map(root, 0, 8, 0);
        Insn.write_ttbr0(root);
        assert_eq!(cost(0), 57);
        let before = now();
        invalidate(TlbiOp::Val, Scope::Local, 0);
        assert_eq!(now() - before, 19);
        assert_eq!(cost(0), 40);
        invalidate(TlbiOp::Va, Scope::Local, 0);
        assert_eq!(cost(0), 57);
        invalidate(TlbiOp::Va, Scope::Local, 5 << 48);
        assert_eq!(cost(0), 0, "it names another tag");
        invalidate(TlbiOp::Vaa, Scope::Local, 0);
        assert_eq!(cost(0), 57, "it names every tag");
    };
    run(&model(), 1, &arena, program, || ());
}

#[test]
fn kernel_pages_are_used_under_every_tag() {
    let arena = arena();
    let program = |_| {
        let root = tables::create(8);
        let kernel = |page| {
            let before = now();
            touch_kernel(page, 1).unwrap();
            now() - before
        };
        Insn.write_ttbr0(root | 1 << 48);
        assert_eq!(kernel(3), 57);
        Insn.write_ttbr0(root | 2 << 48);
        invalidate(TlbiOp::Aside, Scope::Local, 2 << 48);
        assert_eq!(kernel(3), 0);
        let page = (timed_kernel() >> 12) + 3;
        invalidate(TlbiOp::Vaal, Scope::Local, page & ((1 << 44) - 1));
        assert_eq!(kernel(3), 40);
        invalidate(TlbiOp::Vmall, Scope::Local, 0);
        assert_eq!(kernel(3), 57);
    };
    let build = || tables::create_kernel(8);
    try_run(&model(), 1, &arena, build, program, || ()).unwrap();
}

const fn timed_kernel() -> u64 {
    lookaside_machine::timed::KERNEL
}

/// CPU 0 revokes a page that CPU 1 has; `flush` comes between that and the claim.
fn revocation(flush: fn(), claim_first: bool) -> Result<(), Failure> {
    let arena = arena();
    let [go] = words(&arena);
    let root = core::cell::Cell::new(0);
    let build = || {
        root.set(tables::create(8));
        tables::map(root.get(), 0, 8, 0);
    };
    let program = |cpu| {
        Insn.write_ttbr0(root.get() | 1 << 48);
        touch(2, 1).unwrap();
        if cpu == 0 {
            idle_until(1000);
            let stamp = tables::revoke(root.get(), 2, 1, true);
            if claim_first {
                tables::flushed(root.get(), 2, 1, stamp);
                go.store(1, Relaxed);
                idle_until(3000);
            }
            flush();
            tables::flushed(root.get(), 2, 1, stamp);
            go.store(1, Relaxed);
        } else {
            idle_until(1500);
            // What was revoked may be used for as long as nobody claims that it is gone.
            touch(2, 1).unwrap();
            while go.load(Relaxed) == 0 {
                lookaside_machine::timed::relax();
            }
            touch(2, 1).unwrap();
        }
    };
    try_run(&model(), 2, &arena, build, program, || ()).map(|_| ())
}

fn broadcast() {
    idle_until(2000);
    Insn.dsb(Dsb::Ishst);
    invalidate(TlbiOp::Val, Scope::Broadcast, 1 << 48 | 2);
    Insn.dsb(Dsb::Ish);
}

#[test]
fn a_stale_translation_ends_the_run() {
    revocation(broadcast, false).expect("it is flushed");
    let left_out = revocation(|| (), false).expect_err("nothing is flushed");
    let Failure::Stale { cpu: 1, page: 2, history, .. } = &left_out else { panic!("{left_out}") };
    assert!(history.iter().any(|line| line.contains("revokes 1 pages")), "{left_out}");
    let local = || invalidate(TlbiOp::Val, Scope::Local, 1 << 48 | 2);
    revocation(local, false).expect_err("CPU 1 has it still");
    revocation(broadcast, true).expect_err("it is claimed too early");
}

#[test]
fn a_tag_used_for_another_space_too_early_is_found() {
    let arena = arena();
    let program = |_| {
        for _ in 0..2 {
            let root = tables::create(8);
            tables::map(root, 0, 8, 0);
            Insn.write_ttbr0(root | 1 << 48);
            touch(0, 1).unwrap();
        }
    };
    let failure = try_run(&model(), 1, &arena, || (), program, || ()).unwrap_err();
    assert!(matches!(failure, Failure::Stale { .. }), "{failure}");
}

#[test]
fn pages_that_are_not_mapped_are_passed_over() {
    let arena = arena();
    let program = |_| {
        let [parent, child] = [tables::create(8), tables::create(3)];
        tables::map(parent, 2, 2, 0);
        tables::map_alike(child, parent);
        for (root, tag) in [(child, 1), (parent, 2)] {
            Insn.write_ttbr0(root | tag << 48);
            touch_mapped([0, 2, 7, 3, 2].into_iter());
        }
    };
    let report = run(&model(), 1, &arena, program, || ());
    let counters = report.counters();
    // The child has room for page 2 alone, twice; the parent for 2, 3 and 2.
    assert_eq!((counters.walks, counters.accesses), (1 + 2, 2 + 3));
}
