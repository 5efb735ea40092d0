//! The targets of a flush: which CPUs must act now.
//!
//! # Why CPUs that run the space are enough
//!
//! The initiator has written the tables, made the stores visible to walks ([`Mmu::publish`]) and raised
//! the generation (F-GENERATION), or executed a fence where nobody keeps generations (F-ANNOUNCE), before it
//! reads the state of any CPU. Every other CPU is then one of:
//!
//! * *Absent* when its residency is read, or *lazy* there and no table is freed. On switch-in, or at the end of lazy mode, it
//!   makes itself present first, and flushes or walks afterwards (O-MARK-PRESENT): it sees the new tables.
//! * *Running* the space, or switching to or from it, when [`Tags::root_state`] is read. It must act now.
//! * *Resting*: none of these. The initiator marks it stale and reads its root state again
//!   (O-MARK-STALE). If it is switching in now, it must act now; if it switches in later, it finds that it is
//!   not present and flushes (O-PRESENT). If it neither runs the space nor is switching to it, the
//!   initiator makes it absent, or lazy if it is in lazy mode.
//!
//! A CPU in lazy mode counts as resting unless a table is freed: it flushes when it stops being lazy. If the
//! architecture requires break-before-make ([`crate::arch::Properties::breaks_before_making`]), it counts as running.
//!
//! # Where they are not enough
//!
//! If walk-cache entries outlive tags ([`crate::arch::Properties::walks_outlive_tags`]) and a table is freed, or if CPUs use
//! each other's entries ([`Sharing::Shared`]), stale entries of a CPU do harm although it does not run the
//! space. Then every CPU that may hold entries must act. That is all CPUs, by broadcast, unless the
//! residency says that all others are absent and hold nothing.

use super::initiator::Initiator;
use crate::{
    arch::{Mmu, Scope, Sharing},
    ids::{CpuId, Targets},
    platform::Platform,
    request::MissedFlush,
    residency::{CpuBits, Word32},
    space::AddressSpace,
    tlb::{CurrentCpu, RootState, Tags},
};

/// So many CPUs must act that a broadcast is cheaper than IPIs.
pub(super) struct Broadcast;

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Whether no CPU holds entries of `space` that must be flushed, but for this one if it runs the space; of walk caches,
    /// too, if `tables`.
    #[inline]
    pub(super) fn holds_alone(
        &self,
        space: &AddressSpace<P>,
        runs_here: bool,
        tables: bool,
    ) -> bool {
        let me = self.bits(runs_here);
        // In this order: the space is marked stale before a CPU becomes absent.
        space.residents().none_but(me, tables)
            && !(self.stale_entries_do_harm(tables)
                && (space.absent_may_hold_entries() || self.walks_under_older_tags(space, tables)))
            && !(self.mmu().properties().broadcasts && T::is_pinned(space))
    }

    /// Whether no other CPU uses pages of `space`, which this one runs, before it has flushed, and no device that takes part in
    /// broadcasts. Never where CPUs use each other's entries, since those that were resident before may hold some.
    #[inline]
    pub(super) fn is_only_user(&self, space: &AddressSpace<P>) -> bool {
        space.residents().none_but(self.cpu.private_bits, false)
            && !(self.mmu().properties().broadcasts && T::is_pinned(space))
    }

    /// Whether no other CPU has come that may have taken over entries of `space` before this one flushed them.
    #[inline]
    pub(super) fn is_still_alone(&self, space: &AddressSpace<P>) -> bool {
        self.mmu().properties().sharing == Sharing::Private
            || space.residents().none_but(self.cpu.bits, true)
    }

    /// Whether entries do harm that a CPU holds which does not run the space.
    #[inline]
    pub(super) fn stale_entries_do_harm(&self, tables: bool) -> bool {
        let hardware = self.mmu().properties();
        tables && hardware.walks_outlive_tags || hardware.sharing == Sharing::Shared
    }

    /// Whether walk-cache entries under former tags of `space` must be flushed.
    #[inline]
    pub(super) fn walks_under_older_tags(&self, space: &AddressSpace<P>, tables: bool) -> bool {
        tables && self.mmu().properties().walks_outlive_tags && space.held_under_older_tags()
    }

    /// Whether lazy CPUs must act. No program uses the entries that they hold, but their walkers may read a
    /// table that is freed, and find a page that is mapped where another one was.
    pub(super) fn targets_lazy(&self, tables: bool) -> bool {
        tables || self.mmu().properties().breaks_before_making
    }

    /// Whether a CPU in this state must act at a flush, of a table, too, if `tables`.
    pub(super) fn must_act(&self, names: RootState, tables: bool) -> bool {
        match names {
            RootState::NotLoaded => false,
            RootState::Lazy => self.targets_lazy(tables),
            RootState::Loaded => true,
        }
    }

    /// Whether a flush makes a CPU absent that need not act; otherwise it makes it lazy. Where only a broadcast could reach its walks,
    /// and there is none, flushes of tables go on looking at it.
    fn becomes_absent(&self, names: RootState) -> bool {
        let walks_are_reached =
            T::has_global_tags(self.tlb) || !self.mmu().properties().walks_outlive_tags;
        names == RootState::NotLoaded && walks_are_reached
    }

    /// The bits of this CPU, if it runs the space.
    fn bits(&self, runs_here: bool) -> CpuBits {
        if runs_here { self.cpu.bits } else { CpuBits::NONE }
    }
}

impl<P: Platform, T: Tags<P>> Initiator<'_, '_, P, T> {
    /// Calls `send` with the CPUs that must act now, without this one if it runs the space. All others
    /// flush on switch-in.
    ///
    /// # Errors
    ///
    /// [`Broadcast`] if there are more than `most` ([`Self::max_ipi_targets`]). `send` may have been called by then.
    #[inline]
    pub(super) fn for_each_running(
        &self,
        most: u64,
        mut send: impl FnMut(Targets),
    ) -> Result<(), Broadcast> {
        let mut left = most;
        for word in self.space.residents().scan() {
            let others = self.others(word);
            if others.mask == 0 {
                continue; // On a large machine, most of them.
            }
            let running = self.select_targets(others);
            if running.mask != 0 {
                // Without an instruction for it, to count the bits of the mask takes twenty.
                if most != u64::MAX {
                    // More CPUs may run it than when `max_ipi_targets` was called.
                    left = left.checked_sub(u64::from(running.count())).ok_or(Broadcast)?;
                }
                send(running);
            }
        }
        Ok(())
    }

    /// Those of the `others` in this word that must act now. The rest of them flush on switch-in.
    fn select_targets(&self, others: Targets) -> Targets {
        if self.this_cpu.stale_entries_do_harm(self.tables) {
            return others; // No broadcast reaches them, so they were never made absent.
        }
        let running = self.running(others);
        let resting = Targets { mask: others.mask & !running.mask, ..others };
        if resting.mask == 0 {
            return running;
        }
        // CPUs that are absent or lazy have missed other flushes already, and do not need the record.
        self.record_missed();
        Targets { mask: running.mask | self.trim(resting).mask, ..running }
    }

    /// Records what CPUs have missed that do not act now, where they go by generations.
    pub(super) fn record_missed(&self) {
        if T::tracks_generations(self.this_cpu.tlb) {
            self.space.record(self.generation, self.missed());
        }
    }

    /// What a CPU must flush that catches up later: the addresses, or everything under the tag if that is
    /// cheaper.
    fn missed(&self) -> MissedFlush {
        let ranges = self.request.ranges;
        // Nothing is cheaper than to remove one page.
        let by_address = ranges.is_one_page()
            || ranges.operations(self.this_cpu.mmu(), self.costs(), Scope::Local, None).is_some();
        if by_address { ranges.missed() } else { MissedFlush::Everything }
    }

    /// Marks resting CPUs stale, so that they flush on switch-in, and returns those that must act now
    /// because they are not resting any more.
    fn trim(&self, resting: Targets) -> Targets {
        let residents = self.space.residents();
        let mut residency = self.space.lock_residency(&self.this_cpu.tlb.platform);
        if !T::has_context(self.this_cpu, self.space, self.context) {
            // CPUs that run the space under its new context id have walked the new tables, and the residents are
            // those of the new one. Under the old one CPUs still run it if the last epoch has begun meanwhile.
            return self.running(resting);
        }
        residents.mark_stale(resting);
        let none = Targets { mask: 0, ..resting };
        let (mut running, mut gone, mut lazy) = (none, none, 0);
        for cpu in resting.iter() {
            let (state, bit) = (self.root_state(cpu), 1 << (cpu.0 - resting.first.0));
            if self.this_cpu.must_act(state, self.tables) {
                running.mask |= bit;
                continue;
            }
            if self.this_cpu.becomes_absent(state) {
                gone.mask |= bit;
            } else {
                lazy |= bit;
            }
        }
        if gone.mask != 0 {
            // They keep their entries until they switch back or the tag is recycled.
            residency.set_stale(true);
        }
        gone.mask |= lazy;
        if gone.mask != 0 {
            residents.remove(gone, lazy);
        }
        running
    }

    /// Those of `cpus` that must act now.
    pub(super) fn running(&self, cpus: Targets) -> Targets {
        let mut running = Targets { mask: 0, ..cpus };
        for cpu in cpus.iter() {
            if self.this_cpu.must_act(self.root_state(cpu), self.tables) {
                running.mask |= 1 << (cpu.0 - cpus.first.0);
            }
        }
        running
    }

    pub(super) fn root_state(&self, cpu: CpuId) -> RootState {
        T::root_state(self.this_cpu.tlb, cpu, self.context)
    }

    /// The CPUs that this flush looks at, without this one if it runs the space, by words of the residency.
    pub(super) fn all_others(&self) -> impl Iterator<Item = Targets> {
        self.space.residents().scan().map(|word| self.others(word))
    }

    fn others(&self, word: Word32) -> Targets {
        word.looked_at_but(self.this_cpu.bits(self.runs_here), self.tables)
    }
}
