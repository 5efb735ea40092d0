//! A set-associative cache of names, replaced least recently used first.

use super::{model::CacheShape, recency::Recency};

const INSTANCE_BITS: u32 = 16;
const ORDER_BITS: u32 = 8;
const INSTANCE_SHIFT: u32 = 64 - INSTANCE_BITS;

/// The highest number of an instance.
pub(crate) const LAST_INSTANCE: u32 = (1 << INSTANCE_BITS) - 1;

/// The key of an entry: its tag, its page, and how many pages it translates. It is never 0.
#[inline]
pub(crate) const fn name(instance: u32, page: u64, order: u32) -> u64 {
    const PAGES: u64 = (1 << (INSTANCE_SHIFT - ORDER_BITS)) - 1;
    (instance as u64) << INSTANCE_SHIFT | (page >> order & PAGES) << ORDER_BITS | (order + 1) as u64
}

const fn instance_of(name: u64) -> u32 {
    (name >> INSTANCE_SHIFT) as u32
}

/// The pages for which the entry of that name is good: the first, and the binary logarithm of how many.
const fn pages_of(name: u64) -> (u64, u32) {
    let order = (name & ((1 << ORDER_BITS) - 1)) as u32 - 1;
    (((name & ((1 << INSTANCE_SHIFT) - 1)) >> ORDER_BITS) << order, order)
}

/// What an entry carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// When what it says was last changed in the page tables.
    pub(crate) stamp: u32,
    /// How many invalidations had been broadcast when it was made.
    pub(crate) filled: u32,
}

/// Which instances may be used: entries of others are as good as gone.
#[derive(Debug, Default)]
pub(crate) struct Live {
    bits: Vec<u64>,
    /// How often one has ended.
    ended: u32,
}

impl Live {
    fn has(&self, name: u64) -> bool {
        let instance = instance_of(name) as usize;
        name != 0
            && self.bits.get(instance / 64).is_some_and(|bits| bits >> (instance % 64) & 1 != 0)
    }

    /// Begins an instance.
    pub(crate) fn begin(&mut self, instance: u32) {
        let (word, bit) = (instance as usize / 64, instance % 64);
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << bit;
    }

    /// Ends an instance.
    pub(crate) fn end(&mut self, instance: u32) {
        if let Some(bits) = self.bits.get_mut(instance as usize / 64) {
            *bits &= !(1 << (instance % 64));
        }
        self.ended += 1;
    }

    /// Ends all instances.
    pub(crate) fn end_all(&mut self) {
        self.bits.fill(0);
        self.ended += 1;
    }
}

/// The most ways of which a set is searched name by name, and kept in order by moving them.
const FEW: u32 = 32;

/// A cache of translations, or of upper levels of walks.
#[derive(Debug)]
pub(crate) struct Cache {
    ways: usize,
    sets: u64,
    /// By set, those used last first unless there is a `recency`; 0 where there is nothing.
    names: Vec<u64>,
    held: Vec<Held>,
    /// Where sets have many ways: which entry was used when, and where it is.
    recency: Option<Recency>,
    /// For each set: one more than how many instances had ended when it was last seen to be full.
    full: Vec<u32>,
}

impl Cache {
    pub(crate) fn new(shape: CacheShape) -> Self {
        let entries = shape.entries as usize;
        let sets = shape.entries / shape.ways;
        Self {
            ways: shape.ways as usize,
            sets: sets.into(),
            names: vec![0; entries],
            held: vec![Held::default(); entries],
            recency: (shape.ways > FEW).then(|| Recency::new(sets as usize, shape.ways as usize)),
            full: vec![0; sets as usize],
        }
    }

    /// How many entries there is room for.
    pub(crate) fn entries(&self) -> usize {
        self.names.len()
    }

    #[inline]
    fn set(&self, page: u64, order: u32) -> usize {
        let page = page >> order;
        if self.sets.is_power_of_two() {
            (page & (self.sets - 1)) as usize
        } else {
            (page % self.sets) as usize
        }
    }

    /// Finds an entry and makes it the most recent of its set.
    #[inline]
    pub(crate) fn find(&mut self, page: u64, order: u32, name: u64) -> Option<&mut Held> {
        let set = self.set(page, order);
        if let Some(recency) = &mut self.recency {
            let place = recency.find(set, name)?;
            return Some(&mut self.held[place]);
        }
        let start = set * self.ways;
        let names = &mut self.names[start..start + self.ways];
        let held = &mut self.held[start..start + self.ways];
        let way = names.iter().position(|&n| n == name)?;
        if way != 0 {
            let found = held[way];
            names.copy_within(..way, 1);
            held.copy_within(..way, 1);
            (names[0], held[0]) = (name, found);
        }
        Some(&mut held[0])
    }

    /// Adds an entry: where there is nothing, or in place of the least recent of its set.
    #[inline]
    pub(crate) fn add(&mut self, page: u64, order: u32, name: u64, new: Held, live: &Live) {
        let set = self.set(page, order);
        if let Some(recency) = &mut self.recency {
            let names = &mut self.names;
            let mut place = recency.least(set);
            if self.full[set] != live.ended + 1 {
                match recency.upwards(set).find(|&place| !live.has(names[place])) {
                    Some(hole) => place = hole,
                    None => self.full[set] = live.ended + 1,
                }
            }
            recency.replace(set, place, names[place], name);
            (names[place], self.held[place]) = (name, new);
            return;
        }
        let start = set * self.ways;
        let names = &mut self.names[start..start + self.ways];
        let held = &mut self.held[start..start + self.ways];
        let mut way = self.ways - 1;
        if self.full[set] != live.ended + 1 {
            match names.iter().rposition(|&name| !live.has(name)) {
                Some(hole) => way = hole,
                None => self.full[set] = live.ended + 1,
            }
        }
        names.copy_within(..way, 1);
        held.copy_within(..way, 1);
        (names[0], held[0]) = (name, new);
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, page: u64, order: u32, name: u64) {
        let set = self.set(page, order);
        if let Some(recency) = &mut self.recency {
            if let Some(place) = recency.forget(name) {
                (self.names[place], self.full[set]) = (0, 0);
            }
            return;
        }
        let start = set * self.ways;
        for n in &mut self.names[start..start + self.ways] {
            if *n == name {
                *n = 0;
                self.full[set] = 0;
            }
        }
    }

    /// Removes the entries of which `gone` says so, by instance, first page and order.
    pub(crate) fn remove_where(&mut self, gone: impl Fn(u32, u64, u32) -> bool) {
        for (place, name) in self.names.iter_mut().enumerate().filter(|(_, name)| **name != 0) {
            let (page, order) = pages_of(*name);
            if gone(instance_of(*name), page, order) {
                if let Some(recency) = &mut self.recency {
                    recency.forget(*name);
                }
                *name = 0;
                self.full[place / self.ways] = 0;
            }
        }
    }

    /// Gives instances other numbers; `None` for those that have ended.
    pub(crate) fn renumber(&mut self, mut number: impl FnMut(u32) -> Option<u32>) {
        for entry in self.names.iter_mut().filter(|name| **name != 0) {
            let (page, order) = pages_of(*entry);
            *entry = number(instance_of(*entry)).map_or(0, |instance| name(instance, page, order));
        }
        if let Some(recency) = &mut self.recency {
            recency.renamed(&self.names);
        }
        self.full.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_taken_apart() {
        let name = name(LAST_INSTANCE, 0x3_4567, 4);
        assert_eq!((instance_of(name), pages_of(name)), (LAST_INSTANCE, (0x3_4560, 4)));
    }

    #[test]
    fn sets_of_many_ways_hold_what_those_of_few_would() {
        let shape = CacheShape { entries: 24, ways: 8 };
        let (mut few, mut many) = (Cache::new(shape), Cache::new(shape));
        many.recency = Some(Recency::new(3, 8));
        let mut live = Live::default();
        (1..6).for_each(|instance| live.begin(instance));
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut hits, mut misses) = (0, 0);
        for turn in 0..100_000 {
            let (instance, page) = (1 + draw(5) as u32, draw(16));
            let (order, name) = (0, name(instance, page, 0));
            match draw(100) {
                0 => [&mut few, &mut many].map(|cache| cache.remove(page, order, name)),
                1 => [&mut few, &mut many].map(|cache| {
                    cache.remove_where(|of, first, _| of == instance && first < page);
                }),
                2 => {
                    live.end(instance);
                    let kept = |number: u32| (number != instance).then_some(number);
                    let done = [&mut few, &mut many].map(|cache| cache.renumber(kept));
                    live.begin(instance);
                    done
                }
                _ => {
                    let held = Held { stamp: turn, filled: 0 };
                    let found = [&mut few, &mut many]
                        .map(|cache| cache.find(page, order, name).map(|held| *held));
                    assert_eq!(found[0], found[1], "turn {turn}");
                    if found[0].is_some() {
                        hits += 1;
                        continue;
                    }
                    misses += 1;
                    [&mut few, &mut many].map(|cache| cache.add(page, order, name, held, &live))
                }
            };
        }
        assert!(hits > 10_000 && misses > 10_000, "{hits} {misses}");
    }

    #[test]
    fn entries_of_ended_instances_are_evicted_before_live_ones() {
        let mut live = Live::default();
        live.begin(1);
        live.begin(2);
        let mut cache = Cache::new(CacheShape::full(3));
        let held = Held::default();
        cache.add(0, 0, name(1, 0, 0), held, &live);
        cache.add(1, 0, name(2, 1, 0), held, &live);
        cache.add(2, 0, name(2, 2, 0), held, &live);
        live.end(2);
        cache.add(3, 0, name(1, 3, 0), held, &live);
        cache.add(4, 0, name(1, 4, 0), held, &live);
        assert!(cache.find(0, 0, name(1, 0, 0)).is_some());
        // Now it is full, and what was used least recently goes.
        cache.add(5, 0, name(1, 5, 0), held, &live);
        assert!(cache.find(3, 0, name(1, 3, 0)).is_none());
        assert!(cache.find(0, 0, name(1, 0, 0)).is_some());
    }
}
