//! Giving a tag back before the next rollover.

use super::{Cookie, GlobalAsids, HasGlobalAsids, LAST_TAG, LAZY, pins::pins};
use crate::{
    arch::{Invalidation, Mmu, Scope, Sharing, Tag},
    error::Error,
    platform::Platform,
    residency::{CpuBits, Residency},
    space::AddressSpace,
    tlb::{AllocatorCpu, Cpu, Released, RootState, Tlb},
    word::{Ordering, Word},
};

/// From so many tags on, a released tag waits for the rollover. A rollover costs each CPU a flush of everything and its refills, some
/// microseconds; divided by so many spaces that is less than the flush without which a tag cannot be given again at once.
const PLENTY: u32 = 1 << 10;

impl<P: Platform> GlobalAsids<'_, P> {
    /// Takes back the tag of a space whose root no register names: the caller has the only reference.
    pub(super) fn release_asid<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> Released {
        // Relaxed: the only reference is the caller's.
        assert!(pins(space.pins.load(Ordering::Relaxed)) == 0, "{}", Error::Pinned);
        let (mmu, errata) = (this_cpu.mmu(), this_cpu.errata());
        // No register names the tag, so entries that are removed now do not come back. In the last epoch
        // spaces run without a cookie of their own, and all under one tag.
        let last = self.epoch() == self.config.last_epoch && mmu.properties().walks_outlive_tags;
        let all = space.held_under_older_tags() || last;
        if all {
            // After this nothing records that the space had other tags, and its tables may be freed.
            mmu.flush(errata, Invalidation::All, Scope::Broadcast);
            let mut residency = space.lock_residency(&this_cpu.tlb.platform);
            residency.set_older(false);
            residency.set_stale(false);
        }
        let cookie = space.cookie();
        if cookie == Cookie::NONE {
            return Released::AtOnce;
        }
        // Relaxed, both: as above. It keeps no tag.
        space.pins.store(0, Ordering::Relaxed);
        let alone = Self::only_this_cpu_holds(this_cpu, space);
        space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed);
        let is_dear = !alone && !mmu.properties().broadcasts;
        if is_dear || self.tags >= PLENTY && !mmu.properties().walks_outlive_tags {
            return Released::Later;
        }
        if !all && !alone {
            mmu.flush(errata, Invalidation::Tag(cookie.tag()), Scope::Broadcast);
        } else if !all && space.residents().get(this_cpu.id()) != Residency::Absent {
            mmu.flush(errata, Invalidation::Tag(cookie.tag()), Scope::Local);
        }
        // After a rollover the tag was free again with all the others: the `asid_cache` is of the later
        // epoch and refuses it, or it becomes void as soon as this CPU sees the later epoch.
        let is_cached = T::global_cpu(this_cpu.cpu).asid_cache.put(cookie.epoch(), cookie.tag());
        if is_cached && cookie.epoch() == self.epoch() { Released::AtOnce } else { Released::Later }
    }

    /// Whether no other CPU, and no device, holds anything under the tag of a space. Where CPUs use each
    /// other's entries this is always `false`: another CPU may have taken over entries of this one without
    /// ever running the space. No test covers that case.
    fn only_this_cpu_holds<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> bool {
        this_cpu.mmu().properties().sharing == Sharing::Private
            && space.residents().none_but(CpuBits::of(this_cpu.id()), true)
            && !space.absent_may_hold_entries()
    }

    /// Whether the register of `cpu` names the space with this cookie, or is about to, or may still do so.
    pub(super) fn root_state_of<T: HasGlobalAsids<P>>(
        &self,
        tlb: &Tlb<'_, P, T>,
        cpu: &Cpu<P, T>,
        cookie: Cookie,
    ) -> RootState {
        // ORDER O-SEES (pairs with O-ADOPT, O-LAZY-READ, F-UNLAZY): a CPU that is switching in is seen here,
        // or sees what was done to its residency before. If it is seen to have left, or to be lazy, all that
        // its user code did there is visible.
        let load = || Cookie(T::global_cpu(cpu).active.cookie.load(Ordering::SeqCst));
        let mut active = load();
        // ORDER O-RUNS (pairs with O-PUBLISH): while a flush is pending on a CPU, its reserved word says
        // what its register names, once the epoch is published.
        while !active.adopted() && self.epoch.load(Ordering::Acquire) < active.epoch() {
            tlb.platform().relax();
            active = load();
        }
        let tag = cookie.tag();
        let says = if active.adopted() {
            active.tag() == tag
        } else {
            // Relaxed: by O-RUNS.
            let kept = Cookie(T::global_cpu(cpu).reserved.load(Ordering::Relaxed));
            // In the last epoch nothing records which spaces share the one tag. A CPU for which nothing was
            // ever reserved has zero there, which is no space's tag.
            tag == LAST_TAG || kept.tag() == tag
        };
        // In the last epoch a CPU that is switching to a pinned space may still name another one under a former tag.
        let leaves = |loaded: Tag| tag == LAST_TAG && active.adopted() && loaded != active.tag();
        if !says && cpu.loaded_tag() != tag && !leaves(cpu.loaded_tag()) {
            return RootState::NotLoaded;
        }
        // As O-SEES; and it is lazy in this space and no other, because a CPU sets the flag after its
        // switch-in.
        let lazy = T::global_cpu(cpu).active.mode.load(Ordering::SeqCst) & LAZY != 0;
        if lazy { RootState::Lazy } else { RootState::Loaded }
    }
}
