//! Locks for code that runs with interrupts off.

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{arch, tlb};

/// A spin lock. A CPU that waits for it handles shootdown requests: the holder may be waiting for one.
pub(crate) struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one holder at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // Acquire: the last holder's stores. Pairs with the Release in `Guard::drop`.
        while self.held.swap(true, Ordering::Acquire) {
            tlb::handle_ipi();
            arch::relax();
        }
        Guard { lock: self }
    }
}

/// The right to use what a [`Lock`] guards.
pub(crate) struct Guard<'l, T> {
    lock: &'l Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is one guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `lock`.
        self.lock.held.store(false, Ordering::Release);
    }
}

/// A value that the boot CPU sets before others look.
pub(crate) struct Once<T> {
    set: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: it is written once, before it is read.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Self { set: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// # Panics
    ///
    /// If it was set before.
    pub(crate) fn set(&self, value: T) {
        assert!(!self.set.load(Ordering::Relaxed), "set twice"); // Relaxed: only the boot CPU sets.
        // SAFETY: no CPU reads it before it is set, and only the boot CPU gets here, once.
        unsafe { (*self.value.get()).write(value) };
        self.set.store(true, Ordering::Release); // Release: pairs with the Acquire in `try_get`.
    }

    pub(crate) fn try_get(&self) -> Option<&T> {
        // Acquire: the value. SAFETY: it is set.
        self.set.load(Ordering::Acquire).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// # Panics
    ///
    /// If it is not set.
    pub(crate) fn get(&self) -> &T {
        self.try_get().expect("it is set at boot")
    }
}
