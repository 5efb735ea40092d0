//! Who executes which steps, and which step waits for which: found out once, before a run.
//!
//! The order of a script is by time, and by CPU where times are equal. Every wait is for a step that
//! comes earlier in this order, and every CPU executes its steps in this order; so somebody can always
//! go on.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::{
    data::Refused,
    reconstruct::{Act, Script, SpaceId, Step},
};

/// A step of a script: the recorded CPU, and the place in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) cpu: u32,
    pub(super) step: u32,
}

/// A step that must not begin before another is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The step, by its place in its CPU's list.
    pub(super) step: u32,
    pub(super) other: At,
}

/// What is known of a script before it is executed.
#[derive(Debug)]
pub(super) struct Plan {
    /// For each recorded CPU the waits of its steps, in the order of the steps.
    pub(super) waits: Vec<Vec<Wait>>,
    /// How many CPUs are modelled.
    pub(super) cpus: usize,
    /// How many copies there are of each recorded CPU at most.
    pub(super) copies: usize,
}

/// The spaces that a step uses.
pub(super) fn used(act: &Act) -> [Option<SpaceId>; 2] {
    match *act {
        Act::Run(space)
        | Act::Map { space, .. }
        | Act::Restrict { space, .. }
        | Act::Unmap { space, .. }
        | Act::End(space) => [Some(space), None],
        Act::Fork { parent, child } => [Some(parent), Some(child)],
        Act::Idle => [None, None],
    }
}

/// What is known of a space while steps are looked at.
#[derive(Default)]
struct Uses {
    /// The latest step on each CPU that used it.
    latest: Vec<At>,
    born: Option<At>,
    ended: bool,
}

impl Plan {
    /// The plan of a script on so many CPUs.
    ///
    /// # Errors
    ///
    /// If the script cannot be: a time before the one before it, a number of something that is not
    /// there, a space that is used after its end.
    pub(super) fn new(script: &Script, cpus: usize) -> Result<Self, Refused> {
        let recorded = script.cpus.len();
        if recorded == 0 || cpus == 0 {
            return Err(Refused("a replay needs CPUs".into()));
        }
        let mut plan = Self {
            waits: vec![Vec::new(); recorded],
            cpus,
            copies: cpus.div_ceil(recorded).max(1),
        };
        let mut uses: Vec<Uses> = script.spaces.iter().map(|_| Uses::default()).collect();
        let mut tasks: HashMap<u32, At> = HashMap::new();
        let first = |(cpu, steps): (usize, &Vec<Step>)| {
            steps.first().map(|step| Reverse((step.time, cpu as u32, 0_u32)))
        };
        let mut heap: BinaryHeap<_> = script.cpus.iter().enumerate().filter_map(first).collect();
        while let Some(mut top) = heap.peek_mut() {
            let Reverse((time, cpu, number)) = *top;
            let steps = &script.cpus[cpu as usize];
            let (at, step) = (At { cpu, step: number }, &steps[number as usize]);
            let refuse =
                |why: &str| Refused(format!("step {number} of CPU {cpu} of the script {why}"));
            match steps.get(number as usize + 1) {
                Some(next) if next.time < time => return Err(refuse("comes after the next")),
                Some(next) => *top = Reverse((next.time, cpu, number + 1)),
                None => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
            check(script, step).map_err(refuse)?;
            let waits = &mut plan.waits[cpu as usize];
            let mut wait = |other: At| {
                if other.cpu != cpu {
                    waits.push(Wait { step: number, other });
                }
            };
            if step.task != 0
                && let Some(before) = tasks.insert(step.task, at)
            {
                wait(before);
            }
            for space in used(&step.act).into_iter().flatten() {
                let uses = &mut uses[space.0 as usize];
                if uses.ended {
                    return Err(refuse("uses a space that has ended"));
                }
                if matches!(step.act, Act::End(_)) {
                    uses.latest.iter().for_each(|&other| wait(other));
                    *uses = Uses { ended: true, ..Uses::default() };
                    continue;
                }
                let born = *uses.born.get_or_insert(at);
                match uses.latest.iter_mut().find(|latest| latest.cpu == cpu) {
                    Some(latest) => *latest = at,
                    None => {
                        wait(born);
                        uses.latest.push(at);
                    }
                }
            }
        }
        Ok(plan)
    }

    /// The recorded CPUs whose steps a modelled one executes, and which copy of them it is.
    pub(super) fn duties(&self, cpu: usize) -> (impl Iterator<Item = usize> + use<>, usize) {
        let recorded = self.waits.len();
        ((cpu % recorded..recorded).step_by(self.cpus.min(recorded)), cpu / recorded)
    }
}

/// Checks what a step says by itself.
fn check(script: &Script, step: &Step) -> Result<(), &'static str> {
    if step.time > script.length {
        return Err("comes after the end");
    }
    if step.culprit as usize >= script.culprits.len() {
        return Err("has a culprit that is not there");
    }
    if used(&step.act).into_iter().flatten().any(|space| space.0 as usize >= script.spaces.len()) {
        return Err("uses a space that is not there");
    }
    match step.act {
        Act::Map { space, first, pages }
        | Act::Restrict { space, first, pages, .. }
        | Act::Unmap { space, first, pages, .. } => {
            let end = u64::from(first) + u64::from(pages);
            if pages == 0 {
                return Err("is about no pages");
            }
            if end > script.spaces[space.0 as usize].pages {
                return Err("is about pages that its space does not have");
            }
        }
        Act::Fork { parent, child } if parent == child => return Err("forks a space from itself"),
        _ => {}
    }
    Ok(())
}
