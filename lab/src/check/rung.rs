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

/// With how many pre-emptions the deepest bounded round explores.
pub const DEEPEST: u32 = 4;

/// With how many pre-emptions a scenario is explored in full where `least` are demanded of all: with one less
/// if it is too large to be explored systematically by itself. Such have three CPUs, and each pre-emption
/// more takes some fifty times as many steps.
#[must_use]
pub fn demanded(entry: &Entry, least: u32) -> u32 {
    match entry.depth {
        Depth::Random(_) => least.saturating_sub(1).max(1),
        Depth::Exhaust | Depth::Bounded(_) => least,
    }
}

/// After how many rounds everything was explored with so many pre-emptions, if they are demanded:
/// [`DEEPEST`] at most.
#[must_use]
pub fn rounds_for(preemptions: u32) -> u32 {
    let reaches =
        |rung: &Rung| matches!(rung, Rung::Bounded { preemptions: p, .. } if *p >= preemptions);
    let index = SYSTEMATIC.iter().position(reaches).expect("at most the deepest is asked for");
    2 * index as u32 + 1
}

/// What round `round` of a scenario explores: by turns something systematic and chance, and chance alone
/// when the systematic rounds are over, and of what is too large for them. Rounds with no more
/// pre-emptions than are [`demanded`] take as many steps as they need, of what is too large as well.
#[must_use]
pub fn rung(entry: &Entry, round: u32, seed: u64, least: Option<u32>) -> Rung {
    let least = least.map(|least| demanded(entry, least));
    let systematic = || SYSTEMATIC.get(round as usize / 2).filter(|_| round.is_multiple_of(2));
    let systematic = systematic().copied().and_then(|rung| match (rung, entry.depth) {
        (Rung::Bounded { preemptions, .. }, _) if Some(preemptions) <= least => {
            Some(Rung::Bounded { preemptions, steps: u64::MAX })
        }
        (_, Depth::Random(_)) => None,
        (rung, Depth::Exhaust | Depth::Bounded(_)) => Some(rung),
    });
    systematic.unwrap_or_else(|| Rung::Chance {
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
    fn what_is_demanded_is_explored_in_full_even_where_it_is_much() {
        for entry in scenario::all() {
            for least in 1..=DEEPEST {
                let demanded = demanded(entry, least);
                assert!(demanded == least || demanded + 1 == least);
                let last = rung(entry, rounds_for(demanded) - 1, 1, Some(least));
                let full = Rung::Bounded { preemptions: demanded, steps: u64::MAX };
                assert_eq!(last, full, "{}", entry.name);
                let more = rung(entry, rounds_for(demanded) + 1, 1, Some(least));
                assert!(!matches!(more, Rung::Bounded { steps: u64::MAX, .. }), "{}", entry.name);
            }
        }
    }

    #[test]
    fn rounds_go_deeper_and_never_repeat_a_seed() {
        for entry in scenario::all() {
            let rungs: Vec<_> = (0..40).map(|round| rung(entry, round, 3, None)).collect();
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
            let other = |seed| matches!(rung(entry, 39, seed, None), Rung::Chance { seed, .. } if seeds.contains(&seed));
            assert!(!other(4), "{}", entry.name);
        }
    }
}
