//! The library's words as loom's atomics.

use core::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use lookaside::platform::Ordering;
use loom::sync::{
    Condvar,
    atomic::{AtomicU64, fence},
};

use crate::machine::this_cpu;

/// How `SeqCst` is expressed in loom, which treats a `SeqCst` access as `AcqRel` and would report executions
/// that C11 forbids. Only its fences behave as in C11.
///
/// Either reading is at least as strong as C11, so neither raises a false error; an execution that C11 allows
/// and *both* forbid is missed. Each test runs under both: a weakened store shows under the one, a weakened
/// load under the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A fence after each `SeqCst` store and read-modify-write.
    FenceAfterStores,
    /// A fence before each `SeqCst` load.
    FenceBeforeLoads,
}

/// How many CPUs there may be.
pub(crate) const MAX_CPUS: usize = 3;

/// How many words an execution may touch.
const POOL_SIZE: usize = 160;

thread_local! {
    static READING: Cell<Reading> = const { Cell::new(Reading::FenceAfterStores) };
    /// Whether there is more than one thread.
    static PARALLEL: Cell<bool> = const { Cell::new(false) };
    /// Atomics of the present execution that no word has yet.
    static POOL: RefCell<Vec<Rc<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// Prepares for an execution: atomics are made before there is a second thread, so that all of
/// their uses come after.
pub(crate) fn begin(reading: Reading) {
    READING.set(reading);
    PARALLEL.set(false);
    POOL.set((0..POOL_SIZE).map(|_| Rc::new(Shared::new())).collect());
}

/// From here on there are several threads.
pub(crate) fn fork() {
    PARALLEL.set(true);
}

/// The loom objects of a word.
struct Shared {
    value: AtomicU64,
    /// See [`Self::reads`].
    read: [Condvar; MAX_CPUS],
    has_read: [Cell<bool>; MAX_CPUS],
}

impl Shared {
    fn new() -> Self {
        Self {
            value: AtomicU64::new(0),
            read: core::array::from_fn(|_| Condvar::new()),
            has_read: Default::default(),
        }
    }

    /// This CPU is about to read.
    ///
    /// loom remembers the latest access to an atomic, and no other. A CPU that reads its word before it
    /// writes it would hide that another has read it before, and loom would never try the write first. So
    /// reads and the writes of others also touch an object that belongs to the reader. No thread waits for
    /// it: it tells loom that these accesses depend on each other, and synchronises nothing.
    fn reads(&self) {
        if PARALLEL.get() {
            let me = this_cpu().index();
            self.has_read[me].set(true);
            self.read[me].notify_one();
        }
    }

    /// This CPU is about to write.
    fn writes(&self) {
        let me = this_cpu().index();
        for (cpu, read) in self.read.iter().enumerate() {
            if cpu != me && self.has_read[cpu].get() {
                read.notify_one();
            }
        }
    }
}

/// A word whose accesses loom sees.
///
/// loom's atomics cannot be made in a constant, so a word gets its own at its first use.
#[derive(Default)]
pub struct Word {
    shared: OnceCell<Rc<Shared>>,
    /// The value of a word that only one CPU ever touches.
    private: Cell<u64>,
}

impl Word {
    fn shared(&self) -> &Shared {
        self.shared.get_or_init(|| {
            let shared = POOL.with_borrow_mut(Vec::pop);
            shared.expect("an execution touches fewer words than POOL_SIZE")
        })
    }

    /// Writes, with a fence after it where `order` asks for one.
    fn write<R>(&self, order: Ordering, write: impl FnOnce(&AtomicU64) -> R) -> R {
        self.shared().writes();
        let result = write(&self.shared().value);
        if order == Ordering::SeqCst && READING.get() == Reading::FenceAfterStores {
            fence(Ordering::SeqCst);
        }
        result
    }
}

impl lookaside::platform::Word for Word {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the constant is a template: each use makes a word of its own"
    )]
    const ZERO: Self = Self { shared: OnceCell::new(), private: Cell::new(0) };

    fn load(&self, order: Ordering) -> u64 {
        self.shared().reads();
        if order == Ordering::SeqCst && READING.get() == Reading::FenceBeforeLoads {
            fence(Ordering::SeqCst);
        }
        self.shared().value.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.write(order, |word| word.store(value, order));
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.write(order, |word| word.swap(value, order))
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.write(success, |word| word.compare_exchange(current, new, success, failure))
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.write(order, |word| word.fetch_add(value, order))
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.write(order, |word| word.fetch_or(bits, order))
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.write(order, |word| word.fetch_and(bits, order))
    }

    fn fence(order: Ordering) {
        fence(order);
    }

    fn get(&self) -> u64 {
        debug_assert!(self.shared.get().is_none(), "the word is shared");
        self.private.get()
    }

    fn set(&self, value: u64) {
        debug_assert!(self.shared.get().is_none(), "the word is shared");
        self.private.set(value);
    }
}
