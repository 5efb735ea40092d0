//! What each round of a scenario explores.

use crate::scenario::{Depth, Entry};

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Everything with so many pre-emptions, as far as so many steps reach.
    Bounded {
        /// Pre-emptions.
        preemptions: u32,
        /// Steps.
        steps: u64,
    },
    /// Everything, as far as so many steps reach.
    Exhaust {
        /// Steps.
        steps: u64,
    },
    /// So many executions at random, and as many by PCT.
    Chance {
        /// What the random numbers begin with.
        seed: u64,
        /// Executions of each kind.
        schedules: u64,
    },
}

const MILLION: u64 = 1_000_000;
/// The systematic rounds of a scenario that can be exhausted, or nearly. Each is given more steps than
/// the one before: a state that was seen takes 16 bytes, so that the last may take some gigabytes.
const SYSTEMATIC: [Rung; 8] = [
    Rung::Bounded { preemptions: 1, steps: MILLION },
    Rung::Bounded { preemptions: 2, steps: 5 * MILLION },
    Rung::Exhaust { steps: 5 * MILLION },
    Rung::Bounded { preemptions: 3, steps: 40 * MILLION },
    Rung::Exhaust { steps: 50 * MILLION },
    Rung::Bounded { preemptions: 4, steps: 200 * MILLION },
    Rung::Exhaust { steps: 500 * MILLION },
    Rung::Exhaust { steps: 2_000 * MILLION },
];
/// Executions in the first round by chance; later ones have more.
const FIRST_CHANCE: u64 = 250;
/// How often the number of executions doubles.
const DOUBLINGS: u32 = 7;

/// What round `round` of a scenario explores: by turns something systematic and chance, and chance alone
/// when the systematic rounds are over, and of what is too large for them.
#[must_use]
pub fn rung(entry: &Entry, round: u32, seed: u64) -> Rung {
    let systematic = match entry.depth {
        Depth::Random(_) => None,
        Depth::Exhaust | Depth::Bounded(_) if round.is_multiple_of(2) => {
            SYSTEMATIC.get(round as usize / 2)
        }
        Depth::Exhaust | Depth::Bounded(_) => None,
    };
    systematic.copied().unwrap_or_else(|| Rung::Chance {
        // Rounds share no seed, nor do the seeds of the command line.
        seed: seed << 32 | u64::from(round),
        schedules: FIRST_CHANCE << (round / 2).min(DOUBLINGS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn rounds_go_deeper_and_never_repeat_a_seed() {
        for entry in scenario::all() {
            let rungs: Vec<_> = (0..40).map(|round| rung(entry, round, 3)).collect();
            let seeds: Vec<_> = rungs
                .iter()
                .filter_map(|rung| match rung {
                    Rung::Chance { seed, .. } => Some(*seed),
                    _ => None,
                })
                .collect();
            let mut once = seeds.clone();
            once.dedup();
            assert_eq!(seeds, once, "{}", entry.name);
            let other = |seed| matches!(rung(entry, 39, seed), Rung::Chance { seed, .. } if seeds.contains(&seed));
            assert!(!other(4), "{}", entry.name);
        }
    }
}
