//! Shortening a program that fails: fewer CPUs, fewer acts, less hardware, as long as it breaks the same rule.

use lookaside_machine::{adversary::Rule, explore::Failure};

use super::explore::explore;
use crate::scenario::{
    Program,
    act::Act,
    pairs,
    program::{BlockProgram, PairProgram, SpaceProgram},
};

/// So much more is tried with a shorter program than was with the one that failed.
const MORE: u64 = 4;

/// A short program that breaks the same rule, with a short schedule.
pub(super) fn shorten(
    program: &Program,
    failure: &Failure,
    seed: u64,
    effort: u64,
) -> (Program, Failure) {
    let rule = failure.violation.rule;
    let (best, found) =
        shortest(program, &|shorter| fails(shorter, rule, seed, effort.saturating_mul(MORE)));
    let failure = found.unwrap_or_else(|| failure.clone());
    let short = best.open().shrink(&failure);
    (best, short)
}

/// A program of which nothing can be left out without `wrong` returning `None`, and what `wrong` returned for it;
/// `None` if that is the program itself.
pub fn shortest<T>(
    program: &Program,
    wrong: &dyn Fn(&Program) -> Option<T>,
) -> (Program, Option<T>) {
    let mut best = (program.clone(), None);
    loop {
        let allowed = candidates(&best.0).into_iter().filter(|shorter| shorter.check().is_ok());
        let found = allowed.into_iter().find_map(|shorter| Some((wrong(&shorter)?, shorter)));
        let Some((found, shorter)) = found else { return best };
        best = (shorter, Some(found));
    }
}

/// The failure of a program, if it breaks the rule.
fn fails(program: &Program, rule: Rule, seed: u64, effort: u64) -> Option<Failure> {
    let failure = explore(program, seed, effort).failure?;
    (failure.violation.rule == rule).then_some(failure)
}

/// Programs that are a little shorter, those that are shortest first.
fn candidates(program: &Program) -> Vec<Program> {
    match program {
        Program::Spaces(program) => {
            about_spaces(program).into_iter().map(Program::Spaces).collect()
        }
        Program::Blocks(program) => {
            let shorter = scripts(&program.cpus).into_iter();
            shorter.map(|cpus| Program::Blocks(BlockProgram { cpus, ..program.clone() })).collect()
        }
        Program::Pairs(program) => {
            let mut shorter = scripts(&program.cpus);
            // What waits and what is waited for go together.
            let orders = |act: &pairs::Act| matches!(act, pairs::Act::Signal | pairs::Act::Await);
            let mut unordered = program.cpus.clone();
            unordered.iter_mut().for_each(|acts| acts.retain(|act| !orders(act)));
            if unordered != program.cpus {
                shorter.push(unordered);
            }
            let shorter = shorter.into_iter();
            shorter.map(|cpus| Program::Pairs(PairProgram { cpus, ..program.clone() })).collect()
        }
    }
}

fn about_spaces(program: &SpaceProgram) -> Vec<SpaceProgram> {
    let shorter = scripts(&program.cpus).into_iter();
    let mut all: Vec<_> = shorter.map(|cpus| SpaceProgram { cpus, ..program.clone() }).collect();
    let mut without = |leaves: &dyn Fn(&Act) -> bool| {
        let mut shorter = program.clone();
        shorter.cpus.iter_mut().for_each(|acts| acts.retain(|act| !leaves(act)));
        if shorter != *program {
            all.push(shorter);
        }
    };
    // What waits and what is waited for go together, and so do the stop of a CPU, its notice, and its return.
    without(&|act| matches!(act, Act::Tell | Act::Await));
    without(&|act| act.hands_over() || *act == Act::Complete);
    without(&|act| act.begins() || *act == Act::Finish);
    without(&|act| matches!(act, Act::Halt | Act::Bury | Act::Rise));
    without(&|act| matches!(act, Act::Rise));
    for cpu in 0..program.cpus.len() {
        let acts = &program.cpus[cpu];
        let begin = acts.iter().rposition(|act| act.begins());
        if let (Some(begin), Some(wait)) = (begin, acts.iter().rposition(|act| *act == Act::Finish))
        {
            let mut shorter = program.clone();
            shorter.cpus[cpu].remove(wait);
            shorter.cpus[cpu].remove(begin);
            all.push(shorter);
        }
    }
    for (name, on) in program.more.names() {
        if on {
            let mut less = program.clone();
            if let Some(slot) = less.more.slot(name) {
                *slot = false;
            }
            all.push(less);
        }
    }
    all
}

/// Scripts of which something is left out: a CPU, half of what one does, or one act.
fn scripts<A: Clone>(cpus: &[Vec<A>]) -> Vec<Vec<Vec<A>>> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Vec<Vec<A>>)| {
        let mut shorter = cpus.to_vec();
        change(&mut shorter);
        all.push(shorter);
    };
    for cpu in 0..cpus.len() {
        add(&|cpus| drop(cpus.remove(cpu)));
    }
    for (cpu, acts) in cpus.iter().enumerate() {
        // Halves, and then one by one from behind.
        if acts.len() > 3 {
            add(&|cpus| cpus[cpu].truncate(acts.len() / 2));
            add(&|cpus| drop(cpus[cpu].drain(..acts.len() / 2)));
        }
        for at in (0..acts.len()).rev() {
            add(&|cpus| drop(cpus[cpu].remove(at)));
        }
    }
    all
}
