//! Giving a tag back before the epoch turns.

use super::{Cookie, GlobalAsids, LAST_TAG};
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
    /// Takes back the tag of a space that nobody can enter any more: the caller holds the only
    /// reference.
    pub(super) fn give_up(
        &self,
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &mut AddressSpace<'_, P>,
    ) -> Result<Released, Error> {
        // Relaxed: the only reference is ours.
        if space.pins.load(Ordering::Relaxed) != 0 {
            return Err(Error::Pinned);
        }
        let cookie = space.cookie();
        // In the last epoch spaces run without a cookie of theirs, and all under one tag: whoever has
        // run this one and runs any may run this one.
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
        let alone = Self::is_only_here(this_cpu, space);
        if !alone && !this_cpu.mmu().broadcasts() {
            space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed); // Relaxed: as above.
            return Ok(Released::Later);
        }
        // No register names the tag, so what is removed now does not come back.
        if space.held_under_older_tags() {
            // Nobody will know that the space had a tag, and its tables may be freed from here on.
            this_cpu.mmu().flush_all_broadcast(this_cpu.errata());
            space.lock_residency(this_cpu.tlb().platform()).all_forgot();
        } else if !alone {
            this_cpu.mmu().flush_tag_broadcast(this_cpu.errata(), cookie.tag());
        } else if space.residents.get(this_cpu.id()) != Residency::Absent {
            this_cpu.mmu().flush_tag(this_cpu.errata(), cookie.tag());
        }
        space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed); // Relaxed: as above.
        // If an epoch has turned, the tag was dealt again with all the others: the stock is of the
        // later epoch and refuses it, or it is void as soon as this CPU finds out.
        let stocked = this_cpu.cpu().asid_cache.put(cookie.epoch(), cookie.tag());
        Ok(if stocked && cookie.epoch() == self.epoch() {
            Released::AtOnce
        } else {
            Released::Later
        })
    }

    /// Whether no other CPU, and no device, holds anything under the tag of a space. Where CPUs use each
    /// other's entries that is not believed: another may have taken over what this one holds without ever
    /// running the space. No scenario shows it.
    fn is_only_here(this_cpu: &StrategyCpu<'_, P, Self>, space: &AddressSpace<'_, P>) -> bool {
        this_cpu.mmu().sharing() == Sharing::Private
            && space.residents.none_but(this_cpu.id())
            && !space.absent_may_hold_entries()
    }

    /// A CPU whose register names the space with this cookie. Who is absent does not.
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
    /// epoch. Only who knows that the cookie is the space's latest can ask so: a revoker may have
    /// read it before another CPU renewed it.
    fn is_anothers(&self, cpu: &Cpu<P, Self>, cookie: Cookie) -> bool {
        // As O-SEES. The cookie of a space is renewed before its tag is named in a later epoch.
        let mut named = Cookie::from_bits(cpu.tags.active.cookie.load(Ordering::SeqCst));
        if !named.adopted() {
            // Relaxed: an older word is of an epoch that this CPU has left for good.
            named = Cookie::from_bits(cpu.tags.reserved.load(Ordering::Relaxed));
        }
        named.tag() == cookie.tag() && named.epoch() > cookie.epoch()
    }

    /// Whether the register of `cpu` names the space with this cookie, is about to, or may still.
    pub(super) fn root_state_of(
        &self,
        tlb: &Tlb<'_, P, Self>,
        cpu: &Cpu<P, Self>,
        cookie: Cookie,
    ) -> RootState {
        // ORDER O-SEES (pairs with O-ADOPT, O-LAZY-READ, F-UNLAZY): a CPU that is on its way in is seen here, or
        // sees what was done to its residency before. If it is seen to have left, or to be lazy, what
        // its user code did has been done.
        let load = || Cookie::from_bits(cpu.tags.active.cookie.load(Ordering::SeqCst));
        let mut active = load();
        // ORDER O-RUNS (pairs with O-PUBLISH): a CPU that an epoch has passed is described by its
        // kept word, once that epoch is published.
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
            // In the last epoch nobody keeps books of who shares the one tag. A CPU for which nothing was
            // ever kept has zero there, which is no space's tag.
            tag == LAST_TAG || kept.tag() == tag
        };
        if !says && cpu.loaded_tag() != tag {
            return RootState::NotLoaded;
        }
        // As O-SEES; and it is lazy in this space and no other: it says so after it has entered.
        let lazy = cpu.tags.active.lazy.load(Ordering::SeqCst) != 0;
        if lazy { RootState::Lazy } else { RootState::Loaded }
    }
}
