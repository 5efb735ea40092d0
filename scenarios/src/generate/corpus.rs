//! Which places of the library programs have come to, and programs that came to those that few come to.

use std::{collections::BTreeMap, sync::Arc};

use super::{random::Random, run::Site};
use crate::scenario::Program;

/// So many programs are kept for each place: those that came to it last.
const KEPT: usize = 4;

/// A place of the library on one machine: what is rare on one may be common on another.
type Place = (&'static str, Site);

/// The programs that came to a place.
#[derive(Default)]
struct Reached {
    count: u64,
    programs: Vec<Arc<Program>>,
}

/// The places that programs have come to.
#[derive(Default)]
pub(super) struct Corpus {
    places: BTreeMap<Place, Reached>,
}

impl Corpus {
    /// A program has come to these places.
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

    /// One of the programs that came to a place: the fewer come to one, the likelier it is.
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
