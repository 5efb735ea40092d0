//! Numbers of CPUs and of `Tlb`s.

use core::sync::atomic::{AtomicU64, Ordering};

/// The largest machine: 8192 CPUs.
pub const MAX_CPUS: usize = 8192;

/// The number of a CPU: `0..n` for a machine of `n` CPUs, whatever the hardware calls them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The number as an index into per-CPU storage.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl core::fmt::Display for CpuId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CPU {}", self.0)
    }
}

/// Up to 64 CPUs with consecutive numbers: what SBI calls and interrupt controllers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The number of the CPU that bit 0 of `mask` stands for.
    pub first: CpuId,
    /// One bit for each CPU.
    pub mask: u64,
}

impl Targets {
    /// No CPU.
    pub(crate) const NONE: Self = Self { first: CpuId(0), mask: 0 };

    /// The CPUs, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = CpuId> {
        let mut left = self.mask;
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let cpu = CpuId(self.first.0 + left.trailing_zeros());
            left &= left - 1;
            Some(cpu)
        })
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.mask.count_ones()
    }
}

/// Which [`crate::Tlb`] something belongs to: a number that no other `Tlb` has had or will have.
///
/// An address would not do: a space may outlive its `Tlb`, and another one may then have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlbId(u64);

/// The latest [`TlbId`]: the one static of this crate. Only a static is shared by all `Tlb`s.
static LATEST: AtomicU64 = AtomicU64::new(0);

impl TlbId {
    /// The next one; `None` after 2^64 - 1.
    pub(crate) fn next() -> Option<Self> {
        // Relaxed, both: a counter that only has to count. It does not wrap (P6).
        let next =
            LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
        next.map(Self).ok()
    }

    /// One for tests of what has no `Tlb`.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(u64::MAX);
}
