//! The pages that a program uses while it computes: those that were mapped last, and some of the others.

use core::cell::{Cell, RefCell};

use lookaside_machine::timed::{self, Ps};

use super::WorkingSet;

/// The pages that a space's programs use: a ring with the latest at its head. What a program had
/// before the trace showed anything comes first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    ring: Vec<u32>,
    head: usize,
}

impl Pages {
    /// Those of a program of which nothing was seen: as many as there are in a working set, from page 0
    /// on, the hot ones first.
    pub(super) fn new(set: &WorkingSet) -> Self {
        let pages = set.pages();
        // The oldest are at the head, the hot ones just before it.
        Self { ring: (set.hot..pages).chain(0..set.hot).collect(), head: 0 }
    }

    /// Pages came to be there. The latest are used from here on, as many as there is room for.
    pub(super) fn add(&mut self, first: u32, pages: u32) {
        let room = self.ring.len() as u32;
        for page in first + pages.saturating_sub(room)..first + pages {
            self.ring[self.head] = page;
            self.head = (self.head + 1) % self.ring.len();
        }
    }

    /// The page that came so many pages before the latest.
    fn back(&self, count: u64) -> u64 {
        let length = self.ring.len() as u64;
        let place = self.head as u64 + length - 1 - count % length;
        self.ring[(place % length) as usize].into()
    }
}

/// How far a thread has got with its working set.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The next hot page.
    next: Cell<u64>,
    /// What part of an access the time was too short for, in pages times picoseconds.
    hot: Cell<u64>,
    others: Cell<u64>,
    /// What is used at one time.
    pages: RefCell<Vec<u64>>,
}

impl Cursor {
    /// Uses what a program uses in `time`, in which it uses the hot pages `time / window` times.
    pub(super) fn access(&self, set: &WorkingSet, known: &RefCell<Pages>, time: Ps) {
        let window = set.window * 1000;
        let due = |rest: &Cell<u64>, count: u32| {
            let whole = rest.get() + time * u64::from(count);
            rest.set(whole % window);
            whole / window
        };
        let (hot, others) = (due(&self.hot, set.hot), due(&self.others, set.others));
        let mut pages = self.pages.borrow_mut();
        pages.clear();
        {
            // Others may add pages while this CPU uses its own.
            let known = known.borrow();
            if known.ring.is_empty() {
                return;
            }
            for _ in 0..hot {
                pages.push(known.back(self.next.get()));
                self.next.set((self.next.get() + 1) % u64::from(set.hot));
            }
            if set.pool > 0 {
                let any = |_| known.back(u64::from(set.hot) + timed::random_below(set.pool.into()));
                pages.extend((0..others).map(any));
            }
        }
        if !pages.is_empty() {
            timed::touch_mapped(pages.iter().copied());
        }
    }
}
