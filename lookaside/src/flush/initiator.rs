//! The initiator of a flush: by which means the CPUs that must act ([`super::targets`]) do: none, local, IPIs, broadcast.

use super::{
    Done,
    shootdown::{Channel, Shootdown},
};
use crate::{
    arch::{Invalidation, Mmu, Scope, Wait},
    costs::Costs,
    counts::Outcome,
    ids::Targets,
    platform::Platform,
    request::{FlushRanges, FlushRequest, FlushScope},
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
    /// The generation of the space after the change, if the allocator keeps any.
    pub(super) generation: u64,
    /// Whether a table is freed.
    pub(super) tables: bool,
    /// Whether the root register of this CPU names the space.
    pub(super) runs_here: bool,
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
        let runs_here = T::is_loaded(this_cpu, context);
        Self { this_cpu, space, request, context, generation, tables, runs_here }
    }

    /// Chooses the means, and invalidates; the targets of `shootdown`, which had none, are still to be waited for.
    pub(super) fn start(&self, shootdown: &mut Shootdown<'t, P, T>) -> Outcome {
        if self.needs_no_other() {
            return self.act_alone();
        }
        match self.max_ipi_targets() {
            Some(most) => self.send_requests(most, shootdown),
            None => self.act_without_ipis(),
        }
    }

    /// As [`Self::start`], and waits for the targets.
    pub(super) fn act(&self) -> Done {
        if self.needs_no_other() {
            return Done::by(self.act_alone());
        }
        self.act_with_others()
    }

    /// Whether nothing is to be done but on this CPU.
    fn needs_no_other(&self) -> bool {
        self.this_cpu.holds_alone(self.space, self.runs_here, self.tables)
    }

    /// As [`Self::act`], where other CPUs may have to act.
    pub(super) fn act_with_others(&self) -> Done {
        let Some(most) = self.max_ipi_targets() else {
            return Done::by(self.act_without_ipis());
        };
        let mut shootdown = Shootdown::new(self.this_cpu);
        let outcome = self.send_requests(most, &mut shootdown);
        let (targets, rounds) = shootdown.wait(self.this_cpu);
        Done { outcome, targets, rounds }
    }

    /// Removes the entries by broadcast, or by a new tag if that costs less.
    fn act_without_ipis(&self) -> Outcome {
        // A new tag needs that no other CPU runs the space. Where stale entries of resting CPUs do no harm, the broadcast is
        // for CPUs that were just seen to run it: `retag` would take its lock for nothing.
        let for_resting_cpus = self.this_cpu.stale_entries_do_harm(self.tables);
        if for_resting_cpus && self.retag_is_cheaper(Scope::Broadcast) && self.retag() {
            return Outcome::Retagged;
        }
        self.broadcast(Wait::Now);
        Outcome::Broadcast
    }

    /// Sends requests to the CPUs that must act, unless there are more than `most`, and invalidates here.
    #[inline]
    fn send_requests(&self, most: u64, shootdown: &mut Shootdown<'t, P, T>) -> Outcome {
        let sent = self.for_each_running(most, |running| {
            if shootdown.targets == 0 {
                self.describe(shootdown);
            }
            shootdown.send_to(self.this_cpu, running);
        });
        // This CPU invalidates while the targets do.
        let enough = sent.is_ok() && (!self.runs_here || self.flush_local());
        if !enough {
            self.broadcast(Wait::Now);
        }
        // After a broadcast the acknowledgements are not needed; but targets may still read the request.
        match (enough, shootdown.targets) {
            (false, _) => Outcome::Broadcast,
            (true, 1..) => Outcome::Ipis,
            (true, 0) if self.runs_here => Outcome::Local,
            (true, 0) => Outcome::NoCpu,
        }
    }

    /// Chooses how the CPUs that must act find the request, and describes it unless it is inline. It is inline if it is one page, or
    /// one range where nobody keeps generations, and no other flush of the space is under way.
    fn describe(&self, shootdown: &mut Shootdown<'t, P, T>) {
        let (this_cpu, request, context) = (self.this_cpu, &self.request, self.context);
        let has_concurrent = self.space.may_have_concurrent_flushes();
        // Among many initiators an inline request is dearer: each would write a line of every target twice, which others want as well.
        let may_be_inline = !request.early && !has_concurrent;
        if T::tracks_generations(this_cpu.tlb) && !this_cpu.stale_entries_do_harm(self.tables) {
            let page = if may_be_inline { request.ranges.only_page() } else { None };
            if page.is_none() {
                this_cpu.cpu.queue.own_request.describe(request);
            }
            let (generation, lazily) = (self.generation, this_cpu.targets_lazy(self.tables));
            shootdown.channel =
                Some(Channel::Generation { context, generation, lazily, has_concurrent, page });
        } else {
            match request.ranges.only_range() {
                Some(range) if may_be_inline => {
                    shootdown.channel = Some(Channel::Inline { context, range });
                }
                _ => shootdown.describe(this_cpu, request),
            }
        }
    }

    /// As [`Self::act`], if no other CPU must act.
    fn act_alone(&self) -> Outcome {
        if !self.runs_here {
            return Outcome::NoCpu;
        }
        if self.tables && self.leave_instead() {
            return Outcome::Local;
        }
        if self.retag_is_cheaper(Scope::Local) && self.retag() {
            return Outcome::Retagged;
        }
        if self.flush_local() {
            return Outcome::Local;
        }
        self.broadcast_to_newcomers()
    }

    /// Whether this CPU was lazy in the space, and has left it instead of a flush of tables, as a lazy target does: the
    /// generation tells it what it has missed. Most often a process ends here, and all CPUs would have to leave.
    #[cold]
    fn leave_instead(&self) -> bool {
        let leaves = T::tracks_generations(self.this_cpu.tlb)
            && !self.this_cpu.stale_entries_do_harm(self.tables)
            && self.root_state(self.this_cpu.id()) == RootState::Lazy;
        if leaves {
            let _ = self.this_cpu.park();
        }
        leaves
    }

    #[cold]
    fn broadcast_to_newcomers(&self) -> Outcome {
        self.broadcast(Wait::Now);
        Outcome::Broadcast
    }

    #[inline]
    fn retag(&self) -> bool {
        T::retag(&self.this_cpu.for_allocator(), self.space, self.context)
    }

    #[inline]
    pub(super) fn costs(&self) -> &'t Costs {
        self.this_cpu.tlb.platform.costs()
    }

    /// Flushes on this CPU, and returns whether no broadcast to the others is needed after it.
    ///
    /// If CPUs use each other's entries, no other CPU was resident when this path was chosen. A CPU that has
    /// switched in since then may have taken over entries that this CPU had not dropped yet; one that
    /// switches in later finds none.
    #[inline]
    pub(super) fn flush_local(&self) -> bool {
        T::flush_local(&self.this_cpu.for_allocator(), &self.request);
        self.this_cpu.is_still_alone(self.space)
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
        if self.tables && self.this_cpu.mmu().properties().walks_outlive_tags {
            return false;
        }
        let loss = costs.loss_beside(ranges.pages());
        let cost = match ranges.operations(self.this_cpu.mmu(), costs, scope, None) {
            Some(operations) => operations.saturating_mul(flush.address),
            None => flush.tag.saturating_add(loss),
        };
        costs.retag.saturating_add(loss) < cost.saturating_add(flush.wait)
    }

    /// Up to how many CPUs get IPIs: any number if no broadcast is possible, and `None` if one is necessary, or
    /// cheaper for as many CPUs as run the space now.
    #[inline]
    pub(super) fn max_ipi_targets(&self) -> Option<u64> {
        if self.this_cpu.mmu().properties().broadcasts && T::has_global_tags(self.this_cpu.tlb) {
            self.max_beside_broadcast()
        } else {
            Some(u64::MAX)
        }
    }

    /// As [`Self::max_ipi_targets`], where a broadcast is possible.
    fn max_beside_broadcast(&self) -> Option<u64> {
        // A device walks the tables of a pinned space, and only broadcasts reach it.
        if T::is_pinned(self.space) {
            return None;
        }
        let most = self.most_before_broadcast();
        if self.this_cpu.stale_entries_do_harm(self.tables) {
            // In this order: the space is marked stale before a CPU becomes absent.
            let necessary = self.all_others().any(|others| others.mask != 0)
                || self.space.absent_may_hold_entries()
                || self.this_cpu.walks_under_older_tags(self.space, self.tables);
            return (!necessary).then_some(most);
        }
        // If all residents are few enough, those of them that run the space are, and need not be counted.
        if most > 0 && !self.residents_outnumber(most) {
            return Some(u64::MAX);
        }
        let must_act = |state| self.this_cpu.must_act(state, self.tables);
        (!self.states_outnumber(most, must_act)).then_some(most)
    }

    /// Whether the other CPUs that are not absent are more than `most`.
    fn residents_outnumber(&self, most: u64) -> bool {
        let mut others = self.all_others().flat_map(Targets::iter);
        others.nth(usize::try_from(most).unwrap_or(usize::MAX)).is_some()
    }

    /// Whether more than `most` of them are in a state that `counts`. It reads the state of no more CPUs than it takes to see
    /// that: each is in a cache line of its own. It begins with the CPU at which it was seen last, which most often still runs
    /// the space: so those that have left it are not looked at again and again.
    fn states_outnumber(&self, most: u64, counts: impl Fn(RootState) -> bool) -> bool {
        let (mut sum, mut last) = (0, None);
        let (guess, this_cpu) = (self.space.last_running(), self.this_cpu.id());
        if let Some(cpu) = guess
            && cpu != this_cpu
            && counts(self.root_state(cpu))
        {
            (sum, last) = (1, Some(cpu));
            if sum > most {
                return true;
            }
        }
        for cpu in self.all_others().flat_map(Targets::iter) {
            if Some(cpu) != last && counts(self.root_state(cpu)) {
                sum += 1;
                if sum > most {
                    // By a guess that names this CPU, the others find it. Another one would take the cache line from all of them.
                    if last.is_none() && !(self.runs_here && guess == Some(this_cpu)) {
                        self.space.set_last_running(cpu);
                    }
                    return true;
                }
            }
        }
        false
    }

    /// The number of CPUs up to which IPIs are cheaper than a broadcast.
    pub(super) fn most_before_broadcast(&self) -> u64 {
        let costs = self.costs();
        let operations =
            self.request.ranges.operations(self.this_cpu.mmu(), costs, Scope::Broadcast, None);
        let broadcast = costs.broadcast.wait.saturating_add(match operations {
            Some(operations) => operations.saturating_mul(costs.broadcast.address),
            None => costs.broadcast.tag,
        });
        match broadcast.checked_sub(costs.ipi) {
            None => 0,
            Some(left) => (left / costs.ipi_more.max(1)).saturating_add(1),
        }
    }

    /// Flushes on every CPU, by broadcast.
    pub(super) fn broadcast(&self, wait: Wait) {
        if self.this_cpu.walks_under_older_tags(self.space, self.tables) {
            return self.flush_every_tag();
        }
        if self.this_cpu.stale_entries_do_harm(self.tables) && self.trim_all() {
            return;
        }
        T::flush_broadcast(&self.this_cpu.for_allocator(), self.context, self.request.ranges, wait);
    }

    /// Flushes everything on every CPU, because the former tags are not recorded. Needed at most once after
    /// each rollover, by spaces that outlive it and free tables.
    fn flush_every_tag(&self) {
        let mut residency = self.space.lock_residency(&self.this_cpu.tlb.platform);
        self.this_cpu.mmu().flush(self.this_cpu.errata(), Invalidation::All, Scope::Broadcast);
        // CPUs that are absent, and former tags, became so before this flush. A device that walks for a pinned space goes
        // on to do so.
        residency.set_older(false);
        if !T::is_pinned(self.space) {
            residency.set_stale(false);
        }
    }

    /// Tries to make every other CPU absent and to flush all its entries of the space, which also flushes
    /// those of this CPU; returns whether it did.
    ///
    /// It is done at once if the broadcast of this flush takes this CPU's entries anyway. If not, it is done when the
    /// broadcasts that it could have spared have cost as much as the loss of those entries: 2-competitive (ski rental).
    fn trim_all(&self) -> bool {
        let residents = self.space.residents();
        let all_rest = || !self.states_outnumber(0, |state| state != RootState::NotLoaded);
        if !all_rest() {
            return false;
        }
        let Some(mut residency) = self.space.try_lock_residency() else { return false };
        // A device is never made absent; and with another tag the residents are others.
        if T::is_pinned(self.space) || !T::has_context(self.this_cpu, self.space, self.context) {
            return false;
        }
        let costs = self.costs();
        let spent = residency.spent().saturating_add(costs.broadcast.wait);
        let loses_nothing = self
            .request
            .ranges
            .operations(self.this_cpu.mmu(), costs, Scope::Broadcast, None)
            .is_none();
        if !loses_nothing && spent < costs.loss() {
            residency.set_spent(spent);
            return false;
        }
        for others in self.all_others() {
            if others.mask != 0 {
                residents.mark_stale(others);
            }
        }
        if !all_rest() {
            return false;
        }
        // They do not run the space, so entries that are removed now do not come back.
        let (cpu, everything) = (self.this_cpu.for_allocator(), FlushRanges::everything());
        T::flush_broadcast(&cpu, self.context, &everything, Wait::Now);
        for others in self.all_others() {
            if others.mask != 0 {
                residents.remove(others, 0);
            }
        }
        residency.set_spent(0);
        residency.set_stale(false);
        true
    }
}
