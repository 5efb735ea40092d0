//! Chance: random walks, and random priorities with few changes.

use super::{Budget, Choice, Chooser, Explorer, Point, Recorded, Report, Schedule, Strategy};
use crate::adversary::hash::mix;

/// Pseudo-random numbers: the mixed values of a counter.
struct Random {
    seed: u64,
    count: u64,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { seed: mix(seed, 0x5eed), count: 0 }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        mix(self.seed, self.count)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

struct Walk {
    random: Random,
    left: u64,
}

impl Chooser for Walk {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        Some(self.random.below(point.choices.len() as u64) as usize)
    }
}

impl Strategy for Walk {
    fn next(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left != u64::MAX
    }
}

/// Probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): each actor has a random
/// priority, the highest that can act does, and at `depth - 1` random moments the one that would
/// act falls below all others. A CPU is three actors: its program, its interrupts and its store
/// buffer. Where hardware writes descriptors by itself, that is one more, and NMIs are another.
struct Pct {
    random: Random,
    left: u64,
    depth: u32,
    cpus: usize,
    actors: usize,
    priorities: Vec<u64>,
    changes: Vec<u64>,
    /// How many points the present execution has had, and the longest so far.
    points: u64,
    longest: u64,
    lowest: u64,
}

impl Pct {
    fn actor(cpus: usize, choice: Choice) -> Option<usize> {
        match choice {
            Choice::Step(cpu) => Some(cpu * 3),
            Choice::Interrupt(cpu) => Some(cpu * 3 + 1),
            Choice::Drain(cpu, _) => Some(cpu * 3 + 2),
            // The walkers of all CPUs together.
            Choice::Update(_) | Choice::Rest => Some(cpus * 3),
            Choice::Nmi(_) => Some(cpus * 3 + 1),
            Choice::Value(_) => None,
        }
    }

    /// The actor of the highest priority that can act.
    fn highest(&self, point: &Point<'_>) -> Option<usize> {
        let actors = point.choices.iter().filter_map(|&choice| Self::actor(self.cpus, choice));
        actors.max_by_key(|&actor| self.priorities[actor])
    }
}

impl Chooser for Pct {
    fn choose(&mut self, point: &Point<'_>) -> Option<usize> {
        self.points += 1;
        self.longest = self.longest.max(self.points);
        if self.changes.contains(&self.points)
            && let Some(actor) = self.highest(point)
        {
            self.lowest -= 1;
            self.priorities[actor] = self.lowest;
        }
        let actor = self.highest(point);
        // A store buffer may have several entries to choose from, an access several values.
        let fits = |&index: &usize| Self::actor(self.cpus, point.choices[index]) == actor;
        let count = (0..point.choices.len()).filter(fits).count() as u64;
        let nth = if count > 1 { self.random.below(count) as usize } else { 0 };
        (0..point.choices.len()).filter(fits).nth(nth)
    }
}

impl Strategy for Pct {
    fn next(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.points = 0;
        self.lowest = 1 << 20;
        self.priorities.clear();
        for _ in 0..self.actors {
            let priority = (self.random.next() >> 1) | 1 << 62;
            self.priorities.push(priority);
        }
        self.changes.clear();
        for _ in 1..self.depth {
            let change = 1 + self.random.below(self.longest);
            self.changes.push(change);
        }
        true
    }
}

impl Explorer {
    /// The schedules of `n` random walks.
    pub fn at_random(&mut self, seed: u64, n: u64) -> Vec<Schedule> {
        let mut walk = Walk { random: Random::new(seed), left: n };
        let name = self.name();
        let mut one = |_| {
            let mut recorded = Recorded::new(&mut walk);
            let _ = self.executor.execute(&mut recorded);
            Schedule::new(name.clone(), &recorded.chosen)
        };
        (0..n).map(&mut one).collect()
    }

    /// Executes `n` random walks: at every point, every choice is as likely.
    pub fn random(&mut self, seed: u64, n: u64) -> Report {
        self.explore(&mut Walk { random: Random::new(seed), left: n }, Budget::UNLIMITED)
    }

    /// Executes `n` schedules that find each failure of the given depth (the number of orderings
    /// it takes) with a probability that the depth and the length bound from below.
    pub fn pct(&mut self, seed: u64, depth: u32, n: u64) -> Report {
        let cpus = self.executor.scenario().config().cpus;
        let actors = cpus * 3
            + match (self.executor.has_nmis(), self.executor.has_updates()) {
                (true, _) => 2,
                (false, true) => 1,
                (false, false) => 0,
            };
        let mut strategy = Pct {
            cpus,
            random: Random::new(seed),
            left: n,
            depth,
            actors,
            priorities: Vec::new(),
            changes: Vec::new(),
            points: 0,
            longest: 64,
            lowest: 0,
        };
        self.explore(&mut strategy, Budget::UNLIMITED)
    }
}
