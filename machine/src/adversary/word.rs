//! A word of the machine's memory.

use core::{cell::UnsafeCell, fmt};

use lookaside::platform::Ordering;

use super::{
    current,
    op::{Address, Op, Rmw},
};

/// A 64-bit word whose operations are steps of the machine.
///
/// It is eight bytes and nothing else; its address is its identity. Outside of an execution, while
/// the world is being built or inspected, its operations act on memory directly.
///
/// The word is neither `Sync` nor `Send`: all simulated CPUs run on one thread.
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

const _: () = assert!(size_of::<Word>() == 8);

impl Word {
    pub(crate) fn address(&self) -> Address {
        self.0.get()
    }

    /// What memory holds now. This is not a step: for a world's inspection, not for its programs.
    #[must_use]
    pub fn peek(&self) -> u64 {
        // SAFETY: the word is not `Sync`, so this thread alone can reach it, and no reference to
        // its content ever exists.
        unsafe { *self.0.get() }
    }

    #[track_caller]
    #[inline]
    fn rmw(&self, rmw: Rmw, order: Ordering) -> u64 {
        current::word_step(Op::Rmw(self.address(), rmw, order))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.peek())
    }
}

impl lookaside::platform::Word for Word {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the constant is a template: each use makes a word of its own"
    )]
    const ZERO: Self = Self(UnsafeCell::new(0));

    #[track_caller]
    fn load(&self, order: Ordering) -> u64 {
        current::word_step(Op::Load(self.address(), order))
    }

    #[track_caller]
    fn store(&self, value: u64, order: Ordering) {
        current::word_step(Op::Store(self.address(), value, order));
    }

    #[track_caller]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.rmw(Rmw::Swap(value), order)
    }

    #[track_caller]
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        let old = self.rmw(Rmw::Exchange { current, new, failure }, success);
        if old == current { Ok(old) } else { Err(old) }
    }

    #[track_caller]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.rmw(Rmw::Add(value), order)
    }

    #[track_caller]
    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.rmw(Rmw::Or(bits), order)
    }

    #[track_caller]
    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.rmw(Rmw::And(bits), order)
    }

    #[track_caller]
    fn fence(order: Ordering) {
        current::word_step(Op::Fence(order));
    }

    #[track_caller]
    fn get(&self) -> u64 {
        current::private_get(self.address())
    }

    #[track_caller]
    fn set(&self, value: u64) {
        current::private_set(self.address(), value);
    }
}
