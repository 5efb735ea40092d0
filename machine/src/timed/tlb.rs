//! One CPU's TLB, with a size.
//!
//! Entries are replaced least recently used first, within a set. A tag, or everything, is removed
//! without touching the entries: each tag that a CPU knows has an *instance*, a number that no
//! earlier use of any tag on this CPU had, and entries are kept under that.

use std::collections::HashMap;

use super::model::{CacheShape, TlbShape};

const INSTANCE_BITS: u32 = 20;
const ORDER_BITS: u32 = 8;
const LAST_INSTANCE: u32 = (1 << INSTANCE_BITS) - 1;
/// Kernel entries, which are used under every tag, are kept under an instance, too.
const FIRST_INSTANCE: u32 = 1;

/// The name of an entry: whose, which page, and how many pages it is good for.
#[inline]
const fn name(instance: u32, page: u64, order: u32) -> u64 {
    (instance as u64) << (64 - INSTANCE_BITS) | (page >> order) << ORDER_BITS | (order + 1) as u64
}

/// A cache of translations: names, and how old what they say is.
#[derive(Debug)]
struct Cache {
    ways: usize,
    sets: u64,
    names: Vec<u64>,
    stamps: Vec<u32>,
}

impl Cache {
    fn new(shape: CacheShape) -> Self {
        let entries = shape.entries as usize;
        Self {
            ways: shape.ways as usize,
            sets: u64::from(shape.entries / shape.ways),
            names: vec![0; entries],
            stamps: vec![0; entries],
        }
    }

    #[inline]
    fn set(&self, page: u64, order: u32) -> usize {
        if self.sets == 1 { 0 } else { ((page >> order) % self.sets) as usize * self.ways }
    }

    /// Finds an entry and makes it the most recent of its set.
    #[inline]
    fn find(&mut self, page: u64, order: u32, name: u64) -> Option<u32> {
        let start = self.set(page, order);
        let names = &mut self.names[start..start + self.ways];
        let way = names.iter().position(|&n| n == name)?;
        let stamps = &mut self.stamps[start..start + self.ways];
        let stamp = stamps[way];
        names.copy_within(..way, 1);
        stamps.copy_within(..way, 1);
        (names[0], stamps[0]) = (name, stamp);
        Some(stamp)
    }

    /// Adds an entry in place of the least recent of its set.
    #[inline]
    fn add(&mut self, page: u64, order: u32, name: u64, stamp: u32) {
        let start = self.set(page, order);
        let names = &mut self.names[start..start + self.ways];
        let stamps = &mut self.stamps[start..start + self.ways];
        names.copy_within(..self.ways - 1, 1);
        stamps.copy_within(..self.ways - 1, 1);
        (names[0], stamps[0]) = (name, stamp);
    }

    fn remove(&mut self, page: u64, order: u32, name: u64) {
        let start = self.set(page, order);
        for n in &mut self.names[start..start + self.ways] {
            if *n == name {
                *n = 0;
            }
        }
    }

    fn clear(&mut self) {
        self.names.fill(0);
    }
}

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

/// A TLB.
#[derive(Debug)]
pub(crate) struct Tlb {
    first: Cache,
    second: Option<Cache>,
    walks: Option<Cache>,
    /// The instance of each tag under which this CPU may hold something.
    instances: HashMap<u16, u32>,
    latest: u32,
    kernel: u32,
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
            instances: HashMap::new(),
            latest: FIRST_INSTANCE,
            kernel: FIRST_INSTANCE,
            orders: 1,
        }
    }

    fn fresh(&mut self) -> u32 {
        if self.latest == LAST_INSTANCE {
            self.first.clear();
            for cache in self.second.iter_mut().chain(&mut self.walks) {
                cache.clear();
            }
            self.instances.clear();
            self.latest = FIRST_INSTANCE;
            self.kernel = FIRST_INSTANCE;
        }
        self.latest += 1;
        self.latest
    }

    /// The instance of a tag.
    pub(crate) fn instance(&mut self, tag: u16) -> u32 {
        if let Some(&instance) = self.instances.get(&tag) {
            return instance;
        }
        let fresh = self.fresh();
        self.instances.insert(tag, fresh);
        fresh
    }

    /// The instance of the kernel's entries.
    pub(crate) const fn kernel(&self) -> u32 {
        self.kernel
    }

    /// Looks for a translation of a page.
    #[inline]
    pub(crate) fn find(&mut self, instance: u32, page: u64) -> Found {
        let mut orders = self.orders;
        while orders != 0 {
            let order = orders.trailing_zeros();
            orders &= orders - 1;
            let name = name(instance, page, order);
            if let Some(stamp) = self.first.find(page, order, name) {
                return Found::First(stamp);
            }
            if let Some(second) = &mut self.second
                && let Some(stamp) = second.find(page, order, name)
            {
                self.first.add(page, order, name, stamp);
                return Found::Second(stamp);
            }
        }
        let table = page >> 9;
        let upper = match &mut self.walks {
            Some(walks) => {
                let name = name(instance, table, 0);
                let upper = walks.find(table, 0, name).is_some();
                if !upper {
                    walks.add(table, 0, name, 0);
                }
                upper
            }
            None => false,
        };
        Found::Nowhere { upper }
    }

    /// Adds what a walk has found: a translation that is good for `2^order` pages.
    #[inline]
    pub(crate) fn fill(&mut self, instance: u32, page: u64, order: u32, stamp: u32) {
        self.orders |= 1 << order;
        let name = name(instance, page, order);
        self.first.add(page, order, name, stamp);
        if let Some(second) = &mut self.second {
            second.add(page, order, name, stamp);
        }
    }

    /// Removes what is held for `pages` pages from `first` on under a tag.
    pub(crate) fn flush_pages(&mut self, tag: u16, first: u64, pages: u64, tables: bool) {
        if let Some(&instance) = self.instances.get(&tag) {
            self.flush_instance(instance, first, pages, tables);
        }
    }

    /// The same of the kernel's entries.
    pub(crate) fn flush_kernel_pages(&mut self, first: u64, pages: u64, tables: bool) {
        self.flush_instance(self.kernel, first, pages, tables);
    }

    fn flush_instance(&mut self, instance: u32, first: u64, pages: u64, tables: bool) {
        for page in first..first + pages {
            let mut orders = self.orders;
            while orders != 0 {
                let order = orders.trailing_zeros();
                orders &= orders - 1;
                let name = name(instance, page, order);
                self.first.remove(page, order, name);
                if let Some(second) = &mut self.second {
                    second.remove(page, order, name);
                }
            }
        }
        if tables && let Some(walks) = &mut self.walks {
            walks.clear();
        }
    }

    /// Removes everything under a tag.
    pub(crate) fn flush_tag(&mut self, tag: u16) {
        self.instances.remove(&tag);
    }

    /// Removes everything but the kernel's entries.
    pub(crate) fn flush_all(&mut self) {
        self.instances.clear();
    }

    /// Removes everything.
    pub(crate) fn flush_global(&mut self) {
        self.instances.clear();
        self.kernel = self.fresh();
    }
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
        let mut tlb = Tlb::new(&SHAPE);
        let space = tlb.instance(5);
        assert_eq!(tlb.find(space, 0), Found::Nowhere { upper: false });
        for page in 0..3 {
            tlb.fill(space, page, 0, 7);
        }
        assert_eq!(tlb.find(space, 2), Found::First(7));
        assert_eq!(tlb.find(space, 0), Found::Second(7));
        assert_eq!(tlb.find(space, 3), Found::Nowhere { upper: true });
        // Pages 0, 4 and 8 share a set of two.
        tlb.fill(space, 4, 0, 7);
        tlb.fill(space, 8, 0, 7);
        assert_eq!(tlb.find(space, 0), Found::Nowhere { upper: true });
    }

    #[test]
    fn flushes_remove_what_they_name() {
        let mut tlb = Tlb::new(&SHAPE);
        let (a, b, kernel) = (tlb.instance(1), tlb.instance(2), tlb.kernel());
        for instance in [a, b, kernel] {
            tlb.fill(instance, 1, 0, 1);
        }
        tlb.flush_tag(1);
        let again = tlb.instance(1);
        assert!(matches!(tlb.find(again, 1), Found::Nowhere { .. }));
        assert!(!matches!(tlb.find(b, 1), Found::Nowhere { .. }));
        tlb.flush_pages(2, 1, 1, false);
        assert!(matches!(tlb.find(b, 1), Found::Nowhere { .. }));
        tlb.flush_all();
        assert!(!matches!(tlb.find(kernel, 1), Found::Nowhere { .. }));
        tlb.flush_global();
        let kernel = tlb.kernel();
        assert!(matches!(tlb.find(kernel, 1), Found::Nowhere { .. }));
    }

    #[test]
    fn a_block_takes_one_entry() {
        let mut tlb = Tlb::new(&SHAPE);
        let space = tlb.instance(1);
        tlb.fill(space, 16, 4, 3);
        assert_eq!(tlb.find(space, 31), Found::First(3));
        assert!(matches!(tlb.find(space, 32), Found::Nowhere { .. }));
        tlb.flush_pages(1, 20, 1, false);
        assert!(matches!(tlb.find(space, 31), Found::Nowhere { .. }));
    }
}
