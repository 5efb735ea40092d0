//! The ways into a space: finding its tag in the present epoch, and joining the epoch.

use super::{Cookie, Epochs, LAST_TAG, stock::Stock, ticket};
use crate::{
    arch::{Held, Mmu, Sharing, Tag},
    counts::Event,
    here::StrategyCpu,
    platform::{Ordering, Platform, Word},
    space::Space,
    tags::Switched,
};

/// The way without the lock is closed: no tag is left in the stock, or an epoch has passed.
pub(super) struct Locked;

impl<P: Platform> Epochs<'_, P> {
    /// Way 1, and the others where it is closed.
    #[inline]
    pub(super) fn enter_quickly(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
    ) -> Switched {
        let mmu = here.mmu();
        let cpu = here.cpu();
        // Relaxed: the compare-exchange in `join` decides, and E1 and E2 make the cookie true for a
        // CPU that has joined its epoch.
        let active = Cookie::from_bits(cpu.active.cookie.load(Ordering::Relaxed));
        // ORDER O-FRESH (pairs with O-CLEAR): with the cookie comes who was present under it.
        let cookie = Cookie::from_bits(next.cookie.load(Ordering::Acquire));
        // Relaxed: this CPU's own word.
        if cpu.active.lazy.load(Ordering::Relaxed) != 0 {
            return self.come_back(&here.again(), next);
        }
        if active == cookie {
            mmu.settle();
            return Switched::Unchanged;
        }
        if mmu.sharing() == Sharing::Shared {
            return self.enter_shared(&here.again(), next, active, cookie);
        }
        if cookie.is_of(active) && self.join(here, active, cookie) {
            // As F-ARRIVE.
            mmu.settle();
            if here.is_present(next) {
                here.load(next.root(), cookie.tag(), Held::Keep, Sharing::Private);
                return Switched::Kept;
            }
            return self.enter_joined(&here.again(), next, cookie);
        }
        self.enter_slowly(&here.again(), next)
    }

    /// Way 1 where CPUs use each other's entries.
    #[inline(never)]
    fn enter_shared(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
        active: Cookie,
        cookie: Cookie,
    ) -> Switched {
        // FENCE F-PARK (pairs with the walks of a new owner): from `join` on nothing keeps the outgoing tag,
        // and another CPU may give it away. The walker must not use it any more by then, for
        // its entries could be hit by that other CPU.
        here.park_register();
        if cookie.is_of(active) && self.join(here, active, cookie) {
            return self.enter_joined(here, next, cookie);
        }
        self.enter_slowly(here, next)
    }

    /// Way 1 for a CPU that has joined, present or not.
    #[inline(never)]
    fn enter_joined(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
        cookie: Cookie,
    ) -> Switched {
        match self.arrive(here, next, cookie) {
            Ok(held) => {
                here.load(next.root(), cookie.tag(), held, here.mmu().sharing());
                Switched::Kept
            }
            Err(Locked) => {
                self.turn_back(here);
                self.enter_slowly(here, next)
            }
        }
    }

    /// As [`Self::wake`]. It says first that this CPU is back, and pays then: an NMI in between must leave
    /// user memory alone.
    #[cold]
    fn come_back(&self, here: &StrategyCpu<'_, P, Self>, next: &Space<'_, P>) -> Switched {
        here.bar();
        let switched = self.wake(here, next);
        here.unbar();
        switched
    }

    /// Ends being lazy, in the space that the register names or on the way to another one.
    fn wake(&self, here: &StrategyCpu<'_, P, Self>, next: &Space<'_, P>) -> Switched {
        let active = &here.cpu().active;
        // FENCE F-WAKE (pairs with O-SEES): a revoker does not skip this CPU any more before it reads
        // its residency, or names another space.
        active.lazy.swap(0, Ordering::SeqCst);
        // Relaxed, both: as on the quick way.
        let cookie = Cookie::from_bits(next.cookie.load(Ordering::Relaxed));
        if active.cookie.load(Ordering::Relaxed) != cookie.bits() {
            return self.enter_quickly(here, next);
        }
        match self.arrive(here, next, cookie) {
            Ok(Held::Keep) => return Switched::Unchanged,
            Ok(Held::Drop) => {}
            Err(Locked) => return self.enter_slowly(here, next),
        }
        // What is held was revoked while nobody looked. This CPU has said that it is back and pays
        // for everything before that.
        here.mmu().flush_tag(here.errata(), here.tag());
        here.tlb().platform().observe(Event::CaughtUp);
        Switched::CaughtUp
    }

    /// Ways 2 and 3.
    #[cold]
    pub(super) fn enter_slowly(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
    ) -> Switched {
        let mut paid = false;
        if let Ok(switched) = self.try_enter(here, next, &mut paid, None) {
            return switched;
        }
        let lock = self.turn.lock.lock(here.tlb().platform());
        let mut turned = false;
        loop {
            match self.try_enter(here, next, &mut paid, Some(&lock)) {
                Ok(_) if turned => return Switched::Turned,
                Ok(switched) => return switched,
                // Nothing is left to fill the stock with; afterwards there is.
                Err(Locked) => {
                    self.turn_over(here, &lock);
                    turned = true;
                }
            }
        }
    }

    /// Joins the present epoch with the register parked, so that nothing is kept for this CPU.
    #[cold]
    pub(super) fn rest(&self, here: &StrategyCpu<'_, P, Self>) {
        let _lock = self.turn.lock.lock(here.tlb().platform());
        // Relaxed: under the lock only this CPU writes the word.
        let active = Cookie::from_bits(here.cpu().active.cookie.load(Ordering::Relaxed));
        let mut paid = false;
        self.empty(here, active, &mut paid);
        self.join(here, active, Cookie::new(active.epoch(), Tag::RESERVED));
    }

    /// Way 2, and with the lock held way 3: finds a tag for `next` and joins.
    fn try_enter(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
        paid: &mut bool,
        lock: Option<&ticket::Held<'_, P::Word>>,
    ) -> Result<Switched, Locked> {
        let cpu = here.cpu();
        // Relaxed: this CPU's own word; a turnover that changes it is noticed by `join`.
        let active = Cookie::from_bits(cpu.active.cookie.load(Ordering::Relaxed));
        let epoch = active.epoch();
        // ORDER O-EPOCH (pairs with O-PUBLISH): the map and the kept words are those of `epoch`. An
        // epoch that passed this CPU and is not published yet has no map; its lock is held.
        if self.epoch.load(Ordering::Acquire) != epoch {
            return Err(Locked);
        }
        self.empty(here, active, paid);
        // Relaxed: no space is pinned in the last epoch that was not pinned before it.
        if epoch == self.last_epoch() && next.pins.load(Ordering::Relaxed) == 0 {
            return Ok(self.enter_last(here, next, active));
        }
        let (cookie, fresh) = self.claim(here, next, epoch, true, lock)?;
        if !self.join(here, active, cookie) {
            return Err(Locked);
        }
        let Ok(held) = self.arrive(here, next, cookie) else {
            // The space was given another tag since we claimed this one, which is now ours alone.
            self.turn_back(here);
            *paid = false;
            return self.try_enter(here, next, paid, lock);
        };
        let first = if fresh { here.mmu().first_load() } else { Held::Keep };
        let held = if held == Held::Keep { first } else { held };
        here.load(next.root(), cookie.tag(), held, here.mmu().sharing());
        Ok(if fresh { Switched::Fresh } else { Switched::Kept })
    }

    /// Empties the TLB if this CPU has not joined its epoch and has not `paid` for it.
    ///
    /// The register names what it named before, under a tag that was kept: what the walker brings
    /// back meanwhile is valid in the new epoch, and in any that follows before this CPU joins one.
    /// So paying once is enough, however many epochs pass it on the way in.
    fn empty(&self, here: &StrategyCpu<'_, P, Self>, active: Cookie, paid: &mut bool) {
        let shared = here.mmu().sharing() == Sharing::Shared;
        if !active.joined() && !*paid && !shared {
            here.mmu().flush_all(here.errata());
            *paid = true;
        }
    }

    /// After this CPU has said that it is on its way under a tag, and does not load it: has the register
    /// name nothing. What it named before is not kept from the next turnover on, and must not come back
    /// after this CPU has emptied its TLB for that.
    #[cold]
    fn turn_back(&self, here: &StrategyCpu<'_, P, Self>) {
        here.park_register();
    }

    /// Declares which cookie the register is about to name, unless an epoch has passed this CPU.
    pub(super) fn join(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        active: Cookie,
        cookie: Cookie,
    ) -> bool {
        // The word decides by itself who came first, this CPU or the turnover. If it was this CPU,
        // the turnover reads `cookie` and keeps its tag; if not, this fails.
        //
        // ORDER O-JOINED (pairs with O-SEES, O-PASSES, O-PASSED): before this CPU reads its residency, and
        // after what its register named before and what its user code did in the space that it leaves.
        here.cpu()
            .active
            .cookie
            .compare_exchange(active.bits(), cookie.bits(), Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// The tag of `next` in `epoch`: the one it has, or kept, or a new one. Says whether it is new.
    /// `enters` says that this CPU enters the space next, and knows then whether the tag is new.
    pub(super) fn claim(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
        epoch: u64,
        enters: bool,
        lock: Option<&ticket::Held<'_, P::Word>>,
    ) -> Result<(Cookie, bool), Locked> {
        let mut taken = None;
        loop {
            // Relaxed: E1 makes a cookie true whenever it is read; and this CPU has emptied its
            // TLB since `epoch` began.
            let old = Cookie::from_bits(next.cookie.load(Ordering::Acquire)); // And as O-FRESH.
            if old.epoch() == epoch {
                if let Some(tag) = taken {
                    here.cpu().stock.put(epoch, tag);
                }
                return Ok((old, false));
            }
            // Another CPU is an epoch ahead; this one has been passed and may not have seen it yet,
            // where loads are reordered. To write an older cookie over a younger one would give the
            // space a second tag.
            if old.epoch() > epoch {
                return Err(Locked);
            }
            let (tag, fresh) = if self.keeps(here, next, old, epoch)? {
                (old.tag(), false)
            } else {
                let tag = match taken {
                    Some(tag) => tag,
                    None => self.take(here, epoch, lock)?,
                };
                taken = Some(tag);
                (tag, true)
            };
            let new = Cookie::new(epoch, tag);
            if fresh && old != Cookie::NONE {
                self.wait_for_late(here);
            }
            // Nobody has met a fresh tag, so nobody holds anything under it. The books keep others
            // from giving the space another one meanwhile.
            let books = if fresh { Some(next.open(here.tlb().platform())) } else { None };
            if let Some(mut books) = books {
                // Relaxed, both: by O-OPEN. In the last epoch others enter without a cookie, and are
                // not to be cleared away.
                if self.epoch.load(Ordering::Relaxed) != epoch {
                    return Err(Locked);
                }
                if next.cookie.load(Ordering::Relaxed) != old.bits() {
                    continue;
                }
                if old != Cookie::NONE {
                    books.leave_tag(here.mmu().walks_outlive_tags());
                }
                next.residents.clear();
                if enters {
                    // To say so here spares it the books on arrival.
                    let _ = next.residents.enter(here.id());
                }
                books.set_spent(0);
                // ORDER O-CLEAR (pairs with O-FRESH): who was present under the former tag is
                // forgotten before anybody enters under this one.
                next.cookie.store(new.bits(), Ordering::Release);
                return Ok((new, true));
            }
            // Relaxed: as above. The word arbitrates between CPUs that enter the space together.
            if next
                .cookie
                .compare_exchange(old.bits(), new.bits(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                return Ok((new, false));
            }
        }
    }

    /// Whether the tag that `space` had by `old` was kept for it until `epoch`.
    ///
    /// A tag that is kept was its owner's without a break since the epoch in the kept word; so the
    /// space whose cookie is not older than that, with the same tag, is the owner. Nothing has to
    /// be updated when the owner renews its cookie: that only makes the cookie younger.
    fn keeps(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        space: &Space<'_, P>,
        old: Cookie,
        epoch: u64,
    ) -> Result<bool, Locked> {
        if old == Cookie::NONE {
            return Ok(false);
        }
        // Relaxed: a pin that is gone was there in the epoch that O-EPOCH made visible.
        if space.pins.load(Ordering::Relaxed) != 0 {
            return Ok(true);
        }
        let tag = old.tag();
        // ORDER O-KEEPS (pairs with O-REBUILD): if the bit is of a later map, `active` says so.
        let map = self.kept[usize::from(tag.0) / 64].load(Ordering::Acquire);
        // Relaxed: ordered by the Acquire load of the map.
        let active = Cookie::from_bits(here.cpu().active.cookie.load(Ordering::Relaxed));
        if active.epoch() != epoch {
            return Err(Locked);
        }
        if map & 1 << (tag.0 % 64) == 0 {
            return Ok(false);
        }
        // Relaxed: the words of `epoch` are visible by O-EPOCH. A later turnover overwrites only
        // those of CPUs that joined `epoch`; a space on such a CPU has a cookie of `epoch`, and is
        // not looked for. One that keeps nothing has the reserved tag, which no space has.
        Ok(here.tlb().cpus().iter().any(|cpu| {
            let kept = Cookie::from_bits(cpu.tags.kept.load(Ordering::Relaxed));
            kept.tag() == tag && kept.epoch() <= old.epoch()
        }))
    }

    /// Takes a tag of `epoch` from the stock of this CPU; with the lock, fills the stock first.
    fn take(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        epoch: u64,
        lock: Option<&ticket::Held<'_, P::Word>>,
    ) -> Result<Tag, Locked> {
        let stock = &here.cpu().stock;
        if let Some(tag) = stock.take(epoch) {
            return Ok(tag);
        }
        if lock.is_none() {
            return Err(Locked);
        }
        self.fill(stock, epoch);
        stock.take(epoch).ok_or(Locked)
    }

    /// Fills `stock` with the next window of tags in which one is free, if there is one. The lock is held.
    fn fill(&self, stock: &Stock<P::Word>, epoch: u64) {
        let turn = &*self.turn;
        // Relaxed, here and below: written under the lock only.
        let window = turn.window.load(Ordering::Relaxed);
        let mut cursor = turn.cursor.load(Ordering::Relaxed);
        let tags = u64::from(self.tags);
        while cursor < tags {
            let end = (cursor + window).min((cursor / 64 + 1) * 64).min(tags);
            let bits = (!0 >> (64 - (end - cursor))) << (cursor % 64);
            let free = !self.kept[cursor as usize / 64].load(Ordering::Relaxed) & bits;
            let first = Tag((cursor / 64 * 64) as u16);
            cursor = end;
            if free != 0 {
                turn.cursor.store(cursor, Ordering::Relaxed);
                return stock.fill(epoch, first, free);
            }
        }
        turn.cursor.store(cursor, Ordering::Relaxed);
    }

    /// The way in when no epoch is left: one tag, dropped at each switch, and shared with nobody.
    fn enter_last(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
        active: Cookie,
    ) -> Switched {
        let joined = self.join(here, active, Cookie::new(self.last_epoch(), LAST_TAG));
        debug_assert!(joined, "no epoch comes that could pass this CPU");
        here.mmu().settle(); // As F-ARRIVE.
        // Who holds the books believes in the tag that the space had before, or knows of this epoch.
        let books = next.open(here.tlb().platform());
        if !here.is_present(next) {
            let _ = here.reside(next); // Everything is dropped anyway.
        }
        drop(books);
        here.load(next.root(), LAST_TAG, Held::Drop, Sharing::Private);
        Switched::Fresh
    }

    /// After this CPU has said that it is on its way into `next` under `cookie`: makes it present
    /// there, and says what the load must be told. Fails if the space has another tag by now.
    fn arrive(
        &self,
        here: &StrategyCpu<'_, P, Self>,
        next: &Space<'_, P>,
        cookie: Cookie,
    ) -> Result<Held, Locked> {
        // FENCE F-ARRIVE (pairs with the barrier in `Mmu::publish` of a revoker): what this CPU has
        // said is visible before the root is loaded; a walk is no load, and no ordering of a load
        // holds it back. It also completes what the outgoing thread has begun to invalidate.
        here.mmu().settle();
        if here.is_present(next) { Ok(Held::Keep) } else { self.reside_under(here, next, cookie) }
    }
}
