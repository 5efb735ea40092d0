//! Giving a tag back before the epoch turns.

use super::{Cookie, Epochs};
use crate::{
    arch::Mmu,
    error::Error,
    here::Here,
    platform::{CpuId, Ordering, Platform, Word},
    space::Space,
    tags::Released,
};

impl<P: Platform> Epochs<'_, P> {
    /// Takes back the tag of a space that nobody can enter any more: the caller holds the only
    /// reference.
    pub(super) fn give_up(
        &self,
        here: &Here<'_, P, Self>,
        space: &mut Space<'_, P>,
    ) -> Result<Released, Error> {
        // Relaxed: the only reference is ours.
        if space.pins.load(Ordering::Relaxed) != 0 {
            return Err(Error::Pinned);
        }
        let cookie = space.cookie();
        if cookie == Cookie::NONE {
            return Ok(Released::AtOnce);
        }
        if let Some(cpu) = self.running(here, cookie) {
            return Err(Error::StillRunning { cpu });
        }
        if !here.mmu().broadcasts() {
            space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed); // Relaxed: as above.
            return Ok(Released::Later);
        }
        // No register names the tag, so what is removed now does not come back.
        here.mmu().flush_tag_everywhere(here.errata(), cookie.tag());
        space.cookie.store(Cookie::NONE.bits(), Ordering::Relaxed); // Relaxed: as above.
        // If an epoch has turned, the tag was dealt again with all the others: the stock is of the
        // later epoch and refuses it, or it is void as soon as this CPU finds out.
        let stocked = here.cpu().stock.put(cookie.epoch(), cookie.tag());
        Ok(if stocked && cookie.epoch() == self.epoch() {
            Released::AtOnce
        } else {
            Released::Later
        })
    }

    /// A CPU whose register names the space with this cookie.
    fn running(&self, here: &Here<'_, P, Self>, cookie: Cookie) -> Option<CpuId> {
        for (index, cpu) in here.tlb().cpus().iter().enumerate() {
            // ORDER O-RUNS (pairs with O-PUBLISH): a CPU that an epoch has passed is described by
            // its kept word, once that epoch is published.
            let mut active = Cookie::from_bits(cpu.tags.active.load(Ordering::Relaxed));
            while !active.joined() && self.epoch.load(Ordering::Acquire) < active.epoch() {
                here.tlb().platform().relax();
                active = Cookie::from_bits(cpu.tags.active.load(Ordering::Relaxed));
            }
            // Relaxed, above and below: a CPU can leave the space meanwhile, but none can enter it.
            let names = if active.joined() {
                active == cookie
            } else {
                let kept = Cookie::from_bits(cpu.tags.kept.load(Ordering::Relaxed));
                kept.joined() && kept.tag() == cookie.tag() && kept.epoch() <= cookie.epoch()
            };
            if names {
                return Some(CpuId(index as u32));
            }
        }
        None
    }
}
