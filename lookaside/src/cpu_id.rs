//! Numbers of CPUs.

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
