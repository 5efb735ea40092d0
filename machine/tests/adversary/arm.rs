//! Arm: each rule of invalidation, shown to matter. The numbers A1 to A17 are those of the rules in
//! the documentation of the adversary.

use crate::common::{Programs, programs};
use lookaside::{
    arch::aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp},
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Rule, Word, access, access_store, arm::Insn, as_cpu, oracle, outcome,
    relax, tables,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);
const ASID: u64 = 3;
const ASID_B: u64 = 4;

/// Two spaces, and words to signal with.
struct Spaces {
    a: Frame,
    b: Frame,
    reserved: Frame,
    pte: &'static Word,
    /// The descriptor that names the last table of `a`, and that table.
    parent: &'static Word,
    last: Frame,
    flags: [Word; 2],
}

fn ttbr(root: Frame, asid: u64) -> u64 {
    root.address() | asid << 48
}

fn tlbi(op: TlbiOp, scope: Scope) {
    let page = VA >> 12;
    let operand = match op {
        TlbiOp::Vmall => 0,
        TlbiOp::Aside => ASID << 48,
        TlbiOp::Rva | TlbiOp::Rval | TlbiOp::Rvaa => ASID << 48 | 1 << 46 | (page & !1),
        _ => ASID << 48 | page,
    };
    Insn.tlbi(Tlbi { op, scope, operand });
}

/// `a` maps a page, `b` another one at the same address; every CPU runs `a`.
fn running(cnp: u64) -> Spaces {
    running_with(cnp, Access::WRITE)
}

fn running_with(cnp: u64, access: Access) -> Spaces {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, VA, PAGE, access);
    tables::map(b, VA, Frame(8), Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || {
            Insn.write_ttbr0(ttbr(a, ASID) | cnp);
            Insn.isb();
        });
    }
    let parent = tables::entry(a, VA, 1);
    Spaces {
        a,
        b,
        reserved: tables::allocate_reserved(),
        pte: tables::pte(a, VA),
        parent,
        last: Frame::holding(parent.peek() & !0xfff),
        flags: [Word::ZERO, Word::ZERO],
    }
}

/// CPU 0 executes `run`; CPU 1 has all of `a` cached and does nothing.
fn on_cpu_0(run: impl Fn(&Spaces) + 'static) -> Programs<Spaces> {
    programs(
        Config::arm(2),
        || running(0),
        move |spaces, cpu| {
            if cpu == 0 {
                run(spaces);
            }
        },
    )
}

/// The same with pages that permit no stores: those may lead elsewhere without a break between.
fn reading_on_cpu_0(run: impl Fn(&Spaces) + 'static) -> Programs<Spaces> {
    programs(
        Config::arm(2),
        || running_with(0, Access::READ),
        move |spaces, cpu| {
            if cpu == 0 {
                run(spaces);
            }
        },
    )
}

/// Unmaps the page with the given parts of the sequence, and claims that it is gone.
fn unmap(before: Option<Dsb>, op: TlbiOp, scope: Scope, after: Option<Dsb>) -> Programs<Spaces> {
    on_cpu_0(move |spaces| {
        spaces.pte.store(0, Relaxed);
        before.into_iter().for_each(|kind| Insn.dsb(kind));
        tlbi(op, scope);
        after.into_iter().for_each(|kind| Insn.dsb(kind));
        oracle::revoked(spaces.a, VA);
        oracle::frame_freed(PAGE);
    })
}

const IS: Scope = Scope::Broadcast;

#[test]
fn a4_vmalls12_is_about_the_current_vmid() {
    // Stage 2 is a regime like any other, with VMIDs for tags. CPU 1 runs `a`.
    let from = |vmid: Option<u64>, synchronised: bool, op: TlbiOp| {
        on_cpu_0(move |spaces| {
            if let Some(vmid) = vmid {
                Insn.write_ttbr0(ttbr(spaces.b, vmid));
                if synchronised {
                    Insn.isb();
                }
            }
            spaces.pte.store(0, Relaxed);
            Insn.dsb(Dsb::Ishst);
            Insn.tlbi(Tlbi { op, scope: Scope::Broadcast, operand: 0 });
            Insn.dsb(Dsb::Ish);
            Insn.isb();
            oracle::revoked(spaces.a, VA);
        })
    };
    from(None, true, TlbiOp::Vmalls12).holds();
    from(Some(ASID_B), true, TlbiOp::Vmalls12).breaks(Rule::StaleTranslation);
    from(Some(ASID_B), true, TlbiOp::Alle1).holds();
    // Which VMID is current is not settled before the context is synchronised.
    from(Some(ASID_B), false, TlbiOp::Vmalls12).breaks(Rule::StaleTranslation);
}

#[test]
fn every_form_that_names_the_page_revokes_it() {
    use TlbiOp::{Alle1, Aside, Rva, Rvaa, Rval, Va, Vaa, Vaal, Val, Vmall, Vmalls12};
    for op in [Alle1, Aside, Rva, Rvaa, Rval, Va, Vaa, Vaal, Val, Vmall, Vmalls12] {
        unmap(Some(Dsb::Ishst), op, IS, Some(Dsb::Ish)).holds();
    }
}

#[test]
fn a5_the_store_must_be_in_memory_before_the_tlbi() {
    unmap(None, TlbiOp::Va, IS, Some(Dsb::Ish)).breaks(Rule::StaleTranslation);
}

#[test]
fn a6_only_a_full_dsb_completes() {
    unmap(Some(Dsb::Ishst), TlbiOp::Va, IS, None).breaks(Rule::StaleTranslation);
    unmap(Some(Dsb::Ishst), TlbiOp::Va, IS, Some(Dsb::Ishst)).breaks(Rule::StaleTranslation);
    unmap(Some(Dsb::Ishst), TlbiOp::Va, IS, Some(Dsb::Nsh)).breaks(Rule::StaleTranslation);
}

#[test]
fn a4_a_local_tlbi_leaves_other_cpus_alone() {
    unmap(Some(Dsb::Ishst), TlbiOp::Va, Scope::Local, Some(Dsb::Ish))
        .breaks(Rule::StaleTranslation);
}

#[test]
fn a4_operands_are_decoded() {
    let aimed = |operand: u64| {
        on_cpu_0(move |spaces| {
            spaces.pte.store(0, Relaxed);
            Insn.dsb(Dsb::Ishst);
            let range = operand >> 46 & 0b11 == 1 && operand >> 39 & 0x1f != 0;
            let op = if range { TlbiOp::Rva } else { TlbiOp::Va };
            Insn.tlbi(Tlbi { op, scope: IS, operand });
            Insn.dsb(Dsb::Ish);
            oracle::revoked(spaces.a, VA);
        })
    };
    let page = VA >> 12;
    aimed(ASID << 48 | page).holds();
    aimed(ASID << 48 | (page + 1)).breaks(Rule::StaleTranslation);
    aimed(ASID_B << 48 | page).breaks(Rule::StaleTranslation);
    // A hint at the last level, and a wrong one.
    aimed(ASID << 48 | 0b0111 << 44 | page).holds();
    aimed(ASID << 48 | 0b0110 << 44 | page).breaks(Rule::StaleTranslation);
    // Four pages from page 2 on, and four from page 6 on.
    aimed(ASID << 48 | 1 << 46 | 1 << 39 | 2).holds();
    aimed(ASID << 48 | 1 << 46 | 1 << 39 | 6).breaks(Rule::StaleTranslation);
    // A granule of 16 KiB names nothing here.
    aimed(ASID << 48 | 2 << 46 | 1 << 39 | 2).breaks(Rule::StaleTranslation);
}

/// Frees the last table of `a` after an invalidation of the given form.
fn free_table(op: TlbiOp) -> Programs<Spaces> {
    on_cpu_0(move |spaces| {
        spaces.parent.store(0, Relaxed);
        Insn.dsb(Dsb::Ishst);
        tlbi(op, IS);
        Insn.dsb(Dsb::Ish);
        oracle::table_freed(spaces.last);
    })
}

#[test]
fn a4_last_level_forms_keep_partial_walks() {
    for op in [TlbiOp::Va, TlbiOp::Vaa, TlbiOp::Aside, TlbiOp::Vmall, TlbiOp::Rva] {
        free_table(op).holds();
    }
    for op in [TlbiOp::Val, TlbiOp::Vaal, TlbiOp::Rval] {
        free_table(op).breaks(Rule::FreedFrame);
    }
}

#[test]
fn a4_globals_go_by_address_and_stay_by_asid() {
    let global = |op: TlbiOp| {
        programs(
            Config::arm(2),
            || {
                let spaces = running(0);
                tables::map(spaces.a, VA, PAGE, Access::GLOBAL);
                spaces
            },
            move |spaces: &Spaces, cpu| {
                if cpu == 0 {
                    spaces.pte.store(0, Relaxed);
                    Insn.dsb(Dsb::Ishst);
                    // For a global entry the ASID of the operand does not matter.
                    let operand = ASID_B << 48 | VA >> 12;
                    Insn.tlbi(Tlbi { op, scope: IS, operand });
                    // The page that was mapped first was cached, too.
                    tlbi(TlbiOp::Aside, IS);
                    Insn.dsb(Dsb::Ish);
                    oracle::revoked(spaces.a, VA);
                }
            },
        )
    };
    global(TlbiOp::Va).holds();
    global(TlbiOp::Vaal).holds();
    global(TlbiOp::Aside).breaks(Rule::StaleTranslation);
}

/// CPU 0 issues, hands over to CPU 1, and CPU 1 completes and claims.
fn handed_over(issuer_completes: bool) -> Programs<Spaces> {
    programs(
        Config::arm(2),
        || running(0),
        move |spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(0, Relaxed);
                Insn.dsb(Dsb::Ishst);
                tlbi(TlbiOp::Va, IS);
                if issuer_completes {
                    Insn.dsb(Dsb::Ish);
                }
                spaces.flags[0].store(1, Release);
            } else {
                while spaces.flags[0].load(Acquire) == 0 {
                    relax();
                }
                // One of its own, so that there is something to complete.
                Insn.tlbi(Tlbi { op: TlbiOp::Aside, scope: IS, operand: ASID_B << 48 });
                Insn.dsb(Dsb::Ish);
                oracle::revoked(spaces.a, VA);
            }
        },
    )
}

#[test]
fn a6_a_dsb_completes_only_what_its_own_cpu_issued() {
    handed_over(true).holds();
    handed_over(false).breaks(Rule::StaleTranslation);
}

#[test]
fn a2_an_old_root_lives_until_the_isb() {
    // The CPU leaves `a` for `b`, invalidates `a` and gives its root back.
    let leave = |isb: bool| {
        programs(Config::arm(1), leave_world, move |spaces: &Spaces, _| {
            Insn.write_ttbr0(ttbr(spaces.b, ASID_B));
            if isb {
                Insn.isb();
            }
            tlbi(TlbiOp::Aside, Scope::Local);
            Insn.dsb(Dsb::Nsh);
            oracle::table_freed(spaces.a);
        })
    };
    leave(true).holds();
    leave(false).breaks(Rule::FreedFrame);
}

fn leave_world() -> Spaces {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, VA, PAGE, Access::READ);
    tables::map(b, VA, Frame(8), Access::READ);
    Insn.write_ttbr0(ttbr(a, ASID));
    Insn.isb();
    let parent = tables::entry(a, VA, 1);
    Spaces {
        a,
        b,
        reserved: tables::allocate_reserved(),
        pte: tables::pte(a, VA),
        parent,
        last: Frame::holding(parent.peek() & !0xfff),
        flags: [Word::ZERO, Word::ZERO],
    }
}

/// The CPU goes from `a` to `b` under the same ASID.
fn recycle(reserved: bool, isb: bool, flush: bool) -> Programs<Spaces> {
    programs(Config::arm(1), leave_world, move |spaces: &Spaces, _| {
        if reserved {
            Insn.write_ttbr0(ttbr(spaces.reserved, 0));
            if isb {
                Insn.isb();
            }
        }
        if flush {
            tlbi(TlbiOp::Aside, Scope::Local);
            Insn.dsb(Dsb::Nsh);
        }
        Insn.write_ttbr0(ttbr(spaces.b, ASID));
        Insn.isb();
    })
}

#[test]
fn one_asid_under_two_roots_is_found() {
    recycle(true, true, true).holds();
    recycle(true, true, false).breaks(Rule::TagNamesTwoSpaces);
    // Without the ISB, walks from the old root go on behind the invalidation.
    recycle(true, false, true).breaks(Rule::TagNamesTwoSpaces);
    recycle(false, false, true).breaks(Rule::TagNamesTwoSpaces);
}

#[test]
fn a2_asid_and_root_in_two_registers_combine() {
    // TCR.A1 = 1: the ASID is that of TTBR1.
    let switch = |careful: bool| {
        let build = || {
            let spaces = leave_world();
            Insn.write_tcr(1 << 36 | 1 << 22);
            Insn.write_ttbr1(ASID << 48);
            Insn.isb();
            spaces
        };
        programs(Config::arm(1), build, move |spaces: &Spaces, _| {
            if careful {
                Insn.write_ttbr0(spaces.reserved.address());
                Insn.isb();
            }
            Insn.write_ttbr1(ASID_B << 48);
            if careful {
                Insn.isb();
            }
            Insn.write_ttbr0(spaces.b.address());
            Insn.isb();
        })
    };
    switch(true).holds();
    switch(false).breaks(Rule::TagNamesTwoSpaces);
}

#[test]
fn walks_stop_with_epd0() {
    let parked = |isb: bool| {
        programs(Config::arm(1), leave_world, move |spaces: &Spaces, _| {
            Insn.write_tcr(1 << 36 | 1 << 7);
            if isb {
                Insn.isb();
            }
            tlbi(TlbiOp::Aside, Scope::Local);
            Insn.dsb(Dsb::Nsh);
            // Nothing walks now, so the page may change without an invalidation.
            spaces.pte.store(tables::page(Frame(9), Access::READ), Relaxed);
            Insn.dsb(Dsb::Ishst);
            oracle::revoked(spaces.a, VA);
        })
    };
    parked(true).holds();
    parked(false).breaks(Rule::StaleTranslation);
}

/// CPU 0 unmaps, invalidates on itself only, and claims.
fn shared(cnp: bool) -> Programs<Spaces> {
    let config = if cnp { Config::arm(2).with_cnp() } else { Config::arm(2) };
    let build = || {
        let spaces = running(1);
        // CPU 1 has left `a` (it keeps what it has cached), so that it must flush on switch-in.
        as_cpu(CpuId(1), || {
            Insn.write_ttbr0(ttbr(spaces.b, ASID_B) | 1);
            Insn.isb();
        });
        spaces
    };
    programs(config, build, |spaces: &Spaces, cpu| {
        if cpu == 0 {
            spaces.pte.store(0, Relaxed);
            Insn.dsb(Dsb::Nshst);
            tlbi(TlbiOp::Va, Scope::Local);
            Insn.dsb(Dsb::Nsh);
            oracle::revoked(spaces.a, VA);
        }
    })
}

#[test]
fn a17_with_cnp_the_entries_of_other_cpus_come_back() {
    shared(false).holds();
    shared(true).breaks(Rule::StaleTranslation);
}

#[test]
fn a17_with_cnp_a_cpu_keeps_what_it_hit_in_the_entries_of_another() {
    // CPU 1 comes to `a` when the page is gone from the tables, and not yet from the TLB of CPU 0.
    let copied = |config: Config| {
        let build = || {
            let spaces = running(1);
            as_cpu(CpuId(1), || {
                Insn.write_ttbr0(ttbr(spaces.b, ASID_B) | 1);
                Insn.isb();
                tlbi(TlbiOp::Vmall, Scope::Local);
                Insn.dsb(Dsb::Nsh);
            });
            spaces
        };
        programs(config, build, |spaces: &Spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(0, Relaxed);
                Insn.dsb(Dsb::Ishst);
                spaces.flags[0].store(1, Relaxed);
                while spaces.flags[1].load(Acquire) == 0 {
                    relax();
                }
                tlbi(TlbiOp::Va, Scope::Local);
                Insn.dsb(Dsb::Nsh);
                oracle::revoked(spaces.a, VA);
            } else {
                while spaces.flags[0].load(Acquire) == 0 {
                    relax();
                }
                Insn.write_ttbr0(ttbr(spaces.a, ASID) | 1);
                Insn.isb();
                Insn.dsb(Dsb::Ish);
                spaces.flags[1].store(1, Relaxed);
            }
        })
    };
    copied(Config::arm(2)).holds();
    copied(Config::arm(2).with_cnp()).breaks(Rule::StaleTranslation);
}

#[test]
fn a17_with_cnp_an_asid_means_one_space_everywhere() {
    // CPU 1 begins to run `b` under the ASID that CPU 0 runs `a` under.
    let clash = |config: Config| {
        let build = || {
            let spaces = running(1);
            as_cpu(CpuId(1), || {
                Insn.write_ttbr0(ttbr(spaces.reserved, 0) | 1);
                Insn.isb();
                tlbi(TlbiOp::Vmall, Scope::Local);
                Insn.dsb(Dsb::Nsh);
            });
            spaces
        };
        programs(config, build, |spaces: &Spaces, cpu| {
            if cpu == 1 {
                Insn.write_ttbr0(ttbr(spaces.b, ASID) | 1);
                Insn.isb();
            }
        })
    };
    clash(Config::arm(2)).holds();
    clash(Config::arm(2).with_cnp()).breaks(Rule::TagNamesTwoSpaces);
}

#[test]
fn a_doomed_entry_that_is_mapped_again_is_kept() {
    // Between the TLBI and the DSB that completes it.
    let again = programs(
        Config::arm(2),
        || running(0),
        |spaces, cpu| {
            if cpu == 0 {
                let old = spaces.pte.swap(0, Relaxed);
                Insn.dsb(Dsb::Ishst);
                tlbi(TlbiOp::Va, IS);
                spaces.pte.store(old, Relaxed);
                Insn.dsb(Dsb::Ishst);
                Insn.dsb(Dsb::Ish);
                let seen = access(VA);
                oracle::check(seen == Some(PAGE), "the page is mapped");
            }
        },
    );
    again.holds();
}

#[test]
fn a1_an_access_may_use_any_translation_until_it_is_gone() {
    let remap = |revoke: bool| {
        reading_on_cpu_0(move |spaces| {
            spaces.pte.store(tables::page(Frame(9), Access::READ), Relaxed);
            Insn.dsb(Dsb::Ishst);
            if revoke {
                tlbi(TlbiOp::Va, IS);
                Insn.dsb(Dsb::Ish);
                Insn.isb();
            }
            let seen = access(VA).map_or(0, |frame| frame.0);
            spaces.flags[0].store(seen, Relaxed);
        })
        .finish(|spaces| outcome(spaces.flags[0].peek()))
        .holds()
        .outcomes
    };
    assert_eq!(remap(false).into_iter().collect::<Vec<_>>(), [7, 9]);
    assert_eq!(remap(true).into_iter().collect::<Vec<_>>(), [9]);
}

#[test]
fn a8_ones_own_accesses_need_an_isb_too() {
    let own = |config: Config, isb: bool| {
        programs(
            config,
            || running(0),
            move |spaces: &Spaces, cpu| {
                if cpu == 0 {
                    spaces.pte.store(0, Relaxed);
                    Insn.dsb(Dsb::Ishst);
                    tlbi(TlbiOp::Va, IS);
                    Insn.dsb(Dsb::Ish);
                    if isb {
                        Insn.isb();
                    }
                    oracle::check(access(VA).is_none(), "the page is gone");
                }
            },
        )
    };
    own(Config::arm(2), true).holds();
    own(Config::arm(2), false).breaks(Rule::Assertion);
    own(Config::arm(2).with_ets2(), false).holds();
}

#[test]
fn a7_completion_waits_for_accesses_in_flight() {
    // CPU 1 stores through the translation; CPU 0 revokes it and gives the frame back. CPU 1 does
    // nothing about its store buffer: the DSB of CPU 0 waits for it.
    let race = programs(
        Config::arm(2),
        || running(0),
        |spaces: &Spaces, cpu| {
            if cpu == 1 {
                access_store(VA, 1);
                return;
            }
            spaces.pte.store(0, Relaxed);
            Insn.dsb(Dsb::Ishst);
            tlbi(TlbiOp::Va, IS);
            Insn.dsb(Dsb::Ish);
            oracle::frame_freed(PAGE);
        },
    );
    let race = race.finish(|_| outcome(tables::contents(PAGE).peek()));
    assert_eq!(race.holds().outcomes.into_iter().collect::<Vec<_>>(), [0, 1]);
    // It does not wait for a store through another address.
    let other = programs(
        Config::arm(2),
        || {
            let spaces = running(0);
            tables::map(spaces.a, VA + 0x1000, PAGE, Access::WRITE);
            spaces
        },
        |spaces: &Spaces, cpu| {
            if cpu == 1 {
                access_store(VA + 0x1000, 1);
                spaces.flags[0].store(1, Relaxed);
                return;
            }
            while spaces.flags[0].load(Acquire) == 0 {
                relax();
            }
            for page in 0..2 {
                let pte = tables::pte(spaces.a, VA + page * 0x1000);
                pte.store(0, Relaxed);
            }
            Insn.dsb(Dsb::Ishst);
            tlbi(TlbiOp::Va, IS);
            Insn.dsb(Dsb::Ish);
            let reached = tables::contents(PAGE).load(Relaxed);
            spaces.flags[1].store(reached, Relaxed);
        },
    )
    .finish(|spaces| outcome(spaces.flags[1].peek()));
    assert_eq!(other.holds().outcomes.into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn walks_from_a_doomed_partial_walk_are_doomed_if_named() {
    // The table is unhooked; between the TLBI and the DSB one of its words is written.
    let late = |offset: u64| {
        reading_on_cpu_0(move |spaces| {
            let slot = tables::word(spaces.last, ((VA + offset) >> 12) as usize);
            spaces.parent.store(0, Relaxed);
            Insn.dsb(Dsb::Ishst);
            tlbi(TlbiOp::Va, IS);
            slot.store(tables::page(Frame(9), Access::READ), Relaxed);
            Insn.dsb(Dsb::Ishst);
            Insn.dsb(Dsb::Ish);
            oracle::frame_freed(Frame(9));
        })
    };
    late(0).holds();
    // The TLBI names another page: what was walked behind its back stays.
    late(0x1000).breaks(Rule::FreedFrame);
}

#[test]
fn a_dsb_with_something_to_complete_is_a_choice() {
    // CPU 1 sees that the TLBI has been issued, and can still use the translation.
    let between = programs(
        Config::arm(2),
        || running(0),
        |spaces: &Spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(0, Relaxed);
                Insn.dsb(Dsb::Ishst);
                tlbi(TlbiOp::Va, IS);
                spaces.flags[0].swap(1, Relaxed);
                Insn.dsb(Dsb::Ish);
            } else {
                let issued = spaces.flags[0].load(Relaxed);
                let seen = access(VA).map_or(0, |frame| frame.0);
                spaces.flags[1].store(issued << 4 | seen, Relaxed);
            }
        },
    )
    .finish(|spaces| outcome(spaces.flags[1].peek()));
    let outcomes = between.holds().outcomes;
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [0x00, 0x07, 0x10, 0x17]);
}

#[test]
fn a17_a_mapping_that_appears_later_is_found_on_the_other_cpu() {
    // Two empty spaces under one ASID; then one of them maps a page.
    let later = |config: Config| {
        let build = || {
            let roots = [tables::allocate(), tables::allocate()];
            for (cpu, root) in roots.into_iter().enumerate() {
                as_cpu(CpuId(cpu as u32), || {
                    Insn.write_ttbr0(ttbr(root, ASID) | 1);
                    Insn.isb();
                });
            }
            tables::word(roots[0], 5)
        };
        programs(config.with_levels(1), build, |pte: &&'static Word, cpu| {
            if cpu == 0 {
                pte.store(tables::page(PAGE, Access::WRITE), Relaxed);
            }
        })
    };
    later(Config::arm(2)).holds();
    later(Config::arm(2).with_cnp()).breaks(Rule::TagNamesTwoSpaces);
}
