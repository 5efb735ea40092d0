//! The adapters as locks: they exclude, and wait wherever they are.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::machine::{Test, become_cpu, irqs_on, machine, rounds};
use lock_api::{Mutex, RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
use lookaside_locks::{HandleIpi, Spinning, relax};
use spin::mutex::SpinMutex;

type RawMutex = Spinning<SpinMutex<()>, Test>;
type RawRwLock = Spinning<spin::rwlock::RwLock<()>, Test>;

#[test]
fn a_lock_works_before_there_is_a_tlb() {
    become_cpu(1, None);
    relax::<Test>();
    assert_eq!(rounds(), 1);
    let mutex = SpinMutex::<_, HandleIpi<Test>>::new(1);
    assert_eq!(*mutex.lock(), 1);
}

/// Debug builds of the library refuse such a CPU.
#[test]
fn a_cpu_that_is_not_online_only_waits() {
    become_cpu(1, Some(machine()));
    relax::<Test>();
    assert_eq!(rounds(), 1);
}

/// The platform refuses to name the CPU of a thread that may move.
#[test]
fn a_cpu_with_interrupts_on_only_waits() {
    become_cpu(1, Some(machine()));
    irqs_on();
    relax::<Test>();
    assert_eq!(rounds(), 1);
}

#[test]
fn one_thread_at_a_time_holds_a_mutex() {
    let mutex = Mutex::<RawMutex, u64>::new(0);
    let (locked, waited) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Until one has waited for another, however they are scheduled.
                while waited.load(Relaxed) == 0 {
                    let mut count = mutex.lock();
                    let before = *count;
                    thread::yield_now();
                    *count = before + 1;
                    drop(count);
                    locked.fetch_add(1, Relaxed);
                    waited.fetch_add(rounds(), Relaxed);
                }
            });
        }
    });
    let guard = mutex.lock();
    assert_eq!(*guard, locked.load(Relaxed));
    assert!(mutex.is_locked() && mutex.try_lock().is_none());
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::<RawRwLock, u32>::new(0);
    let readers = (lock.read(), lock.read());
    assert!(lock.is_locked() && !lock.is_locked_exclusive() && lock.try_write().is_none());
    drop(readers);
    let mut writer = lock.write();
    *writer += 1;
    assert!(lock.is_locked_exclusive() && lock.try_read().is_none());
    let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writer);
    assert!(lock.try_upgradable_read().is_none());
    let writer = RwLockUpgradableReadGuard::upgrade(upgradable);
    let reader = RwLockWriteGuard::downgrade(writer);
    let upgradable = lock.upgradable_read();
    let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).err();
    assert!(*reader == 1 && upgradable.is_some(), "there is a reader");
    drop((reader, upgradable));
    assert!(!lock.is_locked());
}
