//! Giving a tag back before the next rollover.

use super::{Cookie, GlobalAsids, LAST_TAG, pins::pins};
use crate::{
    arch::{Mmu, Sharing},
    cpu::Cpu,
    current_cpu::StrategyCpu,
    error::Error,
    platform::{CpuId, Ordering, Platform, Word},
    residency::Residency,
    space::AddressSpace,
    tags::{Released, RootState, Tags},
    tlb::Tlb,
};

impl<P: Platform> GlobalAsids<'_, P> {
    /// Takes back the tag of a space that no CPU can switch to any more: the caller holds the only
    /// reference.
    pub(super) fn give_up(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &mut AddressSpace<'_, P>,
    ) -> Result<Released, Error> {
        // Relaxed: the only reference is ours.
        if pins(space.pins.load(Ordering::Relaxed)) != 0 {
            return Err(Error::Pinned);
        }
        let cookie = space.cookie();
        // In the last epoch spaces run without a cookie of their own, and all under one tag: a CPU that is
        // resident in this space and runs any space may run this one.
        if self.epoch() == self.last_epoch() {
            let last = Cookie::new(self.epoch(), LAST_TAG);
            let named = |cpu: &CpuId| {
                Self::root_state(this_cpu.tlb(), *cpu, last.bits()) != RootState::NotLoaded
            };
            if let Some(cpu) = space.residents.iter().find(named) {
                return Err(Error::StillRunning { cpu });
            }
        }
        if cookie == Cookie::NONE {
            return Ok(Released::AtOnce);
        }
        if let Some(cpu) = self.running(this_cpu, space, cookie) {
            return Err(Error::StillRunning { cpu });
        }
        space.pins.store(0, Ordering::Relaxed); // Relaxed: as above. It keeps no tag.
        let alone = Self::is_only_here(this_cpu, space);
        if !alone && !this_cpu.mmu().broadcasts() {
            space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed); // Relaxed: as above.
            return Ok(Released::Later);
        }
        // No register names the tag, so entries that are removed now do not come back.
        if space.held_under_older_tags() {
            // After this nothing records that the space had other tags, and its tables may be freed.
            this_cpu.mmu().flush_all_broadcast(this_cpu.errata());
            space.lock_residency(this_cpu.tlb().platform()).all_forgot();
        } else if !alone {
            this_cpu.mmu().flush_tag_broadcast(this_cpu.errata(), cookie.tag());
        } else if space.residents.get(this_cpu.id()) != Residency::Absent {
            this_cpu.mmu().flush_tag(this_cpu.errata(), cookie.tag());
        }
        space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed); // Relaxed: as above.
        // After a rollover the tag was free again with all the others: the `asid_cache` is of the later
        // epoch and refuses it, or it becomes void as soon as this CPU sees the later epoch.
        let stocked = this_cpu.cpu().asid_cache.put(cookie.epoch(), cookie.tag());
        Ok(if stocked && cookie.epoch() == self.epoch() {
            Released::AtOnce
        } else {
            Released::Later
        })
    }

    /// Whether no other CPU, and no device, holds anything under the tag of a space. Where CPUs use each
    /// other's entries this is always `false`: another CPU may have taken over entries of this one without
    /// ever running the space. No scenario shows it.
    fn is_only_here(this_cpu: &StrategyCpu<'_, P, Self>, space: &AddressSpace<'_, P>) -> bool {
        this_cpu.mmu().sharing() == Sharing::Private
            && space.residents.none_but(this_cpu.id())
            && !space.absent_may_hold_entries()
    }

    /// A CPU whose register names the space with this cookie. That of an absent CPU does not.
    fn running(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        cookie: Cookie,
    ) -> Option<CpuId> {
        let names = |cpu: &Cpu<P, Self>| {
            self.root_state_of(this_cpu.tlb(), cpu, cookie) != RootState::NotLoaded
                && !self.is_anothers(cpu, cookie)
        };
        let cpus = this_cpu.tlb().cpus();
        space.residents.iter().find(|cpu| cpus.get(cpu.index()).is_some_and(names))
    }

    /// Whether `cpu`, whose register names the tag of `cookie`, got it for another space, in a later
    /// epoch. Valid only if `cookie` is known to be the space's latest: an initiator may have read it before
    /// another CPU brought it to a later epoch.
    fn is_anothers(&self, cpu: &Cpu<P, Self>, cookie: Cookie) -> bool {
        // As O-SEES. A space's cookie is brought to a later epoch before any `active` has its tag in that
        // epoch.
        let mut named = Cookie::from_bits(cpu.tags.active.cookie.load(Ordering::SeqCst));
        if !named.adopted() {
            // Relaxed: an older word is of an epoch that this CPU has left for good.
            named = Cookie::from_bits(cpu.tags.reserved.load(Ordering::Relaxed));
        }
        named.tag() == cookie.tag() && named.epoch() > cookie.epoch()
    }

    /// Whether the register of `cpu` names the space with this cookie, or is about to, or may still do so.
    pub(super) fn root_state_of(
        &self,
        tlb: &Tlb<'_, P, Self>,
        cpu: &Cpu<P, Self>,
        cookie: Cookie,
    ) -> RootState {
        // ORDER O-SEES (pairs with O-ADOPT, O-LAZY-READ, F-UNLAZY): a CPU that is switching in is seen here,
        // or sees what was done to its residency before. If it is seen to have left, or to be lazy, all that
        // its user code did there is visible.
        let load = || Cookie::from_bits(cpu.tags.active.cookie.load(Ordering::SeqCst));
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
            let kept = Cookie::from_bits(cpu.tags.reserved.load(Ordering::Relaxed));
            // In the last epoch nothing records which spaces share the one tag. A CPU for which nothing was
            // ever reserved has zero there, which is no space's tag.
            tag == LAST_TAG || kept.tag() == tag
        };
        if !says && cpu.loaded_tag() != tag {
            return RootState::NotLoaded;
        }
        // As O-SEES; and it is lazy in this space and no other, because a CPU sets the flag after its
        // switch-in.
        let lazy = cpu.tags.active.lazy.load(Ordering::SeqCst) != 0;
        if lazy { RootState::Lazy } else { RootState::Loaded }
    }
}
