//! Shortening a program that fails: fewer CPUs, fewer acts, less hardware, as long as it breaks the same rule.

use lookaside_machine::{adversary::Rule, explore::Failure};

use super::explore::explore;
use crate::scenario::{Program, act::Act};

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
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Program)| {
        let mut shorter = program.clone();
        change(&mut shorter);
        if shorter != *program {
            all.push(shorter);
        }
    };
    for cpu in 0..program.cpus.len() {
        add(&|program| drop(program.cpus.remove(cpu)));
    }
    for (cpu, acts) in program.cpus.iter().enumerate() {
        // Halves, and then one by one from behind.
        if acts.len() > 3 {
            add(&|program| program.cpus[cpu].truncate(acts.len() / 2));
            add(&|program| drop(program.cpus[cpu].drain(..acts.len() / 2)));
        }
        for at in (0..acts.len()).rev() {
            add(&|program| {
                let _ = program.cpus[cpu].remove(at);
            });
        }
    }
    // What waits and what is waited for go together.
    for pair in [[Act::Tell, Act::Await], [Act::Complete, Act::Complete]] {
        add(&|program| {
            for acts in &mut program.cpus {
                acts.retain(|act| {
                    !(pair.contains(act)
                        || pair[0] == Act::Complete && matches!(act, Act::Defer(..)))
                });
            }
        });
    }
    // So do the stop of a CPU, its notice, and its return.
    add(&|program| {
        for acts in &mut program.cpus {
            acts.retain(|act| {
                !matches!(act, Act::Halt | Act::Bury | Act::Rise | Act::MustRelease(_))
            });
        }
    });
    add(&|program| program.cpus.iter_mut().for_each(|acts| acts.retain(|act| *act != Act::Rise)));
    for (name, on) in program.more.names() {
        if on {
            add(&|program| {
                if let Some(slot) = program.more.slot(name) {
                    *slot = false;
                }
            });
        }
    }
    all
}
