//! Drawing a program about a kernel that runs user mode under another root or tag.

use super::{draw, random::Random};
use crate::scenario::{
    pairs::Act,
    program::{PAIR_KINDS, PairProgram, SPACES},
};

/// The operations, and how often each is drawn beside the others.
const OPERATIONS: &[(&str, usize)] = &[
    ("Run", 20),
    ("Visit", 20),
    ("Write", 6),
    ("Copy", 6),
    ("Lazy", 6),
    ("Park", 4),
    ("Firmware", 4),
    ("Release", 5),
    ("Unmap", 14),
    ("Protect", 5),
    ("FreeTable", 6),
    ("Clear", 5),
    ("Early", 4),
    ("Batch", 4),
    ("UnmapKernel", 4),
];
/// The most acts of a CPU.
const LONGEST: usize = 7;
/// How often a CPU leaves for user mode right after a switch.
const VISITED: usize = 60;
/// How often an act is about the first space.
const FOCUSED: usize = 60;

/// Draws a program. It may not be allowed.
pub(super) fn program(random: &mut Random) -> PairProgram {
    let kind = random.below(PAIR_KINDS.len());
    let cpus = [1, 2, 3][random.weighted([10, 80, 10].into_iter())];
    let cpus = cpus.min(PAIR_KINDS[kind].most_cpus);
    let early = !PAIR_KINDS[kind].name.starts_with("pair-x86") && random.percent(25);
    let mut program =
        PairProgram { kind, early, cpus: (0..cpus).map(|_| script(random)).collect() };
    draw::wait_for_signal(random, &mut program.cpus, Act::Signal, Act::Await);
    program
}

/// A program that is like another one, but for what one CPU does, or for its machine.
pub(super) fn change(random: &mut Random, like: &PairProgram) -> PairProgram {
    let mut program = like.clone();
    let cpu = random.below(program.cpus.len());
    let acts = &mut program.cpus[cpu];
    match random.below(4) {
        0 => program.kind = random.below(PAIR_KINDS.len()),
        1 => *acts = script(random),
        2 if acts.len() > 1 => drop(acts.remove(random.below(acts.len()))),
        _ => acts.insert(random.below(acts.len() + 1), act(random)),
    }
    program
}

/// A CPU that switches now and then, and executes user code in between.
fn script(random: &mut Random) -> Vec<Act> {
    let mut acts = Vec::new();
    for _ in 0..=random.below(LONGEST) {
        let act = act(random);
        acts.push(act);
        if matches!(act, Act::Run(_)) && random.percent(VISITED) {
            acts.push(Act::Visit);
        }
    }
    acts
}

fn act(random: &mut Random) -> Act {
    let number = random.weighted(OPERATIONS.iter().map(|(_, weight)| *weight));
    let space = if random.percent(FOCUSED) { 0 } else { random.below(SPACES) };
    Act::named(OPERATIONS[number].0, space, random.below(2)).expect("an operation is an act")
}
