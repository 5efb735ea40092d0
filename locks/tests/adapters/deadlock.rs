//! A CPU spins, with interrupts off, for a lock whose holder waits for it to flush: with locks as they are,
//! and with the adapters.

use crate::machine::{Deaf, Test, flush_under_lock};
use lock_api::{RawMutex, RawRwLock};
use lookaside_locks::{HandleIpi, Spinning};
use spin::{
    RelaxStrategy,
    mutex::{SpinMutex, TicketMutex},
};

/// Whether the two CPUs deadlock, with each lock of `spin` under this strategy.
fn of_spin<R: RelaxStrategy + 'static>() -> [bool; 4] {
    let (mutex, ticket) = (SpinMutex::<_, R>::new(()), TicketMutex::<_, R>::new(()));
    let lock = spin::rwlock::RwLock::<_, R>::new(());
    [
        flush_under_lock(|flush| then(mutex.lock(), flush), || drop(mutex.lock())),
        flush_under_lock(|flush| then(ticket.lock(), flush), || drop(ticket.lock())),
        flush_under_lock(|flush| then(lock.write(), flush), || drop(lock.read())),
        flush_under_lock(|flush| then(lock.read(), flush), || drop(lock.write())),
    ]
}

/// The same for a mutex of `lock_api`.
fn mutex_of_lock_api<R: RawMutex + Sync>() -> bool {
    let mutex = lock_api::Mutex::<R, ()>::new(());
    flush_under_lock(|flush| then(mutex.lock(), flush), || drop(mutex.lock()))
}

/// The same for a lock of `lock_api` with readers.
fn rw_lock_of_lock_api<R: RawRwLock + Sync>() -> [bool; 2] {
    let lock = lock_api::RwLock::<R, ()>::new(());
    [
        flush_under_lock(|flush| then(lock.write(), flush), || drop(lock.read())),
        flush_under_lock(|flush| then(lock.read(), flush), || drop(lock.write())),
    ]
}

fn then<G>(guard: G, flush: &dyn Fn()) {
    flush();
    drop(guard);
}

#[test]
fn locks_of_spin_deadlock_without_the_strategy() {
    assert_eq!(of_spin::<Deaf>(), [true; 4]);
}

#[test]
fn locks_of_spin_do_not_deadlock_with_the_strategy() {
    assert_eq!(of_spin::<HandleIpi<Test>>(), [false; 4]);
}

#[test]
fn locks_of_lock_api_deadlock_without_the_wrapper() {
    assert!(mutex_of_lock_api::<SpinMutex<(), Deaf>>());
    assert_eq!(rw_lock_of_lock_api::<spin::rwlock::RwLock<(), Deaf>>(), [true; 2]);
}

#[test]
fn locks_of_lock_api_do_not_deadlock_with_the_wrapper() {
    assert!(!mutex_of_lock_api::<Spinning<SpinMutex<(), Deaf>, Test>>());
    type Lock = Spinning<spin::rwlock::RwLock<(), Deaf>, Test>;
    assert_eq!(rw_lock_of_lock_api::<Lock>(), [false; 2]);
}

#[test]
fn an_upgrade_does_not_deadlock_with_the_wrapper() {
    type Lock = Spinning<spin::rwlock::RwLock<(), Deaf>, Test>;
    let lock = lock_api::RwLock::<Lock, ()>::new(());
    let upgrade = || {
        let reader = lock.upgradable_read();
        drop(lock_api::RwLockUpgradableReadGuard::upgrade(reader));
    };
    assert!(!flush_under_lock(|flush| then(lock.read(), flush), upgrade));
}
