//! Taking translations back: gather what changed, decide who must act, act, wait, and prove it.
//!
//! | file | concept |
//! | --- | --- |
//! | `gather.rs` | what has changed in a space since it was last flushed |
//! | `sweep.rs` | a set of addresses, and the cheapest instructions that remove them |
//! | `reach.rs` | who must act: nobody, this CPU, these CPUs, everyone |
//! | `shootdown.rs`, `inbox.rs` | asking other CPUs, and how one learns that they have answered |
//! | `board.rs` | asking all of them |
//! | `proof.rs` | what a completed flush is worth |
//! | `batch.rs` | many spaces, one flush |
//! | `blocks.rs` | a flush while the size of a block is changed |
//! | `kernel.rs` | addresses that every CPU uses |
//! | `fault.rs` | faults that only mean that a CPU has not noticed yet |

mod batch;
mod blocks;
pub(crate) mod board;
mod fault;
mod gather;
pub(crate) mod inbox;
mod kernel;
mod proof;
mod reach;
mod shootdown;
mod sweep;

pub(crate) use self::inbox::Asked;
pub use self::{
    batch::Batch,
    fault::Permissions,
    gather::Gather,
    inbox::{Demand, Whose},
    kernel::KernelGather,
    proof::{Acknowledged, Flushed, HeldPage, HeldTable, Proof},
    sweep::Sweep,
};
use self::{
    proof::Ticket,
    reach::{Done, Reach},
};
use crate::{
    arch::{Depth, Mmu},
    counts::{Event, Outcome},
    here::Here,
    platform::Platform,
    space::Left,
    tags::Tags,
};

impl<P: Platform> Gather<'_, P> {
    #[inline]
    pub(crate) fn ticket(&self) -> Ticket {
        let space = self.space();
        Ticket { tlb: space.tlb(), space: space.id(), serial: self.serial() }
    }
}

impl<P: Platform, T: Tags<P>> Here<'_, P, T> {
    /// Takes what was gathered back from every CPU, and returns when none holds it any more.
    ///
    /// The entries in the page tables have been changed before. This CPU need not run the space. It
    /// waits for other CPUs if they must act, and answers their requests meanwhile; so it may be
    /// called with interrupts off (they are, see [`crate::Tlb::here`]) but not with a lock held that
    /// another CPU may spin for without calling [`Self::serve`].
    ///
    /// # Panics
    ///
    /// If the gather is of a space of another [`crate::Tlb`], whose CPUs would not be told. It is then as
    /// one that is dropped.
    #[inline]
    #[track_caller]
    pub fn flush(&self, mut gather: Gather<'_, P>) -> Flushed {
        self.must_own(gather.space().tlb());
        self.complete(&mut gather, false);
        let flushed = Flushed { ticket: gather.ticket(), bits: gather.bits() };
        gather.end();
        flushed
    }

    /// As [`Self::flush`], but other CPUs answer as soon as they have stopped, and drop what was
    /// revoked before they go on. This saves the initiator the time of their invalidations.
    ///
    /// If a table was unlinked they answer when they are done, as ever.
    ///
    /// A later gather that relies on the absence of what was revoked here ([`Gather::relies_on`]), and
    /// whose flush is not early, waits until they are done.
    ///
    /// Handlers of interrupts that cannot be masked must not touch user addresses unless
    /// [`crate::Tlb::nmi_uaccess_okay`]: one of them could come between a target's answer and its flush.
    ///
    /// # Panics
    ///
    /// As [`Self::flush`].
    #[track_caller]
    pub fn flush_early(&self, mut gather: Gather<'_, P>) -> Acknowledged {
        self.must_own(gather.space().tlb());
        self.complete(&mut gather, true);
        let acknowledged = Acknowledged { ticket: gather.ticket(), bits: gather.bits() };
        gather.end();
        acknowledged
    }

    /// Returns when what was gathered is flushed.
    fn complete(&self, gather: &mut Gather<'_, P>, early: bool) {
        let space = gather.space();
        let sweep = gather.sweep(early);
        let mut done = Done::by(Outcome::Nobody);
        if !sweep.is_empty() {
            // Walks before anything else: everybody who starts one from now on sees the new tables.
            self.mmu().publish();
            let generation = space.owe();
            if let Some(label) = T::label(self.tlb(), space) {
                let whose = Whose::Space { label, first: generation, last: generation };
                let demand = Demand { whose, sweep, early };
                done = Reach { here: self, space, demand, label }.act();
            }
            if early && sweep.depth() == Depth::Leaves && done.outcome == Outcome::Interrupts {
                space.leave(Left::Acknowledged);
            }
            gather.complete_others();
        }
        let Done { outcome, targets, rounds } = done;
        self.tlb().platform().observe(Event::Flushed { outcome, targets, rounds });
    }
}
