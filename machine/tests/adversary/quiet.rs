//! Targets that acknowledge before they invalidate: what may linger, and what no program may do.

use crate::common::{Programs, programs};
use lookaside::{
    arch::x86_64::Instructions,
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Config, Frame, Rule, Word, access, access_store, as_cpu, interrupt, oracle, relax,
    tables, x86::Insn,
};

const VA: u64 = 0x5000;
const PAGE: Frame = Frame(7);

struct World {
    root: Frame,
    pte: &'static Word,
    done: Word,
}

fn world() -> World {
    let root = tables::allocate();
    tables::map(root, VA, PAGE, Access::WRITE);
    for cpu in 0..2 {
        as_cpu(CpuId(cpu), || Insn.write_cr3(root.address()));
    }
    World { root, pte: tables::pte(root, VA), done: Word::ZERO }
}

#[derive(Clone, Copy, PartialEq)]
enum Claim {
    Freed,
    Quiet,
}

/// CPU 0 takes the page from CPU 1, whose program does `user` and whose handler does `answer`.
fn take(claim: Claim, user: fn(&World), answer: fn(&World)) -> Programs<World> {
    programs(Config::x86(2), world, move |world: &World, cpu| {
        if cpu == 1 {
            return user(world);
        }
        world.pte.store(0, Relaxed);
        interrupt(0b10);
        Insn.invlpg(VA);
        while world.done.load(Acquire) == 0 {
            relax();
        }
        match claim {
            Claim::Freed => oracle::frame_freed(PAGE),
            Claim::Quiet => oracle::frame_quiet(PAGE),
        }
        oracle::frame_allocated(PAGE);
    })
    .interrupt(move |world, _| answer(world))
}

fn uses(_: &World) {
    let _ = access(VA);
    let _ = access(VA);
}

fn acknowledges_first(world: &World) {
    world.done.store(1, Release);
    Insn.invlpg(VA);
}

fn acknowledges_last(world: &World) {
    Insn.invlpg(VA);
    world.done.store(1, Release);
}

fn never_invalidates(world: &World) {
    world.done.store(1, Release);
}

#[test]
fn an_entry_may_linger_behind_the_acknowledgement() {
    take(Claim::Quiet, uses, acknowledges_first).holds();
    take(Claim::Freed, uses, acknowledges_first).breaks(Rule::FreedFrame);
    take(Claim::Quiet, uses, acknowledges_last).holds();
    take(Claim::Freed, uses, acknowledges_last).holds();
}

#[test]
fn no_program_may_go_through_it() {
    take(Claim::Quiet, uses, never_invalidates).breaks(Rule::StaleTranslation);
    let stores = |_: &World| {
        access_store(VA, 1);
    };
    // Found first on its way: translated behind the acknowledgement, before the claim.
    take(Claim::Quiet, stores, never_invalidates).breaks(Rule::FreedFrame);
    // A program that uses nothing may come back to it.
    take(Claim::Quiet, |_| {}, never_invalidates).holds();
}

#[test]
fn no_store_may_be_on_its_way() {
    // The program's store is in the buffer when the handler acknowledges. Release empties it; a
    // machine on which the acknowledgement overtakes the store shows it on its way.
    let stores = |_: &World| {
        access_store(VA, 1);
    };
    take(Claim::Quiet, stores, acknowledges_first).holds();
    let mut overtakes = take(Claim::Quiet, stores, |world| {
        world.done.store(1, Relaxed);
        Insn.invlpg(VA);
    });
    overtakes.holds(); // total store order
    overtakes =
        overtakes.with(Config::x86(2).with_buffers(lookaside_machine::adversary::Buffers::Pso));
    overtakes.breaks(Rule::FreedFrame);
}

#[test]
fn waking_with_a_lingering_entry_is_use() {
    let rests = |invalidates: bool| {
        programs(Config::x86(2), world, move |world: &World, cpu| {
            if cpu == 0 {
                world.pte.store(0, SeqCst);
                Insn.invlpg(VA);
                while world.done.load(Acquire) == 0 {
                    relax();
                }
                oracle::frame_quiet(PAGE);
                // The claim outlives the frame's next owner.
                oracle::frame_allocated(PAGE);
                world.done.store(2, Release);
            } else {
                oracle::rests();
                world.done.store(1, Release);
                while world.done.load(Acquire) == 1 {
                    relax();
                }
                if invalidates {
                    Insn.invlpg(VA);
                }
                oracle::wakes();
            }
        })
    };
    rests(true).holds();
    rests(false).breaks(Rule::StaleTranslation);
}

#[test]
fn a_quiet_frame_may_be_used_once_allocated_and_remapped() {
    let again = |allocates: bool, remaps: bool| {
        programs(Config::x86(1), world_of_one, move |world: &World, _| {
            world.pte.store(0, SeqCst);
            oracle::frame_quiet(PAGE);
            if allocates {
                oracle::frame_allocated(PAGE);
            }
            if remaps {
                world.pte.store(tables::page(PAGE, Access::WRITE), SeqCst);
            }
            let _ = access(VA);
        })
    };
    again(true, true).holds();
    again(true, false).breaks(Rule::StaleTranslation);
    // What leads to a frame that nobody has allocated leads nowhere, however new it is.
    again(false, true).breaks(Rule::StaleTranslation);
}

fn world_of_one() -> World {
    let root = tables::allocate();
    tables::map(root, VA, PAGE, Access::WRITE);
    Insn.write_cr3(root.address());
    World { root, pte: tables::pte(root, VA), done: Word::ZERO }
}

#[test]
fn a_frame_that_is_mapped_is_not_quiet() {
    let mapped = programs(Config::x86(1), world_of_one, |world: &World, _| {
        oracle::frame_quiet(PAGE);
        oracle::revoked(world.root, VA);
        let _ = access(VA);
    });
    mapped.breaks(Rule::StaleTranslation);
}
