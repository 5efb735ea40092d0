//! The wrapper around raw locks of the crate `lock_api`.

use core::{fmt, marker::PhantomData};

use lock_api::{
    RawMutex, RawRwLock, RawRwLockDowngrade, RawRwLockRecursive, RawRwLockUpgrade,
    RawRwLockUpgradeDowngrade,
};

use crate::Kernel;

/// A raw lock that a CPU waits for by trying, and handling the requests of other CPUs in between
/// ([`relax`](crate::relax)). The raw lock `R` only ever gets `try_` calls and unlocks, so its own way to
/// wait does not matter, and neither does its fairness: where that counts, take a ticket lock of `spin`
/// with [`HandleIpi`](crate::HandleIpi) as the raw lock, without this.
///
/// Waiting with a timeout (`RawMutexTimed`) is not offered: `R` would wait in its own way.
pub struct Spinning<R, K> {
    raw: R,
    kernel: PhantomData<fn() -> K>,
}

impl<R, K: Kernel> Spinning<R, K> {
    const fn new(raw: R) -> Self {
        Self { raw, kernel: PhantomData }
    }

    /// Returns when `attempt` has succeeded.
    fn until(attempt: impl Fn() -> bool) {
        while !attempt() {
            crate::relax::<K>();
        }
    }
}

// SAFETY: it is locked when and only when the raw mutex is.
unsafe impl<R: RawMutex, K: Kernel> RawMutex for Spinning<R, K> {
    #[allow(clippy::declare_interior_mutable_const, reason = "a template, as in the trait")]
    const INIT: Self = Self::new(R::INIT);

    type GuardMarker = R::GuardMarker;

    fn lock(&self) {
        Self::until(|| self.raw.try_lock());
    }

    fn try_lock(&self) -> bool {
        self.raw.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the mutex, and so the raw one.
        unsafe { self.raw.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
}

// SAFETY: it is locked, shared or exclusively, when and only when the raw lock is.
unsafe impl<R: RawRwLock, K: Kernel> RawRwLock for Spinning<R, K> {
    #[allow(clippy::declare_interior_mutable_const, reason = "a template, as in the trait")]
    const INIT: Self = Self::new(R::INIT);

    type GuardMarker = R::GuardMarker;

    fn lock_shared(&self) {
        Self::until(|| self.raw.try_lock_shared());
    }

    fn try_lock_shared(&self) -> bool {
        self.raw.try_lock_shared()
    }

    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller holds the lock, and so the raw one.
        unsafe { self.raw.unlock_shared() };
    }

    fn lock_exclusive(&self) {
        Self::until(|| self.raw.try_lock_exclusive());
    }

    fn try_lock_exclusive(&self) -> bool {
        self.raw.try_lock_exclusive()
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller holds the lock, and so the raw one.
        unsafe { self.raw.unlock_exclusive() };
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl<R: RawRwLockRecursive, K: Kernel> RawRwLockRecursive for Spinning<R, K> {
    fn lock_shared_recursive(&self) {
        Self::until(|| self.raw.try_lock_shared_recursive());
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.raw.try_lock_shared_recursive()
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl<R: RawRwLockDowngrade, K: Kernel> RawRwLockDowngrade for Spinning<R, K> {
    unsafe fn downgrade(&self) {
        // SAFETY: the caller holds the lock exclusively, and so the raw one.
        unsafe { self.raw.downgrade() };
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl<R: RawRwLockUpgrade, K: Kernel> RawRwLockUpgrade for Spinning<R, K> {
    fn lock_upgradable(&self) {
        Self::until(|| self.raw.try_lock_upgradable());
    }

    fn try_lock_upgradable(&self) -> bool {
        self.raw.try_lock_upgradable()
    }

    unsafe fn unlock_upgradable(&self) {
        // SAFETY: the caller holds the lock upgradably, and so the raw one.
        unsafe { self.raw.unlock_upgradable() };
    }

    unsafe fn upgrade(&self) {
        // SAFETY: the caller holds the lock upgradably, and so the raw one, until the attempt succeeds.
        Self::until(|| unsafe { self.raw.try_upgrade() });
    }

    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller holds the lock upgradably, and so the raw one.
        unsafe { self.raw.try_upgrade() }
    }
}

// SAFETY: as for `RawRwLock`.
unsafe impl<R: RawRwLockUpgradeDowngrade, K: Kernel> RawRwLockUpgradeDowngrade for Spinning<R, K> {
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller holds the lock upgradably, and so the raw one.
        unsafe { self.raw.downgrade_upgradable() };
    }

    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: the caller holds the lock exclusively, and so the raw one.
        unsafe { self.raw.downgrade_to_upgradable() };
    }
}

impl<R, K> fmt::Debug for Spinning<R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spinning").finish_non_exhaustive()
    }
}
