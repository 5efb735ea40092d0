//! The source locations of the library that programs have reached, and programs that reached rare ones.

use std::{collections::BTreeMap, sync::Arc};

use super::{random::Random, run::Site};
use crate::scenario::Program;

/// The number of programs that are kept for each location: the latest that reached it.
const KEPT: usize = 4;

/// A source location of the library on one machine: it may be rare on one and common on another.
type Place = (&'static str, Site);

/// The programs that reached a location.
#[derive(Default)]
struct Reached {
    count: u64,
    programs: Vec<Arc<Program>>,
}

/// The locations that programs have reached.
#[derive(Default)]
pub(super) struct Corpus {
    places: BTreeMap<Place, Reached>,
}

impl Corpus {
    /// Records that a program has reached these locations.
    pub(super) fn add(&mut self, program: Program, sites: impl Iterator<Item = Site>) {
        let machine = program.machine();
        let program = Arc::new(program);
        for site in sites {
            let reached = self.places.entry((machine, site)).or_default();
            let at = reached.count as usize % KEPT;
            reached.count += 1;
            match reached.programs.get_mut(at) {
                Some(kept) => *kept = Arc::clone(&program),
                None => reached.programs.push(Arc::clone(&program)),
            }
        }
    }

    /// One of the programs that reached a location: the fewer reach it, the likelier it is.
    pub(super) fn rare(&self, random: &mut Random) -> Option<&Program> {
        /// As likely as it gets.
        const MOST: u64 = 1 << 20;
        if self.places.is_empty() {
            return None;
        }
        let weights = self.places.values().map(|reached| (MOST / reached.count).max(1) as usize);
        let reached = self.places.values().nth(random.weighted(weights))?;
        reached.programs.get(random.below(reached.programs.len())).map(|program| &**program)
    }
}
