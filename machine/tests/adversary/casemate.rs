//! Runs as traces in the format of casemate, and what the oracle of that format says of them.

use crate::common::{Programs, programs};
use lookaside::{
    arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp},
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release},
        Word as _,
    },
};
use lookaside_machine::{
    adversary::{Access, Config, Frame, Word, access, arm::Insn, as_cpu, oracle, relax, tables},
    casemate::{Refusal, Unwritten, Verdict, Written, check},
    explore::Schedule,
};

const VA: u64 = 0x2_5000;
const ASID: u64 = 1;

struct World {
    root: Frame,
    other: Frame,
    pte: &'static Word,
    parent: &'static Word,
    table: Frame,
    signalled: Word,
}

/// Both CPUs run a space that maps a page.
fn world() -> World {
    let (root, other) = (tables::allocate(), tables::allocate());
    tables::map(root, VA, Frame(7), Access::WRITE);
    tables::map(other, VA, Frame(8), Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || {
            Insn.write_ttbr0(root.address() | ASID << 48);
            Insn.isb();
        });
    }
    let parent = tables::entry(root, VA, 1);
    let table = Frame::holding(parent.peek() & 0xffff_f000);
    World { root, other, pte: tables::pte(root, VA), parent, table, signalled: Word::ZERO }
}

fn tlbi(op: TlbiOp, scope: Scope, asid: u64, va: u64) {
    let operand = if op == TlbiOp::Vmall { 0 } else { asid << 48 | va >> 12 };
    Insn.tlbi(Tlbi { op, scope, operand });
}

/// The first trace of the run of CPU 0, while CPU 1 does nothing.
fn trace(run: impl Fn(&World) + 'static) -> Written {
    let programs = programs(Config::arm(2).with_levels(2), world, move |world: &World, cpu| {
        if cpu == 0 {
            run(world);
        }
    });
    first(&programs)
}

fn first(programs: &Programs<World>) -> Written {
    let exported = programs.explorer().casemate(&Schedule::default_of("test")).expect("a schedule");
    exported.traces.into_iter().next().expect("a space was run")
}

/// What the oracle says of a trace on which nothing that matters is missing.
#[track_caller]
fn judged(written: &Written) -> Option<Refusal> {
    assert!(written.is_faithful(), "{:?}", written.unwritten);
    match check(&written.text).expect("a trace that can be read") {
        Verdict::Accepted { .. } => None,
        Verdict::Refused { why, .. } => Some(why),
    }
}

/// Another frame comes in place of the one that is mapped, with what is done in between.
fn remapped(between: impl Fn() + 'static) -> Written {
    trace(move |world| {
        world.pte.store(0, Relaxed);
        between();
        world.pte.store(tables::page(Frame(9), Access::WRITE), Relaxed);
        Insn.dsb(Dsb::Ishst);
    })
}

#[test]
fn break_before_make_is_accepted_if_it_is_whole() {
    use TlbiOp::{Aside, Va, Val, Vmall};
    for op in [Va, Val, Aside, Vmall] {
        let whole = remapped(move || {
            Insn.dsb(Dsb::Ishst);
            tlbi(op, Scope::Broadcast, ASID, VA);
            Insn.dsb(Dsb::Ish);
            Insn.isb();
        });
        assert_eq!(judged(&whole), None, "{op:?}");
    }
    let unclean = Some(Refusal::UncleanToValid);
    assert_eq!(judged(&remapped(|| Insn.dsb(Dsb::Ish))), unclean);
    let lacks = |first: bool, va: u64, asid: u64, last: bool| {
        judged(&remapped(move || {
            if first {
                Insn.dsb(Dsb::Ishst);
            }
            tlbi(Va, Scope::Broadcast, asid, va);
            if last {
                Insn.dsb(Dsb::Ish);
            }
        }))
    };
    assert_eq!(lacks(true, VA, ASID, true), None);
    assert_eq!(lacks(false, VA, ASID, true), unclean);
    assert_eq!(lacks(true, VA + 0x1000, ASID, true), unclean);
    assert_eq!(lacks(true, VA, ASID + 1, true), unclean);
    assert_eq!(lacks(true, VA, ASID, false), unclean);
    let overwritten = trace(|world| {
        world.pte.store(tables::page(Frame(9), Access::WRITE), Relaxed);
    });
    assert_eq!(judged(&overwritten), Some(Refusal::ValidToValid));
}

#[test]
fn a_range_is_written_page_by_page() {
    // Two pages from `VA` on: granule of 4 KiB, scale 0, number 0.
    let range = |first: u64| {
        remapped(move || {
            Insn.dsb(Dsb::Ishst);
            let operand = ASID << 48 | 1 << 46 | first >> 12;
            Insn.tlbi(Tlbi { op: TlbiOp::Rval, scope: Scope::Broadcast, operand });
            Insn.dsb(Dsb::Ish);
        })
    };
    assert_eq!(judged(&range(VA)), None);
    assert_eq!(judged(&range(VA - 0x1000)), None);
    assert_eq!(judged(&range(VA + 0x1000)), Some(Refusal::UncleanToValid));
}

#[test]
fn a_table_is_given_back_clean() {
    let freed = |op: Option<TlbiOp>| {
        trace(move |world| {
            world.parent.store(0, Release);
            Insn.dsb(Dsb::Ishst);
            if let Some(op) = op {
                tlbi(op, Scope::Broadcast, ASID, VA);
            }
            Insn.dsb(Dsb::Ish);
            oracle::table_freed(world.table);
        })
    };
    assert_eq!(judged(&freed(Some(TlbiOp::Aside))), None);
    assert_eq!(judged(&freed(Some(TlbiOp::Vmall))), None);
    assert_eq!(judged(&freed(None)), Some(Refusal::ReleasedUnclean));
    // By address it is enough for Arm, and not for the protocol of the format: it is said.
    let by_address = freed(Some(TlbiOp::Va));
    assert_eq!(by_address.unwritten.get(&Unwritten::TableByAddress), Some(&1));
    assert!(!by_address.is_faithful());
}

#[test]
fn operations_that_casemate_cannot_express_are_counted() {
    let local = remapped(|| {
        Insn.dsb(Dsb::Nshst);
        tlbi(TlbiOp::Va, Scope::Local, ASID, VA);
        Insn.dsb(Dsb::Nsh);
    });
    let counts =
        [Unwritten::Local, Unwritten::Barrier].map(|what| local.unwritten.get(&what).copied());
    assert_eq!(counts, [Some(1), Some(1)]);
    assert!(!local.is_faithful());
    // Another space's are none of this one's, and nothing is counted.
    let others = remapped(|| tlbi(TlbiOp::Va, Scope::Local, ASID + 1, VA));
    assert!(others.is_faithful());
    let page = trace(|world| {
        world.pte.store(0, Release);
        Insn.dsb(Dsb::Ishst);
        tlbi(TlbiOp::Va, Scope::Broadcast, ASID, VA);
        Insn.dsb(Dsb::Ish);
        oracle::frame_freed(Frame(7));
    });
    assert_eq!(page.unwritten.get(&Unwritten::Page), Some(&1));
    assert_eq!(judged(&page), None);
}

#[test]
fn the_first_stage_has_one_tree_whose_identifier_is_zero() {
    let load = |root: Frame, asid: u64| {
        Insn.write_ttbr0(root.address() | asid << 48);
        Insn.isb();
    };
    let fine = trace(move |world| {
        load(world.other, 2);
        load(world.root, ASID);
    });
    assert_eq!(judged(&fine), None);
    assert_eq!(fine.unwritten.get(&Unwritten::OtherSpace), Some(&1));
    // The space is named again, and never by its tag.
    let loads: Vec<_> = fine.text.lines().filter(|line| line.contains("ttbr0_el2")).collect();
    assert_eq!(loads.len(), 3);
    let tagged: Vec<_> = fine
        .text
        .lines()
        .map(|line| match line.split_once("ttbr0_el2) (value 0x") {
            Some((before, value)) => {
                let (digits, after) = value.split_once(')').expect("a value ends");
                let root = u64::from_str_radix(digits, 16).expect("a number");
                format!("{before}ttbr0_el2) (value {:#x}){after}", root | ASID << 48)
            }
            None => line.to_owned(),
        })
        .collect();
    let refused = check(&tagged.join("\n")).expect("a trace that can be read");
    assert!(matches!(refused, Verdict::Refused { why: Refusal::ReservedAsid, .. }), "{refused}");
    // A space that gets another tag has no form.
    let renewed = trace(move |world| {
        load(world.root, 3);
        world.pte.store(0, Release);
    });
    assert_eq!(renewed.unwritten.get(&Unwritten::AfterNewTag), Some(&3));
    assert!(!renewed.is_faithful());
}

#[test]
fn there_is_a_trace_for_each_space_and_all_cpus_are_in_it() {
    let programs = programs(Config::arm(2).with_levels(2), world, |world: &World, cpu| {
        if cpu == 0 {
            Insn.write_ttbr0(world.other.address() | 2 << 48);
            Insn.isb();
            world.signalled.store(1, Release);
        } else {
            while world.signalled.load(Acquire) == 0 {
                relax();
            }
            world.pte.store(0, Relaxed);
            Insn.dsb(Dsb::Ish);
            let _ = access(VA);
        }
    });
    let mut explorer = programs.explorer();
    for schedule in explorer.at_random(1, 20) {
        let exported = explorer.casemate(&schedule).expect("a schedule");
        assert!(exported.violation.is_none());
        assert_eq!(exported.traces.len(), 2);
        for written in exported.traces {
            assert_eq!(judged(&written), None);
            assert!(written.text.contains("(tid 0)") && written.text.contains("(tid 1)"));
        }
    }
    // The same ones again.
    assert_eq!(explorer.at_random(1, 5), explorer.at_random(1, 5));
}
