//! RISC-V: each rule of invalidation, shown to matter. The numbers R3 to R8 are those of the rules
//! in the documentation of the adversary.

use crate::common::{Programs, programs};
use lookaside::{
    arch::riscv64::Instructions,
    platform::{
        CpuId,
        Ordering::{self, Acquire, Relaxed, Release, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Rule, Word, access_store, as_cpu, oracle, relax, riscv::Insn, tables,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);
const A: u16 = 1;
const B: u16 = 2;

struct Spaces {
    a: Frame,
    b: Frame,
    pte: &'static Word,
    parent: &'static Word,
    last: Frame,
}

fn satp(root: Frame, asid: u16) -> u64 {
    8 << 60 | u64::from(asid) << 44 | root.0
}

/// `a` maps a page, `b` another at the same address; every hart runs `a` under ASID 1.
fn running(access: Access) -> Spaces {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, VA, PAGE, access);
    tables::map(b, VA, Frame(8), Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || Insn.write_satp(satp(a, A)));
    }
    let parent = tables::entry(a, VA, 1);
    let last = Frame(parent.peek() >> 10);
    Spaces { a, b, pte: tables::pte(a, VA), parent, last }
}

/// Hart 0 executes `run`; hart 1 runs `b` and has nothing of `a`.
fn alone(access: Access, run: impl Fn(&Spaces) + 'static) -> Programs<Spaces> {
    let build = move || {
        let spaces = running(access);
        as_cpu(CpuId(1), || {
            Insn.write_satp(satp(spaces.b, B));
            Insn.sfence_vma(None, None);
        });
        spaces
    };
    programs(Config::riscv(2), build, move |spaces: &Spaces, cpu| {
        if cpu == 0 {
            run(spaces);
        }
    })
}

/// Hart 0 clears the descriptor of the page, fences, and claims.
fn unmap(access: Access, va: Option<u64>, asid: Option<u16>) -> Programs<Spaces> {
    alone(access, move |spaces| {
        spaces.pte.store(0, Relaxed);
        Insn.sfence_vma(va, asid);
        oracle::revoked(spaces.a, VA);
        oracle::frame_freed(PAGE);
    })
}

#[test]
fn r3_r4_what_a_fence_names() {
    for (va, asid) in [(None, None), (None, Some(A)), (Some(VA), None), (Some(VA), Some(A))] {
        unmap(Access::WRITE, va, asid).holds();
    }
    // Register x0 is not a register that holds zero.
    unmap(Access::WRITE, Some(0), None).breaks(Rule::StaleTranslation);
    unmap(Access::WRITE, None, Some(0)).breaks(Rule::StaleTranslation);
    unmap(Access::WRITE, None, Some(B)).breaks(Rule::StaleTranslation);
}

#[test]
fn r4_globals_survive_fences_of_an_asid() {
    unmap(Access::GLOBAL, None, None).holds();
    unmap(Access::GLOBAL, Some(VA), None).holds();
    unmap(Access::GLOBAL, None, Some(A)).breaks(Rule::StaleTranslation);
    unmap(Access::GLOBAL, Some(VA), Some(A)).breaks(Rule::StaleTranslation);
}

#[test]
fn r4_fences_of_an_address_keep_partial_walks() {
    let free = |va: Option<u64>, asid: Option<u16>| {
        alone(Access::WRITE, move |spaces| {
            spaces.parent.store(0, Relaxed);
            Insn.sfence_vma(va, asid);
            oracle::table_freed(spaces.last);
        })
    };
    free(None, None).holds();
    free(None, Some(A)).holds();
    free(Some(VA), None).breaks(Rule::FreedFrame);
    free(Some(VA), Some(A)).breaks(Rule::FreedFrame);
}

#[test]
fn r3_a_fence_is_local() {
    let both = programs(
        Config::riscv(2),
        || running(Access::WRITE),
        |spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(0, Relaxed);
                Insn.sfence_vma(None, None);
                oracle::revoked(spaces.a, VA);
            }
        },
    );
    both.breaks(Rule::StaleTranslation);
}

#[test]
fn r6_writing_satp_invalidates_nothing() {
    let recycle = |first: bool, then: bool| {
        alone(Access::WRITE, move |spaces| {
            if first {
                Insn.sfence_vma(None, Some(B));
            }
            Insn.write_satp(satp(spaces.b, B));
            if then {
                Insn.sfence_vma(None, None);
            }
            // Recycles ASID 2 for `a`, which still has entries of `b`.
            Insn.sfence_vma(None, Some(A));
            Insn.write_satp(satp(spaces.a, B));
        })
    };
    recycle(false, false).breaks(Rule::TagNamesTwoSpaces);
    recycle(true, true).breaks(Rule::TagNamesTwoSpaces);
    let parked = alone(Access::WRITE, |spaces| {
        Insn.write_satp(0);
        Insn.sfence_vma(None, Some(A));
        Insn.write_satp(satp(spaces.b, A));
    });
    parked.holds();
    let behind = alone(Access::WRITE, |spaces| {
        // Walks go on between the fence and the write.
        Insn.sfence_vma(None, Some(A));
        Insn.write_satp(satp(spaces.b, A));
    });
    behind.breaks(Rule::TagNamesTwoSpaces);
}

#[test]
fn r8_svinval_needs_both_ends() {
    let unmap = |begin: bool, end: bool| {
        alone(Access::WRITE, move |spaces| {
            spaces.pte.store(0, Relaxed);
            if begin {
                Insn.sfence_w_inval();
            }
            Insn.sinval_vma(Some(VA), Some(A));
            if end {
                Insn.sfence_inval_ir();
            }
            // What is asked is what the hart has cached, not where the store is.
            Insn.fence();
            oracle::revoked(spaces.a, VA);
        })
    };
    unmap(true, true).holds();
    unmap(false, true).breaks(Rule::StaleTranslation);
    unmap(true, false).breaks(Rule::StaleTranslation);
}

#[test]
fn r12_the_firmware_fences_other_harts() {
    let remote = |fence: bool, harts: u64, base: u64, start: u64, size: u64| {
        programs(
            Config::riscv(2),
            || running(Access::WRITE),
            move |spaces: &Spaces, cpu| {
                if cpu == 0 {
                    spaces.pte.store(0, Relaxed);
                    if fence {
                        Word::fence(SeqCst);
                    }
                    let result = Insn.remote_sfence_vma(harts, base, start, size, Some(A));
                    assert_eq!(result, Ok(()));
                    Insn.fence();
                    oracle::revoked(spaces.a, VA);
                }
            },
        )
    };
    remote(true, 0b11, 0, VA, 0x1000).holds();
    remote(true, 0, u64::MAX, 0, 0).holds();
    remote(true, 0b11, 0, 0, u64::MAX).holds();
    remote(true, 0b11, 0, VA - 0x1000, 0x2000).holds();
    remote(false, 0b11, 0, VA, 0x1000).breaks(Rule::StaleTranslation);
    remote(true, 0b01, 0, VA, 0x1000).breaks(Rule::StaleTranslation);
    remote(true, 0b01, 1, VA, 0x1000).breaks(Rule::StaleTranslation);
    remote(true, 0b11, 0, VA - 0x1000, 0x1000).breaks(Rule::StaleTranslation);
    remote(true, 0b111, 0, VA, 0x1000).breaks(Rule::Misuse);
}

#[test]
fn asid_bits_that_the_hart_lacks_read_as_zero() {
    let narrow = programs(
        Config::riscv(1).with_tag_bits(4),
        || (),
        |(), _| {
            Insn.write_satp(8 << 60 | 0xffff << 44);
            let kept = Insn.read_satp() >> 44 & 0xffff;
            oracle::check(kept == 0xf, "four bits are kept");
        },
    );
    narrow.holds();
}

#[test]
fn r12_the_acknowledgement_comes_after_the_accesses() {
    // Hart 1 stores to the page, fences on request and answers; the answer must not overtake.
    let answer = |order: Ordering| {
        let build = || (running(Access::WRITE), [Word::ZERO, Word::ZERO]);
        programs(Config::riscv(2), build, move |(spaces, [ask, done]), hart| {
            if hart == 0 {
                spaces.pte.store(0, Relaxed);
                Insn.sfence_vma(Some(VA), Some(A));
                Insn.fence();
                ask.store(1, Relaxed);
                while done.load(Acquire) == 0 {
                    relax();
                }
                oracle::frame_freed(PAGE);
            } else {
                access_store(VA, 1);
                while ask.load(Acquire) == 0 {
                    relax();
                }
                Insn.sfence_vma(Some(VA), Some(A));
                done.store(1, order);
            }
        })
    };
    answer(Release).holds();
    answer(Relaxed).breaks(Rule::FreedFrame);
}
