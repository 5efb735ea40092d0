//! The schedules that each round explores of a scenario.

use lookaside_scenarios::scenario::{Depth, Entry};

/// A round of exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// All schedules with at most this many pre-emptions, within a limit of steps.
    Bounded {
        /// Pre-emptions.
        preemptions: u32,
        /// Steps.
        steps: u64,
    },
    /// All schedules, within a limit of steps.
    Exhaust {
        /// Steps.
        steps: u64,
    },
    /// Random schedules, and as many PCT schedules.
    Random {
        /// Seed of the random numbers.
        seed: u64,
        /// Schedules of each kind.
        schedules: u64,
    },
}

const MILLION: u64 = 1_000_000;
/// The systematic rounds of a scenario that can be exhausted, or nearly. Step limits grow up to the last
/// round, which may need some gigabytes: each visited state takes 16 bytes.
const SYSTEMATIC: [Round; 8] = [
    Round::Bounded { preemptions: 1, steps: MILLION },
    Round::Bounded { preemptions: 2, steps: 5 * MILLION },
    Round::Exhaust { steps: 5 * MILLION },
    Round::Bounded { preemptions: 3, steps: 40 * MILLION },
    Round::Exhaust { steps: 50 * MILLION },
    Round::Bounded { preemptions: 4, steps: 200 * MILLION },
    Round::Exhaust { steps: 500 * MILLION },
    Round::Exhaust { steps: 2_000 * MILLION },
];
/// Schedules of each kind in the first random round; later rounds have more.
const FIRST_RANDOM: u64 = 250;
/// How often the number of schedules doubles.
const DOUBLINGS: u32 = 7;

/// Number of pre-emptions of the deepest bounded round.
pub const DEEPEST: u32 = 4;

/// The number of pre-emptions to which a scenario must be explored in full when `least` are demanded of all
/// scenarios. It is one fewer for scenarios that are too large for systematic rounds: they have three CPUs,
/// and each further pre-emption takes about fifty times as many steps.
#[must_use]
pub fn demanded(entry: &Entry, least: u32) -> u32 {
    match entry.depth {
        Depth::Random(_) => least.saturating_sub(1).max(1),
        Depth::Exhaust | Depth::Bounded(_) => least,
    }
}

/// The number of rounds after which all schedules with this many pre-emptions are explored, if they are
/// demanded. At most [`DEEPEST`] pre-emptions.
#[must_use]
pub fn rounds_for(preemptions: u32) -> u32 {
    let reaches =
        |round: &Round| matches!(round, Round::Bounded { preemptions: p, .. } if *p >= preemptions);
    let index = SYSTEMATIC.iter().position(reaches).expect("at most the deepest is asked for");
    2 * index as u32 + 1
}

/// Round `number` of a scenario. Systematic and random rounds alternate; after the last systematic round,
/// and for scenarios that are too large for them, all rounds are random. Bounded rounds with at most the
/// [`demanded`] number of pre-emptions have no limit of steps, and large scenarios have these rounds too.
#[must_use]
pub fn round(entry: &Entry, number: u32, seed: u64, least: Option<u32>) -> Round {
    let least = least.map(|least| demanded(entry, least));
    let systematic = || SYSTEMATIC.get(number as usize / 2).filter(|_| number.is_multiple_of(2));
    let systematic = systematic().copied().and_then(|round| match (round, entry.depth) {
        (Round::Bounded { preemptions, .. }, _) if Some(preemptions) <= least => {
            Some(Round::Bounded { preemptions, steps: u64::MAX })
        }
        (_, Depth::Random(_)) => None,
        (round, Depth::Exhaust | Depth::Bounded(_)) => Some(round),
    });
    systematic.unwrap_or_else(|| Round::Random {
        // Rounds share no seed, nor do the seeds of the command line.
        seed: seed << 32 | u64::from(number),
        schedules: FIRST_RANDOM << (number / 2).min(DOUBLINGS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookaside_scenarios::scenario;

    #[test]
    fn demanded_preemptions_are_explored_without_a_step_limit() {
        for entry in scenario::all() {
            for least in 1..=DEEPEST {
                let demanded = demanded(entry, least);
                assert!(demanded == least || demanded + 1 == least);
                let last = round(entry, rounds_for(demanded) - 1, 1, Some(least));
                let full = Round::Bounded { preemptions: demanded, steps: u64::MAX };
                assert_eq!(last, full, "{}", entry.name);
                let more = round(entry, rounds_for(demanded) + 1, 1, Some(least));
                assert!(!matches!(more, Round::Bounded { steps: u64::MAX, .. }), "{}", entry.name);
            }
        }
    }

    #[test]
    fn rounds_go_deeper_and_never_repeat_a_seed() {
        for entry in scenario::all() {
            let rounds: Vec<_> = (0..40).map(|number| round(entry, number, 3, None)).collect();
            let seeds: Vec<_> = rounds
                .iter()
                .filter_map(|round| match round {
                    Round::Random { seed, .. } => Some(*seed),
                    _ => None,
                })
                .collect();
            let mut once = seeds.clone();
            once.dedup();
            assert_eq!(seeds, once, "{}", entry.name);
            let Round::Random { seed, .. } = round(entry, 39, 4, None) else { continue };
            assert!(!seeds.contains(&seed), "{}", entry.name);
        }
    }
}
