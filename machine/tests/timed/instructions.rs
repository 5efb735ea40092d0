//! What the instructions of x86 and RISC-V cost and remove.

use lookaside::arch::{
    riscv64::Instructions as _,
    x86_64::{Instructions as _, Invpcid},
};
use lookaside_machine::timed::{Cause, KERNEL, now, riscv, tables, touch, touch_kernel, work, x86};

use crate::support::{Notes, arena, model, run, try_run};

const KEEP: u64 = 1 << 63;
const PCIDE: u64 = 1 << 17;
const PGE: u64 = 1 << 7;

fn took(f: impl FnOnce()) -> u64 {
    let before = now();
    f();
    now() - before
}

fn space() -> u64 {
    let root = tables::create(8);
    tables::map(root, 0, 8, 0);
    root
}

/// Whether this CPU holds a page: a walk costs something.
fn holds(page: u64) -> bool {
    took(|| touch(page, 1).expect("the page is mapped")) == 0
}

fn holds_kernel(page: u64) -> bool {
    took(|| touch_kernel(page, 1).expect("the page is mapped")) == 0
}

#[test]
fn a_write_of_cr3_keeps_or_removes_what_is_under_its_tag() {
    let arena = arena();
    let program = |_| {
        let cpu = x86::Insn;
        let (a, b) = (space(), space());
        cpu.write_cr4(PCIDE);
        assert_eq!(took(|| cpu.write_cr3(a | 1)), 13);
        assert!(!holds(0) && !holds_kernel(0));
        assert_eq!(took(|| cpu.write_cr3(b | 2 | KEEP)), 11);
        assert!(!holds(0));
        cpu.write_cr3(a | 1 | KEEP);
        assert!(holds(0));
        cpu.write_cr3(a | 1);
        assert!(!holds(0) && holds_kernel(0));
        cpu.write_cr3(b | 2 | KEEP);
        assert!(holds(0), "it is under another tag");
    };
    let mut model = model();
    model.tlb.first = lookaside_machine::timed::CacheShape::full(8);
    let build = || tables::create_kernel(8);
    try_run(&model, 1, &arena, build, program, || ()).unwrap();
}

#[test]
fn without_pcids_a_write_of_cr3_removes_all_user_pages() {
    let arena = arena();
    let program = |_| {
        let cpu = x86::Insn;
        let (a, b) = (space(), space());
        cpu.write_cr3(a);
        assert!(!holds(0) && !holds_kernel(0));
        assert_eq!(took(|| cpu.write_cr3(b)), 13);
        assert!(!holds(0));
        cpu.write_cr3(a);
        assert!(!holds(0) && holds_kernel(0));
    };
    let build = || tables::create_kernel(8);
    try_run(&model(), 1, &arena, build, program, || ()).unwrap();
}

#[test]
fn each_way_to_invalidate_has_its_price_and_its_reach() {
    let cpu = x86::Insn;
    let pcid = |kind, pcid, address| cpu.invpcid(kind, [pcid, address]);
    // What to do, its price, and what stays: page 0 and page 1 of the space, kernel page 0.
    type Way<'a> = (&'a dyn Fn(), u64, [bool; 3]);
    let ways: [Way<'_>; 9] = [
        (&|| cpu.invlpg(0), 19, [false, true, true]),
        (&|| cpu.invlpg(KERNEL), 19, [true, true, false]),
        (&|| pcid(Invpcid::Address, 1, 0x1000), 23, [true, false, true]),
        (&|| pcid(Invpcid::Address, 2, 0x1000), 23, [true, true, true]),
        (&|| pcid(Invpcid::Context, 1, 0), 29, [false, false, true]),
        (&|| pcid(Invpcid::Context, 2, 0), 29, [true, true, true]),
        (&|| pcid(Invpcid::AllButGlobal, 0, 0), 31, [false, false, true]),
        (&|| pcid(Invpcid::All, 0, 0), 37, [false, false, false]),
        (
            &|| {
                cpu.write_cr4(PCIDE);
                cpu.write_cr4(PCIDE | PGE);
            },
            37,
            [false, false, false],
        ),
    ];
    for (number, (invalidate, price, stays)) in ways.into_iter().enumerate() {
        let arena = arena();
        let mut model = model();
        model.tlb.first = lookaside_machine::timed::CacheShape::full(8);
        let program = |_| {
            cpu.write_cr4(PCIDE | PGE);
            cpu.write_cr3(space() | 1);
            touch(0, 2).unwrap();
            touch_kernel(0, 1).unwrap();
            assert_eq!(took(invalidate), price, "way {number}");
            assert_eq!([holds(0), holds(1), holds_kernel(0)], stays, "way {number}");
        };
        let build = || tables::create_kernel(8);
        try_run(&model, 1, &arena, build, program, || ()).unwrap();
    }
}

#[test]
fn invlpg_removes_all_cached_upper_levels_of_its_tag() {
    let arena = arena();
    let program = |_| {
        x86::Insn.write_cr3(space());
        touch(0, 1).unwrap();
        x86::Insn.invlpg(5 << 12);
        assert_eq!(took(|| touch(1, 1).unwrap()), 57);
    };
    run(&model(), 1, &arena, program, || ());
}

#[test]
fn invlpgb_is_a_broadcast_and_tlbsync_waits_for_it() {
    let (arena, notes) = (arena(), Notes::default());
    let root = core::cell::Cell::new(0);
    let program = |cpu| {
        x86::Insn.write_cr4(PCIDE);
        x86::Insn.write_cr3(root.get() | 1);
        touch(0, 2).unwrap();
        if cpu == 0 {
            lookaside_machine::timed::idle_until(1000);
            // Address and PCID are valid; two pages of PCID 1, last level only.
            x86::Insn.invlpgb(0b1_0011, 1, 1 << 16);
            x86::Insn.tlbsync();
            notes.note();
        } else {
            lookaside_machine::timed::idle_until(2000);
            assert!(!holds(0) && !holds(1));
        }
    };
    let build = || root.set(space());
    try_run(&model(), 2, &arena, build, program, || ()).unwrap();
    assert_eq!(notes.of(0), [1004 + 1100 + 1200]);
}

#[test]
fn riscv_fences_act_here() {
    let arena = arena();
    let program = |_| {
        let hart = riscv::Insn;
        let root = space();
        assert_eq!(took(|| hart.write_satp(8 << 60 | 1 << 44 | root >> 12)), 11);
        touch(0, 2).unwrap();
        assert_eq!(took(|| hart.sfence_vma(Some(0), Some(1))), 19);
        assert!(!holds(0) && holds(1));
        assert_eq!(took(|| hart.sfence_vma(Some(0), None)), 19);
        assert!(!holds(0) && holds(1));
        assert_eq!(took(|| hart.sfence_vma(None, Some(2))), 29);
        assert!(holds(0));
        assert_eq!(took(|| hart.sfence_vma(None, Some(1))), 29);
        assert!(!holds(0));
        assert_eq!(took(|| hart.sfence_vma(None, None)), 37);
        assert!(!holds(0));
    };
    run(&model(), 1, &arena, program, || ());
}

#[test]
fn firmware_fences_elsewhere_one_after_the_other() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| match cpu {
        0 | 2 => {
            // Hart 1, one page under tag 1.
            riscv::Insn.remote_sfence_vma(0b10, 0, 0x1000, 0x1000, Some(1)).unwrap();
            notes.note();
        }
        _ => {
            work(5000);
            notes.note();
        }
    };
    let report = run(&model(), 3, &arena, program, || ());
    // Called until 800, sent until 860, arrived at 1360; entry, fence and exit take 569.
    assert_eq!(notes.of(0), [1360 + 569 + 30]);
    assert_eq!(notes.of(2), [1360 + 2 * 569 + 30]);
    assert_eq!(notes.of(1), [5000 + 2 * 569]);
    assert_eq!(report.spent_on(Cause::Stolen), 2 * 569);
}

#[test]
fn an_invalidation_by_address_removes_everything_where_large_pages_are_fractured() {
    let arena = arena();
    let mut model = model();
    model.tlb.fractured = true;
    let program = |_| {
        x86::Insn.write_cr3(space());
        touch(0, 1).unwrap();
        x86::Insn.invlpg(5 << 12);
        assert!(!holds(0));
    };
    run(&model, 1, &arena, program, || ());
}
