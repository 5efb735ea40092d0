//! Kernel mappings: the same in every space, global or not, and used by CPUs that rest.

use crate::common::{Programs, programs};
use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
        riscv64::Instructions as _,
        x86_64::{Instructions as _, Invpcid},
    },
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Arch, Config, Frame, Rule, Word, access, arm, as_cpu, interrupt, oracle, outcome,
    relax, riscv, tables, x86,
};

/// An address of the kernel, in a table that all spaces share.
const KERNEL: u64 = 0x10_5000;
const PAGE: Frame = Frame(7);
const A: u16 = 3;
const B: u16 = 4;

struct World {
    a: Frame,
    b: Frame,
    pte: &'static Word,
    done: Word,
}

fn load(arch: Arch, root: Frame, tag: u16, keep: bool) {
    match arch {
        Arch::Arm => {
            arm::Insn.write_ttbr0(root.address() | u64::from(tag) << 48);
            arm::Insn.isb();
        }
        Arch::X86 => {
            x86::Insn.write_cr3(root.address() | u64::from(tag) | u64::from(keep) << 63);
        }
        Arch::Riscv => riscv::Insn.write_satp(8 << 60 | u64::from(tag) << 44 | root.0),
    }
}

/// Two spaces that share the kernel's table. CPU 0 runs `a`, CPU 1 ran `a` and runs `b`.
fn world(arch: Arch, access: Access) -> World {
    let (a, b) = (tables::allocate(), tables::allocate());
    tables::map(a, KERNEL, PAGE, access);
    let top = tables::entry(a, KERNEL, 2);
    tables::entry(b, KERNEL, 2).store(top.peek(), Relaxed);
    as_cpu(CpuId(0), || load(arch, a, A, true));
    as_cpu(CpuId(1), || {
        load(arch, a, A, true);
        load(arch, b, B, true);
    });
    World { a, b, pte: tables::pte(a, KERNEL), done: Word::ZERO }
}

fn config(arch: Arch) -> Config {
    match arch {
        Arch::Arm => Config::arm(2),
        Arch::X86 => Config::x86(2),
        Arch::Riscv => Config::riscv(2),
    }
}

const ALL: [Arch; 3] = [Arch::Arm, Arch::X86, Arch::Riscv];

/// Makes stores visible to walks.
fn publish(arch: Arch) {
    match arch {
        Arch::Arm => arm::Insn.dsb(Dsb::Ishst),
        Arch::X86 | Arch::Riscv => Word::fence(SeqCst),
    }
}

/// How the translations of the page are removed on one CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Whatever they are, under every tag.
    Everything,
    /// By address, globals included.
    Address,
    /// Of the tag that the CPU runs under.
    Tag(u16),
}

fn invalidate(arch: Arch, way: Way, scope: Scope) {
    match arch {
        Arch::Arm => {
            let (op, operand) = match way {
                Way::Everything => (TlbiOp::Vmall, 0),
                Way::Address => (TlbiOp::Vaal, KERNEL >> 12),
                Way::Tag(tag) => (TlbiOp::Aside, u64::from(tag) << 48),
            };
            arm::Insn.tlbi(Tlbi { op, scope, operand });
            arm::Insn.dsb(Dsb::Ish);
        }
        Arch::X86 => match way {
            Way::Everything => x86::Insn.invpcid(Invpcid::All, [0, 0]),
            Way::Address => x86::Insn.invlpg(KERNEL),
            Way::Tag(tag) => x86::Insn.invpcid(Invpcid::Context, [u64::from(tag), 0]),
        },
        Arch::Riscv => match way {
            Way::Everything => riscv::Insn.sfence_vma(None, None),
            Way::Address => riscv::Insn.sfence_vma(Some(KERNEL), None),
            Way::Tag(tag) => riscv::Insn.sfence_vma(None, Some(tag)),
        },
    }
}

/// CPU 0 takes the page from the kernel; each CPU invalidates in its own way.
fn unmap(arch: Arch, access: Access, ways: [Option<Way>; 2]) -> Programs<World> {
    programs(
        config(arch),
        move || world(arch, access),
        move |world: &World, cpu| {
            if cpu == 1 {
                while world.done.load(Acquire) == 0 {
                    relax();
                }
                if let Some(way) = ways[1] {
                    invalidate(arch, way, Scope::Local);
                }
                world.done.store(2, Release);
                return;
            }
            world.pte.store(0, Relaxed);
            publish(arch);
            if let Some(way) = ways[0] {
                invalidate(arch, way, Scope::Local);
            }
            world.done.store(1, Release);
            while world.done.load(Acquire) == 1 {
                relax();
            }
            oracle::kernel_revoked(KERNEL);
        },
    )
}

#[test]
fn a_global_page_is_flushed_on_every_cpu_and_not_by_tag() {
    use Way::{Address, Everything, Tag};
    for arch in ALL {
        for way in [Address, Everything] {
            unmap(arch, Access::GLOBAL, [Some(way); 2]).holds();
            // The other CPU runs another space under another tag, and has the page all the same.
            unmap(arch, Access::GLOBAL, [Some(way), None]).breaks(Rule::StaleTranslation);
        }
        unmap(arch, Access::GLOBAL, [Some(Address), Some(Tag(B))]).breaks(Rule::StaleTranslation);
        unmap(arch, Access::GLOBAL, [Some(Tag(A)), Some(Address)]).breaks(Rule::StaleTranslation);
    }
}

#[test]
fn a_page_that_is_not_global_is_flushed_in_every_space() {
    use Way::{Everything, Tag};
    for arch in ALL {
        unmap(arch, Access::WRITE, [Some(Everything); 2]).holds();
        unmap(arch, Access::WRITE, [Some(Tag(A)), Some(Tag(B))]).holds();
        // CPU 1 runs `b`, and has the page under its tag.
        unmap(arch, Access::WRITE, [Some(Tag(A)), Some(Tag(A))]).breaks(Rule::StaleTranslation);
        unmap(arch, Access::WRITE, [Some(Tag(A)), None]).breaks(Rule::StaleTranslation);
    }
}

#[test]
fn a_claim_about_one_space_says_nothing_of_the_others() {
    // What CPU 1 has cached of `b` is not what `revoked` asks about; the kernel's claim is.
    let claim = |kernel: bool| {
        programs(
            Config::x86(2),
            || world(Arch::X86, Access::WRITE),
            move |world: &World, cpu| {
                if cpu == 0 {
                    world.pte.store(0, SeqCst);
                    invalidate(Arch::X86, Way::Everything, Scope::Local);
                    if kernel {
                        oracle::kernel_revoked(KERNEL);
                    } else {
                        oracle::revoked(world.a, KERNEL);
                    }
                }
            },
        )
    };
    claim(false).holds();
    claim(true).breaks(Rule::StaleTranslation);
}

#[test]
fn a_tag_that_no_register_names_counts_when_it_is_loaded_again() {
    for arch in ALL {
        // CPU 1 runs `b`; it has the page under the tag of `a`, too. CPU 0 has nothing.
        let back = |flushes_both: bool, comes_back: bool| {
            let build = move || {
                let world = world(arch, Access::WRITE);
                as_cpu(CpuId(0), || {
                    load(arch, tables::allocate_reserved(), 0, true);
                    invalidate(arch, Way::Everything, Scope::Local);
                });
                world
            };
            programs(config(arch), build, move |world: &World, cpu| {
                if cpu == 1 {
                    world.pte.store(0, Relaxed);
                    publish(arch);
                    invalidate(arch, Way::Tag(B), Scope::Local);
                    if flushes_both {
                        invalidate(arch, Way::Tag(A), Scope::Local);
                    }
                    oracle::kernel_revoked(KERNEL);
                    if comes_back {
                        load(arch, world.a, A, true);
                    }
                }
            })
        };
        back(true, true).holds();
        back(false, false).holds();
        back(false, true).breaks(Rule::StaleTranslation);
    }
}

#[test]
fn a_cpu_without_a_user_root_runs_the_kernel() {
    // CPU 1 has left its space for no table at all, and keeps what holds under every tag.
    let parked = |scope: Scope| {
        let build = || {
            let world = world(Arch::Arm, Access::GLOBAL);
            as_cpu(CpuId(1), || {
                arm::Insn.write_ttbr0(0);
                arm::Insn.isb();
            });
            world
        };
        programs(Config::arm(2), build, move |world: &World, cpu| {
            if cpu == 0 {
                world.pte.store(0, Relaxed);
                publish(Arch::Arm);
                invalidate(Arch::Arm, Way::Address, scope);
                oracle::kernel_revoked(KERNEL);
            }
        })
    };
    parked(Scope::Broadcast).holds();
    parked(Scope::Local).breaks(Rule::StaleTranslation);
}

#[test]
fn a_cpu_that_rests_runs_the_kernel() {
    let rests = |flushes: bool| {
        programs(
            Config::x86(2),
            || world(Arch::X86, Access::WRITE),
            move |world: &World, cpu| {
                if cpu == 1 {
                    oracle::rests();
                    world.done.store(1, Release);
                    return;
                }
                while world.done.load(Acquire) == 0 {
                    relax();
                }
                world.pte.store(0, SeqCst);
                invalidate(Arch::X86, Way::Everything, Scope::Local);
                if flushes {
                    interrupt(0b10);
                    while world.done.load(Acquire) == 1 {
                        relax();
                    }
                }
                oracle::kernel_revoked(KERNEL);
            },
        )
        .interrupt(|world, _| {
            invalidate(Arch::X86, Way::Everything, Scope::Local);
            world.done.store(2, Release);
        })
    };
    rests(true).holds();
    rests(false).breaks(Rule::StaleTranslation);
}

#[test]
fn a_global_page_is_used_under_every_tag() {
    for arch in ALL {
        let seen = |access_rights: Access| {
            programs(
                config(arch),
                move || world(arch, access_rights),
                move |world: &World, cpu| {
                    if cpu == 0 {
                        // Not walked again from here on: nothing leads there in `b`.
                        world.pte.store(0, Relaxed);
                        publish(arch);
                        load(arch, world.b, B, true);
                        let seen = access(KERNEL).map_or(0, |frame| frame.0);
                        world.done.store(seen, Relaxed);
                    }
                },
            )
            .finish(|world| outcome(world.done.peek()))
            .holds()
            .outcomes
            .into_iter()
            .collect::<Vec<_>>()
        };
        assert_eq!(seen(Access::GLOBAL), [0, PAGE.0], "{arch:?}");
        assert_eq!(seen(Access::WRITE), [0], "{arch:?}");
    }
}
