//! A word of the machine's memory.

use core::{cell::UnsafeCell, fmt};

use lookaside::platform::Ordering;

use super::{
    account::Cause,
    current::{charge_program, step_of_program, turn, with},
    machine::Address,
    price::Price,
};

/// A 64-bit word whose operations take time, depending on which CPU has its cache line.
///
/// It is eight bytes and nothing else. While a world is being built its operations take no time; when
/// programs run it has to be in the arena of the run. The word is neither `Sync` nor `Send`: all
/// simulated CPUs run on one thread.
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

const _: () = assert!(size_of::<Word>() == 8);

impl Word {
    pub(crate) fn address(&self) -> Address {
        self.0.get()
    }

    /// What memory holds now. This takes no time: it is for the inspection of a world.
    #[must_use]
    pub fn peek(&self) -> u64 {
        // SAFETY: the word is not `Sync`, so this thread alone can reach it, and no reference to
        // its content ever exists.
        unsafe { *self.0.get() }
    }

    /// Sets what memory holds. This takes no time, and nobody sees it happen: it is for words that only one CPU uses, which it finds
    /// as they would be.
    pub fn poke(&self, value: u64) {
        // SAFETY: as in `peek`.
        unsafe { *self.0.get() = value };
    }

    /// Replaces the value by a loop of a load and compare-exchanges, and returns the one before. `new` is called before
    /// each attempt.
    ///
    /// An attempt fails if another CPU has written since the value was read. It has brought the line to this CPU, and the
    /// next attempt is over before another CPU can have the line: requests for a line are served one after the other, and
    /// each has to reach the CPU that has it. So the loop has at most two attempts, and moves the line for one write.
    pub fn update(&self, mut new: impl FnMut(u64) -> u64) -> u64 {
        let seen = lookaside::platform::Word::load(self, Ordering::Relaxed);
        let first = new(seen);
        let old = self.modify(|old| Some(if old == seen { first } else { new(old) }));
        if old != seen {
            charge_program(Price::Atomic);
        }
        old
    }

    /// A compare-exchange. It is not inlined: there are many, and this is a good part of the command line.
    #[inline(never)]
    fn compare(&self, current: u64, new: u64) -> Result<u64, u64> {
        loop {
            let mut runs = false;
            step_of_program(|machine| {
                let line = machine.line(self.address());
                machine.modify_line(line);
                runs = true;
            });
            let old = self.peek();
            if old == current {
                self.poke(new);
                return Ok(old);
            }
            if !runs {
                return Err(old);
            }
            // A failure only reads: what it finds is what is there when the line has come, after the writes of those
            // that were before.
            turn();
            let found = self.peek();
            with(|machine| {
                let line = machine.line(self.address());
                machine.note_failure(line);
            });
            if found != current {
                return Err(found);
            }
        }
    }

    #[inline]
    fn modify(&self, new: impl FnOnce(u64) -> Option<u64>) -> u64 {
        step_of_program(|machine| {
            let line = machine.line(self.address());
            machine.modify_line(line);
        });
        let old = self.peek();
        if let Some(new) = new(old) {
            self.poke(new);
        }
        old
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

    #[inline]
    fn load(&self, _: Ordering) -> u64 {
        step_of_program(|machine| {
            let line = machine.line(self.address());
            machine.read_line(line);
        });
        self.peek()
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        if order == Ordering::SeqCst {
            self.modify(|_| Some(value));
            return;
        }
        step_of_program(|machine| {
            let line = machine.line(self.address());
            machine.store_line(line);
        });
        self.poke(value);
    }

    #[inline]
    fn swap(&self, value: u64, _: Ordering) -> u64 {
        self.modify(|_| Some(value))
    }

    #[inline]
    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        self.compare(current, new)
    }

    #[inline]
    fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
        self.modify(|old| Some(old.wrapping_add(value)))
    }

    #[inline]
    fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
        self.modify(|old| Some(old | bits))
    }

    #[inline]
    fn fetch_and(&self, bits: u64, _: Ordering) -> u64 {
        self.modify(|old| Some(old & bits))
    }

    #[inline]
    fn fence(order: Ordering) {
        if order == Ordering::SeqCst {
            step_of_program(|machine| {
                machine.drain();
                machine.charge_price(Cause::Fences, Price::Fence);
            });
        }
    }

    #[inline]
    fn get(&self) -> u64 {
        // Nobody else touches the word, so its turn need not come.
        charge_program(Price::Hit);
        self.peek()
    }

    #[inline]
    fn set(&self, value: u64) {
        charge_program(Price::Hit);
        self.poke(value);
    }
}
