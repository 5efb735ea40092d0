//! How many tags an allocator uses, and for what.

use super::{Cookie, FIRST_TAG};
use crate::error::Error;

/// Configuration of [`GlobalAsids`](super::GlobalAsids).
#[derive(Clone, Copy, Debug)]
pub struct GlobalAsidsConfig {
    /// Use no more than this many tags, including the two that no space can have; the hardware may have
    /// fewer. Few tags make rollovers frequent, which is good for tests.
    pub tags: u32,
    /// How many tags may be pinned at one time.
    pub pins: u32,
    /// The epoch that never ends, at least the first, which is 1; anything above [`Cookie::LAST_EPOCH`] means that one.
    /// For tests.
    pub last_epoch: u64,
}

impl GlobalAsidsConfig {
    /// How many tags are used where a tag has so many bits.
    pub(in crate::tags) fn tags_of(&self, bits: u32) -> u32 {
        self.tags.min(1 << bits.min(16))
    }

    /// Checks that so many tags suffice for so many CPUs: then one is free after a rollover.
    pub(in crate::tags) fn check_tags(&self, tags: u32, cpus: usize) -> Result<(), Error> {
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let needed = cpus.saturating_add(1).saturating_add(self.pins);
        let usable = usable(tags);
        if usable < needed { Err(Error::TooFewTags { usable, needed }) } else { Ok(()) }
    }
}

/// How many of so many tags spaces can have.
pub(super) const fn usable(tags: u32) -> u32 {
    tags.saturating_sub(FIRST_TAG)
}

impl Default for GlobalAsidsConfig {
    fn default() -> Self {
        Self { tags: 1 << 16, pins: 0, last_epoch: Cookie::LAST_EPOCH }
    }
}
