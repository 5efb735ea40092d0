//! Depth first: everything, or everything within a number of pre-emptions.

use std::collections::HashMap;

use super::{Budget, Choice, Chooser, Explorer, Point, Report, Strategy};
use crate::adversary::hash::{BuildIdentity, mix};

/// A point on the way of the present execution.
struct Node {
    chosen: u32,
    /// How many of the choices are to be explored.
    count: u32,
    /// Whether any choice but the first is a pre-emption.
    goes_on: bool,
}

struct DepthFirst {
    way: Vec<Node>,
    /// How far along the way the present execution is.
    at: usize,
    /// Pre-emptions of the present execution so far.
    spent: u32,
    bound: Option<u32>,
    /// The states that were reached, and with how many pre-emptions left.
    visited: HashMap<u64, u32, BuildIdentity>,
    begun: bool,
    /// Whether a state that was reached before is left at once.
    prune: bool,
}

impl DepthFirst {
    fn new(bound: Option<u32>) -> Self {
        Self {
            way: Vec::new(),
            at: 0,
            spent: 0,
            bound,
            visited: HashMap::default(),
            begun: false,
            prune: true,
        }
    }

    fn follow(&mut self, index: usize) -> usize {
        let node = &self.way[index];
        self.spent += u32::from(node.goes_on && node.chosen != 0);
        node.chosen as usize
    }
}

impl Chooser for DepthFirst {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        let at = self.at;
        self.at += 1;
        if at < self.way.len() {
            return Some(self.follow(at));
        }
        let left = self.bound.map_or(0, |bound| bound - self.spent);
        // In the middle of an access the state says nothing of the access.
        if self.prune && !matches!(point.choices[0], Choice::Value(_)) {
            let mut state = point.machine.hash();
            if self.bound.is_some() {
                // Who can go on for free is part of the state.
                let free = if let (true, Choice::Step(cpu)) = (point.goes_on, point.choices[0]) {
                    cpu as u64 + 1
                } else {
                    0
                };
                state = mix(state, free);
            }
            match self.visited.entry(state) {
                std::collections::hash_map::Entry::Occupied(mut seen) => {
                    if *seen.get() >= left {
                        return None;
                    }
                    seen.insert(left);
                }
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(left);
                }
            }
        }
        let mut count = point.choices.len() as u32;
        if self.bound.is_some() && point.goes_on && left == 0 {
            count = 1;
        }
        self.way.push(Node { chosen: 0, count, goes_on: point.goes_on });
        Some(0)
    }
}

impl Strategy for DepthFirst {
    fn next(&mut self) -> bool {
        self.at = 0;
        self.spent = 0;
        if !core::mem::replace(&mut self.begun, true) {
            return true;
        }
        while let Some(last) = self.way.last_mut() {
            if last.chosen + 1 < last.count {
                last.chosen += 1;
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
    /// Explores everything that can happen, without leaving anything out that comes to the same.
    ///
    /// This takes very long and finds nothing that [`Self::exhaust`] does not: it is there to show
    /// just that. The schedule of a failure cannot be replayed.
    pub fn exhaust_plainly(&mut self, budget: Budget) -> Report {
        let mut strategy = DepthFirst::new(None);
        strategy.prune = false;
        self.executor.reduce = false;
        let report = self.explore(&mut strategy, budget);
        self.executor.reduce = true;
        report
    }

    /// Explores everything with no pre-emption, then with one, and so on up to a number of them.
    /// The report is that of the last round; the budget is for each.
    pub fn deepen(&mut self, preemptions: u32, budget: Budget) -> Report {
        let mut report = self.bounded(0, budget);
        for bound in 1..=preemptions {
            if report.failure.is_some() {
                break;
            }
            report = self.bounded(bound, budget);
        }
        report
    }

    /// Explores everything that can happen with at most `preemptions` pre-emptions.
    pub fn bounded(&mut self, preemptions: u32, budget: Budget) -> Report {
        self.explore(&mut DepthFirst::new(Some(preemptions)), budget)
    }
}
