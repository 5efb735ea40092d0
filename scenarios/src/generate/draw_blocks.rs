//! Drawing a program about blocks of page-table entries.

use core::ops::Range;

use super::{draw, random::Random};
use crate::scenario::{
    blocks::Act,
    program::{BLOCK_KINDS, BlockProgram, PRESETS},
};

/// The operations, and how often each is drawn beside the others.
const OPERATIONS: &[(&str, usize)] = &[
    ("Run", 3),
    ("Park", 3),
    ("Load", 8),
    ("Store", 14),
    ("Insist", 6),
    ("Unmap", 10),
    ("Exit", 1),
    ("Fold", 8),
    ("Unfold", 8),
    ("Protect", 8),
    ("Age", 6),
    ("Clean", 8),
    ("Allow", 6),
];
/// The most acts of a CPU.
const LONGEST: usize = 4;

/// Draws a program. It may not be allowed.
pub(super) fn program(random: &mut Random) -> BlockProgram {
    let preset = random.below(PRESETS.len());
    let mut program =
        BlockProgram { kind: random.below(BLOCK_KINDS.len()), preset, cpus: Vec::new() };
    let pages = program.pages();
    for _ in 0..[1, 2, 3][random.weighted([10, 75, 15].into_iter())] {
        program.cpus.push(script(random, pages));
    }
    draw::wait_for_signal(random, &mut program.cpus, Act::Tell, Act::Await);
    program
}

/// A program that is like another one, but for what one CPU does, or for its machine.
pub(super) fn change(random: &mut Random, like: &BlockProgram) -> BlockProgram {
    let mut program = like.clone();
    let (cpu, pages) = (random.below(program.cpus.len()), program.pages());
    let acts = &mut program.cpus[cpu];
    match random.below(4) {
        0 => program.kind = random.below(BLOCK_KINDS.len()),
        1 => *acts = script(random, pages),
        2 if acts.len() > 1 => drop(acts.remove(random.below(acts.len()))),
        _ => acts.insert(random.below(acts.len() + 1), act(random, pages)),
    }
    program
}

fn script(random: &mut Random, pages: usize) -> Vec<Act> {
    (0..=random.below(LONGEST)).map(|_| act(random, pages)).collect()
}

fn act(random: &mut Random, pages: usize) -> Act {
    let number = random.weighted(OPERATIONS.iter().map(|(_, weight)| *weight));
    Act::named(OPERATIONS[number].0, slots(random, pages)).expect("an operation is an act")
}

/// Some pages, or all.
fn slots(random: &mut Random, pages: usize) -> Range<usize> {
    let first = random.below(pages);
    if random.percent(25) { 0..pages } else { first..first + 1 + random.below(pages - first) }
}
