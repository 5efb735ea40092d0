//! Sets of many ways: where a name is, and which was used least recently, without a search.

use rustc_hash::FxHashMap;

/// For each set a ring of its places, from the one used last to the one used least recently. Names are by place
/// elsewhere; here is only where each of them is.
#[derive(Debug)]
pub(super) struct Recency {
    places: FxHashMap<u64, u32>,
    /// By place: the one that was used next before it, and after it.
    older: Vec<u32>,
    newer: Vec<u32>,
    /// By set: the place that was used last.
    latest: Vec<u32>,
}

impl Recency {
    /// Sets in which nothing is.
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        let places = || (0..sets * ways).map(|place| (place / ways * ways, place % ways));
        let ring = |step: usize| {
            places().map(|(first, way)| (first + (way + step) % ways) as u32).collect()
        };
        let latest = (0..sets).map(|set| (set * ways) as u32).collect();
        Self { places: FxHashMap::default(), older: ring(1), newer: ring(ways - 1), latest }
    }

    /// The place of a name, which becomes the latest of its set.
    pub(super) fn find(&mut self, set: usize, name: u64) -> Option<usize> {
        let place = *self.places.get(&name)?;
        self.use_now(set, place);
        Some(place as usize)
    }

    /// The place that was used least recently.
    pub(super) fn least(&self, set: usize) -> usize {
        self.newer[self.latest[set] as usize] as usize
    }

    /// All places of a set, from that one on.
    pub(super) fn upwards(&self, set: usize) -> impl Iterator<Item = usize> {
        let (least, latest) = (self.least(set), self.latest[set] as usize);
        core::iter::successors(Some(least), move |&place| {
            (place != latest).then(|| self.newer[place] as usize)
        })
    }

    /// A name takes a place, which becomes the latest, from another, if it had any.
    pub(super) fn replace(&mut self, set: usize, place: usize, was: u64, name: u64) {
        if self.places.get(&was) == Some(&(place as u32)) {
            self.places.remove(&was);
        }
        self.places.insert(name, place as u32);
        self.use_now(set, place as u32);
    }

    /// A name is gone: the place that it had stays where it is in the order.
    pub(super) fn forget(&mut self, name: u64) -> Option<usize> {
        self.places.remove(&name).map(|place| place as usize)
    }

    /// All places have other names, by place.
    pub(super) fn renamed(&mut self, names: &[u64]) {
        let named = names.iter().zip(0..).filter(|(name, _)| **name != 0);
        self.places = named.map(|(name, place)| (*name, place)).collect();
    }

    fn use_now(&mut self, set: usize, place: u32) {
        let latest = self.latest[set];
        if place == latest {
            return;
        }
        let least = self.newer[latest as usize];
        if place != least {
            let (older, newer) = (self.older[place as usize], self.newer[place as usize]);
            self.newer[older as usize] = newer;
            self.older[newer as usize] = older;
            (self.older[place as usize], self.newer[place as usize]) = (latest, least);
            (self.newer[latest as usize], self.older[least as usize]) = (place, place);
        }
        self.latest[set] = place;
    }
}
