//! Batches: flushes of several spaces that are completed together, perhaps on another CPU.

use lookaside::{Batch, HeldPage, Here, Ordering, Word as _};
use lookaside_machine::adversary::{Frame, Word, oracle, relax};

use super::released;
use super::{super::hardware::Hardware, PlatformOf, Strategy, World, cell::PAGES, cell::page_at};

/// A batch, and the pages that it holds back.
pub(super) struct Pending<P: lookaside::Platform<Word = Word>> {
    batch: Batch<'static, P>,
    held: [HeldPage<Frame>; 2],
}

impl<H: Hardware, T: Strategy<PlatformOf<H>>> World<H, T> {
    pub(super) fn begin_batch(
        &'static self,
        here: &Here<'_, PlatformOf<H>, T>,
        spaces: [usize; 2],
    ) -> Pending<PlatformOf<H>> {
        let words = self.batch_words.borrow_mut().pop().expect("storage for each batch");
        let mut batch = Batch::new(&self.tlb, words).expect("room for the CPUs");
        let held = spaces.map(|number| {
            let cell = &self.spaces[number];
            let mut gather = lookaside::Gather::new(self.space(number));
            // Release: who finds the entry empty knows of the gather.
            cell.entries[0].store(0, Ordering::Release);
            gather.revoke(page_at(PAGES[0]));
            here.defer(gather, &mut batch);
            batch.hold_page(cell.frames[0])
        });
        Pending { batch, held }
    }

    pub(super) fn complete_batch(
        &self,
        here: &Here<'_, PlatformOf<H>, T>,
        pending: Pending<PlatformOf<H>>,
    ) {
        let flushed = here.flush_batch(pending.batch);
        for held in pending.held {
            oracle::frame_freed(released(held.release(&flushed)));
        }
    }

    /// The thread leaves this CPU.
    pub(super) fn hand_over(&'static self, here: &Here<'_, PlatformOf<H>, T>, spaces: [usize; 2]) {
        let pending = self.begin_batch(here, spaces);
        // SAFETY: the CPU that takes it waits until it is told.
        unsafe { *self.pending.get() = Some(pending) };
        oracle::rests();
        here.lazy();
        self.told.store(1, Ordering::Release); // Release: with the batch.
    }

    /// The thread goes on here.
    pub(super) fn take_over(&'static self, here: &Here<'_, PlatformOf<H>, T>) {
        // Acquire: with the batch.
        while self.told.load(Ordering::Acquire) == 0 {
            here.serve();
            relax();
        }
        // SAFETY: the CPU that put it there is done with it.
        if let Some(pending) = unsafe { (*self.pending.get()).take() } {
            self.complete_batch(here, pending);
        }
    }
}
