//! The initiator of a flush: which CPUs must act, and by which means (none, local, IPIs, broadcast).
//!
//! # Why CPUs that run the space are enough
//!
//! The initiator has written the tables, made the stores visible to walks ([`Mmu::publish`]) and raised
//! the generation (F-GENERATION), or executed a fence where nobody keeps generations (F-ANNOUNCE), before it
//! reads the state of any CPU. Every other CPU is then one of:
//!
//! * *Absent* when its residency is read. On switch-in it sets its Present bit first, and flushes or walks
//!   afterwards (O-MARK-PRESENT): it sees the new tables.
//! * *Running* the space, or switching to or from it, when [`Tags::root_state`] is read. It must act now.
//! * *Resting*: neither absent nor running. The initiator marks it stale and reads its root state again
//!   (O-MARK-STALE). If it is switching in now, it must act now; if it switches in later, it finds its
//!   Present bit clear and flushes (O-PRESENT). If it neither runs the space nor is switching to it, the
//!   initiator makes it absent.
//!
//! A *lazy* CPU counts as resting unless a table is freed: it flushes when it stops being lazy. If the
//! architecture requires break-before-make ([`crate::arch::Properties::breaks_before_making`]), it counts as running.
//!
//! # Where they are not enough
//!
//! If walk-cache entries outlive tags ([`crate::arch::Properties::walks_outlive_tags`]) and a table is freed, or if CPUs use
//! each other's entries ([`Sharing::Shared`]), stale entries of a CPU do harm although it does not run the
//! space. Then every CPU that may hold entries must act. That is all CPUs, by broadcast, unless the
//! residency says that all others are absent and hold nothing.

use super::shootdown::Shootdown;
use crate::{
    arch::{Invalidation, Mmu, Scope, Sharing, Wait},
    costs::Costs,
    counts::Outcome,
    ids::{CpuId, Targets},
    platform::Platform,
    request::{FlushRanges, FlushRequest, FlushScope, MissedFlush},
    residency::Word32,
    space::AddressSpace,
    tlb::{CurrentCpu, RootState, Tags},
};

/// One flush of one space, on the CPU that initiates it.
pub(super) struct Initiator<'f, 't, P: Platform, T: Tags<P>> {
    pub(super) this_cpu: &'f CurrentCpu<'t, P, T>,
    pub(super) space: &'f AddressSpace<P>,
    pub(super) request: FlushRequest<'f>,
    /// The context id of the space.
    pub(super) context: u64,
    /// Whether a table is freed.
    pub(super) tables: bool,
}

/// So many CPUs must act that a broadcast is cheaper than IPIs.
pub(super) struct Broadcast;

/// What was done.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) targets: u32,
    pub(super) rounds: u64,
}

impl Done {
    pub(super) const fn by(outcome: Outcome) -> Self {
        Self { outcome, targets: 0, rounds: 0 }
    }
}

impl<'f, 't, P: Platform, T: Tags<P>> Initiator<'f, 't, P, T> {
    /// The initiator of a flush of `ranges` under this context id, with the space's generation after the change
    /// ([`AddressSpace::announce_flush`]). `tables`: whether one is freed. `early`: the targets need only acknowledge.
    #[inline]
    pub(super) fn new(
        this_cpu: &'f CurrentCpu<'t, P, T>,
        space: &'f AddressSpace<P>,
        (ranges, context, generation): (&'f FlushRanges, u64, u64),
        (tables, early): (bool, bool),
    ) -> Self {
        let scope = FlushScope::AddressSpace { context, first: generation, last: generation };
        let request = FlushRequest { scope, ranges, early };
        Self { this_cpu, space, request, context, tables }
    }

    /// Chooses the means, and invalidates; the targets of `shootdown`, which had none, are still to be waited for.
    pub(super) fn start(&self, shootdown: &mut Shootdown<'t, P, T>) -> Outcome {
        let runs_here = self.runs_here();
        if self.is_alone(runs_here) {
            self.act_alone(runs_here)
        } else {
            match self.max_ipi_targets(runs_here) {
                Some(most) => self.send_requests(runs_here, most, shootdown),
                None => self.act_without_ipis(runs_here),
            }
        }
    }

    /// As [`Self::start`], and waits for the targets.
    pub(super) fn act(&self) -> Done {
        let runs_here = self.runs_here();
        if self.is_alone(runs_here) {
            Done::by(self.act_alone(runs_here))
        } else {
            self.act_with_others(runs_here)
        }
    }

    pub(super) fn act_with_others(&self, runs_here: bool) -> Done {
        let Some(most) = self.max_ipi_targets(runs_here) else {
            return Done::by(self.act_without_ipis(runs_here));
        };
        let mut shootdown = Shootdown::new(self.this_cpu);
        let outcome = self.send_requests(runs_here, most, &mut shootdown);
        let (targets, rounds) = shootdown.wait(self.this_cpu);
        Done { outcome, targets, rounds }
    }

    /// Removes the entries by broadcast, or by a new tag if that costs less.
    fn act_without_ipis(&self, runs_here: bool) -> Outcome {
        if self.retag_is_cheaper(Scope::Broadcast) && self.retag() {
            return Outcome::Retagged;
        }
        self.broadcast(runs_here, Wait::Now);
        Outcome::Broadcast
    }

    /// Sends requests to the CPUs that must act, unless there are more than `most`, and invalidates here.
    #[inline]
    fn send_requests(
        &self,
        runs_here: bool,
        most: u64,
        shootdown: &mut Shootdown<'t, P, T>,
    ) -> Outcome {
        let told = self.for_each_running(runs_here, most, |running| {
            if shootdown.targets() == 0 {
                self.describe(shootdown);
            }
            shootdown.send_to(self.this_cpu, running);
        });
        // This CPU invalidates while the targets do.
        let enough = told.is_ok() && (!runs_here || self.flush_local());
        if !enough {
            self.broadcast(runs_here, Wait::Now);
        }
        // After a broadcast the acknowledgements are not needed; but targets may still read the request.
        match (enough, shootdown.targets()) {
            (false, _) => Outcome::Broadcast,
            (true, 1..) => Outcome::Ipis,
            (true, 0) if runs_here => Outcome::Local,
            (true, 0) => Outcome::NoCpu,
        }
    }

    /// Describes the request to the CPUs that must act.
    fn describe(&self, shootdown: &mut Shootdown<'t, P, T>) {
        let (this_cpu, request) = (self.this_cpu, &self.request);
        if T::tracks_generations(this_cpu.tlb) && !self.targets_stale() {
            shootdown.describe_generation(this_cpu, self.space, request, self.targets_lazy());
        } else {
            shootdown.describe(this_cpu, request);
        }
    }

    /// Whether no other CPU holds entries that must be flushed.
    #[inline]
    pub(super) fn is_alone(&self, runs_here: bool) -> bool {
        let me = if runs_here { self.this_cpu.id() } else { CpuId(u32::MAX) };
        self.this_cpu.holds_alone(self.space, me, self.tables)
    }

    /// As [`Self::act`], if no other CPU must act.
    fn act_alone(&self, runs_here: bool) -> Outcome {
        if !runs_here {
            return Outcome::NoCpu;
        }
        if self.retag_is_cheaper(Scope::Local) && self.retag() {
            return Outcome::Retagged;
        }
        if self.flush_local() {
            return Outcome::Local;
        }
        self.broadcast_to_newcomers().outcome
    }

    #[cold]
    pub(super) fn broadcast_to_newcomers(&self) -> Done {
        self.broadcast(true, Wait::Now);
        Done::by(Outcome::Broadcast)
    }

    #[inline]
    fn retag(&self) -> bool {
        T::retag(&self.this_cpu.strategy(), self.space, self.context)
    }

    #[inline]
    fn costs(&self) -> &'t Costs {
        self.this_cpu.tlb.platform.costs()
    }

    #[inline]
    pub(super) fn runs_here(&self) -> bool {
        T::is_loaded(self.this_cpu, self.context)
    }

    /// Flushes on this CPU, and returns whether no broadcast to the others is needed after it.
    ///
    /// If CPUs use each other's entries, no other CPU was resident when this path was chosen. A CPU that has
    /// switched in since then may have taken over entries that this CPU had not dropped yet; one that
    /// switches in later finds none.
    #[inline]
    pub(super) fn flush_local(&self) -> bool {
        T::flush_local(&self.this_cpu.strategy(), &self.request);
        self.is_still_alone()
    }

    /// As [`Self::flush_local`] returns it, where this CPU runs the space.
    #[inline]
    pub(super) fn is_still_alone(&self) -> bool {
        self.this_cpu.is_still_alone(self.space)
    }

    /// Calls `send` with the CPUs that must act now, without this one if it runs the space. All others
    /// flush on switch-in.
    ///
    /// # Errors
    ///
    /// [`Broadcast`] if there are more than `most` ([`Self::max_ipi_targets`]). `send` may have been called by then.
    #[inline]
    pub(super) fn for_each_running(
        &self,
        runs_here: bool,
        most: u64,
        mut send: impl FnMut(Targets),
    ) -> Result<(), Broadcast> {
        let mut left = most;
        for word in self.space.residents().scan() {
            if word.not_absent().mask == 0 {
                continue; // On a large machine, most of them.
            }
            let running = self.select_targets(word, runs_here);
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

    /// Whether a new tag costs less than to flush the present one, locally or by broadcast.
    #[inline]
    fn retag_is_cheaper(&self, scope: Scope) -> bool {
        let (costs, ranges) = (self.costs(), self.request.ranges);
        let flush = match scope {
            Scope::Local => costs.local,
            Scope::Broadcast => costs.broadcast,
        };
        // A flush by tag is the most expensive one.
        if costs.retag >= flush.tag.saturating_add(flush.wait) {
            return false;
        }
        if self.tables && self.mmu().properties().walks_outlive_tags {
            return false;
        }
        let loss = costs.loss_beside(ranges.pages());
        let cost = match ranges.operations(self.mmu(), costs, scope, None) {
            Some(operations) => operations.saturating_mul(flush.address),
            None => flush.tag.saturating_add(loss),
        };
        costs.retag.saturating_add(loss) < cost.saturating_add(flush.wait)
    }

    #[inline]
    fn can_broadcast(&self) -> bool {
        self.mmu().properties().broadcasts && T::has_global_tags(self.this_cpu.tlb)
    }

    /// Up to how many CPUs are told by IPIs: any number if no broadcast is possible, and `None` if one is necessary, or
    /// cheaper for as many CPUs as run the space now.
    #[inline]
    pub(super) fn max_ipi_targets(&self, runs_here: bool) -> Option<u64> {
        if self.can_broadcast() { self.max_beside_broadcast(runs_here) } else { Some(u64::MAX) }
    }

    /// As [`Self::max_ipi_targets`], where a broadcast is possible.
    fn max_beside_broadcast(&self, runs_here: bool) -> Option<u64> {
        // A device walks the tables of a pinned space, and only broadcasts reach it.
        if T::is_pinned(self.space) {
            return None;
        }
        let most = self.most_before_broadcast();
        if self.targets_stale() {
            // In this order: the space is marked stale before a CPU becomes absent.
            let necessary = self.words(runs_here).any(|(_, others)| others.mask != 0)
                || self.space.absent_may_hold_entries()
                || self.walks_under_older_tags();
            return (!necessary).then_some(most);
        }
        // If all residents are few enough, those of them that run the space are.
        let cheaper = (most == 0 || self.outnumber(most, runs_here, |others| others))
            && self.outnumber(most, runs_here, |others| self.running(others));
        (!cheaper).then_some(most)
    }

    /// Whether those that `of` leaves of the CPUs that are not absent are more than `most`.
    fn outnumber(&self, most: u64, runs_here: bool, of: impl Fn(Targets) -> Targets) -> bool {
        let mut sum = 0;
        self.words(runs_here).any(|(_, others)| {
            sum += u64::from(of(others).count());
            sum > most
        })
    }

    /// The number of CPUs up to which IPIs are cheaper than a broadcast.
    fn most_before_broadcast(&self) -> u64 {
        let costs = self.costs();
        let operations = self.request.ranges.operations(self.mmu(), costs, Scope::Broadcast, None);
        let broadcast = costs.broadcast.wait.saturating_add(match operations {
            Some(operations) => operations.saturating_mul(costs.broadcast.address),
            None => costs.broadcast.tag,
        });
        match broadcast.checked_sub(costs.ipi) {
            None => 0,
            Some(left) => (left / costs.ipi_more.max(1)).saturating_add(1),
        }
    }

    /// Whether CPUs must act that hold entries but do not run the space.
    #[inline]
    fn targets_stale(&self) -> bool {
        self.this_cpu.stale_entries_do_harm(self.tables)
    }

    /// Whether lazy CPUs must act. No program uses the entries that they hold, but their walkers may read a
    /// table that is freed, and find a page that is mapped where another one was.
    fn targets_lazy(&self) -> bool {
        self.tables || self.mmu().properties().breaks_before_making
    }

    /// Flushes on every CPU, by broadcast.
    pub(super) fn broadcast(&self, runs_here: bool, wait: Wait) {
        if self.walks_under_older_tags() {
            return self.flush_every_tag();
        }
        if self.targets_stale() && self.trim_all(runs_here) {
            return;
        }
        T::flush_broadcast(&self.this_cpu.strategy(), self.context, self.request.ranges, wait);
    }

    /// Whether walk-cache entries under former tags of the space must be flushed.
    #[inline]
    fn walks_under_older_tags(&self) -> bool {
        self.this_cpu.walks_under_older_tags(self.space, self.tables)
    }

    /// Flushes everything on every CPU, because the former tags are not recorded. Needed at most once after
    /// each rollover, by spaces that outlive it and free tables.
    fn flush_every_tag(&self) {
        let mut residency = self.space.lock_residency(&self.this_cpu.tlb.platform);
        self.mmu().flush(self.this_cpu.errata(), Invalidation::All, Scope::Broadcast);
        // CPUs that are absent, and former tags, became so before this flush.
        residency.clear_stale_notes();
    }

    /// Tries to make every other CPU absent and to flush all its entries of the space, which also flushes
    /// those of this CPU; returns whether it did.
    ///
    /// It is done once the broadcasts that it could have spared have cost as much as the loss of this CPU's
    /// entries: 2-competitive (ski rental).
    fn trim_all(&self, runs_here: bool) -> bool {
        let residents = self.space.residents();
        let all_rest = || {
            let mut others = self.words(runs_here).flat_map(|(_, others)| others.iter());
            others.all(|cpu| self.root_state(cpu) == RootState::NotLoaded)
        };
        if T::is_pinned(self.space) || !all_rest() {
            return false;
        }
        let Some(mut residency) = self.space.try_lock_residency() else { return false };
        if !T::has_context(self.this_cpu, self.space, self.context) {
            return false; // The residents are those of another tag.
        }
        let spent = residency.spent().saturating_add(self.costs().broadcast.wait);
        if spent < self.costs().loss() {
            residency.set_spent(spent);
            return false;
        }
        for (_, others) in self.words(runs_here) {
            if others.mask != 0 {
                residents.mark_stale(others);
            }
        }
        if !all_rest() {
            return false;
        }
        // They do not run the space, so entries that are removed now do not come back.
        let (cpu, everything) = (self.this_cpu.strategy(), FlushRanges::everything());
        T::flush_broadcast(&cpu, self.context, &everything, Wait::Now);
        for (_, others) in self.words(runs_here) {
            if others.mask != 0 {
                residents.remove(others);
            }
        }
        residency.set_spent(0);
        residency.set_stale(false);
        true
    }

    /// The CPUs of `word` that must act now. Its other CPUs flush on switch-in.
    fn select_targets(&self, word: Word32, runs_here: bool) -> Targets {
        let others = self.others(word, runs_here);
        if self.targets_stale() {
            return others; // No broadcast reaches them, so they were never made absent.
        }
        let running = self.running(others);
        let resting = Targets { mask: others.mask & !running.mask, ..others };
        if let (FlushScope::AddressSpace { last, .. }, true) =
            (self.request.scope, T::tracks_generations(self.this_cpu.tlb))
        {
            // Absent CPUs have missed other flushes already, and do not need the record.
            if resting.mask != 0 {
                self.space.record(last, self.missed());
            }
        }
        // A CPU that is stale already is marked again only if it can be made absent now.
        let gone = self.may_trim()
            && resting.iter().any(|cpu| self.root_state(cpu) == RootState::NotLoaded);
        if resting.mask & word.present().mask == 0 && !gone {
            return running;
        }
        Targets { mask: running.mask | self.trim(resting).mask, ..running }
    }

    /// What a CPU must flush that catches up later: the addresses, or everything under the tag if that is
    /// cheaper.
    fn missed(&self) -> MissedFlush {
        let ranges = self.request.ranges;
        match ranges.operations(self.mmu(), self.costs(), Scope::Local, None) {
            Some(_) => ranges.missed(),
            None => MissedFlush::Everything,
        }
    }

    /// Whether CPUs may become absent: not if only a broadcast could reach them, and there is none.
    fn may_trim(&self) -> bool {
        T::has_global_tags(self.this_cpu.tlb) || !self.mmu().properties().walks_outlive_tags
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
        let mut gone = resting;
        for cpu in resting.iter() {
            if self.root_state(cpu) != RootState::NotLoaded {
                gone.mask &= !(1 << (cpu.0 - resting.first.0));
            }
        }
        if self.may_trim() && gone.mask != 0 {
            // They keep their entries until they switch back or the tag is recycled.
            residency.set_stale(true);
            residents.remove(gone);
        }
        self.running(Targets { mask: resting.mask & !gone.mask, ..resting })
    }

    /// Those of `cpus` that must act now.
    fn running(&self, cpus: Targets) -> Targets {
        let mut running = Targets { mask: 0, ..cpus };
        for cpu in cpus.iter() {
            if self.must_act(self.root_state(cpu)) {
                running.mask |= 1 << (cpu.0 - cpus.first.0);
            }
        }
        running
    }

    fn must_act(&self, names: RootState) -> bool {
        match names {
            RootState::NotLoaded => false,
            RootState::Lazy => self.targets_lazy(),
            RootState::Loaded => true,
        }
    }

    fn root_state(&self, cpu: CpuId) -> RootState {
        T::root_state(self.this_cpu.tlb, cpu, self.context)
    }

    /// The words of the residency, each with the CPUs that are not absent, without this one if it runs the
    /// space.
    fn words(&self, runs_here: bool) -> impl Iterator<Item = (Word32, Targets)> {
        let words = self.space.residents().scan();
        words.map(move |word| (word, self.others(word, runs_here)))
    }

    fn others(&self, word: Word32, runs_here: bool) -> Targets {
        let mut others = word.not_absent();
        let me = self.this_cpu.id().0.wrapping_sub(others.first.0);
        if runs_here && me < 64 {
            others.mask &= !(1 << me);
        }
        others
    }

    #[inline]
    fn mmu(&self) -> &P::Mmu {
        self.this_cpu.mmu()
    }
}

impl<P: Platform, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// Whether no CPU but `me` holds entries of `space` that must be flushed, walk-cache entries if `tables`.
    #[inline]
    pub(super) fn holds_alone(&self, space: &AddressSpace<P>, me: CpuId, tables: bool) -> bool {
        // In this order: the space is marked stale before a CPU becomes absent.
        space.residents().none_but(me)
            && !(self.stale_entries_do_harm(tables)
                && (space.absent_may_hold_entries() || self.walks_under_older_tags(space, tables)))
            && !(self.mmu().properties().broadcasts && T::is_pinned(space))
    }

    /// Whether no other CPU has come that may have taken over entries of `space` before this one flushed them.
    #[inline]
    pub(super) fn is_still_alone(&self, space: &AddressSpace<P>) -> bool {
        self.mmu().properties().sharing == Sharing::Private || space.residents().none_but(self.id())
    }

    /// Whether entries do harm that a CPU holds which does not run the space.
    #[inline]
    fn stale_entries_do_harm(&self, tables: bool) -> bool {
        let hardware = self.mmu().properties();
        tables && hardware.walks_outlive_tags || hardware.sharing == Sharing::Shared
    }

    /// Whether walk-cache entries under former tags of `space` must be flushed.
    #[inline]
    fn walks_under_older_tags(&self, space: &AddressSpace<P>, tables: bool) -> bool {
        tables && self.mmu().properties().walks_outlive_tags && space.held_under_older_tags()
    }
}
