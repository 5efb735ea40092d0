//! Sets of CPUs of a size that is known only when the machine has booted.

use crate::{
    error::Error,
    ids::{CpuId, MAX_CPUS},
    word::{Ordering, Word},
};

/// A set of CPUs: one bit for each, in words that the caller provides.
///
/// Insertion and removal are atomic for each CPU by itself; [`Self::iter`] reads each word at one
/// moment, and different words at different moments.
#[doc(alias = "cpumask")]
#[derive(Debug)]
pub struct CpuSet<'a, W> {
    words: &'a [W],
}

impl<W> Clone for CpuSet<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for CpuSet<'_, W> {}

impl<'a, W: Word> CpuSet<'a, W> {
    /// How many words a set of `cpus` CPUs needs.
    #[must_use]
    pub const fn words_for(cpus: usize) -> usize {
        cpus.div_ceil(64)
    }

    /// A set over `words`, which holds the CPUs whose bits are set in them.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuCount`] if `cpus` is zero or above [`MAX_CPUS`].
    /// * [`Error::Storage`] if `words` has no bit for some of the CPUs.
    pub const fn new(words: &'a [W], cpus: usize) -> Result<Self, Error> {
        if cpus == 0 || cpus > MAX_CPUS {
            return Err(Error::CpuCount { cpus });
        }
        if words.len() < Self::words_for(cpus) {
            return Err(Error::Storage { needed: Self::words_for(cpus), given: words.len() });
        }
        Ok(Self { words })
    }

    /// How many CPUs the storage has bits for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.words.len() * 64
    }

    /// Whether `cpu` is in the set. A CPU beyond the capacity is in no set.
    #[must_use]
    #[inline]
    pub fn contains(&self, cpu: CpuId, order: Ordering) -> bool {
        match self.words.get(cpu.index() / 64) {
            Some(word) => word.load(order) & bit(cpu) != 0,
            None => false,
        }
    }

    /// Adds `cpu` to the set and returns whether it was absent.
    ///
    /// # Panics
    ///
    /// If `cpu` is beyond the capacity: a set that silently forgets a CPU loses flushes.
    #[inline]
    pub fn insert(&self, cpu: CpuId, order: Ordering) -> bool {
        self.words[cpu.index() / 64].fetch_or(bit(cpu), order) & bit(cpu) == 0
    }

    /// Removes `cpu` from the set and returns whether it was present.
    #[inline]
    pub fn remove(&self, cpu: CpuId, order: Ordering) -> bool {
        match self.words.get(cpu.index() / 64) {
            Some(word) => word.fetch_and(!bit(cpu), order) & bit(cpu) != 0,
            None => false,
        }
    }

    /// The CPUs in the set, in ascending order; each word is read once, when it is reached.
    pub fn iter(&self, order: Ordering) -> impl Iterator<Item = CpuId> + use<'a, '_, W> {
        self.words().flat_map(move |(first, word)| {
            let mut bits = word.load(order);
            core::iter::from_fn(move || {
                let next = bits.trailing_zeros();
                bits &= bits.wrapping_sub(1);
                (next < 64).then_some(CpuId(first + next))
            })
        })
    }

    /// The words of the set, each with the number of its first CPU, for hardware that takes masks of CPUs.
    pub fn words(&self) -> impl Iterator<Item = (u32, &'a W)> + use<'a, W> {
        self.words.iter().enumerate().map(|(index, word)| (index as u32 * 64, word))
    }
}

const fn bit(cpu: CpuId) -> u64 {
    1 << (cpu.0 % 64)
}
