//! A fresh tag instead of a flush.

use super::{Cookie, GlobalAsids, LAST_TAG, switch_in::Locked};
use crate::{
    arch::Mmu,
    current_cpu::StrategyCpu,
    platform::{CpuId, Ordering, Platform, Targets, Word},
    space::AddressSpace,
    tags::{RootState, Tags},
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Whether `space` has the tag of `context`, and no CPU enters it without a tag of its own. Asked
    /// with the books open.
    pub(super) fn has_context(&self, space: &AddressSpace<'_, P>, context: Cookie) -> bool {
        // Relaxed, both: by O-RESIDENCY-LOCK. A tag that was kept for another epoch is the same tag.
        let tag = Cookie::from_bits(space.cookie.load(Ordering::Relaxed)).tag();
        let last = self.epoch.load(Ordering::Relaxed) == self.last_epoch();
        context.tag() == LAST_TAG || context.tag() == tag && (!last || Self::is_pinned(space))
    }

    /// Gives `space` a tag that no CPU has met, so that what is held under the one in `context` is
    /// never used again; and says whether it could. This CPU, if it runs the space, goes over to the
    /// new tag. No other CPU may run it.
    ///
    /// When others can learn the new tag, no register names the old one: who flushes the space by
    /// its new tag does not ask for the old.
    ///
    /// A CPU that is on its way in under the old tag is seen here to be so (O-SEES), or finds that it
    /// is not present any more (O-PRESENT) and then, once it has the books, another tag.
    pub(super) fn retag(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        context: u64,
    ) -> bool {
        let old = Cookie::from_bits(context);
        let tlb = this_cpu.tlb();
        let mut residency = space.lock_residency(tlb.platform());
        // Relaxed: by O-RESIDENCY-LOCK, or renewed for another epoch, which must not be overwritten. The tag of the
        // last epoch is in no cookie.
        let retagged = space.cookie.load(Ordering::Relaxed) != context;
        if retagged || !self.has_context(space, old) || Self::is_pinned(space) {
            return false;
        }
        for word in space.residents.scan() {
            let mut others = word.not_absent();
            let me = this_cpu.id().0.wrapping_sub(others.first.0);
            if me < 64 {
                others.mask &= !(1 << me);
            }
            if others.mask != 0 && !self.all_leave(this_cpu, space, old, others) {
                return false;
            }
        }
        let Some(tag) = this_cpu.cpu().asid_cache.take(old.epoch()) else { return false };
        let runs_here = Self::root_state(tlb, this_cpu.id(), context) != RootState::NotLoaded;
        if runs_here {
            this_cpu.park_register();
        }
        residency.leave_tag(this_cpu.mmu().walks_outlive_tags());
        space.residents.clear();
        residency.set_spent(0);
        // As O-CLEAR. An epoch that has passed meanwhile makes the cookie one of the past, which is
        // not kept for anybody: the space gets yet another tag on its next way in.
        space.cookie.store(Cookie::new(old.epoch(), tag).bits(), Ordering::Release);
        drop(residency);
        if runs_here {
            let _ = self.switch_in_slow(this_cpu, space);
        }
        true
    }

    /// Has CPUs pay on their next way in, and says whether none of them names the space.
    fn all_leave(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        cookie: Cookie,
        cpus: Targets,
    ) -> bool {
        space.residents.mark_stale(cpus);
        let names = |cpu: CpuId| Self::root_state(this_cpu.tlb(), cpu, cookie.bits());
        cpus.iter().all(|cpu| names(cpu) == RootState::NotLoaded)
    }

    /// Makes this CPU, which is on its way in under `cookie`, present in a space in which it was not;
    /// fails if the space has another tag by now.
    pub(super) fn mark_present_under(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        next: &AddressSpace<'_, P>,
        cookie: Cookie,
    ) -> Result<crate::arch::Held, Locked> {
        // While we hold the books, nobody renews the tag. Relaxed: by O-RESIDENCY-LOCK.
        let _books = next.lock_residency(this_cpu.tlb().platform());
        if next.cookie.load(Ordering::Relaxed) == cookie.bits() {
            Ok(this_cpu.mark_present(next))
        } else {
            Err(Locked)
        }
    }
}
