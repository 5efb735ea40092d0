//! CPUs that remember that nothing was mapped: RISC-V until a fence names the address (R2), Arm until the
//! context is synchronised (A9).

use crate::common::{Programs, programs};
use lookaside::{
    arch::{aarch64, riscv64::Instructions},
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Arch, Config, Frame, Rule, Word, access, arm, as_cpu, oracle, relax, riscv::Insn,
    tables,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);
const A: u16 = 1;
const B: u16 = 2;

struct Spaces {
    a: Frame,
    b: Frame,
    /// Of the page, in `a`.
    pte: &'static Word,
    /// What the parent of the table of `pte` holds, and where.
    parent: (&'static Word, u64),
    signalled: Word,
}

fn satp(root: Frame, asid: u16) -> u64 {
    8 << 60 | u64::from(asid) << 44 | root.0
}

/// Both CPUs run `a`, in which nothing is mapped at the address.
fn running(arch: Arch) -> Spaces {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, VA + 0x1000, Frame(6), Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || match arch {
            Arch::Riscv => Insn.write_satp(satp(a, A)),
            _ => {
                let value = a.address() | u64::from(A) << 48;
                aarch64::Instructions::write_ttbr0(&arm::Insn, value);
                aarch64::Instructions::isb(&arm::Insn);
            }
        });
    }
    let parent = tables::entry(a, VA, 1);
    let held = parent.peek();
    Spaces { a, b, pte: tables::pte(a, VA), parent: (parent, held), signalled: Word::ZERO }
}

fn small(config: Config) -> Config {
    config.with_levels(2)
}

fn remembers(config: Config) -> Config {
    small(config).with_invalid_entries()
}

/// CPU 0 maps the page and tells; CPU 1 waits for that and then does what it does.
fn mapped(config: Config, then: impl Fn(&Spaces) + 'static) -> Programs<Spaces> {
    let arch = config.arch;
    programs(
        config,
        move || running(arch),
        move |spaces: &Spaces, cpu| {
            if cpu == 0 {
                spaces.pte.store(tables::page(PAGE, Access::WRITE), Relaxed);
                spaces.signalled.store(1, Release);
            } else {
                while spaces.signalled.load(Acquire) == 0 {
                    relax();
                }
                then(spaces);
            }
        },
    )
}

/// User code that touches the page until it does not fault: nothing will change any more.
fn get_on(handler: impl Fn()) {
    while access(VA).is_none() {
        handler();
        if access(VA).is_some() {
            return;
        }
        relax();
    }
}

#[test]
fn r2_a_hart_that_ignores_a_spurious_fault_makes_no_progress() {
    mapped(small(Config::riscv(2)), |_| get_on(|| ())).holds();
    let ignored = mapped(remembers(Config::riscv(2)), |_| get_on(|| ()));
    ignored.breaks(Rule::NoProgress);
    let report = ignored.explorer().random(1, 200);
    assert_eq!(report.broken(), Rule::NoProgress);
}

#[test]
fn r2_a_fence_ends_it_if_it_names_the_address_and_the_space() {
    let fenced = |va: Option<u64>, asid: Option<u16>| {
        mapped(remembers(Config::riscv(2)), move |_| get_on(|| Insn.sfence_vma(va, asid)))
    };
    for (va, asid) in [(Some(VA), Some(A)), (Some(VA), None), (None, Some(A)), (None, None)] {
        fenced(va, asid).holds();
    }
    for (va, asid) in [(Some(VA + 0x1000), Some(A)), (Some(VA), Some(B)), (None, Some(B))] {
        fenced(va, asid).breaks(Rule::NoProgress);
    }
    // Before the page was mapped, it does not help.
    mapped(remembers(Config::riscv(2)), |_| ())
        .also(|_, cpu| {
            if cpu == 1 {
                oracle::check(access(VA).is_some(), "a fault, after all");
            }
        })
        .breaks(Rule::Assertion);
}

#[test]
fn r2_a_fence_on_another_hart_does_not() {
    let fenced_by = |hart: usize| {
        mapped(remembers(Config::riscv(2)), |_| ()).also(move |spaces, cpu| {
            if cpu == hart {
                // The page is mapped, and memory holds it.
                Word::fence(lookaside::platform::Ordering::SeqCst);
                Insn.sfence_vma(Some(VA), Some(A));
                spaces.signalled.store(2, Release);
            }
            if cpu == 1 {
                while spaces.signalled.load(Acquire) == 1 {
                    relax();
                }
                oracle::check(access(VA) == Some(PAGE), "a fault");
            }
        })
    };
    fenced_by(1).holds();
    fenced_by(0).breaks(Rule::Assertion);
}

#[test]
fn r2_it_is_remembered_under_the_tag_of_the_walk() {
    let away = |drop: bool| {
        mapped(remembers(Config::riscv(2)), move |spaces| {
            Insn.write_satp(satp(spaces.b, B));
            if drop {
                Insn.sfence_vma(None, Some(A));
            }
            oracle::check(access(VA).is_none(), "nothing is mapped in the other space");
            Insn.write_satp(satp(spaces.a, A));
            oracle::check(access(VA) == Some(PAGE), "a fault");
        })
    };
    away(true).holds();
    away(false).breaks(Rule::Assertion);
}

#[test]
fn r2_a_table_that_comes_later_is_found_after_a_fence_of_the_address() {
    let linked = |fence: bool| {
        let build = || {
            let spaces = running(Arch::Riscv);
            // The table is not linked yet, and harts have seen that.
            spaces.pte.store(tables::page(PAGE, Access::WRITE), Relaxed);
            spaces.parent.0.store(0, Relaxed);
            as_cpu(CpuId(1), || Insn.sfence_vma(None, None));
            spaces
        };
        mapped(remembers(Config::riscv(2)), |_| ()).building(build).also(move |spaces, cpu| {
            if cpu == 1 {
                spaces.parent.0.store(spaces.parent.1, Relaxed);
                if fence {
                    Insn.sfence_vma(Some(VA), Some(A));
                }
                oracle::check(access(VA) == Some(PAGE), "a fault");
            }
        })
    };
    linked(true).holds();
    linked(false).breaks(Rule::Assertion);
}

#[test]
fn r2_r8_a_delayed_invalidation_takes_effect_when_it_is_complete() {
    let invalidated = |complete: bool| {
        mapped(remembers(Config::riscv(2)), move |_| {
            Insn.sinval_vma(Some(VA), Some(A));
            if complete {
                Insn.sfence_inval_ir();
            }
            oracle::check(access(VA) == Some(PAGE), "a fault");
        })
    };
    invalidated(true).holds();
    invalidated(false).breaks(Rule::Assertion);
}

#[test]
fn r10_each_entry_of_a_block_is_remembered_by_itself() {
    let fenced = |va: u64| {
        let build = || {
            let spaces = running(Arch::Riscv);
            let leaf = tables::contiguous(tables::page(Frame(4), Access::WRITE));
            tables::pte(spaces.a, 0x4000).store(leaf, Relaxed);
            as_cpu(CpuId(1), || Insn.sfence_vma(None, None));
            spaces
        };
        programs(remembers(Config::riscv(2)), build, move |spaces: &Spaces, cpu| {
            if cpu == 1 {
                // The entry of the page is the last to say what its neighbour says of the whole block.
                spaces.pte.store(tables::pte(spaces.a, 0x4000).peek(), Relaxed);
                Insn.sfence_vma(Some(va), Some(A));
                oracle::check(access(VA) == Some(Frame(5)), "a fault");
            }
        })
    };
    fenced(VA).holds();
    fenced(0x4000).breaks(Rule::Assertion);
}

#[test]
fn a9_a_fault_may_be_late_and_does_not_come_twice() {
    let twice = |config: Config| {
        mapped(config, |_| {
            if access(VA).is_none() {
                oracle::check(access(VA) == Some(PAGE), "a fault that comes twice");
            }
        })
    };
    twice(remembers(Config::arm(2))).holds();
    twice(remembers(Config::riscv(2))).breaks(Rule::Assertion);
    // Once it does, unless the context was synchronised when the descriptor was in memory.
    let once = |isb: bool| {
        mapped(remembers(Config::arm(2)), move |_| {
            if isb {
                aarch64::Instructions::isb(&arm::Insn);
            }
            oracle::check(access(VA) == Some(PAGE), "a fault");
        })
    };
    once(true).holds();
    once(false).breaks(Rule::Assertion);
}

#[test]
#[should_panic(expected = "x86 does not remember")]
fn x86_does_not() {
    let _ = programs(remembers(Config::x86(1)), || (), |(), _| ()).explorer();
}
