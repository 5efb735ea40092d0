//! Two engines that share the rules and nothing else agree about every small program.

use lookaside::arch::{
    aarch64::{Dsb, Scope, TlbiOp},
    x86_64::Invpcid,
};
use lookaside_machine::differential::{Arch, Engines, Flaw, MOST, Operation, Place, Shape, Shapes};

use Operation::{Access, Invpcid as Pcid, Store, Tlbi};

/// Compares the shapes with so many operations on each CPU, or as many of them at random.
#[track_caller]
fn agree(arch: Arch, lengths: [usize; 2], most: u128) {
    let mut engines = Engines::new(arch, false);
    let shapes = Shapes::new(arch, lengths);
    let mut compared = 0;
    for index in 0..shapes.count().min(most) {
        let all = shapes.count() <= most;
        let number = if all { index } else { shapes.at_random(1, index as u64) };
        if let Some(shape) = shapes.get(number) {
            let found = engines.compare(&shape).expect("a shape that does not fault");
            assert!(found.is_none(), "{}", found.unwrap());
            compared += 1;
        }
    }
    assert!(compared > 0, "nothing was compared");
}

/// So many of those that are too many for a test. `lookaside differential` has the rest.
const SOME: u128 = 1_000;

#[test]
fn engines_agree_about_x86() {
    agree(Arch::X86, [2, 0], 1 << 20);
    agree(Arch::X86, [1, 1], 1 << 20);
    agree(Arch::X86, [2, 2], SOME);
}

#[test]
fn engines_agree_about_riscv() {
    agree(Arch::Riscv, [2, 0], 1 << 20);
    agree(Arch::Riscv, [1, 1], 1 << 20);
    agree(Arch::Riscv, [2, 2], SOME);
}

#[test]
fn engines_agree_about_arm() {
    agree(Arch::Arm, [2, 0], 1 << 20);
    agree(Arch::Arm, [1, 1], 1 << 20);
    agree(Arch::Arm, [2, 2], SOME);
}

fn shape(arch: Arch, first: &[Operation], second: &[Operation]) -> Shape {
    let mut code = [[None; MOST]; 2];
    for (slots, operations) in code.iter_mut().zip([first, second]) {
        for (slot, &operation) in slots.iter_mut().zip(operations) {
            *slot = Some(operation);
        }
    }
    Shape { arch, code }
}

#[test]
fn a_fault_is_not_lost_before_a_barrier() {
    let code = [Store(Place::Page, 0), Access, Operation::Dsb(Dsb::Ishst)];
    let mut engines = Engines::new(Arch::Arm, false);
    assert_eq!(engines.compare(&shape(Arch::Arm, &code, &[])), Ok(None));
    assert_eq!(engines.litmus, 1);
}

#[test]
fn a_flaw_in_one_engine_is_reported() {
    let page = |value| Store(Place::Page, value);
    let swap = Operation::Swap(Place::Page, 0, true);
    let flaws = [
        (
            Flaw::InvalidationsInOrder,
            shape(
                Arch::Arm,
                &[swap, Tlbi(TlbiOp::Vmall, Scope::Local, 0), Operation::Dsb(Dsb::Ish), Access],
                &[],
            ),
        ),
        (
            Flaw::InvalidationsInOrder,
            shape(
                Arch::Riscv,
                &[swap, Operation::Sinval(false, None), Operation::SfenceInvalIr, Access],
                &[],
            ),
        ),
        (
            Flaw::InvpcidSerialises,
            shape(Arch::X86, &[page(0), Pcid(Invpcid::Address, 1), Access], &[]),
        ),
        (
            Flaw::LocalBarrierCompletesAll,
            shape(
                Arch::Arm,
                &[
                    page(0),
                    Operation::Dsb(Dsb::Ishst),
                    Tlbi(TlbiOp::Vmall, Scope::Broadcast, 0),
                    Operation::Dsb(Dsb::Nsh),
                    Access,
                ],
                &[],
            ),
        ),
    ];
    for (flaw, shape) in flaws {
        let arch = shape.arch;
        let sound = Engines::new(arch, true).compare(&shape).expect("no fault");
        assert_eq!(sound, None, "without {flaw:?}");
        let mut engines = Engines::new(arch, true).with_flaw(flaw);
        let found = engines.compare(&shape).expect("no fault").expect("a difference");
        assert_eq!(found.between, ["adversary", "states"], "{flaw:?}");
        assert!(found.to_string().contains("adversary only"), "{found}");
    }
}
