//! Contiguous entries: walks through one serve all, hardware sets bits in any, and software that
//! looks at one loses what is in the others. A13, A15 and R10 are the rules in the documentation of
//! the adversary.

use crate::common::{Programs, programs};
use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
        riscv64::Instructions as _,
    },
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Arch, Bbm, Config, Flags, Frame, Rule, Updates, Word, access, access_store, arm,
    as_cpu, oracle, outcome, relax, riscv, tables,
};

/// A block of four pages.
const VA: u64 = 0x4000;
const FIRST: u64 = 8;
const PAGES: u64 = 4;

struct World {
    root: Frame,
    ptes: [&'static Word; 4],
    done: Word,
}

fn va(page: u64) -> u64 {
    VA + page * 0x1000
}

/// Both CPUs run a space with a block of pages that are accessed and clean.
fn world(arch: Arch) -> World {
    let root = tables::allocate();
    for page in 0..PAGES {
        tables::reach(root, va(page), 0);
    }
    let ptes = core::array::from_fn(|page| tables::pte(root, va(page as u64)));
    for (page, pte) in ptes.into_iter().enumerate() {
        let leaf = tables::page(Frame(FIRST + page as u64), Access::WRITE);
        pte.store(tables::contiguous(tables::with_flags(leaf, Flags::ACCESSED)), Relaxed);
        tables::hardware_writes(pte);
    }
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || match arch {
            Arch::Arm => {
                arm::Insn.write_ttbr0(root.address() | 3 << 48);
                arm::Insn.isb();
            }
            _ => riscv::Insn.write_satp(8 << 60 | 3 << 44 | root.0),
        });
    }
    World { root, ptes, done: Word::ZERO }
}

fn config(arch: Arch) -> Config {
    match arch {
        Arch::Arm => Config::arm(2),
        _ => Config::riscv(2),
    }
    .with_updates(Updates::Dirty)
}

const BOTH: [Arch; 2] = [Arch::Arm, Arch::Riscv];

fn two(
    config: Config,
    software: impl Fn(&World) + 'static,
    user: impl Fn(&World) + 'static,
) -> Programs<World> {
    let arch = config.arch;
    programs(
        config,
        move || world(arch),
        move |world: &World, cpu| if cpu == 0 { software(world) } else { user(world) },
    )
}

fn tlbi_page(page: u64) {
    let (op, scope) = (TlbiOp::Va, Scope::Broadcast);
    arm::Insn.tlbi(Tlbi { op, scope, operand: 3 << 48 | va(page) >> 12 });
}

fn flush() {
    arm::Insn.dsb(Dsb::Ishst);
    for page in 0..PAGES {
        tlbi_page(page);
    }
    arm::Insn.dsb(Dsb::Ish);
}

fn stores_to_page_1(_: &World) {
    access_store(va(1), 1);
}

/// Makes the block four pages that stand for themselves.
fn unfold(world: &World, atomically: bool, breaks: bool) {
    let mut found = Flags::NONE;
    for pte in world.ptes {
        let old = if atomically {
            pte.swap(0, Relaxed)
        } else {
            let old = pte.load(Relaxed);
            pte.store(0, Relaxed);
            old
        };
        found = found.union(tables::flags(old));
    }
    if breaks {
        flush();
    }
    for (page, pte) in world.ptes.into_iter().enumerate() {
        let leaf = tables::page(Frame(FIRST + page as u64), Access::WRITE);
        pte.store(tables::with_flags(leaf, found), Relaxed);
    }
    oracle::harvested(Frame(FIRST), PAGES, Flags::NONE);
}

#[test]
fn a14_a15_unfolding_loses_nothing_if_it_is_atomic() {
    let run = |atomically: bool| {
        let software = move |world: &World| unfold(world, atomically, true);
        two(config(Arch::Arm), software, stores_to_page_1)
    };
    run(true).holds();
    run(false).breaks(Rule::LostFlag);
}

#[test]
fn a10_unfolding_without_a_break() {
    let run = |bbm: Bbm, breaks: bool| {
        let software = move |world: &World| unfold(world, true, breaks);
        two(config(Arch::Arm).with_bbm(bbm), software, |_| {})
    };
    for bbm in [Bbm::L0, Bbm::L1, Bbm::L2Abort, Bbm::L2NoAbort] {
        run(bbm, true).holds();
    }
    run(Bbm::L0, false).breaks(Rule::BreakBeforeMake);
    for bbm in [Bbm::L1, Bbm::L2Abort, Bbm::L2NoAbort] {
        run(bbm, false).holds();
    }
}

/// Takes the whole block away and claims what its pages were, as the gatherer saw it.
fn take(world: &World, gathers: bool) {
    let each = world.ptes.map(|pte| tables::flags(pte.swap(0, Relaxed)));
    let all = each.into_iter().fold(Flags::NONE, Flags::union);
    for (page, own) in each.into_iter().enumerate() {
        oracle::harvested(Frame(FIRST + page as u64), 1, if gathers { all } else { own });
    }
}

#[test]
fn a15_r10_the_dirty_bit_may_be_in_any_entry() {
    for arch in BOTH {
        let run = |gathers: bool| {
            let software = move |world: &World| take(world, gathers);
            two(config(arch), software, stores_to_page_1)
        };
        run(true).holds();
        run(false).breaks(Rule::LostFlag);
        // Every entry can be the one.
        let where_ = two(config(arch), |_| {}, stores_to_page_1).finish(|world| {
            let dirty = |pte: &'static Word| u64::from(tables::flags(pte.peek()).dirty);
            outcome(world.ptes.into_iter().fold(0, |all, pte| all << 1 | dirty(pte)));
        });
        let outcomes = where_.holds().outcomes;
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [1, 2, 4, 8], "{arch:?}");
    }
}

#[test]
fn a15_r10_the_dirty_bit_is_set_where_stores_are_permitted() {
    // CPU 0 protects the block entry by entry: what is protected stays so.
    for arch in BOTH {
        let software = move |world: &World| {
            for pte in world.ptes {
                let protect = |old: u64| match arch {
                    Arch::Arm => old & !(1 << 51) | 1 << 7,
                    _ => old & !(1 << 2),
                };
                let mut old = pte.load(Relaxed);
                while let Err(now) = pte.compare_exchange(old, protect(old), Relaxed, Relaxed) {
                    old = now;
                }
            }
        };
        let programs = two(config(arch), software, stores_to_page_1).finish(move |world| {
            let undone = |pte: &'static Word| arch == Arch::Arm && pte.peek() & 1 << 7 == 0;
            oracle::check(!world.ptes.into_iter().any(undone), "a protection is undone");
        });
        programs.holds();
    }
}

#[test]
fn a15_r10_the_accessed_bit_is_every_pages() {
    for arch in BOTH {
        let run = |gathers: bool| {
            let programs = two(config(arch), move |world: &World| take(world, gathers), |_| {});
            // All are not accessed when the programs begin; nobody looks anything up.
            programs.building(move || {
                let world = world(arch);
                for pte in world.ptes {
                    pte.store(tables::with_flags(pte.peek(), Flags::NONE), Relaxed);
                }
                world
            })
        };
        run(true).holds();
        run(false).breaks(Rule::LostFlag);
    }
}

/// CPU 0 clears some entries of the block, invalidates by page, and claims that page 2 is gone.
fn clear(clears: &'static [usize], invalidates: &'static [u64]) -> Programs<World> {
    let software = move |world: &World| {
        for &page in clears {
            world.ptes[page].swap(0, Relaxed);
        }
        arm::Insn.dsb(Dsb::Ishst);
        for &page in invalidates {
            tlbi_page(page);
        }
        arm::Insn.dsb(Dsb::Ish);
        oracle::revoked(world.root, va(2));
    };
    two(config(Arch::Arm), software, |_| {})
}

#[test]
fn a13_a_walk_through_one_entry_serves_the_block() {
    clear(&[0, 1, 2, 3], &[0, 1, 2, 3]).holds();
    clear(&[0, 1, 2, 3], &[2]).holds();
    // An entry may be cached for each page by itself.
    clear(&[0, 1, 2, 3], &[0]).breaks(Rule::StaleTranslation);
    // While one entry is there, every page can be had through it.
    clear(&[2], &[0, 1, 2, 3]).breaks(Rule::StaleTranslation);
    clear(&[0, 1, 2], &[0, 1, 2, 3]).breaks(Rule::StaleTranslation);
}

#[test]
fn r10_a_fence_of_one_page_leaves_the_others() {
    let run = |pages: &'static [u64]| {
        programs(
            Config { cpus: 1, ..config(Arch::Riscv) },
            || {
                let root = tables::allocate();
                let ptes = core::array::from_fn(|page| {
                    tables::reach(root, va(page as u64), 0);
                    let pte = tables::pte(root, va(page as u64));
                    pte.store(
                        tables::contiguous(tables::page(Frame(FIRST), Access::READ)),
                        Relaxed,
                    );
                    pte
                });
                riscv::Insn.write_satp(8 << 60 | 3 << 44 | root.0);
                World { root, ptes, done: Word::ZERO }
            },
            move |world: &World, _| {
                for pte in world.ptes {
                    pte.store(0, Relaxed);
                }
                riscv::Insn.fence();
                for &page in pages {
                    riscv::Insn.sfence_vma(Some(va(page)), Some(3));
                }
                oracle::revoked(world.root, va(2));
            },
        )
    };
    run(&[0, 1, 2, 3]).holds();
    run(&[2]).holds();
    run(&[1]).breaks(Rule::StaleTranslation);
}

/// The frames that an access to page 2 can come to (0 is a fault) after `change`.
fn reachable(config: Config, change: impl Fn(&World) + 'static) -> Vec<u64> {
    two(config, change, |_| {})
        .also(|world, cpu| {
            if cpu == 0 {
                let frame = access(va(2)).map_or(0, |frame| frame.0);
                world.done.store(frame, Relaxed);
            }
        })
        .finish(|world| outcome(world.done.peek()))
        .holds()
        .outcomes
        .into_iter()
        .collect()
}

#[test]
fn r10_inconsistent_entries_are_one_of_them() {
    let plain = |frame: u64| {
        move |world: &World| {
            world.ptes[2].store(tables::page(Frame(frame), Access::WRITE), Relaxed);
            riscv::Insn.sfence_vma(None, None);
        }
    };
    // The page by itself, or the page of the block that the other entries speak of.
    assert_eq!(reachable(config(Arch::Riscv), plain(3)), [3, FIRST + 2]);
    assert_eq!(reachable(config(Arch::Riscv), |_| {}), [FIRST + 2]);
}

#[test]
fn r10_a_reserved_size_maps_nothing() {
    let reserved = |world: &World| {
        for pte in world.ptes {
            pte.store(pte.load(Relaxed) | 1 << 10, Relaxed);
        }
        riscv::Insn.sfence_vma(None, None);
    };
    assert_eq!(reachable(config(Arch::Riscv), reserved), [0]);
}

#[test]
fn a_machine_without_blocks_takes_entries_one_by_one() {
    let mut config = config(Arch::Arm);
    config.block_bits = 0;
    let clears = |world: &World| {
        world.ptes[2].swap(0, Relaxed);
        arm::Insn.dsb(Dsb::Ishst);
        tlbi_page(2);
        arm::Insn.dsb(Dsb::Ish);
        oracle::revoked(world.root, va(2));
    };
    two(config, clears, |_| {}).holds();
}

#[test]
fn claims_hold_while_hardware_sets_bits_in_a_block() {
    // CPU 1 stores; what is cached differs in flags from what memory holds, and is not stale.
    let software = |world: &World| {
        while world.done.load(Acquire) == 0 {
            relax();
        }
        oracle::revoked(world.root, va(1));
        oracle::harvested(Frame(FIRST), PAGES, Flags::NONE);
    };
    let user = |world: &World| {
        access_store(va(1), 1);
        world.done.store(1, Release);
    };
    for arch in BOTH {
        two(config(arch), software, user).holds();
    }
}
