//! The targets of a shootdown that have not been seen to acknowledge.

use crate::ids::{CpuId, Targets};

/// How many groups of CPUs may be pending at one time. A group has up to 64 CPUs; with more groups the
/// initiator waits for the first before it goes on.
const GROUPS: usize = 16;

/// The targets of a shootdown that have not been seen to acknowledge, in groups, the oldest first.
///
/// On most machines there is one group: it costs nothing to prepare for more.
pub(super) struct PendingTargets {
    /// The oldest group. Empty only if nothing is pending.
    pub(super) oldest: Targets,
    /// The others, if there ever were any.
    later: Option<Later>,
}

/// The groups after the oldest one, in two arrays without padding: flushes that wait with interrupts on are moved about.
struct Later {
    first: [CpuId; GROUPS - 1],
    count: u32,
    masks: [u64; GROUPS - 1],
}

impl PendingTargets {
    /// No target. A constant would be copied with all its bytes.
    #[inline]
    pub(super) const fn none() -> Self {
        Self { oldest: Targets::NONE, later: None }
    }

    /// Adds a group, which is not empty, and returns whether there was room for it.
    #[inline]
    pub(super) fn add(&mut self, group: Targets) -> bool {
        if self.oldest.mask == 0 {
            self.oldest = group;
            return true;
        }
        self.add_later(group)
    }

    #[inline(never)]
    fn add_later(&mut self, group: Targets) -> bool {
        let none = Later { first: [CpuId(0); GROUPS - 1], count: 0, masks: [0; GROUPS - 1] };
        let later = self.later.get_or_insert(none);
        let free = later.count as usize;
        if free == GROUPS - 1 {
            return false;
        }
        (later.first[free], later.masks[free]) = (group.first, group.mask);
        later.count += 1;
        true
    }

    /// Leaves so many of the oldest group. If that is none, the next group is the oldest.
    #[inline]
    pub(super) fn set_oldest(&mut self, left: Targets) {
        self.oldest = left;
        if left.mask == 0 && self.later.is_some() {
            self.take_next();
        }
    }

    #[inline(never)]
    fn take_next(&mut self) {
        let Some(later) = &mut self.later else { return };
        self.oldest = Targets { first: later.first[0], mask: later.masks[0] };
        later.first.copy_within(1.., 0);
        later.masks.copy_within(1.., 0);
        later.masks[GROUPS - 2] = 0;
        later.count = later.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_out_in_the_order_in_which_they_were_added() {
        let group = |index: u32| Targets { first: CpuId(index * 32), mask: u64::from(index) + 1 };
        let mut pending = PendingTargets::none();
        let mut next = 0;
        for first in 0..40 {
            // As many as there is room for, then one of them leaves.
            while pending.add(group(next)) {
                next += 1;
            }
            assert_eq!(next, first + GROUPS as u32);
            assert_eq!(pending.oldest, group(first));
            pending.set_oldest(Targets { mask: 0, ..pending.oldest });
        }
        for first in 40..next {
            assert_eq!(pending.oldest, group(first));
            pending.set_oldest(Targets::NONE);
        }
        assert_eq!(pending.oldest.mask, 0, "nothing is pending");
        assert!(pending.add(group(7)) && pending.oldest == group(7), "from the start again");
    }
}
