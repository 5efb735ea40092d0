//! States that differ in one thing only are different states: each scenario has an outcome that is
//! lost if that thing is left out of the hash.

use crate::common::programs;
use lookaside::{
    arch::x86_64::Instructions,
    platform::{
        CpuId,
        Ordering::{Relaxed, SeqCst},
        Word as _,
    },
};
use lookaside_machine::adversary::{
    Access, Buffers, Config, Frame, Word, access, as_cpu, interrupt, milestone, outcome, tables,
    x86::Insn,
};

const VA: u64 = 0x5000;
const KEEP: u64 = 1 << 63;

struct World {
    roots: [Frame; 2],
    pte: &'static Word,
    flag: Word,
    other: Word,
    seen: Word,
}

/// Two spaces; CPU 1 has both cached, if asked to, and runs neither.
fn world(cached: bool) -> World {
    let roots = [tables::allocate(), tables::allocate()];
    tables::map(roots[0], VA, Frame(7), Access::WRITE);
    tables::map(roots[1], VA, Frame(8), Access::WRITE);
    if cached {
        as_cpu(CpuId(1), || {
            Insn.write_cr3(roots[0].address() | 1);
            Insn.write_cr3(roots[1].address() | 2);
            Insn.write_cr3(0);
        });
    }
    World {
        roots,
        pte: tables::pte(roots[0], VA),
        flag: Word::ZERO,
        other: Word::ZERO,
        seen: Word::ZERO,
    }
}

fn config() -> Config {
    Config::x86(2).with_buffers(Buffers::None)
}

#[test]
fn states_with_different_tlb_contents_differ() {
    // The page is 9 for a moment. Whether CPU 1 loaded the root in that moment shows in its TLB
    // only.
    let scenario = programs(
        config(),
        || world(false),
        |world: &World, cpu| {
            if cpu == 0 {
                world.pte.store(tables::page(Frame(9), Access::WRITE), SeqCst);
                world.pte.store(tables::page(Frame(7), Access::WRITE), SeqCst);
                world.flag.store(1, SeqCst);
                world.flag.load(Relaxed);
            } else {
                Insn.write_cr3(world.roots[0].address() | 1);
                let over = world.flag.load(Relaxed);
                let frame = access(VA).map_or(0, |frame| frame.0);
                world.seen.store(over << 4 | frame, Relaxed);
            }
        },
    )
    .finish(|world| outcome(world.seen.peek()));
    let outcomes = scenario.holds().outcomes;
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [0x07, 0x09, 0x17, 0x19]);
}

#[test]
fn states_with_different_registers_differ() {
    // CPU 1 forgets which root it loaded; the register does not.
    let scenario = programs(
        config(),
        || world(true),
        |world: &World, cpu| {
            if cpu == 0 {
                world.flag.store(1, Relaxed);
                world.other.store(1, Relaxed);
            } else {
                let which = world.flag.load(Relaxed);
                let root = world.roots[which as usize].address();
                Insn.write_cr3(root | (which + 1) | KEEP);
                milestone();
                let over = world.flag.load(Relaxed);
                let frame = access(VA).map_or(0, |frame| frame.0);
                let other = world.other.load(Relaxed);
                world.seen.store(other << 8 | over << 4 | frame, Relaxed);
            }
        },
    )
    .finish(|world| outcome(world.seen.peek()));
    let outcomes = scenario.holds().outcomes.into_iter().collect::<Vec<_>>();
    assert_eq!(outcomes, [0x007, 0x017, 0x018, 0x107, 0x117, 0x118]);
}

#[test]
fn states_with_different_pending_interrupts_differ() {
    // The handler leaves no trace if it comes early.
    let scenario = programs(
        config(),
        || world(false),
        |world: &World, cpu| {
            if cpu == 0 {
                interrupt(0b10);
                world.other.store(1, Relaxed);
            } else {
                world.flag.store(1, Relaxed);
                let over = world.other.load(Relaxed);
                world.seen.fetch_or(over << 4, Relaxed);
            }
        },
    )
    .interrupt(|world, _| {
        let seen = world.flag.load(Relaxed);
        world.seen.fetch_or(seen, Relaxed);
    })
    .finish(|world| outcome(world.seen.peek()));
    let outcomes = scenario.holds().outcomes;
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [0x00, 0x01, 0x10, 0x11]);
}
