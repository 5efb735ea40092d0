//! Switch-in: finding the tag of a space in the present epoch, and adopting the epoch.

use super::{
    Cookie, GlobalAsids, HasGlobalAsids, LAST_TAG, LAZY, SHARED, TWO_REGISTERS,
    asid_cache::AsidCache, ticket,
};
use crate::{
    arch::{Held, Invalidation, KeptLoads, Mmu, Scope, Sharing, Tag},
    counts::Event,
    platform::Platform,
    space::AddressSpace,
    tlb::{AllocatorCpu, Switched},
    word::{Ordering, Word},
};

/// The lock is needed: the `asid_cache` is empty, or a rollover came in between.
pub(super) struct NeedsLock;

impl<P: Platform> GlobalAsids<'_, P> {
    /// The fast path (1 in `mod.rs`), and the slow path if that fails.
    #[inline(always)] // Out of line, a switch of Linux on arm64 takes 16 instructions more.
    pub(in crate::tags) fn switch_in_fast<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        let cpu = T::global_cpu(this_cpu.cpu);
        // Relaxed: the compare-exchange in `adopt_epoch` decides, and E1 and E2 make the cookie true for a
        // CPU that has adopted its epoch.
        let active = Cookie(cpu.active.cookie.load(Ordering::Relaxed));
        // ORDER O-FRESH (pairs with O-CLEAR): with the cookie comes the residency under it.
        let cookie = Cookie(next.cookie.load(Ordering::Acquire));
        // Relaxed: this CPU's own word.
        let mode = cpu.active.mode.load(Ordering::Relaxed);
        if mode == 0 {
            Self::switch_in_by_cookie(this_cpu, KeptLoads::OneWrite, next, active, cookie)
        } else if P::Mmu::HAS_TWO_REGISTERS && mode == TWO_REGISTERS {
            Self::switch_in_by_cookie(this_cpu, KeptLoads::TwoRegisters, next, active, cookie)
        } else {
            Self::switch_in_by_mode(this_cpu.copied(), next, active, cookie)
        }
    }

    /// The fast path with these two cookies.
    #[inline(always)] // It is two different ones.
    fn switch_in_by_cookie<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        writes: KeptLoads,
        next: &AddressSpace<P>,
        active: Cookie,
        cookie: Cookie,
    ) -> Switched {
        if active == cookie {
            this_cpu.mmu().settle();
            return Switched::Unchanged;
        }
        if cookie.is_of(active) && Self::adopt_epoch(this_cpu, active, cookie) {
            let from_space =
                !this_cpu.mmu().properties().shares_reserved_tag || active.tag() != Tag::RESERVED;
            if from_space && this_cpu.is_present(next) {
                this_cpu.load_kept(writes, next, cookie.tag()); // It settles as F-ARRIVE.
                return Switched::Kept;
            }
            return Self::switch_in_adopted(this_cpu.copied(), next, cookie);
        }
        Self::switch_in_slow(this_cpu.copied(), next)
    }

    /// [`Self::switch_in_fast`], out of line.
    #[inline(never)]
    pub(in crate::tags) fn switch_in_by_value<T: HasGlobalAsids<P>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        Self::switch_in_fast(&this_cpu, next)
    }

    /// The fast path of a CPU with a `mode`: it is lazy, for example.
    #[inline(never)]
    fn switch_in_by_mode<T: HasGlobalAsids<P>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        active: Cookie,
        cookie: Cookie,
    ) -> Switched {
        // Relaxed: this CPU's own word.
        let mode = T::global_cpu(this_cpu.cpu).active.mode.load(Ordering::Relaxed);
        if mode & LAZY != 0 {
            return Self::wake_from_lazy(this_cpu, next);
        }
        if active == cookie {
            this_cpu.mmu().settle();
            return Switched::Unchanged;
        }
        if mode & SHARED != 0 {
            // FENCE F-PARK (pairs with the walks of a new owner): from `adopt_epoch` on nothing reserves the
            // outgoing tag, and another CPU may give it away. The walker must not use it any more by then,
            // because that other CPU could hit its entries.
            this_cpu.park_register();
        }
        if cookie.is_of(active) && Self::adopt_epoch(&this_cpu, active, cookie) {
            return Self::switch_in_adopted(this_cpu, next, cookie);
        }
        Self::switch_in_slow(this_cpu, next)
    }

    /// The fast path after `adopt_epoch`, whether the CPU is present or not.
    #[inline(never)]
    fn switch_in_adopted<T: HasGlobalAsids<P>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        cookie: Cookie,
    ) -> Switched {
        match Self::mark_present_in(&this_cpu, next, cookie) {
            Ok(held) => {
                this_cpu.load(next, cookie.tag(), held, this_cpu.mmu().properties().sharing);
                Switched::Kept
            }
            Err(NeedsLock) => {
                Self::park_instead(&this_cpu);
                Self::switch_in_slow(this_cpu, next)
            }
        }
    }

    /// As [`Self::end_lazy`], which first ends lazy mode and then flushes: an NMI in between must leave user
    /// memory alone.
    #[cold]
    fn wake_from_lazy<T: HasGlobalAsids<P>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        this_cpu.nmi_uaccess_disable();
        let switched = Self::end_lazy(&this_cpu, next);
        this_cpu.nmi_uaccess_enable();
        switched
    }

    /// Ends lazy mode, in the space that the register names or at the switch to another one.
    fn end_lazy<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        let active = &T::global_cpu(this_cpu.cpu).active;
        // FENCE F-UNLAZY (pairs with O-SEES): initiators no longer skip this CPU as lazy before it reads
        // its residency, or names another space.
        active.mode.fetch_and(!LAZY, Ordering::SeqCst);
        // Relaxed, both: as on the fast path.
        let cookie = Cookie(next.cookie.load(Ordering::Relaxed));
        if active.cookie.load(Ordering::Relaxed) != cookie.bits() {
            return Self::switch_in_fast(this_cpu, next);
        }
        match Self::mark_present_in(this_cpu, next, cookie) {
            Ok(Held::Keep) => return Switched::Unchanged,
            Ok(Held::Drop) => {}
            Err(NeedsLock) => return Self::switch_in_slow(this_cpu.copied(), next),
        }
        // Entries that this CPU holds were revoked while it was lazy. Lazy mode has ended before this
        // flush, so the flush covers everything that was revoked without an IPI.
        this_cpu.mmu().flush(this_cpu.errata(), Invalidation::Tag(this_cpu.tag()), Scope::Local);
        this_cpu.observe(Event::CaughtUp);
        Switched::CaughtUp
    }

    /// The slow path (2 and 3 in `mod.rs`).
    #[cold]
    pub(super) fn switch_in_slow<T: HasGlobalAsids<P>>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        let tags = this_cpu.tlb.tags.global();
        let mut flushed = false;
        if let Ok(switched) = tags.try_switch_in(&this_cpu, next, &mut flushed, None) {
            return switched;
        }
        let lock = tags.lock(this_cpu.tlb);
        let mut rolled_over = false;
        loop {
            match tags.try_switch_in(&this_cpu, next, &mut flushed, Some(&lock)) {
                Ok(_) if rolled_over => return Switched::RolledOver,
                Ok(switched) => return switched,
                // No tag is free to fill the `asid_cache` with; after a rollover there is.
                Err(NeedsLock) => {
                    tags.rollover(&this_cpu, &lock);
                    rolled_over = true;
                }
            }
        }
    }

    /// Adopts the present epoch with the register parked, so that no tag is reserved for this CPU.
    #[cold]
    pub(super) fn adopt_parked<T: HasGlobalAsids<P>>(&self, this_cpu: &AllocatorCpu<'_, P, T>) {
        let _lock = self.lock(this_cpu.tlb);
        // Relaxed: under the lock only this CPU writes the word.
        let active = Cookie(T::global_cpu(this_cpu.cpu).active.cookie.load(Ordering::Relaxed));
        let mut flushed = false;
        self.flush_if_pending(this_cpu, active, &mut flushed);
        Self::adopt_epoch(this_cpu, active, Cookie::new(active.epoch(), Tag::RESERVED));
    }

    /// One attempt at the slow path, 2 in `mod.rs`, or 3 with the lock held: finds a tag for `next`, adopts
    /// the epoch and loads the root.
    fn try_switch_in<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        flushed: &mut bool,
        lock: Option<&ticket::Held<'_, P::Word>>,
    ) -> Result<Switched, NeedsLock> {
        let cpu = T::global_cpu(this_cpu.cpu);
        loop {
            // Relaxed: this CPU's own word; `adopt_epoch` notices a rollover that changes it.
            let active = Cookie(cpu.active.cookie.load(Ordering::Relaxed));
            let epoch = active.epoch();
            // ORDER O-EPOCH (pairs with O-PUBLISH): the map and the reserved words are those of `epoch`. If a
            // rollover is under way, its epoch is in `active` but has no map yet; the lock is held.
            if self.epoch.load(Ordering::Acquire) != epoch {
                return Err(NeedsLock);
            }
            self.flush_if_pending(this_cpu, active, flushed);
            // Relaxed: no space is pinned in the last epoch that was not pinned before it.
            if epoch == self.config.last_epoch && next.pins.load(Ordering::Relaxed) == 0 {
                return Ok(self.switch_in_last_epoch(this_cpu, next, active));
            }
            let (cookie, fresh) = self.assign_asid(this_cpu, next, epoch, true, lock)?;
            if !Self::adopt_epoch(this_cpu, active, cookie) {
                return Err(NeedsLock);
            }
            let Ok(held) = Self::mark_present_in(this_cpu, next, cookie) else {
                // The space got another tag since this CPU claimed this one, which no other CPU uses now. Once more, then.
                Self::park_instead(this_cpu);
                *flushed = false;
                continue;
            };
            let first = if fresh { this_cpu.mmu().properties().first_load } else { Held::Keep };
            let held = if held == Held::Keep { first } else { held };
            this_cpu.load(next, cookie.tag(), held, this_cpu.mmu().properties().sharing);
            return Ok(if fresh { Switched::Fresh } else { Switched::Kept });
        }
    }

    /// Flushes the whole TLB if this CPU has not adopted its epoch, unless `flushed` says that it did so already
    /// in this switch-in.
    ///
    /// The register still names the former space, under a reserved tag: entries that the walker fetches
    /// meanwhile are valid in the new epoch, and in any that follows before this CPU adopts one. So one flush
    /// is enough, however many rollovers happen during the switch-in.
    fn flush_if_pending<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        active: Cookie,
        flushed: &mut bool,
    ) {
        let shared = this_cpu.mmu().properties().sharing == Sharing::Shared;
        if !active.adopted() && !*flushed && !shared {
            this_cpu.mmu().flush(this_cpu.errata(), Invalidation::All, Scope::Local);
            *flushed = true;
        }
    }

    /// Parks the register, if this CPU has published a tag in `active` that it does not load after all. The
    /// next rollover does not reserve the tag that the register named before, so its entries must not come
    /// back after this CPU has flushed its TLB for that rollover.
    #[cold]
    fn park_instead<T: HasGlobalAsids<P>>(this_cpu: &AllocatorCpu<'_, P, T>) {
        this_cpu.park_register();
    }

    /// Publishes the cookie that the register is about to name, and with it that this CPU has adopted the
    /// epoch. Fails if a rollover came in between.
    pub(super) fn adopt_epoch<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        active: Cookie,
        cookie: Cookie,
    ) -> bool {
        // The order of the writes to this word decides. If this one comes before that of a rollover, the
        // rollover reads `cookie` and reserves its tag; if not, this fails.
        //
        // ORDER O-ADOPT (pairs with O-SEES, O-PASSES, O-PASSED, F-ANNOUNCE): before this CPU reads its residency, and
        // after the record of what its register named before, and after what its user code did in the space
        // that it leaves.
        T::global_cpu(this_cpu.cpu)
            .active
            .cookie
            .compare_exchange(active.bits(), cookie.bits(), Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// The tag of `next` in `epoch`: the one it has, or the one reserved for it, or a fresh one. Returns also
    /// whether it is fresh. `enters` says that this CPU switches to the space next: it is then marked present
    /// together with a fresh tag.
    pub(super) fn assign_asid<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        epoch: u64,
        enters: bool,
        lock: Option<&ticket::Held<'_, P::Word>>,
    ) -> Result<(Cookie, bool), NeedsLock> {
        let mut taken = None;
        loop {
            // By E1 a cookie is true whenever it is read; and this CPU has flushed its TLB since `epoch`
            // began.
            let old = Cookie(next.cookie.load(Ordering::Acquire)); // And as O-FRESH.
            if old.epoch() == epoch {
                if let Some(tag) = taken {
                    T::global_cpu(this_cpu.cpu).asid_cache.put(epoch, tag);
                }
                return Ok((old, false));
            }
            // Another CPU is an epoch ahead: a rollover has changed this CPU's `active`, and where loads are
            // reordered this CPU may not have seen it yet. To write an older cookie over a younger one would
            // give the space a second tag.
            if old.epoch() > epoch {
                return Err(NeedsLock);
            }
            let (tag, fresh) = if self.is_reserved_for(this_cpu, next, old, epoch)? {
                (old.tag(), false)
            } else {
                let tag = match taken {
                    Some(tag) => tag,
                    None => self.take_asid(this_cpu, epoch, lock)?,
                };
                taken = Some(tag);
                (tag, true)
            };
            let new = Cookie::new(epoch, tag);
            if fresh && old != Cookie::NONE {
                self.wait_for_mid_switch(this_cpu);
            }
            // No CPU has used a fresh tag, so none holds entries under it. The residency lock keeps other
            // CPUs from giving the space another one meanwhile; and a cookie that keeps its tag is not brought to this
            // epoch while `Self::retag` replaces it: its store would undo that.
            let mut residency = next.lock_residency(&this_cpu.tlb.platform);
            // Relaxed, both: by O-RESIDENCY-LOCK. In the last epoch other CPUs switch in without a
            // cookie, and must not be made absent here.
            if self.epoch.load(Ordering::Relaxed) != epoch {
                return Err(NeedsLock);
            }
            if next.cookie.load(Ordering::Relaxed) != old.bits() {
                continue;
            }
            if fresh {
                if old != Cookie::NONE {
                    residency.note_former_tag(this_cpu.mmu().properties().walks_outlive_tags);
                }
                next.residents().clear();
                if enters {
                    // Done here, this spares it the residency lock in `mark_present_in`.
                    let _ = next.residents().mark_present(this_cpu.id());
                }
                residency.set_spent(0);
            }
            // ORDER O-CLEAR (pairs with O-FRESH): the CPUs that were present under the former tag are
            // absent before any CPU switches in under this one.
            next.cookie.store(new.bits(), Ordering::Release);
            return Ok((new, fresh));
        }
    }

    /// Whether the tag in `old`, a former cookie of `space`, was reserved for the space until `epoch`.
    ///
    /// A reserved tag has belonged to one space without a break since the epoch in the reserved word. So the
    /// space whose cookie is not older than that, with the same tag, is the owner. When the owner's cookie is
    /// brought to a later epoch nothing has to be updated: that only makes the cookie younger.
    fn is_reserved_for<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        space: &AddressSpace<P>,
        old: Cookie,
        epoch: u64,
    ) -> Result<bool, NeedsLock> {
        if old == Cookie::NONE {
            return Ok(false);
        }
        // Relaxed: a pin that is gone was still there in the epoch that O-EPOCH made visible.
        if space.pins.load(Ordering::Relaxed) != 0 {
            return Ok(true);
        }
        let tag = old.tag();
        // ORDER O-IN-USE-READ (pairs with O-IN-USE): if the bit is of a later map, `active` says so.
        let map = self.in_use[usize::from(tag.0) / 64].load(Ordering::Acquire);
        // Relaxed: ordered by the Acquire load of the map.
        let active = Cookie(T::global_cpu(this_cpu.cpu).active.cookie.load(Ordering::Relaxed));
        if active.epoch() != epoch {
            return Err(NeedsLock);
        }
        if map & 1 << (tag.0 % 64) == 0 {
            return Ok(false);
        }
        for cpu in this_cpu.tlb.cpus {
            // Relaxed: the words of `epoch` are visible by O-EPOCH, and are all of earlier epochs. The word of a CPU for
            // which nothing is reserved has `Tag::RESERVED`, which no space has.
            let kept = Cookie(T::global_cpu(cpu).reserved.load(Ordering::Relaxed));
            // The next rollover has overwritten what was reserved in `epoch`. It begins with these words, so it may not
            // have come to this CPU's `active` yet.
            if kept.epoch() >= epoch {
                return Err(NeedsLock);
            }
            if kept.tag() == tag && kept.epoch() <= old.epoch() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a tag of `epoch` from the `asid_cache` of this CPU; if that is empty and the lock is held, fills
    /// it first.
    fn take_asid<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        epoch: u64,
        lock: Option<&ticket::Held<'_, P::Word>>,
    ) -> Result<Tag, NeedsLock> {
        let asid_cache = &T::global_cpu(this_cpu.cpu).asid_cache;
        if let Some(tag) = asid_cache.take(epoch) {
            return Ok(tag);
        }
        if lock.is_none() {
            return Err(NeedsLock);
        }
        self.refill(asid_cache, epoch);
        asid_cache.take(epoch).ok_or(NeedsLock)
    }

    /// Fills `asid_cache` with the next window of tags in which one is free, if there is one. The lock is
    /// held.
    fn refill(&self, asid_cache: &AsidCache<P::Word>, epoch: u64) {
        let turn = &*self.turn;
        // Relaxed, here and below: written under the lock only.
        let window = turn.window.load(Ordering::Relaxed);
        let mut cursor = turn.cursor.load(Ordering::Relaxed);
        let tags = u64::from(self.tags);
        while cursor < tags {
            let end = (cursor + window).min((cursor / 64 + 1) * 64).min(tags);
            let bits = (!0 >> (64 - (end - cursor))) << (cursor % 64);
            let free = !self.in_use[cursor as usize / 64].load(Ordering::Relaxed) & bits;
            let first = Tag((cursor / 64 * 64) as u16);
            cursor = end;
            if free != 0 {
                turn.cursor.store(cursor, Ordering::Relaxed);
                return asid_cache.fill(epoch, first, free);
            }
        }
        turn.cursor.store(cursor, Ordering::Relaxed);
    }

    /// Switch-in in the last epoch: one tag for all spaces, whose entries are dropped at each switch and
    /// shared with no other CPU.
    fn switch_in_last_epoch<T: HasGlobalAsids<P>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        active: Cookie,
    ) -> Switched {
        let adopted =
            Self::adopt_epoch(this_cpu, active, Cookie::new(self.config.last_epoch, LAST_TAG));
        debug_assert!(adopted, "no epoch comes that could pass this CPU");
        this_cpu.mmu().settle(); // As F-ARRIVE.
        // With the lock: another holder either sees this epoch, or still goes by the former tag of the space.
        let residency = next.lock_residency(&this_cpu.tlb.platform);
        if !this_cpu.is_present(next) {
            let _ = this_cpu.mark_present(next); // Everything is dropped anyway.
        }
        drop(residency);
        // In the middle of the load the root is recorded and the tag is not, and `next` may have had that one in an
        // earlier epoch.
        this_cpu.nmi_uaccess_disable();
        this_cpu.load(next, LAST_TAG, Held::Drop, Sharing::Private);
        this_cpu.nmi_uaccess_enable();
        Switched::Fresh
    }

    /// After this CPU has published that it switches to `next` under `cookie`: marks it present there, and
    /// returns whether the load must drop entries. Fails if the space has another tag by now.
    fn mark_present_in<T: HasGlobalAsids<P>>(
        this_cpu: &AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
        cookie: Cookie,
    ) -> Result<Held, NeedsLock> {
        // FENCE F-ARRIVE (pairs with the barrier in `Mmu::publish` of a revoker): `active` is visible
        // before the root is loaded; a walk is no load, and no ordering of a load holds it back.
        this_cpu.mmu().settle();
        if this_cpu.is_present(next) {
            Ok(Held::Keep)
        } else {
            Self::mark_present_under(this_cpu, next, cookie)
        }
    }
}
