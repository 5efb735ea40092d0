//! Who must act for a flush: nobody, this CPU, these CPUs, or everyone.
//!
//! # Why it is enough
//!
//! The revoker has written the tables, made that visible to walks ([`Mmu::publish`]) and raised the
//! generation (F-GENERATION) before it looks at any CPU. Every other CPU is then in one of these states:
//!
//! * *Absent* when its residency is read. On its way in it becomes present first and pays or walks
//!   afterwards (O-MARK-PRESENT): it sees the new tables.
//! * *Running*, or on its way in or out, when the strategy is asked ([`Tags::root_state`]). It must act now.
//! * *Resting*: not absent, and not running. The revoker has it owe and asks the strategy again
//!   (O-MARK-STALE). If it is on its way in now, it must act now; if it comes later, it finds that it is not
//!   present any more, and pays (O-PRESENT). If it neither runs the space nor is on its way in, it
//!   becomes absent.
//!
//! A *lazy* CPU counts as resting as long as no table goes: it pays when it stops being lazy. Where break
//! comes before make ([`Mmu::breaks_before_making`]), it counts as running.
//!
//! # Why it may not be enough
//!
//! Where walks outlive tags ([`Mmu::walks_outlive_tags`]) and a table goes, or where CPUs use each
//! other's entries ([`Sharing::Shared`]), what a CPU holds can do harm although it does not run the
//! space. There, everyone who may hold anything must act, and that is everyone, by broadcast, as long
//! as the books cannot say that all others are absent and hold nothing.

use super::{
    request_queue::{FlushRequest, FlushScope},
    shootdown::Shootdown,
};
use crate::{
    arch::{Mmu, Scope, Sharing, TableChange, Wait},
    costs::Costs,
    counts::Outcome,
    current_cpu::CurrentCpu,
    platform::{CpuId, Platform, Targets},
    residency::Word32,
    space::{AddressSpace, MissedFlush},
    tags::{RootState, Tags},
};

/// One flush of one space, while it is decided who must act.
pub(super) struct Initiator<'f, 't, P: Platform, T: Tags<P>> {
    pub(super) this_cpu: &'f CurrentCpu<'t, P, T>,
    pub(super) space: &'f AddressSpace<'f, P>,
    pub(super) request: FlushRequest<'f>,
    /// What the strategy knows the space by.
    pub(super) context: u64,
}

/// Too many CPUs must act for interrupts.
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

impl<'t, P: Platform, T: Tags<P>> Initiator<'_, 't, P, T> {
    /// Decides, acts and waits.
    #[inline]
    pub(super) fn act(&self) -> Done {
        let runs_here = self.runs_here();
        if self.is_alone(runs_here) {
            self.act_alone(runs_here)
        } else {
            // By value, so that the quick way has nothing to write into memory.
            Self { ..*self }.act_with_others(runs_here)
        }
    }

    #[inline(never)]
    fn act_with_others(self, runs_here: bool) -> Done {
        let broadcast = self.should_broadcast(runs_here);
        if broadcast && self.retag_is_cheaper(Scope::Broadcast) && self.retag() {
            return Done::by(Outcome::Retagged);
        }
        if broadcast {
            self.broadcast(runs_here, Wait::Now);
            return Done::by(Outcome::Broadcast);
        }
        let mut shootdown = None;
        let told = self.for_each_running(runs_here, |running| {
            shootdown.get_or_insert_with(|| self.shootdown()).ask(running);
        });
        // The others are at it; meanwhile this CPU does its part.
        let enough = told.is_ok() && (!runs_here || self.flush_local());
        if !enough {
            self.broadcast(runs_here, Wait::Now);
        }
        // After a broadcast the answers are not needed any more; but those who were asked may still
        // read what.
        let asked = shootdown.map(Shootdown::wait);
        let (targets, rounds) = asked.unwrap_or((0, 0));
        let outcome = match (enough, asked) {
            (false, _) => Outcome::Broadcast,
            (true, Some(_)) => Outcome::Ipis,
            (true, None) if runs_here => Outcome::Local,
            (true, None) => Outcome::NoCpu,
        };
        Done { outcome, targets, rounds }
    }

    /// A request to those who must act.
    fn shootdown(&self) -> Shootdown<'_, 't, P, T> {
        if T::TRACKS_GENERATIONS && !self.targets_stale() {
            Shootdown::of_generation(self.this_cpu, self.space, &self.request, self.targets_lazy())
        } else {
            Shootdown::new(self.this_cpu, &self.request)
        }
    }

    /// Whether no other CPU holds anything that matters.
    #[inline]
    fn is_alone(&self, runs_here: bool) -> bool {
        let me = if runs_here { self.this_cpu.id() } else { CpuId(u32::MAX) };
        // In this order: the note comes before the CPU is absent.
        self.space.residents.none_but(me)
            && !(self.targets_stale()
                && (self.space.absent_may_hold_entries() || self.walks_under_older_tags()))
            && !(self.can_broadcast() && T::is_pinned(self.space))
    }

    /// Does what is to be done where no other CPU is concerned.
    #[inline]
    fn act_alone(&self, runs_here: bool) -> Done {
        if !runs_here {
            return Done::by(Outcome::NoCpu);
        }
        // Nothing is cheaper than to remove one page.
        let one = self.request.ranges.is_one_page();
        if !one && self.retag_is_cheaper(Scope::Local) && self.retag() {
            return Done::by(Outcome::Retagged);
        }
        if self.flush_local() {
            return Done::by(Outcome::Local);
        }
        Self { ..*self }.somebody_came()
    }

    #[cold]
    fn somebody_came(self) -> Done {
        self.broadcast(true, Wait::Now);
        Done::by(Outcome::Broadcast)
    }

    #[inline]
    fn retag(&self) -> bool {
        T::retag(&self.this_cpu.strategy(), self.space, self.context)
    }

    #[inline]
    fn costs(&self) -> Costs {
        self.this_cpu.tlb().platform().costs()
    }

    #[inline]
    pub(super) fn runs_here(&self) -> bool {
        T::is_loaded(self.this_cpu, self.context)
    }

    /// Does this CPU's part, and says whether a broadcast is spared that would have reached others.
    ///
    /// Where CPUs use each other's entries, there were no others when that was decided. One that has
    /// entered since then may have taken over what this CPU had not dropped yet; one that enters
    /// later finds nothing to take over.
    #[inline]
    pub(super) fn flush_local(&self) -> bool {
        T::flush_local(&self.this_cpu.strategy(), &self.request);
        self.mmu().sharing() == Sharing::Private
            || self.words(true).all(|(_, others)| others.mask == 0)
    }

    /// Calls `ask` with the CPUs that must act now, this one apart if it runs the space. All others
    /// pay on their way in.
    ///
    /// # Errors
    ///
    /// [`Broadcast`] if there are so many that a broadcast is better, when some may have been asked.
    pub(super) fn for_each_running(
        &self,
        runs_here: bool,
        mut ask: impl FnMut(Targets),
    ) -> Result<(), Broadcast> {
        let mut left = if self.can_broadcast() { self.interrupts_worth() } else { u64::MAX };
        for word in self.space.residents.scan() {
            let running = self.sort(word, runs_here);
            if running.mask != 0 {
                // Some of them were not here when it was decided not to broadcast.
                left = left.checked_sub(u64::from(running.count())).ok_or(Broadcast)?;
                ask(running);
            }
        }
        Ok(())
    }

    /// Whether a tag that nobody has met costs less than to flush the one there is, here or
    /// everywhere.
    #[inline]
    fn retag_is_cheaper(&self, scope: Scope) -> bool {
        let (costs, ranges) = (self.costs(), self.request.ranges);
        let flush = match scope {
            Scope::Local => costs.local,
            Scope::Broadcast => costs.broadcast,
        };
        // By tag is the dearest way to flush.
        if costs.retag >= flush.tag.saturating_add(flush.wait) {
            return false;
        }
        if ranges.change() == TableChange::FreedTables && self.mmu().walks_outlive_tags() {
            return false;
        }
        let loss = costs.loss_beside(ranges.pages());
        let cost = match ranges.operations(self.mmu(), &costs, scope) {
            Some(operations) => operations.saturating_mul(flush.address),
            None => flush.tag.saturating_add(loss),
        };
        costs.retag.saturating_add(loss) < cost.saturating_add(flush.wait)
    }

    #[inline]
    fn can_broadcast(&self) -> bool {
        self.mmu().broadcasts() && T::GLOBAL_TAGS
    }

    /// Whether a broadcast is possible, and necessary or cheaper than interrupts.
    pub(super) fn should_broadcast(&self, runs_here: bool) -> bool {
        if !self.can_broadcast() {
            return false;
        }
        // A device walks for pinned spaces, and hears of broadcasts only.
        if T::is_pinned(self.space) {
            return true;
        }
        if self.targets_stale() {
            // In this order: the note comes before the CPU is absent.
            return self.words(runs_here).any(|(_, others)| others.mask != 0)
                || self.space.absent_may_hold_entries()
                || self.walks_under_older_tags();
        }
        let most = self.interrupts_worth();
        let mut running = 0;
        self.words(runs_here).any(|(_, others)| {
            running += u64::from(self.running(others).count());
            running > most
        })
    }

    /// How many CPUs it is cheaper to interrupt than to broadcast.
    fn interrupts_worth(&self) -> u64 {
        let costs = self.costs();
        let operations = self.request.ranges.operations(self.mmu(), &costs, Scope::Broadcast);
        let broadcast = costs.broadcast.wait.saturating_add(match operations {
            Some(operations) => operations.saturating_mul(costs.broadcast.address),
            None => costs.broadcast.tag,
        });
        match broadcast.checked_sub(costs.ipi) {
            None => 0,
            Some(left) => (left / costs.ipi_more.max(1)).saturating_add(1),
        }
    }

    /// Whether CPUs matter that hold something but do not run the space.
    #[inline]
    fn targets_stale(&self) -> bool {
        let tables = self.request.ranges.change() == TableChange::FreedTables;
        tables && self.mmu().walks_outlive_tags() || self.mmu().sharing() == Sharing::Shared
    }

    /// Whether lazy CPUs must act. No program uses what they hold, but their walkers may read a table that goes,
    /// and find a page that comes where one has gone.
    fn targets_lazy(&self) -> bool {
        self.request.ranges.change() == TableChange::FreedTables
            || self.mmu().breaks_before_making()
    }

    /// Has every CPU forget, by broadcast.
    pub(super) fn broadcast(&self, runs_here: bool, wait: Wait) {
        if self.walks_under_older_tags() {
            return self.flush_every_tag();
        }
        if self.targets_stale() && self.trim_all(runs_here) {
            return;
        }
        T::flush_broadcast(&self.this_cpu.strategy(), self.context, self.request.ranges, wait);
    }

    /// Whether walk caches have to forget what they may hold under tags that the space had before.
    #[inline]
    fn walks_under_older_tags(&self) -> bool {
        let tables = self.request.ranges.change() == TableChange::FreedTables;
        tables && self.mmu().walks_outlive_tags() && self.space.held_under_older_tags()
    }

    /// Has every CPU forget everything, for nobody knows the older tags any more. Needed at most
    /// once after each turnover, by spaces that live on and free tables.
    fn flush_every_tag(&self) {
        let mut residency = self.space.lock_residency(self.this_cpu.tlb().platform());
        self.mmu().flush_all_broadcast(self.this_cpu.errata());
        // Who is absent came to be so before, and so did the older tags.
        residency.all_forgot();
    }

    /// Tries to make every other CPU absent and free of all it held, at the price of what this CPU
    /// holds; and says whether it did.
    ///
    /// It is worth that price once the broadcasts that it could have spared have cost as much: then
    /// at most twice is paid of what a prophet would have.
    fn trim_all(&self, runs_here: bool) -> bool {
        let residents = &self.space.residents;
        let all_rest = || {
            let mut others = self.words(runs_here).flat_map(|(_, others)| others.iter());
            others.all(|cpu| self.root_state(cpu) == RootState::NotLoaded)
        };
        if T::is_pinned(self.space) || !all_rest() {
            return false;
        }
        let Some(mut residency) = self.space.try_lock_residency() else { return false };
        if !T::has_context(self.this_cpu, self.space, self.context) {
            return false; // Its residents are those of another tag.
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
        // They do not run the space, so what is removed now does not come back.
        let (cpu, everything) = (self.this_cpu.strategy(), super::FlushRanges::everything());
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

    /// Which of the CPUs of `word` must act now. The others of them pay on their way in.
    fn sort(&self, word: Word32, runs_here: bool) -> Targets {
        let others = self.others(word, runs_here);
        if self.targets_stale() {
            return others; // No broadcast reaches them, so they were never made absent.
        }
        let running = self.running(others);
        let resting = Targets { mask: others.mask & !running.mask, ..others };
        if let (FlushScope::AddressSpace { last, .. }, true) =
            (self.request.scope, T::TRACKS_GENERATIONS)
        {
            // Who is absent has missed other flushes already.
            if resting.mask != 0 {
                self.space.record(last, self.debt());
            }
        }
        // Who owes already needs not be told again, but by whom it is found to be gone.
        let gone = self.may_trim()
            && resting.iter().any(|cpu| self.root_state(cpu) == RootState::NotLoaded);
        if resting.mask & word.present().mask == 0 && !gone {
            return running;
        }
        Targets { mask: running.mask | self.trim(resting).mask, ..running }
    }

    /// What a CPU has to be told of it that pays later: the addresses, or nothing where everything under
    /// the tag is cheaper to lose than they are to remove.
    fn debt(&self) -> MissedFlush {
        let ranges = self.request.ranges;
        match ranges.operations(self.mmu(), &self.costs(), Scope::Local) {
            Some(_) => ranges.debt(),
            None => MissedFlush::Everything,
        }
    }

    /// Whether CPUs may become absent: not where only a broadcast could reach them, and there is none.
    fn may_trim(&self) -> bool {
        T::GLOBAL_TAGS || !self.mmu().walks_outlive_tags()
    }

    /// Has CPUs pay later that rest, and returns those that must act now because they turn out not
    /// to rest.
    fn trim(&self, resting: Targets) -> Targets {
        let residents = &self.space.residents;
        let mut residency = self.space.lock_residency(self.this_cpu.tlb().platform());
        if !T::has_context(self.this_cpu, self.space, self.context) {
            // Nobody runs it under the old label any more, and who runs it under the new one has
            // walked the new tables. Its residents are theirs.
            return Targets { mask: 0, ..resting };
        }
        residents.mark_stale(resting);
        let mut gone = resting;
        for cpu in resting.iter() {
            if self.root_state(cpu) != RootState::NotLoaded {
                gone.mask &= !(1 << (cpu.0 - resting.first.0));
            }
        }
        if self.may_trim() && gone.mask != 0 {
            // What they hold stays where it is, until they come back or the tag is used up.
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
        T::root_state(self.this_cpu.tlb(), cpu, self.context)
    }

    /// The residency, and in each word those that are not absent, without this CPU if it runs the
    /// space.
    fn words(&self, runs_here: bool) -> impl Iterator<Item = (Word32, Targets)> {
        let words = self.space.residents.scan();
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
