//! A shape of Arm on the litmus engine, if it has its operations: one level of table, one tag, no root registers.

use std::collections::BTreeSet;

use lookaside::arch::aarch64::{Dsb, TlbiOp};

use super::shape::{CPUS, OWN, Operation, Place, Shape};
use crate::{
    adversary::{Arch, arm::of_dsb},
    litmus::{
        Acquire, Barrier, Descriptor, Final, Hardware, Instruction, OnFault, Register, Test,
        Thread, Width, address, descriptor_address, explore,
    },
};

/// The variables: the page that is accessed, the one whose frame it may lead to, and the plain words.
const PAGE: usize = 0;
const OTHER_FRAME: usize = 1;
const WORDS: [usize; 2] = [2, 3];

/// More states than any shape has.
const LIMIT: usize = 10_000_000;

/// Every way in which a shape can end on CPUs that execute in order, and on such as do not; nothing if the engine
/// lacks an operation.
pub(super) fn outcomes(shape: &Shape, ets2: bool) -> Option<[BTreeSet<u64>; 2]> {
    if shape.arch != Arch::Arm {
        return None;
    }
    let page = Descriptor { dirty: false, ..Descriptor::to(PAGE) };
    let plain = [OTHER_FRAME, WORDS[0], WORDS[1]].map(Descriptor::to);
    let threads: Option<Vec<_>> = (0..CPUS).map(|cpu| thread(shape, cpu)).collect();
    let test = Test {
        contents: vec![1, 2, 0, 0],
        descriptors: [page].into_iter().chain(plain).collect(),
        threads: threads?,
    };
    let run = |in_order: bool| {
        let found =
            explore(&test, Hardware { ets2, in_order }, &mut |so_far| so_far.states > LIMIT)?;
        Some(found.finals.iter().map(|ending| decode(shape, ending)).collect())
    };
    Some([run(true)?, run(false)?])
}

/// What a value of the page's descriptor is in memory.
fn descriptor(value: u8) -> u64 {
    let to = |output| Descriptor { dirty: false, ..Descriptor::to(output) }.encode();
    match value {
        0 => 0,
        1 => to(PAGE),
        _ => to(OTHER_FRAME),
    }
}

/// Registers from 0 on receive what the operations observe, from 8 on hold what they store, from 16 on addresses.
fn thread(shape: &Shape, cpu: usize) -> Option<Thread> {
    let mut thread = Thread { on_fault: OnFault::Stop, ..Thread::default() };
    for (at, operation) in shape.of(cpu).enumerate() {
        let [to, from, base] = [0, 8, 16].map(|first| Register(first + at as u8));
        let mut set = |register: Register, value: u64| thread.registers.push((register, value));
        let what = match operation {
            Operation::Load(place) => {
                set(base, place_address(place)?);
                Instruction::Load {
                    to,
                    width: Width::Double,
                    base,
                    index: None,
                    acquire: Acquire::No,
                }
            }
            Operation::Access => {
                set(base, address(PAGE));
                Instruction::Load {
                    to,
                    width: Width::Double,
                    base,
                    index: None,
                    acquire: Acquire::No,
                }
            }
            Operation::Store(place, value) => {
                set(base, place_address(place)?);
                let value = Shape::stored(cpu, place, value);
                set(from, if place.is_table() { descriptor(value) } else { value.into() });
                Instruction::Store { from, width: Width::Double, base, index: None, release: false }
            }
            Operation::Fence => Instruction::Dmb(Barrier::Full),
            // To the engine a barrier for one CPU is one for all.
            Operation::Dsb(kind @ (Dsb::Ish | Dsb::Ishst)) => Instruction::Dsb(of_dsb(kind).0),
            Operation::Isb => Instruction::Isb,
            Operation::Tlbi(op, scope, tag) => {
                // Everything is under tag 0 there.
                let tag = if tag == OWN { 0 } else { tag };
                let operand = match op {
                    TlbiOp::Vmall | TlbiOp::Vmalls12 | TlbiOp::Alle1 => None,
                    TlbiOp::Aside => Some(u64::from(tag) << 48),
                    _ => Some(u64::from(tag) << 48 | address(PAGE) >> 12),
                };
                let operand = operand.map(|value| {
                    set(base, value);
                    base
                });
                Instruction::Tlbi { op, scope, operand }
            }
            _ => return None,
        };
        thread.code.push(what);
    }
    Some(thread)
}

fn place_address(place: Place) -> Option<u64> {
    match place {
        Place::X => Some(address(WORDS[0])),
        Place::Y => Some(address(WORDS[1])),
        Place::Page => Some(descriptor_address(PAGE)),
        Place::Table => None,
    }
}

/// The final state as the other engines say it.
fn decode(shape: &Shape, ending: &Final) -> u64 {
    let of_page = |word: u64| (0..3).find(|&value| descriptor(value) == word).unwrap_or(7);
    let seen = core::array::from_fn(|cpu| {
        let mut seen = 1;
        for (at, operation) in shape.of(cpu).enumerate() {
            let fault =
                |fault: &&crate::litmus::Fault| fault.thread == cpu && fault.instruction == at;
            if ending.faults.iter().any(|taken| fault(&taken)) {
                return super::seen(seen, 0);
            }
            let value = ending.registers[cpu][at];
            match operation {
                Operation::Load(Place::Page) => seen = super::seen(seen, of_page(value)),
                Operation::Load(_) | Operation::Access => seen = super::seen(seen, value as u8),
                _ => {}
            }
        }
        seen
    });
    let [x, y] = WORDS.map(|word| ending.contents[word] as u8);
    let table = Place::Table.initial();
    super::ending(seen, [x, y, of_page(ending.descriptors[PAGE]), table])
}
