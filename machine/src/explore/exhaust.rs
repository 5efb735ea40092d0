//! Everything, but no order of steps that comes to the same as one that was tried.

use std::collections::{HashMap, hash_map::Entry};

use super::{Budget, Choice, Chooser, Explorer, Point, Report, Strategy};
use crate::adversary::{footprint::Footprint, hash::BuildIdentity};

/// A choice that need not be tried: all that follows it was tried at an earlier point, and what has
/// happened since commutes with it.
#[derive(Clone, Copy)]
struct Sleeper {
    choice: Choice,
    footprint: Footprint,
}

/// A point on the way of the present execution.
struct Node {
    choices: Vec<Choice>,
    chosen: usize,
    /// The indices of those that are to be tried after it, the last one first.
    left: Vec<usize>,
    /// The same of those that need not be tried if what was chosen turns out to be on words alone.
    spare: Vec<usize>,
    sleeping: Vec<Sleeper>,
    /// What happened between the choice and the next point, once there was one.
    footprint: Option<Footprint>,
}

impl Node {
    /// All that follows what was chosen has been tried.
    fn put_to_sleep(&mut self) {
        if !self.footprint.as_ref().is_some_and(Footprint::is_words) {
            self.left.append(&mut self.spare);
        }
        let choice = self.choices[self.chosen];
        if let Some(footprint) = self.footprint.take()
            && footprint.is_words()
            && bit(choice) != 0
        {
            self.sleeping.push(Sleeper { choice, footprint });
        }
    }
}

/// The bit of a choice in a set of those that sleep; zero for one that never does.
fn bit(choice: Choice) -> u64 {
    match choice {
        Choice::Step(cpu) if cpu < 8 => 1 << cpu,
        Choice::Drain(cpu, index) if cpu < 8 && index < 7 => 1 << (8 + 7 * cpu + index),
        _ => 0,
    }
}

/// Whether a choice is that a store reaches memory before anybody is about to see that.
fn can_wait(point: &Point<'_>, index: usize) -> bool {
    matches!(point.choices[index], Choice::Drain(cpu, at) if point.machine.can_wait(cpu, at))
}

#[derive(Default)]
struct Exhaust {
    way: Vec<Node>,
    /// How far along the way the present execution is.
    at: usize,
    /// The states that were reached, and what slept whenever they were.
    visited: HashMap<u64, u64, BuildIdentity>,
    begun: bool,
    /// How often the record of which CPU accesses which word had changed when exploration began.
    news: u64,
    /// That more is known now: all begins anew.
    is_outdated: bool,
}

impl Exhaust {
    /// What sleeps at a point that was reached from the last one with this footprint.
    fn still_sleeping(&mut self, footprint: &Footprint) -> Vec<Sleeper> {
        let Some(last) = self.way.last_mut() else { return Vec::new() };
        last.footprint = Some(*footprint);
        let sleeping = last.sleeping.iter();
        sleeping.filter(|sleeper| sleeper.footprint.commutes(footprint)).copied().collect()
    }

    /// Leaves of the choices at a state those that were not tried there before, and need to be; and of those
    /// that sleep those that always have.
    fn visit(&mut self, point: &Point<'_>, left: &mut Vec<usize>, sleeping: &mut Vec<Sleeper>) {
        let asleep = sleeping.iter().fold(0, |set, sleeper| set | bit(sleeper.choice));
        match self.visited.entry(point.machine.hash()) {
            Entry::Vacant(new) => {
                new.insert(asleep);
                left.retain(|&index| bit(point.choices[index]) & asleep == 0);
            }
            Entry::Occupied(mut slept) => {
                let slept = slept.get_mut();
                let awake = *slept & !asleep;
                *slept &= asleep;
                left.retain(|&index| bit(point.choices[index]) & awake != 0);
                sleeping.retain(|sleeper| bit(sleeper.choice) & *slept != 0);
            }
        }
    }
}

impl Chooser for Exhaust {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        let at = self.at;
        self.at += 1;
        if let Some(node) = self.way.get(at) {
            return Some(node.chosen);
        }
        let news = point.machine.sharers.news;
        if self.news != news {
            self.news = news;
            self.is_outdated = true;
            return None;
        }
        let mut sleeping = self.still_sleeping(&point.machine.footprint);
        let mut left: Vec<usize> = (0..point.choices.len()).rev().collect();
        if !left.iter().all(|&index| can_wait(point, index)) {
            left.retain(|&index| !can_wait(point, index));
        }
        let mut spare = Vec::new();
        let alone = |&index: &usize| matches!(point.choices[index], Choice::Step(cpu) if point.machine.is_alone(cpu));
        if let Some(index) = left.iter().copied().find(alone) {
            let asleep = sleeping.iter().any(|sleeper| sleeper.choice == point.choices[index]);
            if asleep {
                return None;
            }
            left.retain(|&other| other != index);
            spare = core::mem::replace(&mut left, vec![index]);
        } else if !matches!(point.choices[0], Choice::Value(_)) {
            // In the middle of an access the state says nothing of the access.
            self.visit(point, &mut left, &mut sleeping);
        }
        let chosen = left.pop()?;
        let choices = point.choices.to_vec();
        self.way.push(Node { choices, chosen, left, spare, sleeping, footprint: None });
        Some(chosen)
    }
}

impl Strategy for Exhaust {
    fn next(&mut self) -> bool {
        self.at = 0;
        if core::mem::take(&mut self.is_outdated) {
            self.way.clear();
            self.visited.clear();
            return true;
        }
        if !core::mem::replace(&mut self.begun, true) {
            return true;
        }
        while let Some(last) = self.way.last_mut() {
            last.put_to_sleep();
            if let Some(next) = last.left.pop() {
                last.chosen = next;
                return true;
            }
            self.way.pop();
        }
        false
    }

    fn states(&self) -> u64 {
        self.visited.len() as u64
    }
}

impl Explorer {
    /// Explores everything that can happen.
    pub fn exhaust(&mut self, budget: Budget) -> Report {
        let mut exhaust = Exhaust::default();
        loop {
            let report = self.explore(&mut exhaust, budget);
            let news = self.executor.news();
            if !report.complete || exhaust.news == news {
                return report;
            }
            exhaust = Exhaust { news, ..Exhaust::default() };
        }
    }
}
