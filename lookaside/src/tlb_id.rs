//! The number of a [`crate::Tlb`].

use core::sync::atomic::AtomicU64;

use crate::{error::Error, word::Ordering};

/// Which [`crate::Tlb`] something belongs to: a number that no other `Tlb` has had or will have.
///
/// An address would not do: a space may outlive its `Tlb`, and another one may then have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlbId(u64);

/// The latest [`TlbId`]: the one static of this crate. Only a static is shared by all `Tlb`s.
static LATEST: AtomicU64 = AtomicU64::new(0);

impl TlbId {
    /// The next one.
    pub(crate) fn next() -> Result<Self, Error> {
        // Relaxed, both: a counter that only has to count. It does not wrap (P6).
        let next =
            LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
        next.map(Self).map_err(|_| Error::IdsExhausted)
    }

    /// One for tests of what has no `Tlb`.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(u64::MAX);
}
