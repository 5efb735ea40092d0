//! Arm: a `TLBI` waits for a `DSB` before it and for nothing else (A5). What other CPUs can read already, it need
//! not see. The rule is in `adversary/replaced.rs`; `litmus/unmap-dmb.litmus` and `litmus/unmap-handed-*.litmus`
//! ask the litmus engine for the same.

use crate::common::{Programs, programs};
use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions, Scope, Tlbi, TlbiOp},
        riscv64,
    },
    platform::{
        CpuId,
        Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Rule, Word, arm::Insn, as_cpu, interrupt, oracle, relax, riscv, tables,
};

const VA: u64 = 0x5000;
const OTHER: u64 = 0x6000;
const PAGE: Frame = Frame(7);
const ASID: u64 = 3;
const IS: Scope = Scope::Broadcast;

struct World {
    root: Frame,
    reserved: Frame,
    pte: &'static Word,
    /// The descriptor of another page of the same table.
    other: &'static Word,
    /// The descriptor that names the table of both.
    parent: &'static Word,
    last: Frame,
    flag: Word,
}

/// Every CPU runs one space, which maps two pages.
fn world() -> World {
    let (root, reserved) = (tables::allocate(), tables::allocate_reserved());
    tables::map(root, VA, PAGE, Access::WRITE);
    tables::map(root, OTHER, Frame(8), Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || {
            Insn.write_ttbr0(root.address() | ASID << 48);
            Insn.isb();
        });
    }
    let parent = tables::entry(root, VA, 1);
    World {
        root,
        reserved,
        pte: tables::pte(root, VA),
        other: tables::pte(root, OTHER),
        parent,
        last: Frame::holding(parent.peek() & 0x0000_ffff_ffff_f000),
        flag: Word::ZERO,
    }
}

fn tlbi(op: TlbiOp, scope: Scope, va: u64) {
    let operand = match op {
        TlbiOp::Vmall => 0,
        TlbiOp::Aside => ASID << 48,
        _ => ASID << 48 | va >> 12,
    };
    Insn.tlbi(Tlbi { op, scope, operand });
}

/// Invalidates the page everywhere, waits, and claims that it is gone.
fn flush(world: &World) {
    tlbi(TlbiOp::Va, IS, VA);
    Insn.dsb(Dsb::Ish);
    oracle::revoked(world.root, VA);
    oracle::frame_freed(PAGE);
}

fn on_cpu_0(config: &Config, run: impl Fn(&World) + 'static) -> Programs<World> {
    let config = config.clone().with_levels(2);
    programs(config, world, move |world, cpu| {
        if cpu == 0 {
            run(world);
        }
    })
}

/// Ways to unmap the page that other CPUs can read at once, or soon.
const UNMAPS: [fn(&Word); 6] = [
    |pte| {
        pte.store(0, Relaxed);
        Word::fence(SeqCst);
    },
    |pte| {
        pte.store(0, Release);
        Word::fence(Release);
        let _ = pte.load(Acquire);
    },
    |pte| {
        let _ = pte.swap(0, Relaxed);
    },
    |pte| {
        let _ = pte.swap(0, SeqCst);
    },
    |pte| {
        let _ = pte.compare_exchange(pte.load(Relaxed), 0, AcqRel, Relaxed);
    },
    |pte| {
        let _ = pte.swap(0, AcqRel);
        Word::fence(SeqCst);
    },
];

#[test]
fn a5_neither_atomics_nor_fences_hold_a_tlbi_back() {
    for config in [Config::arm(2), Config::arm(2).with_ets2()] {
        for unmap in UNMAPS {
            let run = move |world: &World| {
                unmap(world.pte);
                flush(world);
            };
            on_cpu_0(&config, run).breaks(Rule::StaleTranslation);
        }
    }
}

#[test]
fn a5_a_dsb_for_stores_does() {
    for unmap in UNMAPS {
        for kind in [Dsb::Ishst, Dsb::Ish] {
            let run = move |world: &World| {
                unmap(world.pte);
                Insn.dsb(kind);
                flush(world);
            };
            on_cpu_0(&Config::arm(2), run).holds();
        }
    }
}

#[test]
fn a5_a_dsb_holds_back_what_comes_after_it() {
    // One before the store does nothing for it.
    let run = |world: &World| {
        Insn.dsb(Dsb::Ish);
        world.pte.swap(0, SeqCst);
        flush(world);
    };
    on_cpu_0(&Config::arm(2), run).breaks(Rule::StaleTranslation);
    // Nor does the one that completes the invalidation of another page: that is the second flush's own.
    let run = |world: &World| {
        world.other.swap(0, SeqCst);
        Insn.dsb(Dsb::Ishst);
        tlbi(TlbiOp::Va, IS, OTHER);
        Insn.dsb(Dsb::Ish);
        world.pte.swap(0, SeqCst);
        flush(world);
    };
    on_cpu_0(&Config::arm(2), run).breaks(Rule::StaleTranslation);
}

/// The CPU invalidates on itself alone; the other one runs another space.
fn alone(before: Option<Dsb>, scope: Scope) -> Programs<World> {
    let run = move |world: &World, cpu: usize| {
        if cpu == 0 {
            world.pte.swap(0, SeqCst);
            before.into_iter().for_each(|kind| Insn.dsb(kind));
            tlbi(TlbiOp::Va, scope, VA);
            Insn.dsb(Dsb::Ish);
            oracle::revoked(world.root, VA);
        }
    };
    let build = move || {
        let world = world();
        if scope == Scope::Local {
            as_cpu(CpuId(1), || {
                Insn.write_ttbr0(world.reserved.address());
                Insn.isb();
                tlbi(TlbiOp::Vmall, Scope::Local, 0);
                Insn.dsb(Dsb::Nsh);
            });
        }
        world
    };
    programs(Config::arm(2).with_levels(2), build, run)
}

#[test]
fn a6_a_dsb_orders_for_the_cpus_of_its_domain() {
    alone(None, Scope::Local).breaks(Rule::StaleTranslation);
    for kind in [Dsb::Nshst, Dsb::Nsh, Dsb::Ishst, Dsb::Ish] {
        alone(Some(kind), Scope::Local).holds();
    }
    for kind in [Dsb::Nshst, Dsb::Nsh] {
        alone(Some(kind), IS).breaks(Rule::StaleTranslation);
    }
}

/// CPU 0 unmaps and tells CPU 1, which invalidates whatever it has loaded.
fn handed(hold: fn(&World)) -> Programs<World> {
    handed_on(Config::arm(2).without_dependencies(), hold)
}

fn handed_on(config: Config, hold: fn(&World)) -> Programs<World> {
    programs(config.with_levels(2), world, move |world, cpu| {
        if cpu == 0 {
            world.pte.store(0, Relaxed);
            world.flag.store(1, Release);
        } else {
            while world.flag.load(Acquire) == 0 {
                relax();
            }
            hold(world);
            flush(world);
        }
    })
}

#[test]
fn a5_who_has_seen_the_store_can_order_it_for_who_made_it() {
    handed(|_| {}).breaks(Rule::StaleTranslation);
    handed(|_| Insn.isb()).breaks(Rule::StaleTranslation);
    handed(|_| Insn.dsb(Dsb::Ish)).holds();
    // A DSB for stores does not wait for the load that saw it, but for a store which came after that.
    handed(|_| Insn.dsb(Dsb::Ishst)).breaks(Rule::StaleTranslation);
    handed(|world| {
        world.flag.swap(2, AcqRel);
        Insn.dsb(Dsb::Ishst);
    })
    .holds();
}

#[test]
fn a5_who_looks_and_then_decides_invalidates_after_the_load() {
    handed_on(Config::arm(2), |_| {}).holds();
    // The load says nothing of what the CPU has itself stored.
    let own = |world: &World| {
        world.pte.store(0, Relaxed);
        world.flag.load(Acquire);
        flush(world);
    };
    on_cpu_0(&Config::arm(2), own).breaks(Rule::StaleTranslation);
}

#[test]
fn a5_a_handler_comes_after_the_interrupt() {
    let run = |world: &World, cpu: usize| {
        if cpu == 0 {
            world.pte.swap(0, SeqCst);
            interrupt(1 << 1);
            while world.flag.load(Acquire) == 0 {
                relax();
            }
        }
    };
    let handler = |world: &World, _: usize| {
        flush(world);
        world.flag.store(1, Release);
    };
    let config = Config::arm(2).with_levels(2);
    programs(config, world, run).interrupt(handler).holds();
}

#[test]
fn a2_a_root_that_another_cpu_leaves_is_walked_until_then() {
    // CPU 1 leaves the space; CPU 0 invalidates what CPU 1 holds and gives a table of it back.
    let leave = |before: Option<Dsb>| {
        programs(
            Config::arm(2).without_dependencies().with_levels(2),
            world,
            move |world: &World, cpu| {
                if cpu == 1 {
                    Insn.write_ttbr0(world.reserved.address());
                    Insn.isb();
                    world.flag.store(1, Release);
                } else {
                    Insn.write_ttbr0(world.reserved.address());
                    Insn.isb();
                    while world.flag.load(Acquire) == 0 {
                        relax();
                    }
                    before.into_iter().for_each(|kind| Insn.dsb(kind));
                    tlbi(TlbiOp::Aside, IS, 0);
                    Insn.dsb(Dsb::Ish);
                    oracle::table_freed(world.last);
                }
            },
        )
    };
    leave(None).breaks(Rule::FreedFrame);
    leave(Some(Dsb::Ish)).holds();
}

#[test]
fn tables_are_walked_until_they_are_unhooked() {
    let unhook = |before: Option<Dsb>, op: TlbiOp| {
        on_cpu_0(&Config::arm(2), move |world| {
            world.parent.swap(0, SeqCst);
            before.into_iter().for_each(|kind| Insn.dsb(kind));
            tlbi(op, IS, VA);
            Insn.dsb(Dsb::Ish);
            oracle::table_freed(world.last);
        })
    };
    unhook(None, TlbiOp::Va).breaks(Rule::FreedFrame);
    unhook(Some(Dsb::Ishst), TlbiOp::Va).holds();
    // What was in a table that was unhooked in good time can be cleared any time: the invalidation takes
    // the way to it.
    let clear_late = |world: &World| {
        world.parent.swap(0, SeqCst);
        Insn.dsb(Dsb::Ishst);
        world.pte.swap(0, SeqCst);
        flush(world);
    };
    on_cpu_0(&Config::arm(2), clear_late).holds();
}

#[test]
fn a_cpu_that_orders_its_own_stores_may_ignore_others_stores() {
    // Each CPU unmaps a page of its own and flushes by whatever names it.
    for op in [TlbiOp::Va, TlbiOp::Aside] {
        let both = programs(Config::arm(2).with_levels(2), world, move |world: &World, cpu| {
            let (pte, va) = [(world.pte, VA), (world.other, OTHER)][cpu];
            pte.swap(0, Relaxed);
            Insn.dsb(Dsb::Ishst);
            tlbi(op, IS, va);
            Insn.dsb(Dsb::Ish);
            oracle::revoked(world.root, va);
        });
        both.holds();
    }
}

#[test]
fn riscv_an_sinval_waits_for_sfence_w_inval() {
    use riscv64::Instructions as _;
    let unmap = |order: fn()| {
        let build = || {
            let root = tables::allocate();
            tables::map(root, VA, PAGE, Access::WRITE);
            riscv::Insn.write_satp(8 << 60 | ASID << 44 | root.0);
            (root, tables::pte(root, VA))
        };
        let config = Config::riscv(1).with_levels(2);
        programs(config, build, move |&(root, pte): &(Frame, &Word), _| {
            pte.swap(0, SeqCst);
            order();
            riscv::Insn.sinval_vma(Some(VA), Some(ASID as u16));
            riscv::Insn.sfence_inval_ir();
            oracle::revoked(root, VA);
        })
    };
    unmap(|| riscv::Insn.sfence_w_inval()).holds();
    unmap(|| {}).breaks(Rule::StaleTranslation);
    unmap(|| riscv::Insn.fence()).breaks(Rule::StaleTranslation);
}
