//! The free tags of one CPU, taken from the map in batches. Only that CPU uses them.

use core::sync::atomic::{Ordering, compiler_fence};

use super::Cookie;
use crate::{arch::Tag, word::Word};

/// How many released tags a CPU keeps for its next spaces. Further ones wait for the next epoch.
const RETURNED: usize = 16;

/// Free tags of one epoch: up to 64 from one window of the map, and a few that were released on this CPU.
///
/// Only its CPU uses it, so that taking a tag writes no cache line that another CPU reads. After a rollover
/// it is void: its tags are free for all CPUs again.
pub(super) struct AsidCache<W> {
    /// The epoch, and the first tag of the window.
    window: W,
    /// Bit `i` is set if tag `window + i` is free.
    free: W,
    /// How many of `returned` hold a tag.
    count: W,
    returned: [W; RETURNED],
}

impl<W: Word> AsidCache<W> {
    pub(super) const NEW: Self = Self {
        window: W::ZERO,
        free: W::ZERO,
        count: W::ZERO,
        returned: [const { W::ZERO }; RETURNED],
    };

    /// Takes a free tag of `epoch`.
    #[inline]
    pub(super) fn take(&self, epoch: u64) -> Option<Tag> {
        let window = Cookie(self.window.get());
        if window.epoch() != epoch {
            return None;
        }
        let count = self.count.get();
        if count > 0 {
            self.count.set(count - 1);
            return Some(Tag(self.returned[count as usize - 1].get() as u16));
        }
        let free = self.free.get();
        if free == 0 {
            return None;
        }
        self.free.set(free & (free - 1));
        Some(Tag(window.tag().0 + free.trailing_zeros() as u16))
    }

    /// Puts a tag of `epoch` back, and returns whether it did: not if there is no room, or if the cache is of
    /// a later epoch.
    pub(super) fn put(&self, epoch: u64, tag: Tag) -> bool {
        let window_epoch = Cookie(self.window.get()).epoch();
        if window_epoch < epoch {
            self.fill(epoch, Tag::RESERVED, 0);
        }
        let count = self.count.get();
        if window_epoch > epoch || count == RETURNED as u64 {
            return false;
        }
        self.returned[count as usize].set(u64::from(tag.0));
        self.count.set(count + 1);
        true
    }

    /// Fills the cache with the tags `first + i` for each bit `i` of `free`.
    pub(super) fn fill(&self, epoch: u64, first: Tag, free: u64) {
        // The CPU may be stopped for ever between any two of these stores ([`crate::Tlb::stopped`]), and come up again within
        // the epoch: until the last of them the cache is void, or empty.
        self.count.set(0);
        self.free.set(0);
        // FENCE F-FILL (pairs with caller): the tags of an earlier epoch are gone before the cache is one of this epoch, and
        // it is one of this epoch before it has any. The compiler keeps that order: nobody else looks while the CPU runs.
        compiler_fence(Ordering::Release);
        self.window.set(Cookie::new(epoch, first).bits());
        compiler_fence(Ordering::Release); // F-FILL
        self.free.set(free);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::{cell::Cell, sync::atomic::AtomicU64};
    use std::vec::Vec;

    use super::*;

    #[test]
    fn gives_each_tag_once_and_returned_ones_first() {
        let asid_cache = AsidCache::<AtomicU64>::NEW;
        asid_cache.fill(5, Tag(64), 0b1011);
        assert_eq!(asid_cache.take(5), Some(Tag(64)));
        assert!(asid_cache.put(5, Tag(300)));
        assert_eq!(asid_cache.take(5), Some(Tag(300)));
        assert_eq!(asid_cache.take(5), Some(Tag(65)));
        assert_eq!(asid_cache.take(5), Some(Tag(67)));
        assert_eq!(asid_cache.take(5), None);
    }

    std::thread_local! {
        /// How many more stores there are until the CPU stops.
        static STORES: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    const SHARED: &str = "the cache is one CPU's own";

    /// A word of a CPU that may stop.
    struct Stops(AtomicU64);

    impl Word for Stops {
        const ZERO: Self = Self(AtomicU64::new(0));

        fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        fn store(&self, value: u64, order: Ordering) {
            if let Some(left) = STORES.get().checked_sub(1) {
                STORES.set(left);
                self.0.store(value, order);
            }
        }

        fn swap(&self, _: u64, _: Ordering) -> u64 {
            unreachable!("{SHARED}")
        }

        fn compare_exchange(&self, _: u64, _: u64, _: Ordering, _: Ordering) -> Result<u64, u64> {
            unreachable!("{SHARED}")
        }

        fn fetch_add(&self, _: u64, _: Ordering) -> u64 {
            unreachable!("{SHARED}")
        }

        fn fetch_or(&self, _: u64, _: Ordering) -> u64 {
            unreachable!("{SHARED}")
        }

        fn fetch_and(&self, _: u64, _: Ordering) -> u64 {
            unreachable!("{SHARED}")
        }

        fn fence(_: Ordering) {}
    }

    #[test]
    fn gives_no_tag_of_an_earlier_epoch_wherever_its_cpu_stops_in_a_refill() {
        // A refill is four stores.
        for stores in 0..5 {
            for (free, taken) in [(0, &[][..]), (0b11, &[Tag(64), Tag(65)])] {
                let asid_cache = AsidCache::<Stops>::NEW;
                asid_cache.fill(5, Tag(2), u64::MAX);
                assert!(asid_cache.put(5, Tag(300)));
                STORES.set(stores);
                let first = if free == 0 { Tag::RESERVED } else { Tag(64) };
                asid_cache.fill(6, first, free);
                STORES.set(u32::MAX);
                // It comes up again in the epoch in which it stopped.
                let found = core::iter::from_fn(|| asid_cache.take(6)).collect::<Vec<_>>();
                let all = if stores < 4 { &[] } else { taken };
                assert_eq!(found, all, "after {stores} stores");
            }
        }
    }

    #[test]
    fn reaches_the_last_tag_of_sixteen_bits() {
        let asid_cache = AsidCache::<AtomicU64>::NEW;
        asid_cache.fill(1, Tag(65472), 1 << 63);
        assert_eq!(asid_cache.take(1), Some(Tag(u16::MAX)));
    }

    #[test]
    fn is_void_in_another_epoch() {
        let asid_cache = AsidCache::<AtomicU64>::NEW;
        asid_cache.fill(5, Tag(2), u64::MAX);
        assert_eq!(asid_cache.take(6), None);
        assert!(!asid_cache.put(4, Tag(9)));
        assert!(asid_cache.put(6, Tag(9)), "the first tag of a new epoch may be a returned one");
        assert_eq!(
            (asid_cache.take(6), asid_cache.take(6), asid_cache.take(5)),
            (Some(Tag(9)), None, None)
        );
    }

    #[test]
    fn a_full_list_refuses_instead_of_forgetting_another_tag() {
        let asid_cache = AsidCache::<AtomicU64>::NEW;
        asid_cache.fill(1, Tag(2), 0);
        for tag in 0..RETURNED as u16 {
            assert!(asid_cache.put(1, Tag(100 + tag)));
        }
        assert!(!asid_cache.put(1, Tag(99)));
        assert_eq!(asid_cache.take(1), Some(Tag(100 + RETURNED as u16 - 1)));
    }
}
