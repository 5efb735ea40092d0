//! Changing a program a little.

use super::{
    draw::{Theme, any, finish, hand_over, pins, place},
    draw_blocks, draw_pairs,
    random::Random,
};
use crate::scenario::{
    Program,
    act::Act,
    machine::KINDS,
    program::{SpaceProgram, Strategy},
};

/// The most changes at once.
const CHANGES: usize = 4;

/// A program that is like another one, but for a few changes. It may not be allowed.
pub(super) fn program(random: &mut Random, like: &Program) -> Program {
    match like {
        Program::Spaces(like) => Program::Spaces(about_spaces(random, like)),
        Program::Blocks(like) => Program::Blocks(draw_blocks::change(random, like)),
        Program::Pairs(like) => Program::Pairs(draw_pairs::change(random, like)),
    }
}

fn about_spaces(random: &mut Random, like: &SpaceProgram) -> SpaceProgram {
    let mut program = like.clone();
    for _ in 0..=random.below(CHANGES) {
        change(random, &mut program);
    }
    // In a program in which a CPU halts, nothing is handed over or begun.
    if !program.cpus.iter().flatten().any(|act| matches!(act, Act::Halt)) {
        hand_over(random, &mut program.cpus);
        program.cpus.iter_mut().for_each(|acts| finish(random, acts));
    }
    program.cpus.retain(|acts| !acts.is_empty());
    if let Strategy::GlobalAsids(few) = &mut program.strategy {
        few.pins = pins(&program.cpus);
        few.usable = few.usable.max(program.cpus.len() as u32 + 1 + few.pins);
    }
    program
}

fn change(random: &mut Random, program: &mut SpaceProgram) {
    let spaces = program.cpus.iter().flatten().filter_map(|act| act.space()).max().unwrap_or(0) + 1;
    let theme = Theme::all(spaces);
    let cpu = random.below(program.cpus.len());
    let length = program.cpus[cpu].len();
    let at = random.below(length.max(1));
    match random.below(10) {
        // More of it.
        0..3 => {
            let act = any(random, &theme);
            let acts = &mut program.cpus[cpu];
            if matches!(act, Act::Up | Act::Down) {
                place(acts, act);
            } else {
                acts.insert(random.below(length + 1), act);
            }
        }
        // Once more what some CPU does.
        3 => {
            let other = random.below(program.cpus.len());
            let from = &program.cpus[other];
            if let Some(&act) = from.get(random.below(from.len().max(1))) {
                program.cpus[cpu].insert(random.below(length + 1), act);
            }
        }
        // Something else.
        4 | 5 if length > 0 => program.cpus[cpu][at] = any(random, &theme),
        // In another order.
        6 if length > 1 => program.cpus[cpu].swap(at, random.below(length)),
        // Less of it.
        7 if length > 1 => drop(program.cpus[cpu].remove(at)),
        // On another machine.
        8 => program.kind = random.below(KINDS.len()),
        // On a machine that does more, or less.
        _ => {
            let names = program.more.names().map(|(name, _)| name);
            if let Some(slot) = program.more.slot(names[random.below(names.len())]) {
                *slot = !*slot;
            }
        }
    }
}
