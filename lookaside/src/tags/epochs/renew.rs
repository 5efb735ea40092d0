//! A fresh tag instead of a flush.

use super::{Cookie, Epochs, claim::Locked};
use crate::{
    arch::Mmu,
    here::Here,
    platform::{CpuId, Ordering, Platform, Targets, Word},
    space::Space,
    tags::{Names, Tags},
};

impl<P: Platform> Epochs<'_, P> {
    /// Gives `space` a tag that no CPU has met, so that what is held under the one in `label` is
    /// never used again; and says whether it could. This CPU, if it runs the space, goes over to the
    /// new tag. No other CPU may run it.
    ///
    /// A CPU that is on its way in under the old tag is seen here to be so (O-SEES), or finds that it
    /// is not present any more (O-PRESENT) and then, once it has the books, another tag.
    pub(super) fn renew(&self, here: &Here<'_, P, Self>, space: &Space<'_, P>, label: u64) -> bool {
        let old = Cookie::from_bits(label);
        let tlb = here.tlb();
        let mut books = space.open(tlb.platform());
        // Relaxed: written by whoever holds the books, or to renew the same tag for another epoch.
        if space.cookie.load(Ordering::Relaxed) != label || Self::is_pinned(space) {
            return false;
        }
        for word in space.residents.scan() {
            let mut others = word.not_absent();
            let me = here.id().0.wrapping_sub(others.first.0);
            if me < 64 {
                others.mask &= !(1 << me);
            }
            if others.mask != 0 && !self.all_leave(here, space, old, others) {
                return false;
            }
        }
        let Some(tag) = here.cpu().stock.take(old.epoch()) else { return false };
        let runs_here = Self::names(tlb, here.id(), label) != Names::No;
        space.residents.clear();
        books.leave_tag(here.mmu().walks_outlive_tags());
        space.spent.store(0, Ordering::Relaxed); // Relaxed: the books are ours.
        // As O-CLEAR. An epoch that has passed meanwhile makes the cookie one of the past, which is
        // not kept for anybody: the space gets yet another tag on its next way in.
        space.cookie.store(Cookie::new(old.epoch(), tag).bits(), Ordering::Release);
        drop(books);
        if runs_here {
            let _ = self.enter_slowly(here, space);
        }
        true
    }

    /// Has CPUs pay on their next way in, and says whether none of them names the space.
    fn all_leave(
        &self,
        here: &Here<'_, P, Self>,
        space: &Space<'_, P>,
        cookie: Cookie,
        cpus: Targets,
    ) -> bool {
        space.residents.take(cpus);
        let names = |cpu: CpuId| Self::names(here.tlb(), cpu, cookie.bits());
        cpus.iter().all(|cpu| names(cpu) == Names::No)
    }

    /// Makes this CPU, which is on its way in under `cookie`, present in a space in which it was not;
    /// fails if the space has another tag by now.
    pub(super) fn reside_under(
        &self,
        here: &Here<'_, P, Self>,
        next: &Space<'_, P>,
        cookie: Cookie,
    ) -> Result<crate::arch::Held, Locked> {
        // While we hold the books, nobody renews the tag. Relaxed: by O-OPEN.
        let _books = next.open(here.tlb().platform());
        if next.cookie.load(Ordering::Relaxed) == cookie.bits() {
            Ok(here.reside(next))
        } else {
            Err(Locked)
        }
    }
}
