//! x86: each rule of invalidation, shown to matter. The numbers X2 to X14 are those of the rules in
//! the documentation of the adversary.

use crate::common::{Programs, programs};
use lookaside::{
    arch::x86_64::{Instructions, Invpcid},
    platform::{
        CpuId,
        Ordering::{Relaxed, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Rule, Word, as_cpu, interrupt, oracle, relax, tables, x86::Insn,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);
const KEEP: u64 = 1 << 63;
const A: u64 = 1;
const B: u64 = 2;

struct Spaces {
    a: Frame,
    b: Frame,
    pte: &'static Word,
    parent: &'static Word,
    last: Frame,
    done: Word,
}

/// `a` maps a page, `b` another at the same address; every CPU runs `a` under PCID 1.
fn running(access: Access) -> Spaces {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, VA, PAGE, access);
    tables::map(b, VA, Frame(8), Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || Insn.write_cr3(a.address() | A));
    }
    let parent = tables::entry(a, VA, 1);
    Spaces {
        a,
        b,
        pte: tables::pte(a, VA),
        parent,
        last: Frame::holding(parent.peek() & !0xfff),
        done: Word::ZERO,
    }
}

fn to(root: Frame, pcid: u64, keep: u64) {
    Insn.write_cr3(root.address() | pcid | keep);
}

/// CPU 0 executes `run`; CPU 1 runs `b` and has nothing of `a`.
fn alone(access: Access, run: impl Fn(&Spaces) + 'static) -> Programs<Spaces> {
    let build = move || {
        let spaces = running(access);
        as_cpu(CpuId(1), || {
            Insn.invpcid(Invpcid::All, [0, 0]);
            to(spaces.b, B, 0);
            Insn.invpcid(Invpcid::All, [0, 0]);
        });
        spaces
    };
    programs(Config::x86(2), build, move |spaces: &Spaces, cpu| {
        if cpu == 0 {
            run(spaces);
        }
    })
}

/// CPU 0 clears the descriptor of the page, invalidates, and claims.
fn unmap(access: Access, invalidate: impl Fn() + 'static) -> Programs<Spaces> {
    alone(access, move |spaces| {
        spaces.pte.store(0, Relaxed);
        invalidate();
        oracle::revoked(spaces.a, VA);
        oracle::frame_freed(PAGE);
    })
}

#[test]
fn x5_invlpg_waits_for_the_store_and_drops_the_page() {
    unmap(Access::WRITE, || Insn.invlpg(VA)).holds();
    unmap(Access::WRITE, || Insn.invlpg(VA + 0x1000)).breaks(Rule::StaleTranslation);
    unmap(Access::WRITE, || ()).breaks(Rule::StaleTranslation);
}

#[test]
fn x12_a_store_in_the_buffer_is_not_a_revocation() {
    // Nobody has the space loaded: nothing to invalidate, but the store must be out.
    let nobody = |fence: bool| {
        alone(Access::WRITE, move |spaces| {
            to(spaces.b, B, 0);
            Insn.invpcid(Invpcid::Context, [A, 0]);
            spaces.pte.store(0, Relaxed);
            if fence {
                Word::fence(SeqCst);
            }
            oracle::revoked(spaces.a, VA);
        })
    };
    nobody(true).holds();
    nobody(false).breaks(Rule::StaleTranslation);
}

#[test]
fn x5_x8_invlpg_drops_globals_of_every_pcid() {
    unmap(Access::GLOBAL, || Insn.invlpg(VA)).holds();
}

#[test]
fn x6_the_types_of_invpcid() {
    let by = |access: Access, kind: Invpcid, pcid: u64, va: u64| {
        unmap(access, move || {
            Insn.mfence();
            Insn.invpcid(kind, [pcid, va]);
        })
    };
    by(Access::WRITE, Invpcid::Address, A, VA).holds();
    by(Access::WRITE, Invpcid::Address, B, VA).breaks(Rule::StaleTranslation);
    by(Access::WRITE, Invpcid::Address, A, 0).breaks(Rule::StaleTranslation);
    by(Access::WRITE, Invpcid::Context, A, 0).holds();
    by(Access::WRITE, Invpcid::Context, B, 0).breaks(Rule::StaleTranslation);
    by(Access::WRITE, Invpcid::All, 0, 0).holds();
    by(Access::WRITE, Invpcid::AllButGlobal, 0, 0).holds();
    by(Access::GLOBAL, Invpcid::Address, A, VA).breaks(Rule::StaleTranslation);
    by(Access::GLOBAL, Invpcid::Context, A, 0).breaks(Rule::StaleTranslation);
    by(Access::GLOBAL, Invpcid::AllButGlobal, 0, 0).breaks(Rule::StaleTranslation);
    by(Access::GLOBAL, Invpcid::All, 0, 0).holds();
}

#[test]
fn x6_x12_invpcid_does_not_wait_for_the_store() {
    for kind in [Invpcid::Address, Invpcid::Context, Invpcid::All, Invpcid::AllButGlobal] {
        let pcid = if matches!(kind, Invpcid::Address | Invpcid::Context) { A } else { 0 };
        let by = |fence: bool| {
            unmap(Access::WRITE, move || {
                if fence {
                    Insn.mfence();
                }
                Insn.invpcid(kind, [pcid, VA]);
                Insn.mfence();
            })
        };
        by(true).holds();
        by(false).breaks(Rule::StaleTranslation);
    }
}

#[test]
fn x5_x6_x7_x14_what_hardware_faults_on_is_found() {
    let faults = |run: fn(&Spaces)| alone(Access::WRITE, run).breaks(Rule::ProtectionFault);
    let fine = |run: fn(&Spaces)| alone(Access::WRITE, run).holds();
    const PCIDE: u64 = 1 << 17;
    const PGE: u64 = 1 << 7;
    // Bit 63 asks for something only PCIDs have.
    fine(|spaces| to(spaces.b, B, KEEP));
    faults(|spaces| {
        Insn.write_cr4(PGE);
        to(spaces.b, 0, KEEP);
    });
    // Bits of CR3 above the widest physical address.
    faults(|spaces| to(spaces.b, B, 1 << 52));
    // PCIDs are switched on under PCID 0 only.
    fine(|spaces| {
        to(spaces.a, 0, 0);
        Insn.write_cr4(PGE);
        Insn.write_cr4(PGE | PCIDE);
    });
    faults(|_| {
        Insn.write_cr4(PGE);
        Insn.write_cr4(PGE | PCIDE);
    });
    faults(|_| Insn.write_cr4(PGE | PCIDE | 1 << 15));
    // A descriptor of INVPCID, of each type.
    fine(|_| Insn.invpcid(Invpcid::Address, [A, VA]));
    faults(|_| Insn.invpcid(Invpcid::All, [1 << 12, 0]));
    faults(|_| Insn.invpcid(Invpcid::Address, [A, 1 << 47]));
    fine(|_| Insn.invpcid(Invpcid::Context, [A, 1 << 47]));
    let off = |spaces: &Spaces| {
        to(spaces.a, 0, 0);
        Insn.write_cr4(PGE);
    };
    alone(Access::WRITE, move |spaces| {
        off(spaces);
        Insn.invpcid(Invpcid::Context, [A, 0]);
    })
    .breaks(Rule::ProtectionFault);
    alone(Access::WRITE, move |spaces| {
        off(spaces);
        Insn.invpcid(Invpcid::Context, [0, 0]);
        Insn.invpcid(Invpcid::All, [A, 0]);
    })
    .holds();
    // INVLPG of an address that is not canonical does nothing; INVLPGB faults.
    fine(|_| Insn.invlpg(VA | 1 << 47));
    unmap(Access::WRITE, || Insn.invlpg(VA | 1 << 47)).breaks(Rule::StaleTranslation);
    faults(|_| Insn.invlpgb(VA | 1 << 47 | 1, 0, 0));
    faults(|_| Insn.invlpgb(VA | 1, 1 << 16, 0));
    alone(Access::WRITE, move |spaces| {
        off(spaces);
        Insn.invlpgb(VA | 0b11, 0, (A as u32) << 16);
    })
    .breaks(Rule::ProtectionFault);
}

#[test]
fn x7_writes_of_control_registers() {
    let cr4 = 1 << 17 | 1 << 7;
    // Without PGE a page marked global is an ordinary one.
    let toggle = move || {
        Insn.write_cr4(cr4 & !(1 << 7));
        Insn.write_cr4(cr4);
    };
    unmap(Access::GLOBAL, toggle).holds();
    let reload = |access: Access, value: u64| {
        alone(access, move |spaces| {
            spaces.pte.store(0, Relaxed);
            Insn.write_cr3(spaces.a.address() | value);
            oracle::revoked(spaces.a, VA);
        })
    };
    reload(Access::WRITE, A).holds();
    reload(Access::WRITE, A | KEEP).breaks(Rule::StaleTranslation);
    reload(Access::GLOBAL, A).breaks(Rule::StaleTranslation);
}

#[test]
fn x7_other_pcids_stay_and_bit_63_brings_them_back() {
    // CPU 0 leaves `a`, the page goes, and it comes back.
    let back = |keep: u64, flush: bool| {
        alone(Access::WRITE, move |spaces| {
            to(spaces.b, B, 0);
            spaces.pte.store(0, Relaxed);
            Word::fence(SeqCst);
            Insn.invlpg(VA); // of the current PCID only
            oracle::revoked(spaces.a, VA);
            if flush {
                Insn.invpcid(Invpcid::Context, [A, 0]);
            }
            to(spaces.a, A, keep);
        })
    };
    back(0, false).holds();
    back(KEEP, true).holds();
    back(KEEP, false).breaks(Rule::StaleTranslation);
}

#[test]
fn one_pcid_under_two_roots_is_found() {
    let recycle = |keep: u64| alone(Access::WRITE, move |spaces| to(spaces.b, A, keep));
    recycle(0).holds();
    recycle(KEEP).breaks(Rule::TagNamesTwoSpaces);
}

#[test]
fn x2_partial_walks_outlive_the_tables() {
    // The last table is given back; what is invalidated leads elsewhere.
    let free = |invalidate: fn()| {
        alone(Access::WRITE, move |spaces| {
            spaces.parent.store(0, Relaxed);
            invalidate();
            oracle::table_freed(spaces.last);
        })
    };
    free(|| Word::fence(SeqCst)).breaks(Rule::FreedFrame);
    // INVLPG drops every partial walk of the PCID, whatever the address.
    free(|| Insn.invlpg(0xf_f000)).holds();
    // Of INVPCID of one address the manual says only that mappings of the address go: partial walks may stay.
    let after = |kind: Invpcid, address: u64| {
        alone(Access::WRITE, move |spaces| {
            spaces.parent.store(0, SeqCst);
            Insn.invpcid(kind, [A, address]);
            oracle::table_freed(spaces.last);
        })
    };
    after(Invpcid::Address, VA).breaks(Rule::FreedFrame);
    after(Invpcid::Context, 0).holds();
}

#[test]
fn x2_a_stale_partial_walk_meets_a_fresh_descriptor() {
    // The table is unhooked, not invalidated, and its word is written for another use.
    let mixed = alone(Access::WRITE, |spaces| {
        spaces.parent.store(0, SeqCst);
        spaces.pte.store(tables::page(Frame(9), Access::WRITE), SeqCst);
        let seen = lookaside_machine::adversary::access(VA);
        oracle::check(seen != Some(Frame(9)), "the new use of the table is walked");
    });
    mixed.breaks(Rule::Assertion);
}

/// CPU 0 unmaps with broadcasts while both CPUs run `a`.
fn broadcast(rax: u64, edx: u32, sync_on: usize, fence: bool) -> Programs<Spaces> {
    programs(
        Config::x86(2),
        || running(Access::WRITE),
        move |spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(0, Relaxed);
                if fence {
                    Word::fence(SeqCst);
                }
                Insn.invlpgb(rax, 0, edx);
                if sync_on == 0 {
                    Insn.tlbsync();
                    oracle::revoked(spaces.a, VA);
                }
                spaces.done.store(1, Relaxed);
            } else if sync_on == 1 {
                while spaces.done.load(Relaxed) == 0 {
                    relax();
                }
                Insn.tlbsync();
                oracle::revoked(spaces.a, VA);
            }
        },
    )
}

#[test]
fn x14_invlpgb_is_completed_by_tlbsync_on_the_same_cpu() {
    let page = VA | 0b011;
    let pcid = (A as u32) << 16;
    broadcast(page, pcid, 0, true).holds();
    broadcast(0b010, pcid, 0, true).holds();
    broadcast(page, pcid, 1, true).breaks(Rule::StaleTranslation);
    broadcast(page, pcid, 0, false).breaks(Rule::StaleTranslation);
    broadcast(page, (B as u32) << 16, 0, true).breaks(Rule::StaleTranslation);
}

#[test]
fn x14_invlpgb_spares_globals_unless_told() {
    let global = |rax: u64| {
        alone(Access::GLOBAL, move |spaces| {
            spaces.pte.store(0, SeqCst);
            Insn.invlpgb(rax, 0, (A as u32) << 16);
            Insn.tlbsync();
            oracle::revoked(spaces.a, VA);
        })
    };
    global(VA | 0b1011).holds();
    global(0b1000).holds();
    global(VA | 0b0011).breaks(Rule::StaleTranslation);
}

#[test]
fn x14_a_large_stride_names_one_address_in_each_large_page() {
    // A large page is one of the level above the last: sixteen pages on this machine.
    const STRIDE: u32 = 1 << 31;
    let by = |first: u64, ecx: u32| {
        alone(Access::WRITE, move |spaces| {
            spaces.pte.store(0, SeqCst);
            Insn.invlpgb(first | 0b011, ecx, (A as u32) << 16);
            Insn.tlbsync();
            oracle::revoked(spaces.a, VA);
        })
    };
    by(0, 5).holds();
    by(VA, STRIDE | 1).holds();
    // The small page lies between the first address and the second.
    by(0, STRIDE | 1).breaks(Rule::StaleTranslation);
}

#[test]
fn x14_final_only_keeps_partial_walks() {
    let free = |rax: u64| {
        programs(
            Config::x86(2),
            || running(Access::WRITE),
            move |spaces: &Spaces, cpu| {
                if cpu == 0 {
                    spaces.parent.store(0, SeqCst);
                    Insn.invlpgb(rax, 0, (A as u32) << 16);
                    Insn.tlbsync();
                    oracle::table_freed(spaces.last);
                }
            },
        )
    };
    free(VA | 0b0_0011).holds();
    free(VA | 0b1_0011).breaks(Rule::FreedFrame);
}

/// The whole shootdown: interrupt, invalidate there, acknowledge, claim.
fn shootdown(acknowledge_first: bool, wait: bool) -> Programs<Spaces> {
    programs(
        Config::x86(2),
        || running(Access::WRITE),
        move |spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(0, Relaxed);
                interrupt(0b10);
                Insn.invlpg(VA);
                while wait && spaces.done.load(Relaxed) == 0 {
                    relax();
                }
                oracle::revoked(spaces.a, VA);
            }
        },
    )
    .interrupt(move |spaces, _| {
        if acknowledge_first {
            spaces.done.store(1, SeqCst);
        }
        Insn.invlpg(VA);
        spaces.done.store(1, Relaxed);
    })
}

#[test]
fn x13_a_shootdown_by_interrupt() {
    shootdown(false, true).holds();
    shootdown(false, false).breaks(Rule::StaleTranslation);
    shootdown(true, true).breaks(Rule::StaleTranslation);
}

#[test]
fn a_root_that_is_used_again_is_another_space() {
    let again = |keep: u64| {
        alone(Access::WRITE, move |spaces| {
            to(spaces.b, B, 0);
            oracle::table_freed(spaces.a);
            oracle::frame_allocated(spaces.a);
            to(spaces.a, A, keep);
        })
    };
    again(0).holds();
    again(KEEP).breaks(Rule::TagNamesTwoSpaces);
}

#[test]
fn a_revoked_translation_that_is_made_again_is_a_new_one() {
    let again = |frame: u64| {
        alone(Access::WRITE, move |spaces| {
            to(spaces.b, B, 0);
            spaces.pte.store(0, SeqCst);
            oracle::revoked(spaces.a, VA);
            spaces.pte.store(tables::page(Frame(frame), Access::WRITE), SeqCst);
            to(spaces.a, A, KEEP);
        })
    };
    again(PAGE.0).holds();
    again(9).breaks(Rule::StaleTranslation);
}
