//! A kernel with a root of its own: what is executed in the kernel, and what the trampoline writes.

use super::*;

const SEPARATE: Config = Config { tables: Tables::Separate, ..CONFIG };

/// What is executed between the reading of `satp`, which names `outgoing`, and the end.
fn executed(
    asid_bits: u32,
    outgoing: (u64, u16),
    errata: Errata,
    act: impl FnOnce(&Riscv<Recorder>, Errata),
) -> Vec<Event> {
    let riscv = machine(asid_bits, SEPARATE, satp(outgoing.0, outgoing.1));
    act(&riscv, errata);
    let events = riscv.instructions.take();
    assert_eq!(events[0], Event::ReadSatp);
    events[1..].to_vec()
}

fn foreign(riscv: &Riscv<Recorder>, errata: Errata) {
    // SAFETY: no hardware walks this root.
    unsafe { riscv.load_foreign(errata, Root::new(B)) };
}

#[test]
fn a_switch_fences_at_most_and_leaves_the_kernels_root_loaded() {
    use Held::{Drop, Keep};
    let from = |act: &dyn Fn(&Riscv<Recorder>, Errata)| {
        executed(16, (RESERVED, 0), NO_ERRATA, |riscv, errata| act(riscv, errata))
    };
    assert_eq!(from(&load(A, 1, Keep)), []);
    assert_eq!(from(&load(A, 1, Drop)), [sfence(1)]);
    assert_eq!(from(&park), []);
    let all = Event::SfenceVma(None, None);
    assert_eq!(executed(16, (RESERVED, 0), FENCE_OPERANDS, load(A, 1, Drop)), [all]);
    // Without ASIDs the trampoline has fenced at the trap, and will at the exit.
    for held in [Keep, Drop] {
        assert_eq!(executed(0, (RESERVED, 0), NO_ERRATA, load(A, 0, held)), []);
    }
}

#[test]
fn a_foreign_root_stands_in_for_the_kernels() {
    let leave = |tag| load(A, tag, Held::Keep);
    assert_eq!(executed(16, (RESERVED, 0), NO_ERRATA, foreign), [sfence(1), write(B, 1)]);
    assert_eq!(executed(16, (B, 1), NO_ERRATA, leave(2)), [write(RESERVED, 0)]);
    assert_eq!(executed(0, (RESERVED, 0), NO_ERRATA, foreign), [write(B, 0), sfence(0)]);
    assert_eq!(executed(0, (B, 0), NO_ERRATA, leave(0)), [write(RESERVED, 0), sfence(0)]);
    // With one root for both modes the load of the space's root is enough.
    assert_eq!(switch(16, (A, 2), NO_ERRATA, foreign), [sfence(1), write(B, 1)]);
    assert_eq!(switch(0, (A, 0), NO_ERRATA, foreign), [write(B, 0), sfence(0)]);
    assert_eq!(switch(16, (B, 1), NO_ERRATA, leave(2)), [write(A, 2)]);
}

#[test]
fn the_trampoline_writes_the_space_on_the_way_out_and_the_kernel_on_the_way_in() {
    for held in [Held::Keep, Held::Drop] {
        let riscv = machine(16, SEPARATE, satp(RESERVED, 0));
        let user = riscv.user_root(Root::new(A), Tag(7), held, Sharing::Private);
        assert_eq!(user, satp(A, 7));
        let kernel = riscv.kernel_root(Root::new(A), Tag(7), Sharing::Private);
        assert_eq!(kernel, satp(RESERVED, 0));
        assert!(!riscv.trampoline_fences());
        assert_eq!(riscv.instructions.take(), []);
    }
    let plain = machine(0, SEPARATE, satp(RESERVED, 0));
    assert_eq!(plain.user_root(Root::new(A), Tag(0), Held::Drop, Sharing::Private), satp(A, 0));
    assert!(plain.trampoline_fences());
    // Where the kernel is mapped in every root, both are what is loaded already.
    let one = machine(16, CONFIG, satp(A, 7));
    assert_eq!(one.user_root(Root::new(A), Tag(7), Held::Keep, Sharing::Private), satp(A, 7));
    assert_eq!(one.kernel_root(Root::new(A), Tag(7), Sharing::Private), satp(A, 7));
}

#[test]
fn a_tag_that_does_not_fit_is_not_written_by_the_trampoline() {
    let user = |tag| {
        let riscv = machine(8, SEPARATE, satp(RESERVED, 0));
        panic::catch_unwind(panic::AssertUnwindSafe(|| {
            riscv.user_root(Root::new(A), Tag(tag), Held::Keep, Sharing::Private)
        }))
    };
    assert_eq!(user(0xff).ok(), Some(satp(A, 0xff)));
    assert!(user(0x100).is_err());
}

#[test]
fn in_the_kernel_the_register_names_the_kernels_root_whatever_is_loaded() {
    let riscv = machine(16, SEPARATE, satp(RESERVED, 0));
    assert!(riscv.is_loaded(Root::new(A), Tag(7)));
    for other in [satp(A, 7), satp(B, 0)] {
        assert!(!machine(16, SEPARATE, other).is_loaded(Root::new(A), Tag(7)));
    }
    assert!(machine(16, CONFIG, satp(A, 7)).is_loaded(Root::new(A), Tag(7)));
    assert!(!machine(16, CONFIG, satp(RESERVED, 0)).is_loaded(Root::new(A), Tag(7)));
}

#[test]
fn a_space_has_one_table_beside_the_kernels() {
    let riscv = machine(16, SEPARATE, 0);
    assert_eq!(riscv.check_root(Root::new(A)), Ok(()));
    let two = Root { table: RESERVED, user_table: A };
    assert_eq!(riscv.check_root(two), Err(Error::BadRoot { address: A }));
}

#[test]
fn flushes_name_the_users_asid_while_the_kernels_root_is_loaded() {
    let riscv = machine(16, SEPARATE, satp(RESERVED, 0));
    riscv.flush(NO_ERRATA, Invalidation::Tag(Tag(7)), Scope::Local);
    assert_eq!(riscv.instructions.take(), [sfence(7), Event::Fence]);
    let page = VaRange::new(0x4000, 0x1000, 12).unwrap();
    riscv.flush(
        NO_ERRATA,
        Invalidation::ranges(Tag(7), &[page], TableChange::LastLevel),
        Scope::Local,
    );
    assert_eq!(riscv.instructions.take(), [Event::SfenceVma(Some(0x4000), Some(7)), Event::Fence]);
}
