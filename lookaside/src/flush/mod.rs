//! Taking translations back: gather what changed, decide who must act, act, wait, and prove it.
//!
//! | file | concept |
//! | --- | --- |
//! | `gather.rs` | what has changed in a space since it was last flushed |
//! | `ranges.rs` | a set of addresses, and the cheapest instructions that remove them |
//! | `initiator.rs` | who must act: nobody, this CPU, these CPUs, everyone |
//! | `shootdown.rs`, `queue.rs` | asking other CPUs, and how one learns that they have answered |
//! | `ring.rs` | asking all of them |
//! | `proof.rs` | what a completed flush is worth |
//! | `batch.rs` | many spaces, one flush |
//! | `blocks.rs` | a flush while the size of a block is changed |
//! | `kernel.rs` | addresses that every CPU uses |
//! | `fault.rs` | faults that only mean that a CPU has not noticed yet |

mod batch;
mod blocks;
pub(crate) mod broadcast_ring;
mod fault;
mod gather;
mod initiator;
mod kernel;
mod proof;
mod ranges;
pub(crate) mod request_queue;
mod shootdown;

pub(crate) use self::request_queue::ReceivedRequest;
pub use self::{
    batch::Batch,
    fault::Permissions,
    gather::Gather,
    kernel::KernelGather,
    proof::{Acknowledged, Flushed, HeldPage, HeldTable, Proof},
    ranges::FlushRanges,
    request_queue::{FlushRequest, FlushScope},
};
use self::{
    initiator::{Done, Initiator},
    proof::Ticket,
};
use crate::{
    arch::{Mmu, TableChange},
    counts::{Event, Outcome},
    current_cpu::CurrentCpu,
    platform::Platform,
    space::Unfinished,
    tags::Tags,
};

impl<P: Platform> Gather<'_, P> {
    #[inline]
    pub(crate) fn ticket(&self) -> Ticket {
        let space = self.space();
        Ticket { tlb: space.tlb(), space: space.id(), serial: self.serial() }
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Takes what was gathered back from every CPU, and returns when none holds it any more.
    ///
    /// The entries in the page tables have been changed before. This CPU need not run the space. It
    /// waits for other CPUs if they must act, and answers their requests meanwhile; so it may be
    /// called with interrupts off (they are, see [`crate::Tlb::this_cpu`]) but not with a lock held that
    /// another CPU may spin for without calling [`Self::handle_ipi`].
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
        let ranges = gather.ranges(early);
        let mut done = Done::by(Outcome::NoCpu);
        if !ranges.is_empty() {
            // Walks before anything else: everybody who starts one from now on sees the new tables.
            self.mmu().publish();
            let generation = space.bump_generation();
            if let Some(context) = T::context_id(self.tlb(), space) {
                let scope =
                    FlushScope::AddressSpace { context, first: generation, last: generation };
                let request = FlushRequest { scope, ranges, early };
                done = Initiator { this_cpu: self, space, request, context }.act();
            }
            if early && ranges.change() == TableChange::LastLevel && done.outcome == Outcome::Ipis {
                space.mark_unfinished(Unfinished::Acknowledged);
            }
            gather.complete_others();
        }
        let Done { outcome, targets, rounds } = done;
        self.tlb().platform().observe(Event::Flushed { outcome, targets, rounds });
    }
}
