//! One CPU's TLB, with a size.
//!
//! A tag, or everything, is removed without touching the entries: each tag that a CPU knows has an
//! *instance*, a number that no earlier use of any tag on this CPU had, and entries are kept under
//! that.

use rustc_hash::FxHashMap;

use super::{
    broadcasts::{Broadcasts, KERNEL_KEY},
    cache::{Cache, Held, LAST_INSTANCE, Live, name},
    invalidate::Upper,
    model::{CacheShape, TlbShape},
};

/// Where a translation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the first level, with the stamp of its entry.
    First(u32),
    /// In the second level only.
    Second(u32),
    /// Nowhere; with whether the upper levels of the walk are cached.
    Nowhere { upper: bool },
}

/// What a tag is to a CPU, while it accesses pages under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance {
    key: u32,
    number: u32,
    /// Up to which broadcast everything older is known to be gone.
    checked: u32,
    /// The latest broadcast that removed something of it.
    latest: u32,
}

/// A TLB.
#[derive(Debug)]
pub(crate) struct Tlb {
    first: Cache,
    second: Option<Cache>,
    walks: Option<Cache>,
    /// The instance of each tag under which this CPU may hold something, and of the kernel.
    instances: FxHashMap<u32, Instance>,
    live: Live,
    /// The instance that began last.
    last: u32,
    /// One bit for each order that an entry may have.
    orders: u32,
}

impl Tlb {
    pub(crate) fn new(shape: &TlbShape) -> Self {
        let walks = (shape.walk_cache > 0).then(|| Cache::new(CacheShape::full(shape.walk_cache)));
        Self {
            first: Cache::new(shape.first),
            second: shape.second.map(Cache::new),
            walks,
            instances: FxHashMap::default(),
            live: Live::default(),
            last: 0,
            orders: 1,
        }
    }

    fn begin(&mut self) -> u32 {
        if self.last == LAST_INSTANCE {
            self.renumber();
        }
        self.last += 1;
        self.live.begin(self.last);
        self.last
    }

    /// Gives instances that are in use the lowest numbers, and forgets those that hold nothing.
    fn renumber(&mut self) {
        let old: FxHashMap<u32, u32> =
            self.instances.values().map(|instance| (instance.number, instance.key)).collect();
        let mut new: FxHashMap<u32, u32> = FxHashMap::default();
        let mut last = 0;
        let caches = [Some(&mut self.first), self.second.as_mut(), self.walks.as_mut()];
        for cache in caches.into_iter().flatten() {
            cache.renumber(|number| {
                let key = old.get(&number)?;
                Some(*new.entry(*key).or_insert_with(|| {
                    last += 1;
                    last
                }))
            });
        }
        self.instances.retain(|key, instance| match new.get(key) {
            Some(&number) => {
                instance.number = number;
                true
            }
            None => false,
        });
        self.live.end_all();
        (1..=last).for_each(|number| self.live.begin(number));
        self.last = last;
    }

    /// The instance of a tag, or of the kernel.
    #[inline]
    pub(crate) fn instance(&mut self, key: u32, broadcasts: &Broadcasts) -> Instance {
        if let Some(instance) = self.instances.get_mut(&key) {
            if instance.checked == broadcasts.count {
                return *instance;
            }
            let latest = broadcasts.latest(key);
            if latest.whole <= instance.checked {
                (instance.checked, instance.latest) = (broadcasts.count, latest.any);
                return *instance;
            }
            self.flush_key(key);
        }
        let latest = broadcasts.latest(key).any;
        let checked = broadcasts.count;
        let instance = Instance { key, number: self.begin(), checked, latest };
        self.instances.insert(key, instance);
        instance
    }

    /// Looks for a translation of a page.
    #[inline]
    pub(crate) fn find(&mut self, of: Instance, page: u64, broadcasts: &Broadcasts) -> Found {
        let mut orders = self.orders;
        while orders != 0 {
            let order = orders.trailing_zeros();
            orders &= orders - 1;
            let name = name(of.number, page, order);
            // An entry older than a broadcast of its page is not there.
            let is_there = |held: &mut Held| {
                if held.filled < of.latest {
                    if held.filled < broadcasts.latest_of_page(of.key, page, order) {
                        return false;
                    }
                    held.filled = of.checked;
                }
                true
            };
            if let Some(held) = self.first.find(page, order, name) {
                if is_there(held) {
                    return Found::First(held.stamp);
                }
                self.first.remove(page, order, name);
            }
            if let Some(second) = &mut self.second
                && let Some(held) = second.find(page, order, name)
            {
                if is_there(held) {
                    let held = *held;
                    self.first.add(page, order, name, held, &self.live);
                    return Found::Second(held.stamp);
                }
                second.remove(page, order, name);
            }
        }
        Found::Nowhere { upper: self.walk(of, page, broadcasts) }
    }

    /// Whether the upper levels of a walk are cached; afterwards they are.
    fn walk(&mut self, of: Instance, page: u64, broadcasts: &Broadcasts) -> bool {
        let Some(walks) = &mut self.walks else { return false };
        let table = page >> 9;
        let name = name(of.number, table, 0);
        let new = Held { stamp: 0, filled: of.checked };
        match walks.find(table, 0, name) {
            Some(held) => {
                let is_there = held.filled >= of.latest
                    || held.filled >= broadcasts.latest_of_table(of.key, table);
                *held = new;
                is_there
            }
            None => {
                walks.add(table, 0, name, new, &self.live);
                false
            }
        }
    }

    /// Adds what a walk has found: a translation that is good for `2^order` pages.
    #[inline]
    pub(crate) fn fill(&mut self, of: Instance, page: u64, order: u32, stamp: u32) {
        self.orders |= 1 << order;
        let name = name(of.number, page, order);
        let held = Held { stamp, filled: of.checked };
        self.first.add(page, order, name, held, &self.live);
        if let Some(second) = &mut self.second {
            second.add(page, order, name, held, &self.live);
        }
    }

    /// Removes what is held for `pages` pages from `first` on under a tag, or of the kernel's.
    pub(crate) fn flush_pages(&mut self, key: u32, first: u64, pages: u64, upper: Upper) {
        let Some(&Instance { number, .. }) = self.instances.get(&key) else { return };
        let room = self.first.entries() + self.second.as_ref().map_or(0, Cache::entries);
        let caches = [Some(&mut self.first), self.second.as_mut()];
        for cache in caches.into_iter().flatten() {
            if pages > room as u64 / 16 {
                cache.remove_where(|instance, page, order| {
                    instance == number && overlaps(page, order, first, pages)
                });
                continue;
            }
            for page in first..first + pages {
                let mut orders = self.orders;
                while orders != 0 {
                    let order = orders.trailing_zeros();
                    orders &= orders - 1;
                    cache.remove(page, order, name(number, page, order));
                }
            }
        }
        let Some(walks) = &mut self.walks else { return };
        match upper {
            Upper::Keep => {}
            Upper::Named => walks.remove_where(|instance, table, _| {
                instance == number && overlaps(table << 9, 9, first, pages)
            }),
            Upper::All => walks.remove_where(|instance, _, _| instance == number),
        }
    }

    /// Removes what is held for user pages under every tag, with all upper levels.
    pub(crate) fn flush_pages_of_all(&mut self, first: u64, pages: u64) {
        let kernel = self.instances.get(&KERNEL_KEY).map_or(0, |instance| instance.number);
        let caches = [Some(&mut self.first), self.second.as_mut()];
        for cache in caches.into_iter().flatten() {
            cache.remove_where(|instance, page, order| {
                instance != kernel && overlaps(page, order, first, pages)
            });
        }
        if let Some(walks) = &mut self.walks {
            walks.remove_where(|instance, _, _| instance != kernel);
        }
    }

    /// Removes everything under a tag.
    pub(crate) fn flush_key(&mut self, key: u32) {
        if let Some(instance) = self.instances.remove(&key) {
            self.live.end(instance.number);
        }
    }

    /// Removes everything but the kernel's entries.
    pub(crate) fn flush_all(&mut self) {
        let kernel = self.instances.remove(&KERNEL_KEY);
        self.flush_global();
        if let Some(kernel) = kernel {
            self.live.begin(kernel.number);
            self.instances.insert(KERNEL_KEY, kernel);
        }
    }

    /// Removes everything.
    pub(crate) fn flush_global(&mut self) {
        self.instances.clear();
        self.live.end_all();
    }
}

/// Whether a range of pages has one in common with an entry.
const fn overlaps(page: u64, order: u32, first: u64, pages: u64) -> bool {
    page < first + pages && first < page + (1 << order)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TlbShape = TlbShape {
        first: CacheShape::full(2),
        second: Some(CacheShape { entries: 8, ways: 2 }),
        walk_cache: 1,
        blocks: true,
        fractured: false,
    };

    #[test]
    fn two_levels_hold_what_they_have_room_for() {
        let (mut tlb, none) = (Tlb::new(&SHAPE), Broadcasts::default());
        let space = tlb.instance(5, &none);
        assert_eq!(tlb.find(space, 0, &none), Found::Nowhere { upper: false });
        for page in 0..3 {
            tlb.fill(space, page, 0, 7);
        }
        assert_eq!(tlb.find(space, 2, &none), Found::First(7));
        assert_eq!(tlb.find(space, 0, &none), Found::Second(7));
        assert_eq!(tlb.find(space, 3, &none), Found::Nowhere { upper: true });
        // Pages 0, 4 and 8 share a set of two.
        tlb.fill(space, 4, 0, 7);
        tlb.fill(space, 8, 0, 7);
        assert_eq!(tlb.find(space, 0, &none), Found::Nowhere { upper: true });
    }

    fn has(tlb: &mut Tlb, key: u32, page: u64, broadcasts: &Broadcasts) -> bool {
        let instance = tlb.instance(key, broadcasts);
        !matches!(tlb.find(instance, page, broadcasts), Found::Nowhere { .. })
    }

    #[test]
    fn flushes_remove_what_they_name() {
        let (mut tlb, none) = (Tlb::new(&SHAPE), Broadcasts::default());
        for key in [1, 2, KERNEL_KEY] {
            let instance = tlb.instance(key, &none);
            tlb.fill(instance, 1, 0, 1);
        }
        tlb.flush_key(1);
        assert!(!has(&mut tlb, 1, 1, &none) && has(&mut tlb, 2, 1, &none));
        tlb.flush_pages(2, 1, 1, Upper::Keep);
        assert!(!has(&mut tlb, 2, 1, &none));
        tlb.flush_all();
        assert!(has(&mut tlb, KERNEL_KEY, 1, &none));
        tlb.flush_pages(KERNEL_KEY, 0, 1 << 40, Upper::Keep);
        assert!(!has(&mut tlb, KERNEL_KEY, 1, &none));
    }

    #[test]
    fn a_block_takes_one_entry() {
        let (mut tlb, none) = (Tlb::new(&SHAPE), Broadcasts::default());
        let space = tlb.instance(1, &none);
        tlb.fill(space, 16, 4, 3);
        assert_eq!(tlb.find(space, 31, &none), Found::First(3));
        assert!(!has(&mut tlb, 1, 32, &none));
        tlb.flush_pages(1, 20, 1, Upper::Keep);
        assert!(!has(&mut tlb, 1, 31, &none));
    }

    #[test]
    fn a_broadcast_removes_what_is_older() {
        let (mut tlb, mut broadcasts) = (Tlb::new(&SHAPE), Broadcasts::default());
        broadcasts.note_order(0);
        broadcasts.note_order(4);
        let space = tlb.instance(1, &broadcasts);
        tlb.fill(space, 16, 4, 3);
        tlb.fill(space, 1, 0, 3);
        let _ = tlb.find(space, 1 << 9, &broadcasts);
        broadcasts.begin();
        assert!(broadcasts.remove_pages(1, 20, 1, true));
        assert!(!has(&mut tlb, 1, 31, &broadcasts) && has(&mut tlb, 1, 1, &broadcasts));
        let space = tlb.instance(1, &broadcasts);
        tlb.fill(space, 16, 4, 3);
        assert!(has(&mut tlb, 1, 31, &broadcasts));
        broadcasts.begin();
        broadcasts.remove_key(1);
        assert!(!has(&mut tlb, 1, 31, &broadcasts) && !has(&mut tlb, 1, 1, &broadcasts));
        assert!(!broadcasts.remove_pages(1, 0, 1 << 30, true), "too many to note");
    }

    #[test]
    fn instances_are_numbered_anew_when_numbers_run_out() {
        let (mut tlb, none) = (Tlb::new(&SHAPE), Broadcasts::default());
        let kept = tlb.instance(7, &none);
        tlb.fill(kept, 1, 0, 3);
        for _ in 0..3 * LAST_INSTANCE {
            let _ = tlb.instance(8, &none);
            tlb.flush_key(8);
        }
        assert!(has(&mut tlb, 7, 1, &none) && !has(&mut tlb, 8, 1, &none));
    }
}
