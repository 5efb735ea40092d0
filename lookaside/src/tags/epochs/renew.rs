//! A fresh tag instead of a flush.

use super::{Cookie, Epochs, LAST_TAG, claim::Locked};
use crate::{
    arch::Mmu,
    here::StrategyCpu,
    platform::{CpuId, Ordering, Platform, Targets, Word},
    space::Space,
    tags::{Names, Tags},
};

impl<P: Platform> Epochs<'_, P> {
    /// Whether `space` has the tag of `label`, and no CPU enters it without a tag of its own. Asked
    /// with the books open.
    pub(super) fn is_known_by(&self, space: &Space<'_, P>, label: Cookie) -> bool {
        // Relaxed, both: by O-OPEN. A tag that was kept for another epoch is the same tag.
        let tag = Cookie::from_bits(space.cookie.load(Ordering::Relaxed)).tag();
        let last = self.epoch.load(Ordering::Relaxed) == self.last_epoch();
        label.tag() == LAST_TAG || label.tag() == tag && (!last || Self::is_pinned(space))
    }

    /// Gives `space` a tag that no CPU has met, so that what is held under the one in `label` is
    /// never used again; and says whether it could. This CPU, if it runs the space, goes over to the
    /// new tag. No other CPU may run it.
    ///
    /// When others can learn the new tag, no register names the old one: who flushes the space by
    /// its new tag does not ask for the old.
    ///
    /// A CPU that is on its way in under the old tag is seen here to be so (O-SEES), or finds that it
    /// is not present any more (O-PRESENT) and then, once it has the books, another tag.
    pub(super) fn renew(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        space: &Space<'_, P>,
        label: u64,
    ) -> bool {
        let old = Cookie::from_bits(label);
        let tlb = here.tlb();
        let mut books = space.open(tlb.platform());
        // Relaxed: by O-OPEN, or renewed for another epoch, which must not be overwritten. The tag of the
        // last epoch is in no cookie.
        let renewed = space.cookie.load(Ordering::Relaxed) != label;
        if renewed || !self.is_known_by(space, old) || Self::is_pinned(space) {
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
        if runs_here {
            here.park_register();
        }
        books.leave_tag(here.mmu().walks_outlive_tags());
        space.residents.clear();
        books.set_spent(0);
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
        here: &StrategyCpu<'_, P, Self>,
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
        here: &StrategyCpu<'_, P, Self>,
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
