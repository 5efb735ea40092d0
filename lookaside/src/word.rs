//! Words of memory that CPUs share.

pub use core::sync::atomic::Ordering;
use core::sync::atomic::{self, AtomicU64};

/// A 64-bit atomic word.
///
/// [`AtomicU64`] is the implementation for kernels. Each method means what the method of that name
/// means there; [`Self::get`] and [`Self::set`] are for words that only one CPU ever touches.
///
/// Every operation is `#[track_caller]` so that a machine in software can name the line of the
/// library that a step of a schedule belongs to. On hardware this costs nothing.
pub trait Word: Sized {
    /// A word that holds zero. Every structure of this crate begins life as zeros.
    const ZERO: Self;

    /// Reads the word.
    #[track_caller]
    fn load(&self, order: Ordering) -> u64;

    /// Writes the word.
    #[track_caller]
    fn store(&self, value: u64, order: Ordering);

    /// Writes the word and returns what it held.
    #[track_caller]
    fn swap(&self, value: u64, order: Ordering) -> u64;

    /// Writes `new` if the word holds `current`. Never fails spuriously.
    ///
    /// # Errors
    ///
    /// The value that the word holds instead of `current`.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;

    /// Adds to the word, wrapping, and returns what it held.
    #[track_caller]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;

    /// Sets bits of the word and returns what it held.
    #[track_caller]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64;

    /// Keeps only `bits` of the word and returns what it held.
    #[track_caller]
    fn fetch_and(&self, bits: u64, order: Ordering) -> u64;

    /// Orders memory accesses, as [`core::sync::atomic::fence`] does. It orders loads and stores,
    /// **not** page walks: those need the barriers of [`crate::arch::Mmu`].
    #[track_caller]
    fn fence(order: Ordering);

    /// Reads a word that only the calling CPU ever touches.
    #[track_caller]
    fn get(&self) -> u64 {
        // Relaxed is enough: one CPU, one thread of control, no other reader or writer.
        self.load(Ordering::Relaxed)
    }

    /// Writes a word that only the calling CPU ever touches.
    #[track_caller]
    fn set(&self, value: u64) {
        // Relaxed is enough: as for `get`.
        self.store(value, Ordering::Relaxed);
    }
}

impl Word for AtomicU64 {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the constant is a template: each use makes a word of its own"
    )]
    const ZERO: Self = Self::new(0);

    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        Self::swap(self, value, order)
    }

    #[inline]
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        Self::compare_exchange(self, current, new, success, failure)
    }

    #[inline]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        Self::fetch_add(self, value, order)
    }

    #[inline]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        Self::fetch_or(self, bits, order)
    }

    #[inline]
    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        Self::fetch_and(self, bits, order)
    }

    #[inline]
    fn fence(order: Ordering) {
        atomic::fence(order);
    }
}

/// Memory alignment that keeps two CPUs from writing one cache line. 128 bytes covers the lines of
/// all three architectures and the pairs of lines that x86 prefetches.
#[repr(align(128))]
pub(crate) struct Aligned<T>(pub(crate) T);

impl<T> core::ops::Deref for Aligned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
