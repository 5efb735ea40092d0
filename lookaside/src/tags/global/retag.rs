//! Retagging: a fresh tag instead of a flush.

use super::{Cookie, GlobalAsids, HasGlobalAsids, LAST_TAG, pins::is_pinned, switch_in::NeedsLock};
use crate::{
    arch::Mmu,
    ids::{CpuId, Targets},
    platform::Platform,
    space::AddressSpace,
    tlb::{AllocatorCpu, RootState, Tags},
    word::{Ordering, Word},
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Whether `context` is still the context id of `space`: it has the tag of the space's cookie, and CPUs
    /// do not switch to the space under the shared tag of the last epoch instead; or it has that shared tag.
    /// Called with the residency locked.
    pub(super) fn has_context(&self, space: &AddressSpace<P>, context: Cookie) -> bool {
        // Relaxed, both: by O-RESIDENCY-LOCK. A tag that was reserved is the same tag in the next epoch.
        let tag = Cookie(space.cookie.load(Ordering::Relaxed)).tag();
        let last = self.epoch.load(Ordering::Relaxed) == self.config.last_epoch;
        context.tag() == LAST_TAG || context.tag() == tag && (!last || is_pinned(space))
    }

    /// Gives `space` a tag that no CPU has used, so that entries under the one in `context` are never used
    /// again. Returns whether it did: it does not if another CPU runs the space, if the space is pinned or
    /// has another context id by now, if its tag is of another epoch than the one that this CPU has adopted, or if the
    /// `asid_cache` is empty. If this CPU runs the space, it switches to the new tag.
    ///
    /// No register names the old tag when other CPUs can learn the new one: a CPU that flushes the space by
    /// its new tag does not search for the old.
    ///
    /// A CPU that is switching in under the old tag is seen here (O-SEES), or finds that it is not present
    /// any more (O-PRESENT) and then, once it has the residency lock, that the space has another tag.
    pub(super) fn retag<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
        context: u64,
    ) -> bool {
        let old = Cookie(context);
        let tlb = this_cpu.tlb;
        let mut residency = space.lock_residency(tlb.platform());
        // Relaxed: by O-RESIDENCY-LOCK, under which alone a cookie changes. The shared tag of the last epoch is in
        // no cookie.
        let retagged = space.cookie.load(Ordering::Relaxed) != context;
        if retagged || !self.has_context(space, old) || is_pinned(space) {
            return false;
        }
        // The tag of another epoch may be another space's by now, and this CPU may run that one.
        //
        // Relaxed: this CPU's own word. If a rollover changes it after this load, this CPU runs the same space on, under
        // the same tag.
        let active = Cookie(T::global_cpu(this_cpu.cpu).active.cookie.load(Ordering::Relaxed));
        if active.epoch() != old.epoch() {
            return false;
        }
        for word in space.residents().scan() {
            let mut others = word.looked_at(true);
            let me = this_cpu.id().0.wrapping_sub(others.first.0);
            if me < 64 {
                others.mask &= !(1 << me);
            }
            if others.mask != 0 && !self.mark_stale_and_check(this_cpu, space, old, others) {
                return false;
            }
        }
        let Some(tag) = T::global_cpu(this_cpu.cpu).asid_cache.take(old.epoch()) else {
            return false;
        };
        let runs_here = Self::root_state(tlb, this_cpu.id(), context) != RootState::NotLoaded;
        if runs_here {
            this_cpu.park_register();
        }
        residency.note_former_tag(this_cpu.mmu().properties().walks_outlive_tags);
        space.residents().clear();
        residency.set_spent(0);
        // As O-CLEAR. If a rollover happens meanwhile, the cookie is of a former epoch and its tag is not
        // reserved: the space gets yet another tag at the next switch-in.
        space.cookie.store(Cookie::new(old.epoch(), tag).bits(), Ordering::Release);
        drop(residency);
        if runs_here {
            let _ = Self::switch_in_slow(this_cpu.copied(), space);
        }
        true
    }

    /// Marks CPUs stale, so that they flush at their next switch-in, and returns whether no register of
    /// theirs names the space.
    fn mark_stale_and_check<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
        cookie: Cookie,
        cpus: Targets,
    ) -> bool {
        space.residents().mark_stale(cpus);
        let names = |cpu: CpuId| Self::root_state(this_cpu.tlb, cpu, cookie.bits());
        cpus.iter().all(|cpu| names(cpu) == RootState::NotLoaded)
    }

    /// Marks this CPU, which is switching in under `cookie`, present in a space in which it was not. Fails if
    /// the space has another tag by now.
    pub(super) fn mark_present_under<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        cookie: Cookie,
    ) -> Result<crate::arch::Held, NeedsLock> {
        // Under the lock no other CPU retags the space. Relaxed: by O-RESIDENCY-LOCK.
        let _residency = next.lock_residency(&this_cpu.tlb.platform);
        if next.cookie.load(Ordering::Relaxed) == cookie.bits() {
            Ok(this_cpu.mark_present(next))
        } else {
            Err(NeedsLock)
        }
    }
}
