//! Flushes: gather the changes, choose the CPUs that must act, invalidate, wait, and hand the frames back.
//!
//! | file | concept |
//! | --- | --- |
//! | `gather.rs` | the changes to the page tables of one space that are not flushed yet, and the frames held until then (`mmu_gather`) |
//! | `page.rs` | one page, without memory, as long as no other CPU must act |
//! | `targets.rs` | which CPUs must act |
//! | `initiator.rs` | by which means: none, on this CPU, by IPIs, by broadcast |
//! | `shootdown.rs` | requests to other CPUs, the wait for them |
//! | `ipi_handler.rs` | what a CPU does that was sent an IPI |
//! | `pending_targets.rs` | the targets that have not acknowledged yet |
//! | `pending.rs` | flushes that were begun with interrupts off, and are waited for with interrupts on |
//! | `flushed.rs` | what a completed flush hands back: frames and tables |
//! | `change.rs` | changes that are made and flushed in one call |
//! | `batch.rs` | one flush for many spaces (`arch_tlbbatch`) |
//! | `blocks.rs` | the flush while the size of a block is changed |
//! | `kernel.rs` | kernel addresses, which every CPU uses under every tag |
//! | `map.rs` | entries that were absent, and are present now |
//! | `fault.rs` | spurious faults, which a stale entry of this CPU has caused |
//! | `riscv_fault.rs` | the same from the registers of RISC-V |

pub(crate) mod batch;
mod blocks;
mod change;
mod fault;
mod flushed;
pub(crate) mod gather;
mod initiator;
mod ipi_handler;
pub(crate) mod kernel;
mod map;
mod page;
mod pending;
mod pending_targets;
mod riscv_fault;
pub(crate) mod shootdown;
mod targets;

pub use self::{
    batch::Batch,
    fault::Permissions,
    flushed::{Acknowledged, Flushed},
    pending::PendingFlush,
};
use self::{
    gather::{Changes, Gather},
    initiator::Initiator,
};
pub use crate::flags::Flags;
use crate::{
    arch::{Mmu, TableChange, Wait},
    counts::{Event, Outcome},
    platform::Platform,
    range::VaRange,
    request::FlushRanges,
    space::{AddressSpace, Unfinished},
    tlb::{CurrentCpu, Tags, Tlb},
};

/// What a flush did.
struct Done {
    outcome: Outcome,
    targets: u32,
    rounds: u64,
}

impl Done {
    const fn by(outcome: Outcome) -> Self {
        Self { outcome, targets: 0, rounds: 0 }
    }
}

impl<P: Platform, T: Tags<P>> Tlb<'_, P, T> {
    /// Begins [`CurrentCpu::flush`]: flushes on this CPU and sends the requests, but does not wait for the other CPUs.
    /// [`PendingFlush::wait`] does, on any CPU, with interrupts on. So a preemptible kernel keeps interrupts off for as
    /// long as it takes to send IPIs, and not for as long as the slowest target takes to answer. What it returns does not
    /// borrow the guard, which is dropped before the wait.
    ///
    /// Until that flush is complete, other flushes from this CPU are still possible; but their targets, and those of this
    /// one that have not answered yet, flush all that they hold.
    ///
    /// If its targets are in more than sixteen groups of 32 CPUs, which takes a machine of more than 512, it waits for the
    /// first of them, as [`CurrentCpu::flush`] does: on such a machine no lock may be held for which another CPU spins without
    /// calling [`CurrentCpu::handle_ipi`].
    ///
    /// # Panics
    ///
    /// As [`CurrentCpu::flush`].
    #[track_caller]
    pub fn begin_flush<'g, 't, F>(
        &'t self,
        irqs_off: &P::IrqsOff,
        gather: Gather<'g, P, F>,
    ) -> PendingFlush<'g, 't, P, T, F> {
        let _ = irqs_off;
        let this_cpu = CurrentCpu::executing(self);
        this_cpu.must_own(gather.space().tlb);
        this_cpu.begin_gathered(gather, None)
    }
}

impl<'t, P: Platform, T: Tags<P>> CurrentCpu<'t, P, T> {
    /// Flushes what was gathered on every CPU that may use it, and returns when none can any more ([`Flushed`]). Other CPUs flush
    /// it when they switch to the space.
    ///
    /// The entries in the page tables must have been changed before. This CPU need not run the space. It
    /// waits for other CPUs if they must act, and handles their requests meanwhile. So it may be called with
    /// interrupts off (they are, see [`crate::Tlb::this_cpu`]), but not with a lock held for which another
    /// CPU may spin with interrupts off and without calling [`Self::handle_ipi`].
    ///
    /// # Panics
    ///
    /// If the gather is of a space of another [`crate::Tlb`], whose CPUs would not be reached. The gather is
    /// then dropped unflushed.
    #[doc(alias = "tlb_finish_mmu")]
    #[doc(alias = "flush_tlb_mm_range")]
    #[doc(alias = "pmap_invalidate_range")]
    #[inline(never)] // Inlined, it would copy the gather.
    #[track_caller]
    pub fn flush<F>(&self, mut gather: Gather<'_, P, F>) -> Flushed<F> {
        self.must_own(gather.changes.space.tlb);
        self.complete(&mut gather.changes, false);
        let Gather { changes, held, flags } = gather;
        changes.end();
        Flushed { frames: held.into_frames(), flags }
    }

    /// As [`Self::flush`], but a target may acknowledge as soon as it is in its IPI handler, and invalidates
    /// before it leaves the handler. This saves the initiator the time of the invalidations.
    ///
    /// If a table was unlinked or is held, or the flush comes before an unlock ([`Gather::move_away`]), this is
    /// [`Self::flush`].
    ///
    /// A later gather that relies on the absence of what was revoked here ([`Gather::relies_on`]), and
    /// whose flush is not early, waits until the targets have invalidated.
    ///
    /// NMI handlers must not touch user addresses unless [`crate::Tlb::nmi_uaccess_okay`]: an NMI may come
    /// between the acknowledgement of a target and its invalidation.
    ///
    /// # Panics
    ///
    /// As [`Self::flush`].
    #[track_caller]
    pub fn flush_early<F>(&self, mut gather: Gather<'_, P, F>) -> Acknowledged<F> {
        self.must_own(gather.space().tlb);
        let early = gather.changes.may_be_early();
        self.complete(&mut gather.changes, early);
        let Gather { changes, held, flags } = gather;
        changes.end();
        Acknowledged { frames: held.into_frames(), flags }
    }

    /// Flushes `range` if another thread may have cleared entries in it and not completed its flush: for a caller that has found
    /// entries absent there and relies on that, before it maps other pages for example, and changes no entry before the call.
    ///
    /// It is [`Gather::relies_on`] and [`Self::flush`] for a gather that has nothing else to flush, without being one that others have to
    /// flush for: threads that fault side by side only read two words of the space. The same precondition holds for how entries are changed and read.
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`].
    #[doc(alias = "flush_tlb_batched_pending")]
    #[track_caller]
    pub fn flush_concurrent(&self, space: &AddressSpace<P>, range: VaRange) {
        self.must_own(space.tlb);
        let mut changes = Changes::relying(space, range);
        if changes.may_meet_others() {
            self.complete_with_others(&mut changes, false);
        }
    }

    /// [`Tlb::begin_flush`] on this CPU, of a gather of the same [`Tlb`] whose generation may have been announced.
    fn begin_gathered<'g, F>(
        &self,
        gather: Gather<'g, P, F>,
        announced: Option<u64>,
    ) -> PendingFlush<'g, 't, P, T, F> {
        let Gather { changes, held, flags } = gather;
        let mut pending = PendingFlush::new(self, held, flags);
        let changes = pending.changes.insert(changes);
        let space = changes.space;
        let ranges = changes.ranges(self.mmu(), false);
        let mut outcome = Outcome::NoCpu;
        if !ranges.is_empty() {
            let tables = ranges.change() == TableChange::FreedTables;
            let shootdown = &mut pending.request.shootdown;
            let start = |initiator: &Initiator<'_, 't, P, T>| initiator.start(shootdown);
            let generation = announced.unwrap_or_else(|| self.announce(space));
            let started =
                self.flush_everywhere(space, (ranges, generation), (tables, false), start);
            outcome = started.unwrap_or(outcome);
        }
        changes.flushed_by(outcome);
        pending.begun(self, outcome);
        pending
    }

    /// Flushes everything of a space from every CPU, walk caches too.
    pub(crate) fn flush_everything(&self, space: &AddressSpace<P>) {
        let everything = (&FlushRanges::everything(), self.announce(space));
        let _ =
            self.flush_everywhere(space, everything, (true, false), |initiator| initiator.act());
    }

    /// Returns when what was gathered is flushed.
    #[inline]
    fn complete(&self, changes: &mut Changes<'_, P>, early: bool) {
        match changes.only_page() {
            Some(page) => self.flush_page(changes.space, page, early),
            None => self.complete_with_others(changes, early),
        }
    }

    #[inline]
    fn observe_flush(&self, done: &Done) {
        let &Done { outcome, targets, rounds } = done;
        self.observe(Event::Flushed { outcome, targets, rounds });
    }

    /// As [`Self::complete`], with what other gathers have left.
    #[inline(never)]
    fn complete_with_others(&self, changes: &mut Changes<'_, P>, early: bool) {
        let space = changes.space;
        let ranges = changes.ranges(self.mmu(), early);
        if ranges.is_empty() {
            return self.observe_flush(&Done::by(Outcome::NoCpu));
        }
        let tables = ranges.change() == TableChange::FreedTables;
        let announced = (ranges, self.announce(space));
        let done =
            self.flush_everywhere(space, announced, (tables, early), |initiator| initiator.act());
        let done = Self::done(space, done.unwrap_or(Done::by(Outcome::NoCpu)), early && !tables);
        changes.flushed_by(done.outcome);
        changes.complete_others();
        self.observe_flush(&done);
    }

    /// What was done by a flush of `space`, whose targets may have acknowledged `early`.
    #[inline]
    fn done(space: &AddressSpace<P>, done: Done, early: bool) -> Done {
        if early && done.outcome == Outcome::Ipis {
            space.mark_unfinished(Unfinished::Acknowledged);
        }
        done
    }

    /// The first step of a flush, after the page tables were changed: every walk that starts from now on sees the new tables. Returns the
    /// generation of [`AddressSpace::announce_flush`].
    #[inline]
    fn announce(&self, space: &AddressSpace<P>) -> u64 {
        self.mmu().publish(Wait::Now);
        space.announce_flush(T::tracks_generations(self.tlb))
    }

    /// Removes the entries of the ranges from every CPU by `act`, unless no CPU can hold any. The change of the page tables was
    /// [announced](Self::announce) before, with this generation.
    #[inline]
    fn flush_everywhere<R>(
        &self,
        space: &AddressSpace<P>,
        (ranges, generation): (&FlushRanges, u64),
        (tables, early): (bool, bool),
        act: impl FnOnce(&Initiator<'_, 't, P, T>) -> R,
    ) -> Option<R> {
        let context = T::context_id(self.tlb, space)?;
        Some(act(&Initiator::new(self, space, (ranges, context, generation), (tables, early))))
    }
}
