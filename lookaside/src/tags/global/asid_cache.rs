//! The free tags of one CPU, taken from the map in batches. Only that CPU uses them.

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
        self.window.set(Cookie::new(epoch, first).bits());
        self.free.set(free);
        self.count.set(0);
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

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
