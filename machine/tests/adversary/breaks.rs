//! Break-before-make: which changes ask for it on Arm, what is a break, and that the other
//! architectures ask for none. A10 to A12, X4 and R11 are the rules in the documentation of the
//! adversary.

use crate::common::{Programs, load, programs};
use lookaside::{
    arch::aarch64::{Dsb, Instructions as _, Scope, Tlbi, TlbiOp},
    platform::{CpuId, Ordering::Relaxed, Word as _},
};
use lookaside_machine::adversary::{
    Access, Arch, Bbm, Config, Frame, Rule, Word, access, arm, as_cpu, oracle, outcome, tables,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(0x25);

struct World {
    root: Frame,
    /// The descriptor of the page, and the one above that names its table.
    pte: &'static Word,
    parent: &'static Word,
    seen: Word,
}

fn world(arch: Arch, access: Access) -> World {
    let root = tables::allocate();
    tables::map(root, VA, PAGE, access);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || load(arch, root));
    }
    let (pte, parent) = (tables::pte(root, VA), tables::entry(root, VA, 1));
    World { root, pte, parent, seen: Word::ZERO }
}

fn tlbi(op: TlbiOp) {
    let scope = Scope::Broadcast;
    arm::Insn.tlbi(Tlbi { op, scope, operand: 3 << 48 | VA >> 12 });
}

/// CPU 0 changes the descriptor of the page into another.
fn change(access: Access, change: fn(u64) -> u64, between: fn(&World)) -> Programs<World> {
    programs(
        Config::arm(2),
        move || world(Arch::Arm, access),
        move |world: &World, cpu| {
            if cpu == 0 {
                let old = world.pte.load(Relaxed);
                between(world);
                world.pte.store(change(old), Relaxed);
                arm::Insn.dsb(Dsb::Ishst);
            }
        },
    )
}

fn nothing(_: &World) {}

fn breaks(world: &World) {
    world.pte.store(0, Relaxed);
    arm::Insn.dsb(Dsb::Ishst);
    tlbi(TlbiOp::Va);
    arm::Insn.dsb(Dsb::Ish);
}

/// The access flag is enough of a break.
fn forgets(world: &World) {
    world.pte.store(world.pte.load(Relaxed) & !(1 << 10), Relaxed);
    arm::Insn.dsb(Dsb::Ishst);
    tlbi(TlbiOp::Va);
    arm::Insn.dsb(Dsb::Ish);
}

/// The invalidation is on its way.
fn hurries(world: &World) {
    world.pte.store(0, Relaxed);
    arm::Insn.dsb(Dsb::Ishst);
    tlbi(TlbiOp::Va);
}

/// Nobody invalidates.
fn clears(world: &World) {
    world.pte.store(0, Relaxed);
    arm::Insn.dsb(Dsb::Ishst);
}

fn output(old: u64) -> u64 {
    old ^ 1 << 12
}

fn memory_type(old: u64) -> u64 {
    old ^ 1 << 2
}

fn shareability(old: u64) -> u64 {
    old ^ 1 << 9
}

fn globality(old: u64) -> u64 {
    old ^ 1 << 11
}

fn contiguity(old: u64) -> u64 {
    old ^ 1 << 52
}

fn permission(old: u64) -> u64 {
    old ^ 1 << 7
}

fn software_bit(old: u64) -> u64 {
    old ^ 1 << 55
}

const ASK: [fn(u64) -> u64; 5] = [output, memory_type, shareability, globality, contiguity];

#[test]
fn a10_what_asks_for_a_break() {
    for what in ASK {
        change(Access::WRITE, what, nothing).breaks(Rule::BreakBeforeMake);
        change(Access::WRITE, what, breaks).holds();
    }
    // One of the two permits stores.
    let both = |old: u64| permission(output(old));
    change(Access::READ, both, nothing).breaks(Rule::BreakBeforeMake);
    change(Access::WRITE, both, nothing).breaks(Rule::BreakBeforeMake);
    change(Access::READ, both, breaks).holds();
}

#[test]
fn a10_a11_what_does_not() {
    change(Access::READ, output, nothing).holds();
    for access in [Access::READ, Access::WRITE] {
        change(access, permission, nothing).holds();
        change(access, software_bit, nothing).holds();
    }
}

#[test]
fn a10_what_is_a_break() {
    for what in ASK {
        change(Access::WRITE, what, forgets).holds();
        change(Access::WRITE, what, hurries).breaks(Rule::BreakBeforeMake);
        change(Access::WRITE, what, clears).breaks(Rule::BreakBeforeMake);
    }
    // A CPU that cannot walk there makes nothing.
    let parked = programs(
        Config::arm(1),
        || {
            let root = tables::allocate();
            tables::map(root, VA, PAGE, Access::WRITE);
            load(Arch::Arm, root);
            // Under another ASID: under the same one, partial walks would go on.
            arm::Insn.write_ttbr0(tables::allocate_reserved().address());
            arm::Insn.isb();
            let (pte, parent) = (tables::pte(root, VA), tables::entry(root, VA, 1));
            World { root, pte, parent, seen: Word::ZERO }
        },
        |world: &World, _| {
            world.pte.store(output(world.pte.load(Relaxed)), Relaxed);
            arm::Insn.dsb(Dsb::Ishst);
            tlbi(TlbiOp::Aside);
            arm::Insn.dsb(Dsb::Ish);
            load(Arch::Arm, world.root);
        },
    );
    parked.holds();
}

/// CPU 0 puts a block in place of the table; `frame` is what the block maps at the page.
fn grow(config: Config, frame: u64, invalidates: bool) -> Programs<World> {
    let arch = config.arch;
    programs(
        config,
        move || world(arch, Access::WRITE),
        move |world: &World, cpu| {
            if cpu == 0 {
                if invalidates {
                    world.parent.store(0, Relaxed);
                    arm::Insn.dsb(Dsb::Ishst);
                    tlbi(TlbiOp::Va);
                    arm::Insn.dsb(Dsb::Ish);
                }
                let leaf = tables::block(1, Frame(frame & !0xf), Access::WRITE);
                world.parent.swap(leaf, Relaxed);
                let frame = access(VA).map_or(0, |frame| frame.0);
                world.seen.store(frame, Relaxed);
            }
        },
    )
    .finish(|world| outcome(world.seen.peek()))
}

fn outcomes(programs: &Programs<World>) -> Vec<u64> {
    programs.holds().outcomes.into_iter().collect()
}

#[test]
fn a10_a_block_in_place_of_a_table() {
    let arm = |bbm: Bbm| Config::arm(2).with_bbm(bbm);
    grow(arm(Bbm::L0), PAGE.0, false).breaks(Rule::BreakBeforeMake);
    // The other levels allow another size, and nothing else.
    for bbm in [Bbm::L1, Bbm::L2Abort, Bbm::L2NoAbort] {
        grow(arm(bbm), PAGE.0 + 0x10, false).breaks(Rule::BreakBeforeMake);
    }
    for bbm in [Bbm::L0, Bbm::L1, Bbm::L2Abort, Bbm::L2NoAbort] {
        assert_eq!(outcomes(&grow(arm(bbm), PAGE.0, true)), [PAGE.0], "{bbm:?}");
    }
    assert_eq!(outcomes(&grow(arm(Bbm::L2NoAbort), PAGE.0, false)), [PAGE.0]);
    // A conflict abort is a fault.
    for bbm in [Bbm::L1, Bbm::L2Abort] {
        assert_eq!(outcomes(&grow(arm(bbm), PAGE.0, false)), [0, PAGE.0], "{bbm:?}");
    }
}

#[test]
fn x4_r11_elsewhere_both_sizes_may_be_used() {
    for config in [Config::x86(2), Config::riscv(2)] {
        assert_eq!(outcomes(&grow(config, PAGE.0 + 0x10, false)), [PAGE.0, PAGE.0 + 0x10]);
    }
}

#[test]
fn a10_holds_across_cpus_that_share() {
    // CPU 1 has the page cached, and CPU 0 comes to walk to another one.
    let shared = |cnp: u64| {
        let config = if cnp == 1 { Config::arm(2).with_cnp() } else { Config::arm(2) };
        let build = move || {
            let root = tables::allocate();
            tables::map(root, VA, PAGE, Access::WRITE);
            let spare = tables::allocate_reserved();
            as_cpu(CpuId(1), || {
                arm::Insn.write_ttbr0(root.address() | 3 << 48 | cnp);
                arm::Insn.isb();
                // It cannot walk any more, and holds what it has.
                arm::Insn.write_ttbr0(spare.address() | cnp);
                arm::Insn.isb();
            });
            let (pte, parent) = (tables::pte(root, VA), tables::entry(root, VA, 1));
            World { root, pte, parent, seen: Word::ZERO }
        };
        programs(config, build, move |world: &World, cpu| {
            if cpu == 0 {
                world.pte.swap(output(world.pte.load(Relaxed)), Relaxed);
                arm::Insn.write_ttbr0(world.root.address() | 3 << 48 | cnp);
                arm::Insn.isb();
            }
        })
    };
    shared(0).holds();
    shared(1).breaks(Rule::BreakBeforeMake);
}

#[test]
fn a11_a_store_may_meet_either_permission() {
    // The page is write-protected; until the invalidation is complete a store may succeed.
    let protect = |invalidates: bool| {
        programs(
            Config::arm(2),
            || world(Arch::Arm, Access::WRITE),
            move |world: &World, cpu| {
                if cpu == 0 {
                    world.pte.store(permission(world.pte.load(Relaxed)), Relaxed);
                    arm::Insn.dsb(Dsb::Ishst);
                    if invalidates {
                        tlbi(TlbiOp::Va);
                        arm::Insn.dsb(Dsb::Ish);
                        arm::Insn.isb();
                        oracle::revoked(world.root, VA);
                    }
                    let stored = lookaside_machine::adversary::access_store(VA, 1).is_some();
                    world.seen.store(u64::from(stored), Relaxed);
                }
            },
        )
        .finish(|world| outcome(world.seen.peek()))
    };
    assert_eq!(outcomes(&protect(false)), [0, 1]);
    assert_eq!(outcomes(&protect(true)), [0]);
}
