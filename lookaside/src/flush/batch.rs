//! Many spaces, one flush: what reclaim wants, which unmaps pages here and there and can wait.

use core::fmt;

use super::{
    flushed::Flushed,
    gather::{Gather, Held},
    initiator::Initiator,
    kernel::KernelGather,
    shootdown::Shootdown,
};
use crate::{
    arch::{Invalidation, Mmu, Scope, Sharing, TableChange, Wait},
    counts::{Event, Outcome},
    cpuset::CpuSet,
    error::Error,
    flags::Flags,
    ids::{CpuId, Targets, TlbId},
    platform::Platform,
    request::{FlushRanges, FlushRequest, FlushScope},
    space::Unfinished,
    tlb::{CurrentCpu, Tags, Tlb},
    word::{Ordering, Word},
};

/// Flushes that were begun and are to be completed together.
///
/// Entries that were cleared for the batch may be in TLBs until it is complete, and nothing tells a space when that is.
/// So the next gather of the space that relies on absent entries ([`Gather::relies_on`]) flushes everything in the space,
/// once. Gathers that rely on nothing flush only their own ranges. If a batch is dropped unflushed, what it holds is leaked,
/// and CPUs may use what was revoked until such a gather, or one of everything, is flushed: an error path flushes the
/// batch, too.
#[must_use = "what it holds is leaked unless this is handed to `CurrentCpu::flush_batch`"]
pub struct Batch<'w, P: Platform, F = ()> {
    tlb: TlbId,
    deferred: Deferred<'w, P>,
    held: Held<F>,
}

/// What is left to do of the flushes of a batch.
struct Deferred<'w, P: Platform> {
    /// The CPUs that are to flush everything when the batch is flushed.
    targets: CpuSet<'w, P::Word>,
    broadcasts: Broadcasts,
    /// The cost, in picoseconds, of the invalidations that were executed on the CPUs which deferred, instead of a flush of
    /// everything there.
    spent: u32,
    /// Whether any gather had something to flush, and whether the batch holds a page.
    has_flushed: bool,
    holds_page: bool,
    /// What the gathers have found in entries.
    flags: Flags,
}

/// The hardware broadcasts of a batch that are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broadcasts {
    None,
    /// All were begun by this CPU, which alone can wait for them.
    From(CpuId),
    FromSeveral,
}

impl Broadcasts {
    fn add(&mut self, from: CpuId) {
        *self = match *self {
            Self::None => Self::From(from),
            Self::From(other) if other == from => return,
            _ => Self::FromSeveral,
        };
    }
}

impl<'w, P: Platform> Batch<'w, P> {
    /// An empty batch, where no frame becomes free. `words` is storage for one bit a CPU ([`CpuSet::words_for`]),
    /// which is the batch's alone as long as that is there, and is cleared.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] if `words` is too small.
    pub fn new<T: Tags<P>>(tlb: &Tlb<'_, P, T>, words: &'w mut [P::Word]) -> Result<Self, Error> {
        Self::holding(tlb, words, ())
    }
}

impl<'w, P: Platform, F> Batch<'w, P, F> {
    /// As [`Batch::new`], and `frames` holds the frames that become free, as in
    /// [`Gather::holding`].
    ///
    /// # Errors
    ///
    /// As [`Batch::new`].
    pub fn holding<T: Tags<P>>(
        tlb: &Tlb<'_, P, T>,
        words: &'w mut [P::Word],
        frames: F,
    ) -> Result<Self, Error> {
        let targets = CpuSet::new(words, tlb.cpus().len())?;
        for (_, word) in targets.words() {
            word.store(0, Ordering::Relaxed); // Relaxed: the batch is ours.
        }
        let (broadcasts, has_flushed, holds_page) = (Broadcasts::None, false, false);
        let (spent, flags) = (0, Flags::default());
        let deferred = Deferred { targets, broadcasts, spent, has_flushed, holds_page, flags };
        Ok(Self { tlb: tlb.id, deferred, held: Held::new(frames) })
    }

    /// Holds a page back until the batch is flushed. What mapped it is recorded by a gather that is deferred
    /// ([`CurrentCpu::defer`]); of a batch without one every CPU flushes everything.
    pub fn hold_page<T>(&mut self, page: T)
    where
        F: Extend<T>,
    {
        self.deferred.holds_page = true;
        self.held.add(page);
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Begins to flush what was gathered, as part of `batch`, and waits for nobody, unless the flush must be over before a
    /// lock is released ([`Gather::move_away`], [`Gather::unshare_table`]).
    ///
    /// # Panics
    ///
    /// If the batch, or the space of the gather, is of another [`Tlb`].
    #[track_caller]
    pub fn defer<F>(&self, gather: Gather<'_, P>, batch: &mut Batch<'_, P, F>) {
        let Gather { mut changes, flags, .. } = gather;
        let space = changes.space;
        self.must_own(space.tlb);
        self.must_own(batch.tlb);
        batch.deferred.flags |= flags;
        if !changes.may_be_deferred() {
            batch.deferred.has_flushed = true;
            self.complete_with_others(&mut changes, false);
            return changes.end();
        }
        let ranges = changes.ranges(self.mmu(), false);
        if !ranges.is_empty() {
            batch.deferred.has_flushed = true;
            self.mmu().publish(Wait::Later);
            let generation = space.announce_flush(T::tracks_generations(self.tlb));
            if let Some(context) = T::context_id(self.tlb, space) {
                let tables = ranges.change() == TableChange::FreedTables;
                let announced = (ranges, context, generation);
                let initiator = Initiator::new(self, space, announced, (tables, false));
                if initiator.begin(&mut batch.deferred) {
                    space.mark_unfinished(Unfinished::Deferred);
                }
            }
        }
        changes.end();
    }

    /// Completes what `batch` has begun: one interrupt for each CPU that ran one of its spaces, or
    /// one barrier; and a flush of everything here, if so many pages were deferred on this CPU that it was put off. Where broadcasts were begun and the thread has migrated since then, it broadcasts a flush of
    /// everything instead: only the CPU that has begun an invalidation can wait for it (DDI 0487, `DSB`; APM vol. 3,
    /// `TLBSYNC`).
    ///
    /// # Panics
    ///
    /// If the batch is of another [`Tlb`].
    #[track_caller]
    pub fn flush_batch<F>(&self, batch: Batch<'_, P, F>) -> Flushed<F> {
        let Batch { tlb, deferred, held } = batch;
        self.must_own(tlb);
        if deferred.holds_page && !deferred.has_flushed {
            let mut everything = KernelGather::new(self.tlb);
            everything.revoke_everything();
            let _ = self.flush_kernel(everything);
        }
        let mut outcome = Outcome::NoCpu;
        if deferred.broadcasts != Broadcasts::None {
            if deferred.broadcasts == Broadcasts::From(self.id()) {
                self.mmu().complete_broadcast(self.errata());
            } else {
                self.mmu().flush(self.errata(), Invalidation::All, Scope::Broadcast);
            }
            outcome = Outcome::Broadcast;
        }
        let everything = FlushRanges::everything();
        let request =
            FlushRequest { scope: FlushScope::EverySpace, ranges: &everything, early: false };
        let mut shootdown = Shootdown::new(self);
        for (first, word) in deferred.targets.words() {
            // Relaxed: the batch is ours.
            let mut group = Targets { first: CpuId(first), mask: word.load(Ordering::Relaxed) };
            // The thread may have moved since it began.
            let me = self.id().0.wrapping_sub(first);
            if me < 64 && group.mask & 1 << me != 0 {
                group.mask &= !(1 << me);
                T::flush_all_spaces(&self.for_allocator());
                outcome = outcome.max(Outcome::Local);
            }
            if group.mask != 0 {
                if shootdown.targets == 0 {
                    shootdown.describe(self, &request);
                }
                shootdown.send_to(self, group);
                outcome = outcome.max(Outcome::Ipis);
            }
        }
        let (targets, rounds) = shootdown.wait(self);
        self.observe(Event::Flushed { outcome, targets, rounds });
        Flushed { frames: held.into_frames(), flags: deferred.flags }
    }
}

impl<P: Platform, T: Tags<P>> Initiator<'_, '_, P, T> {
    /// Acts on this CPU, adds the others to `batch`, and says whether any of them is yet to act.
    fn begin(&self, batch: &mut Deferred<'_, P>) -> bool {
        let mut later = false;
        let by_ipis = self.max_targets_of_batch().is_some_and(|most| {
            let sent = self.for_each_running(most, |running| {
                for cpu in running.iter() {
                    batch.targets.insert(cpu, Ordering::Relaxed); // Relaxed: the batch is ours.
                }
                later = true;
            });
            sent.is_ok()
        });
        let here = self.runs_here && by_ipis;
        if here && self.puts_off(batch) {
            batch.targets.insert(self.this_cpu.id(), Ordering::Relaxed); // Relaxed: the batch is ours.
            return true;
        }
        if !by_ipis || here && !self.flush_local() {
            self.broadcast(Wait::Later);
            batch.broadcasts.add(self.this_cpu.id());
            return true;
        }
        later
    }

    /// [`Self::max_ipi_targets`]; any number, if the broadcast is not necessary and could not be waited for later, unless by the
    /// costs not even one IPI is cheaper.
    fn max_targets_of_batch(&self) -> Option<u64> {
        let necessary =
            T::is_pinned(self.space) || self.this_cpu.stale_entries_do_harm(self.tables);
        let waits = self.this_cpu.mmu().properties().broadcasts_wait;
        if waits && !necessary && self.most_before_broadcast() > 0 {
            return Some(u64::MAX);
        }
        self.max_ipi_targets()
    }

    /// Whether this CPU flushes everything when the batch is flushed, as the others do, instead of these pages now: when the
    /// invalidations of the batch so far have cost as much as that does. Together they cost at most twice what the
    /// cheaper of the two would have cost (ski rental). Not if another CPU may take over the entries meanwhile.
    fn puts_off(&self, batch: &mut Deferred<'_, P>) -> bool {
        if self.this_cpu.mmu().properties().sharing == Sharing::Shared {
            return false;
        }
        // Relaxed: the batch is ours.
        if batch.targets.contains(self.this_cpu.id(), Ordering::Relaxed) {
            return true;
        }
        let costs = self.costs();
        let cost =
            match self.request.ranges.operations(self.this_cpu.mmu(), costs, Scope::Local, None) {
                Some(operations) => operations.saturating_mul(costs.local.address),
                None => costs.local.tag,
            };
        batch.spent = batch.spent.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
        u64::from(batch.spent) > costs.local.tag.saturating_add(costs.loss())
    }
}

/// Without the frames.
impl<P: Platform, F> fmt::Debug for Batch<'_, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("tlb", &self.tlb)
            .field("broadcasts", &self.deferred.broadcasts)
            .finish_non_exhaustive()
    }
}
