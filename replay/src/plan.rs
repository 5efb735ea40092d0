//! The assignment of steps to CPUs, and the order between steps: computed once, before a run.
//!
//! The order of a script is by time, and by CPU where times are equal. Every wait is for a step that
//! comes earlier in this order, and every CPU executes its steps in this order; so somebody can always
//! go on.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use lookaside_terminal::Refused;
use lookaside_traces::reconstruct::{Act, Script, SpaceId, Step};

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

/// The plan of a script, made before it is executed.
#[derive(Debug)]
pub(super) struct Plan {
    /// For each recorded CPU the waits of its steps, in the order of the steps.
    pub(super) waits: Vec<Vec<Wait>>,
    /// How many CPUs are modelled.
    pub(super) cpus: usize,
    /// How many copies there are of each recorded CPU at most.
    pub(super) copies: usize,
    /// As [`Script::places`].
    places: Vec<usize>,
}

/// The spaces that a step uses.
pub(super) fn used(act: &Act) -> [Option<SpaceId>; 2] {
    match *act {
        Act::Run(space)
        | Act::Map { space, .. }
        | Act::Restrict { space, .. }
        | Act::Unmap { space, .. }
        | Act::PageOut { space, .. }
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
            places: script.places.clone(),
        };
        if !plan.places.is_empty() {
            let all = (0..cpus).all(|cpu| plan.places.contains(&cpu));
            if plan.places.len() != recorded || !all {
                return Err(Refused("the script does not say what each CPU executes".into()));
            }
            plan.copies = 1;
        }
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
        if self.places.is_empty() {
            let duties = (cpu % recorded..recorded).step_by(self.cpus.min(recorded));
            return (duties.collect::<Vec<_>>().into_iter(), cpu / recorded);
        }
        let here = |&duty: &usize| self.places[duty] == cpu;
        ((0..recorded).filter(here).collect::<Vec<_>>().into_iter(), 0)
    }
}

/// Checks a step by itself.
fn check(script: &Script, step: &Step) -> Result<(), &'static str> {
    if step.time > script.length {
        return Err("comes after the end");
    }
    if step.initiator as usize >= script.initiators.len() {
        return Err("has an initiator that is not there");
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
        Act::PageOut { space, page }
            if u64::from(page) >= script.spaces[space.0 as usize].pages =>
        {
            return Err("is about a page that its space does not have");
        }
        Act::Fork { parent, child } if parent == child => return Err("forks a space from itself"),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookaside_traces::reconstruct::{Initiator, Operation, Space};

    const A: SpaceId = SpaceId(0);
    const B: SpaceId = SpaceId(1);

    /// A script of steps on two CPUs, each a time, a thread and an act.
    fn script(cpus: [&[(u64, u32, Act)]; 2]) -> Script {
        let step = |&(time, task, act): &_| Step { time, task, initiator: 0, counted: true, act };
        let space = |name: &str| Space {
            name: name.into(),
            pages: 10,
            threads: 1,
            recorded: true,
            older: false,
        };
        Script {
            spaces: vec![space("a"), space("b")],
            initiators: vec![Initiator {
                process: "a".into(),
                operation: Operation::Other,
                function: None,
                recorded: true,
            }],
            cpus: cpus.iter().map(|steps| steps.iter().map(step).collect()).collect(),
            length: 100,
            ..Script::default()
        }
    }

    fn waits(cpus: [&[(u64, u32, Act)]; 2]) -> [Vec<(u32, u32)>; 2] {
        let plan = Plan::new(&script(cpus), 2).unwrap();
        [0, 1].map(|cpu| {
            assert!(plan.waits[cpu].iter().all(|wait| wait.other.cpu as usize == 1 - cpu));
            plan.waits[cpu].iter().map(|wait| (wait.step, wait.other.step)).collect()
        })
    }

    #[track_caller]
    fn refused(cpus: [&[(u64, u32, Act)]; 2], why: &str) {
        let Refused(text) = Plan::new(&script(cpus), 2).unwrap_err();
        assert!(text.ends_with(why), "{text}");
    }

    #[test]
    fn a_thread_keeps_its_order() {
        let one = [(1, 7, Act::Run(A)), (2, 8, Act::Run(B)), (9, 7, Act::Run(A))];
        let other = [(3, 7, Act::Run(A)), (4, 7, Act::Idle)];
        // The thread moves over and back; the space is born on CPU 0.
        assert_eq!(waits([&one, &other]), [vec![(2, 1)], vec![(0, 0), (0, 0)]]);
    }

    #[test]
    fn a_space_is_used_after_its_birth_and_before_its_end() {
        let one =
            [(1, 7, Act::Run(A)), (2, 7, Act::Fork { parent: A, child: B }), (8, 7, Act::End(B))];
        let other = [(3, 8, Act::Run(B)), (4, 8, Act::Idle)];
        assert_eq!(waits([&one, &other]), [vec![(2, 0)], vec![(0, 1)]]);
    }

    #[test]
    fn steps_at_one_time_go_by_cpu() {
        let fork = [(5, 7, Act::Fork { parent: A, child: B })];
        let run = [(5, 8, Act::Run(B))];
        assert_eq!(waits([&fork, &run]), [vec![], vec![(0, 0)]]);
        assert_eq!(waits([&run, &fork]), [vec![], vec![(0, 0)]], "the space is born by its use");
    }

    #[test]
    fn impossible_scripts_are_refused() {
        let map = |first, pages| Act::Map { space: A, first, pages };
        refused([&[(5, 1, Act::Idle), (4, 1, Act::Idle)], &[]], "comes after the next");
        refused([&[(101, 1, Act::Idle)], &[]], "comes after the end");
        refused([&[(1, 1, Act::Run(SpaceId(2)))], &[]], "uses a space that is not there");
        refused([&[(1, 1, map(8, 3))], &[]], "is about pages that its space does not have");
        refused([&[(1, 1, map(u32::MAX, 2))], &[]], "is about pages that its space does not have");
        refused([&[(1, 1, map(1, 0))], &[]], "is about no pages");
        refused([&[(1, 1, Act::End(A))], &[(2, 1, Act::Run(A))]], "uses a space that has ended");
        let fork = Act::Fork { parent: A, child: A };
        refused([&[(1, 1, fork)], &[]], "forks a space from itself");
        let mut script = script([&[(1, 1, Act::Idle)], &[]]);
        script.initiators.clear();
        assert!(Plan::new(&script, 2).is_err());
        assert!(Plan::new(&Script::default(), 2).is_err());
    }

    #[test]
    fn cpus_are_copied_or_take_turns() {
        let duties = |cpus: usize| -> Vec<(Vec<usize>, usize)> {
            let plan = Plan {
                waits: vec![Vec::new(); 3],
                cpus,
                copies: cpus.div_ceil(3),
                places: Vec::new(),
            };
            let duty = |cpu| {
                let (duties, copy) = plan.duties(cpu);
                (duties.collect(), copy)
            };
            (0..cpus).map(duty).collect()
        };
        assert_eq!(duties(2), [(vec![0, 2], 0), (vec![1], 0)]);
        assert_eq!(duties(3), [(vec![0], 0), (vec![1], 0), (vec![2], 0)]);
        let five = duties(5);
        assert_eq!(five[3..], [(vec![0], 1), (vec![1], 1)]);
    }
}
