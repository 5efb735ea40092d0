//! What tests of several modules use: words that others write while they are used, and that count what
//! is done to them.

extern crate std;
use core::{
    any::Any,
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering, Ordering::SeqCst},
};
use std::{boxed::Box, sync::Mutex, thread_local, vec::Vec};

use crate::word::Word;

/// What others do, and before which of the next accesses to words.
type Meanwhile = Option<(u32, Box<dyn FnOnce()>)>;

thread_local! {
    static MEANWHILE: RefCell<Meanwhile> = const { RefCell::new(None) };
}

/// Calls `f` while others `act`, before the access with this number: the first one has number 1. If
/// there are fewer, they do nothing.
pub(crate) fn meanwhile<R>(access: u32, act: impl FnOnce() + 'static, f: impl FnOnce() -> R) -> R {
    MEANWHILE.set(Some((access, Box::new(act))));
    let result = f();
    MEANWHILE.set(None);
    result
}

/// Keeps `what` until the program ends, so that others can have it, too.
pub(crate) fn keep<T: Any + Send + Sync>(what: T) -> &'static T {
    keep_mut(what)
}

/// As [`keep`], for one who has it to himself.
pub(crate) fn keep_mut<T: Any + Send + Sync>(what: T) -> &'static mut T {
    struct Kept(#[expect(dead_code, reason = "what is reached from here is no leak")] *mut dyn Any);
    // SAFETY: nobody uses the pointer.
    unsafe impl Send for Kept {}
    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
    let kept = Box::into_raw(Box::new(what));
    KEPT.lock().unwrap().push(Kept(kept));
    // SAFETY: it was just made, and nobody else uses the pointer.
    unsafe { &mut *kept }
}

/// A word at which others come in between.
pub(crate) struct Busy {
    value: AtomicU64,
    loads: AtomicU64,
    writes: AtomicU64,
}

impl Busy {
    /// Loads and writes since the last call. A write that also reads is a write.
    pub(crate) fn work(&self) -> (u64, u64) {
        (self.loads.swap(0, SeqCst), self.writes.swap(0, SeqCst))
    }

    fn read(&self) -> &AtomicU64 {
        self.loads.fetch_add(1, SeqCst);
        self.reach()
    }

    fn write(&self) -> &AtomicU64 {
        self.writes.fetch_add(1, SeqCst);
        self.reach()
    }

    fn reach(&self) -> &AtomicU64 {
        let next = MEANWHILE.with_borrow_mut(|meanwhile| {
            let (left, _) = meanwhile.as_mut()?;
            *left -= 1;
            if *left == 0 { meanwhile.take() } else { None }
        });
        if let Some((_, act)) = next {
            act();
        }
        &self.value
    }
}

impl Word for Busy {
    const ZERO: Self =
        Self { value: AtomicU64::new(0), loads: AtomicU64::new(0), writes: AtomicU64::new(0) };

    fn load(&self, _: Ordering) -> u64 {
        self.read().load(SeqCst)
    }

    fn store(&self, value: u64, _: Ordering) {
        self.write().store(value, SeqCst);
    }

    fn swap(&self, value: u64, _: Ordering) -> u64 {
        self.write().swap(value, SeqCst)
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        self.write().compare_exchange(current, new, SeqCst, SeqCst)
    }

    fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        self.write().fetch_add(value, SeqCst)
    }

    fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
        self.write().fetch_or(bits, SeqCst)
    }

    fn fetch_and(&self, bits: u64, _: Ordering) -> u64 {
        self.write().fetch_and(bits, SeqCst)
    }

    fn fence(_: Ordering) {}
}
