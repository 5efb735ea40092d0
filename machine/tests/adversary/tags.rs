//! What is cached under tags that no root register names: what counts at the moment of a claim,
//! and what counts when a root is loaded that brings it back.

use crate::common::{Programs, programs};
use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
        riscv64::Instructions as _,
        x86_64::{Instructions as _, Invpcid},
    },
    platform::{
        CpuId,
        Ordering::{Relaxed, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Arch, Config, Frame, Rule, Word, arm, as_cpu, oracle, riscv, tables, x86,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);
const KEEP: u64 = 1 << 63;
const A: u16 = 3;
const B: u16 = 4;

struct World {
    a: Frame,
    pte: &'static Word,
    parent: &'static Word,
    last: Frame,
}

/// Loads a root under a tag, and keeps what is held.
fn load(arch: Arch, root: Frame, tag: u16) {
    match arch {
        Arch::Arm => {
            arm::Insn.write_ttbr0(root.address() | u64::from(tag) << 48);
            arm::Insn.isb();
        }
        Arch::X86 => x86::Insn.write_cr3(root.address() | u64::from(tag) | KEEP),
        Arch::Riscv => riscv::Insn.write_satp(8 << 60 | u64::from(tag) << 44 | root.0),
    }
}

/// Makes stores visible to walks, without an invalidation of any tag.
fn publish(arch: Arch) {
    match arch {
        Arch::Arm => arm::Insn.dsb(Dsb::Ishst),
        Arch::X86 | Arch::Riscv => Word::fence(SeqCst),
    }
}

/// Invalidates everything of a tag on the CPU that runs.
fn flush(arch: Arch, tag: u16) {
    match arch {
        Arch::Arm => {
            let operand = u64::from(tag) << 48;
            arm::Insn.tlbi(Tlbi { op: TlbiOp::Aside, scope: Scope::Broadcast, operand });
            arm::Insn.dsb(Dsb::Ish);
        }
        Arch::X86 => x86::Insn.invpcid(Invpcid::Context, [u64::from(tag), 0]),
        Arch::Riscv => riscv::Insn.sfence_vma(None, Some(tag)),
    }
}

fn config(arch: Arch) -> Config {
    match arch {
        Arch::Arm => Config::arm(2),
        Arch::X86 => Config::x86(2),
        Arch::Riscv => Config::riscv(2),
    }
}

const ALL: [Arch; 3] = [Arch::Arm, Arch::X86, Arch::Riscv];

/// CPU 1 has all of `a` cached under its tag, and runs `b`. CPU 0 has nothing.
fn world(arch: Arch) -> World {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, VA, PAGE, Access::WRITE);
    tables::map(b, VA, Frame(8), Access::WRITE);
    as_cpu(CpuId(1), || {
        load(arch, a, A);
        load(arch, b, B);
    });
    let parent = tables::entry(a, VA, 1);
    let last = match arch {
        Arch::Riscv => Frame(parent.peek() >> 10),
        _ => Frame::holding(parent.peek() & !0xfff),
    };
    World { a, pte: tables::pte(a, VA), parent, last }
}

fn on_cpu_1(config: Config, run: impl Fn(&World) + 'static) -> Programs<World> {
    let arch = config.arch;
    programs(
        config,
        move || world(arch),
        move |world, cpu| {
            if cpu == 1 {
                run(world);
            }
        },
    )
}

#[test]
fn a_page_may_go_while_it_is_cached_under_another_tag() {
    for arch in ALL {
        let take = |flushes: bool, comes_back: bool| {
            on_cpu_1(config(arch), move |world| {
                world.pte.store(0, Relaxed);
                publish(arch);
                oracle::revoked(world.a, VA);
                oracle::frame_freed(PAGE);
                if flushes {
                    flush(arch, A);
                }
                if comes_back {
                    load(arch, world.a, A);
                }
            })
        };
        take(false, false).holds();
        take(true, true).holds();
        take(false, true).breaks(Rule::StaleTranslation);
    }
}

/// The last table of `a` is unhooked and given back.
fn take_table(config: Config, flushes: bool, comes_back: bool) -> Programs<World> {
    let arch = config.arch;
    on_cpu_1(config, move |world| {
        world.parent.store(0, Relaxed);
        publish(arch);
        if flushes {
            flush(arch, A);
        }
        oracle::frame_freed(PAGE);
        oracle::table_freed(world.last);
        if comes_back {
            load(arch, world.a, A);
        }
    })
}

#[test]
fn on_arm_a_table_may_not() {
    take_table(Config::arm(2), true, true).holds();
    take_table(Config::arm(2), false, false).breaks(Rule::FreedFrame);
    // Unless walk caches are taken to be what they are elsewhere.
    let mut config = Config::arm(2);
    config.walks_outlive_tags = false;
    take_table(config.clone(), false, false).holds();
    take_table(config, false, true).breaks(Rule::StaleTranslation);
}

#[test]
fn elsewhere_a_table_may_until_its_tag_comes_back() {
    for config in [Config::x86(2), Config::riscv(2)] {
        take_table(config.clone(), true, true).holds();
        take_table(config.clone(), false, false).holds();
        take_table(config, false, true).breaks(Rule::StaleTranslation);
    }
}

#[test]
fn on_arm_a_tag_of_an_earlier_epoch_counts_too() {
    // CPU 1 holds walks of `a` under the tag that `a` had; it has been given another one since, and
    // only that one is invalidated.
    let renewed = |config: Config, both: bool| {
        programs(
            config,
            || {
                let world = world(Arch::Arm);
                as_cpu(CpuId(0), || load(Arch::Arm, world.a, 9));
                world
            },
            move |world: &World, cpu| {
                if cpu == 0 {
                    world.parent.store(0, Relaxed);
                    publish(Arch::Arm);
                    flush(Arch::Arm, 9);
                    if both {
                        flush(Arch::Arm, A);
                    }
                    oracle::table_freed(world.last);
                }
            },
        )
    };
    renewed(Config::arm(2), true).holds();
    renewed(Config::arm(2), false).breaks(Rule::FreedFrame);
    let mut config = Config::arm(2);
    config.walks_outlive_tags = false;
    renewed(config, false).holds();
}

#[test]
fn a_last_level_invalidation_is_not_enough_for_a_tag_that_no_register_names() {
    let operand = u64::from(A) << 48 | VA >> 12;
    let form = |op: TlbiOp| {
        on_cpu_1(Config::arm(2), move |world| {
            world.parent.store(0, Relaxed);
            publish(Arch::Arm);
            arm::Insn.tlbi(Tlbi { op, scope: Scope::Broadcast, operand });
            arm::Insn.dsb(Dsb::Ish);
            oracle::table_freed(world.last);
        })
    };
    form(TlbiOp::Va).holds();
    form(TlbiOp::Val).breaks(Rule::FreedFrame);
}
