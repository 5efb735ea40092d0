//! Accessed and dirty bits that hardware sets, and software that loses them. The numbers A14, X1 to
//! X11 and R9 are those of the rules in the documentation of the adversary.

use crate::common::{Programs, load, programs};
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
    Access, Arch, Config, Flags, Frame, Rule, Updates, Word, access, access_store, arm, as_cpu,
    oracle, outcome, relax, riscv, tables, x86,
};
use lookaside_machine::explore::Budget;

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);

struct World {
    root: Frame,
    pte: &'static Word,
    seen: Word,
}

/// A page with the given flags; CPU 1 runs its space, and CPU 0 does not.
fn world(arch: Arch, access: Access, flags: Flags) -> World {
    let root = tables::allocate();
    tables::map(root, VA, PAGE, access);
    let pte = tables::pte(root, VA);
    pte.store(tables::with_flags(pte.peek(), flags), Relaxed);
    tables::hardware_writes(pte);
    as_cpu(CpuId(1), || load(arch, root));
    World { root, pte, seen: Word::ZERO }
}

fn config(arch: Arch, updates: Updates) -> Config {
    match arch {
        Arch::Arm => Config::arm(2).with_updates(updates),
        Arch::X86 => Config::x86(2).with_updates(updates),
        Arch::Riscv => Config::riscv(2).with_updates(updates),
    }
}

const ALL: [Arch; 3] = [Arch::Arm, Arch::X86, Arch::Riscv];

/// CPU 0 does `software`, CPU 1 `user`.
fn two(
    config: Config,
    flags: Flags,
    software: impl Fn(&World) + 'static,
    user: impl Fn(&World) + 'static,
) -> Programs<World> {
    let arch = config.arch;
    programs(
        config,
        move || world(arch, Access::WRITE, flags),
        move |world: &World, cpu| if cpu == 0 { software(world) } else { user(world) },
    )
}

/// Takes the page away, and claims what was found.
fn take(world: &World, atomically: bool) {
    let old = if atomically {
        world.pte.swap(0, Relaxed)
    } else {
        let old = world.pte.load(Relaxed);
        world.pte.store(0, Relaxed);
        old
    };
    oracle::harvested(PAGE, 1, tables::flags(old));
}

fn stores(_: &World) {
    access_store(VA, 1);
}

#[test]
fn a14_x11_a_dirty_bit_is_lost_between_a_load_and_a_store() {
    for arch in ALL {
        let take = |atomically: bool| {
            let software = move |world: &World| take(world, atomically);
            two(config(arch, Updates::Dirty), Flags::ACCESSED, software, stores)
        };
        take(true).holds();
        take(false).breaks(Rule::LostFlag);
    }
}

#[test]
fn a14_x1_r9_the_accessed_bit_is_set_unasked() {
    for arch in ALL {
        let take = |atomically: bool| {
            let software = move |world: &World| take(world, atomically);
            two(config(arch, Updates::Dirty), Flags::NONE, software, |_| {})
        };
        take(true).holds();
        take(false).breaks(Rule::LostFlag);
    }
}

#[test]
fn a14_x1_nothing_is_set_without_walks() {
    for arch in ALL {
        let walked = |walked: bool| {
            let build = move || {
                let world = world(arch, Access::WRITE, Flags::NONE);
                if !walked {
                    let empty = tables::allocate();
                    as_cpu(CpuId(1), || load(arch, empty));
                    as_cpu(CpuId(1), || flush(arch));
                }
                world
            };
            let software = |world: &World, cpu| {
                if cpu == 0 {
                    take(world, false);
                }
            };
            programs(config(arch, Updates::Dirty), build, software)
        };
        walked(false).holds();
        walked(true).breaks(Rule::LostFlag);
    }
}

/// Removes everything on the CPU that runs.
fn flush(arch: Arch) {
    match arch {
        Arch::Arm => {
            arm::Insn.tlbi(Tlbi { op: TlbiOp::Vmall, scope: Scope::Local, operand: 0 });
            arm::Insn.dsb(Dsb::Nsh);
        }
        Arch::X86 => x86::Insn.invpcid(Invpcid::All, [0, 0]),
        Arch::Riscv => riscv::Insn.sfence_vma(None, None),
    }
}

/// What the descriptor says in the end if CPU 1 does `user`: 1 for accessed, 2 for dirty; and 4 if
/// `user` says so.
fn ends(config: Config, flags: Flags, user: fn() -> bool) -> Vec<u64> {
    let run = move |world: &World| world.seen.store(u64::from(user()) << 2, Relaxed);
    two(config, flags, |_| {}, run)
        .finish(|world| {
            let flags = tables::flags(world.pte.peek());
            outcome(u64::from(flags.accessed) | u64::from(flags.dirty) << 1 | world.seen.peek());
        })
        .holds()
        .outcomes
        .into_iter()
        .collect()
}

#[test]
fn hardware_sets_the_configured_flags_only() {
    let nothing = || false;
    let looks = || access(VA).is_some();
    let writes = || access_store(VA, 1).is_some();
    for arch in ALL {
        let dirty = || config(arch, Updates::Dirty);
        // Unasked, once: never the dirty bit.
        assert_eq!(ends(dirty(), Flags::NONE, nothing), [0, 1], "{arch:?}");
        assert_eq!(ends(dirty(), Flags::ACCESSED, nothing), [1], "{arch:?}");
        assert_eq!(ends(dirty(), Flags::NONE, looks), [0b101], "{arch:?}");
        assert_eq!(ends(dirty(), Flags::NONE, writes), [0b111], "{arch:?}");
        assert_eq!(ends(dirty(), Flags::ACCESSED, writes), [0b111], "{arch:?}");
        if arch == Arch::X86 {
            continue;
        }
        let accessed = || config(arch, Updates::Accessed);
        assert_eq!(ends(accessed(), Flags::NONE, looks), [0b101], "{arch:?}");
        assert_eq!(ends(accessed(), Flags::ACCESSED, writes), [0b001], "{arch:?}");
        assert_eq!(ends(accessed(), Flags::BOTH, writes), [0b111], "{arch:?}");
        // Svade, and Arm without FEAT_HAFDBS: faults.
        let none = || config(arch, Updates::Nothing);
        assert_eq!(ends(none(), Flags::NONE, nothing), [0], "{arch:?}");
        assert_eq!(ends(none(), Flags::NONE, looks), [0], "{arch:?}");
        assert_eq!(ends(none(), Flags::ACCESSED, looks), [0b101], "{arch:?}");
        assert_eq!(ends(none(), Flags::ACCESSED, writes), [0b001], "{arch:?}");
        assert_eq!(ends(none(), Flags::BOTH, writes), [0b111], "{arch:?}");
    }
}

#[test]
fn a_store_through_a_page_that_permits_none_faults() {
    for arch in ALL {
        let seen = |access_rights: Access| {
            let config = config(arch, Updates::Dirty);
            programs(
                config,
                move || {
                    let root = tables::allocate();
                    tables::map(root, VA, PAGE, access_rights);
                    as_cpu(CpuId(1), || load(arch, root));
                },
                |(), cpu| {
                    if cpu == 1 {
                        let stored = access_store(VA, 1).is_some();
                        let expected = tables::contents(PAGE).load(Relaxed);
                        oracle::check(u64::from(stored) == expected, "as it says");
                    }
                },
            )
            .finish(|()| outcome(tables::contents(PAGE).peek()))
            .holds()
            .outcomes
            .into_iter()
            .collect::<Vec<_>>()
        };
        assert_eq!(seen(Access::READ), [0], "{arch:?}");
        assert_eq!(seen(Access::WRITE), [1], "{arch:?}");
    }
}

#[test]
fn x11_write_protecting_must_be_atomic() {
    let protect = |atomically: bool| {
        let software = move |world: &World| {
            if atomically {
                world.pte.fetch_and(!2, Relaxed);
            } else {
                let old = world.pte.load(Relaxed);
                world.pte.store(old & !2, Relaxed);
            }
            // Nothing is taken: the bit must be where it was.
            oracle::harvested(PAGE, 1, Flags::NONE);
        };
        two(Config::x86(2), Flags::ACCESSED, software, stores)
    };
    protect(true).holds();
    protect(false).breaks(Rule::LostFlag);
    // On Arm a page that permits no stores has no dirty bit: what was found must be taken along.
    let taken = |taken: bool| {
        let config = Config::arm(2).with_updates(Updates::Dirty);
        let software = move |world: &World| {
            let page = tables::page(PAGE, Access::READ);
            let old = world.pte.swap(page, Relaxed);
            oracle::harvested(PAGE, 1, if taken { tables::flags(old) } else { Flags::NONE });
        };
        two(config, Flags::ACCESSED, software, stores)
    };
    taken(true).holds();
    taken(false).breaks(Rule::LostFlag);
}

#[test]
fn x11_older_cpus_set_the_dirty_bit_late() {
    // Whether the bit can appear after the page was write-protected.
    let late = |late: bool| {
        let mut config = Config::x86(2);
        config.late_dirty = late;
        let software = |world: &World| {
            let old = world.pte.fetch_and(!2, SeqCst);
            world.seen.store(u64::from(tables::flags(old).dirty), Relaxed);
        };
        two(config, Flags::ACCESSED, software, stores)
            .finish(|world| {
                let now = tables::flags(world.pte.peek()).dirty;
                outcome(world.seen.peek() << 1 | u64::from(now));
            })
            .holds()
            .outcomes
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(late(false), [0b00, 0b11]);
    assert_eq!(late(true), [0b00, 0b01, 0b11]);
}

/// One CPU dirties its page; then it cleans it, with or without an invalidation, and claims.
fn clean(invalidates: bool, asks: bool) -> Programs<World> {
    programs(
        Config::x86(1),
        || {
            let root = tables::allocate();
            tables::map(root, VA, PAGE, Access::WRITE);
            let pte = tables::pte(root, VA);
            tables::hardware_writes(pte);
            load(Arch::X86, root);
            World { root, pte, seen: Word::ZERO }
        },
        move |world: &World, _| {
            access_store(VA, 1);
            let old = world.pte.fetch_and(!(1 << 6), SeqCst);
            if invalidates {
                x86::Insn.invlpg(VA);
            }
            oracle::harvested(PAGE, 1, tables::flags(old));
            if asks {
                oracle::cleaned(PAGE, 1);
            }
            access_store(VA, 2);
        },
    )
    .finish(|_| oracle::harvested(PAGE, 1, Flags::NONE))
}

#[test]
fn x10_a_dirty_bit_that_is_cleared_and_not_flushed_proves_nothing() {
    clean(true, true).holds();
    clean(true, false).holds();
    // The set knows it at once; a program must come by for the bit to be lost.
    clean(false, true).breaks(Rule::LostFlag);
    clean(false, false).breaks(Rule::LostFlag);
}

#[test]
fn a_clean_page_that_another_tag_knows_as_dirty_is_found_when_it_comes_back() {
    let back = |flushes: bool| {
        programs(
            Config::x86(1),
            || {
                let root = tables::allocate();
                tables::map(root, VA, PAGE, Access::WRITE);
                let pte = tables::pte(root, VA);
                pte.store(tables::with_flags(pte.peek(), Flags::BOTH), Relaxed);
                tables::hardware_writes(pte);
                x86::Insn.write_cr3(root.address() | 1);
                x86::Insn.write_cr3(tables::allocate().address() | 2 | 1 << 63);
                World { root, pte, seen: Word::ZERO }
            },
            move |world: &World, _| {
                world.pte.fetch_and(!(1 << 6), SeqCst);
                oracle::cleaned(PAGE, 1);
                x86::Insn.write_cr3(world.root.address() | 1 | u64::from(!flushes) << 63);
            },
        )
    };
    back(true).holds();
    back(false).breaks(Rule::StaleTranslation);
}

#[test]
fn bits_set_by_hardware_make_no_translation_stale() {
    // CPU 0 revokes what was there; that CPU 1 sets bits of the new descriptor meanwhile is no
    // difference.
    let remap = programs(
        Config::arm(2).with_updates(Updates::Dirty),
        || world(Arch::Arm, Access::WRITE, Flags::ACCESSED),
        |world: &World, cpu| {
            if cpu == 1 {
                access_store(VA, 1);
                return;
            }
            let tlbi = || {
                let scope = Scope::Broadcast;
                arm::Insn.tlbi(Tlbi { op: TlbiOp::Va, scope, operand: 3 << 48 | VA >> 12 });
                arm::Insn.dsb(Dsb::Ish);
            };
            let old = world.pte.swap(0, Relaxed);
            arm::Insn.dsb(Dsb::Ishst);
            tlbi();
            oracle::harvested(PAGE, 1, tables::flags(old));
            let page = tables::page(PAGE, Access::WRITE);
            world.pte.store(tables::with_flags(page, Flags::NONE), Relaxed);
            arm::Insn.dsb(Dsb::Ish);
            oracle::revoked(world.root, VA);
            oracle::harvested(PAGE, 1, Flags::NONE);
        },
    );
    remap.holds();
}

#[test]
fn a_frame_that_is_allocated_begins_anew() {
    let anew = |allocated: bool| {
        two(
            Config::x86(2),
            Flags::ACCESSED,
            move |world| {
                while world.seen.load(Acquire) == 0 {
                    relax();
                }
                world.pte.swap(0, SeqCst);
                if allocated {
                    oracle::frame_allocated(PAGE);
                }
                oracle::harvested(PAGE, 1, Flags::NONE);
            },
            |world| {
                access_store(VA, 1);
                world.seen.store(1, Release);
            },
        )
    };
    anew(true).holds();
    anew(false).breaks(Rule::LostFlag);
}

#[test]
fn x1_what_an_access_sets_is_noted() {
    // With no pre-emption nothing is set unasked while the program can go on.
    let looks = programs(
        Config::x86(1),
        || {
            let root = tables::allocate();
            tables::map(root, VA, PAGE, Access::WRITE);
            let pte = tables::pte(root, VA);
            pte.store(tables::with_flags(pte.peek(), Flags::NONE), Relaxed);
            tables::hardware_writes(pte);
            load(Arch::X86, root);
            World { root, pte, seen: Word::ZERO }
        },
        |world: &World, _| {
            let _ = access(VA);
            world.pte.store(0, SeqCst);
            oracle::harvested(PAGE, 1, Flags::NONE);
        },
    );
    assert_eq!(looks.explorer().bounded(0, Budget::UNLIMITED).broken(), Rule::LostFlag);
}

#[test]
fn every_explorer_has_hardware_set_bits() {
    let software = |world: &World| take(world, false);
    let lost = two(Config::x86(2), Flags::NONE, software, |_| {});
    let mut explorer = lost.explorer();
    let reports = [explorer.random(1, 1000), explorer.pct(1, 2, 10_000)];
    for report in reports {
        let failure = report.failure.expect("the bit is lost");
        let replay = explorer.replay(&failure.schedule).expect("the schedule is fresh");
        assert_eq!(replay.violation, Some(failure.violation.clone()));
        let short = explorer.shrink(&failure);
        let table = explorer.explain(&short).expect("the schedule is fresh");
        assert!(table.contains("sets the accessed bit"), "{table}");
    }
}
