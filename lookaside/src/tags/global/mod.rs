//! Epochs: one tag for a space on all CPUs, until the tags run out and an epoch turns.
//!
//! # The books
//!
//! A space's *cookie* says which tag it was given in which epoch. Each CPU's `active` word says
//! which cookie its root register names, and whether the CPU has *joined* the present epoch, that
//! is, has emptied its TLB since it began. Each CPU's `kept` word says what its register named when
//! the latest epoch passed it: that tag stays taken, and the space that owns it may go on using it.
//!
//! # The invariants
//!
//! * **E1** A cookie `(e, t)` in a space says that in epoch `e` tag `t` was this space's alone.
//! * **E2** A CPU that has joined epoch `e` holds entries only under tags that epoch `e` gave to
//!   their space, or kept for it.
//! * **E3** A tag that a root register names is not given away: it is in the CPU's `active` word,
//!   or in its `kept` word and therefore in the map. One moment is excepted, between joining and
//!   the load that follows: `active` speaks of the new tag already. What the register still brings
//!   in under the old one is no other CPU's business, and by E2 is gone before this CPU meets the
//!   tag's next owner; and where it *is* another's business, the register is parked (F-PARK).
//! * **E4** A space leaves its tag for another one only when no register names the space under it, not
//!   even in that moment: see `mid_switch.rs`. So whoever looks for CPUs that name the space's tag misses none.
//!
//! # The ways in
//!
//! 1. The space's cookie is of the CPU's own epoch: one compare-exchange on the CPU's `active`.
//!    It fails if an epoch has passed this CPU, in whatever way the CPU was delayed.
//! 2. Otherwise, still without a lock: empty the TLB if the CPU has not joined; take over the old
//!    tag if it was kept, or a tag from the CPU's stock; then the same compare-exchange.
//! 3. Otherwise, with a lock: fill the stock, turn the epoch if there is nothing to fill it with,
//!    and do as in 2. Epochs turn only under the lock, so this succeeds at the first try, and each
//!    CPU needs it once for every window of up to 64 tags.
//!
//! # The last epoch
//!
//! Epochs are numbered with 47 bits and do not wrap. The last one never ends: in it every CPU runs
//! every space under one and the same tag, privately, and drops the tag's entries at each switch.
//! That is slow and correct, and with a turnover every microsecond it is four years away.

mod asid_cache;
mod cookie;
mod mid_switch;
mod pins;
mod release;
mod retag;
mod rollover;
mod switch_in;

impl<P: Platform> fmt::Debug for GlobalAsids<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalAsids")
            .field("epoch", &self.epoch())
            .field("tags", &self.tags)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<W: Word> fmt::Debug for GlobalAsidsCpu<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        let cookie = |word: &W| Cookie::from_bits(word.load(Ordering::Relaxed));
        f.debug_struct("GlobalAsidsCpu")
            .field("active", &cookie(&self.active.cookie))
            .field("reserved", &cookie(&self.reserved))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
mod ticket;

use core::{fmt, marker::PhantomData};

pub use self::cookie::Cookie;
use self::{asid_cache::AsidCache, ticket::Ticket};
use crate::{
    arch::{Held, Mmu, Sharing, Tag, Wait},
    cpu::{Aligned, Cpu},
    current_cpu::{CurrentCpu, FOREIGN_TAG, StrategyCpu},
    error::Error,
    flush::{FlushRanges, FlushRequest, FlushScope},
    platform::{CpuId, Ordering, Platform, Word},
    space::AddressSpace,
    tags::{Released, RootState, Switched, Tags},
    tlb::Tlb,
};

/// The first tag that a space can have; those below are reserved and borrowed.
const FIRST_TAG: u32 = 2;

/// The tag that all spaces share in the last epoch. Borrowed roots have it too: neither leaves
/// anything behind under it.
const LAST_TAG: Tag = FOREIGN_TAG;

/// How the tags are used.
#[derive(Clone, Copy, Debug)]
pub struct GlobalAsidsConfig {
    /// Use no more than this many tags, reserved ones included; the hardware may have fewer. Few
    /// tags make epochs turn often, which is good for tests.
    pub tags: u32,
    /// How many tags may be pinned at one time.
    pub pins: u32,
    /// The epoch that never ends; anything above [`Cookie::LAST_EPOCH`] means that one. For tests.
    pub last_epoch: u64,
}

impl Default for GlobalAsidsConfig {
    fn default() -> Self {
        Self { tags: 1 << 16, pins: 0, last_epoch: Cookie::LAST_EPOCH }
    }
}

/// The tags of Arm and RISC-V.
pub struct GlobalAsids<'a, P: Platform> {
    /// The present epoch; read on the way in, written when it turns.
    epoch: Aligned<P::Word>,
    /// How many tags there are, reserved ones included.
    tags: u32,
    config: GlobalAsidsConfig,
    /// Tags that are taken from the beginning of the epoch: bit `t` of the map. Those below [`FIRST_TAG`]
    /// are not looked for in it.
    in_use: &'a [P::Word],
    /// Tags that devices use, written under the lock.
    pinned: &'a [P::Word],
    turn: Aligned<Rollover<P::Word>>,
    platform: PhantomData<fn(&P)>,
}

/// What is written only under the lock, and the lock.
struct Rollover<W> {
    lock: Ticket<W>,
    /// The first tag that was not yet dealt in this epoch.
    cursor: W,
    /// How many tags are pinned.
    pins: W,
    /// How many tags a CPU's stock is filled with at a time.
    window: W,
    /// Whether the epoch has passed a CPU between joining and loading.
    mid_switch: W,
}

struct Active<W> {
    /// What the register names, by this CPU's own account. Written by this CPU, and by the one
    /// that turns the epoch.
    cookie: W,
    /// Whether no user code runs until the CPU says otherwise.
    lazy: W,
}

/// What [`GlobalAsids`] remembers for a CPU.
pub struct GlobalAsidsCpu<W> {
    active: Aligned<Active<W>>,
    asid_cache: AsidCache<W>,
    /// What the register named when the latest epoch passed this CPU. Written by the one that
    /// turns the epoch, read by all: so it has a line of its own.
    reserved: Aligned<W>,
}

impl<'a, P: Platform> GlobalAsids<'a, P> {
    /// How many words of storage `tags` tags need.
    #[must_use]
    pub const fn words_for(tags: u32) -> usize {
        2 * (tags as usize).div_ceil(64)
    }

    /// A set of tags, as many as `config` and the hardware of `platform` allow. `words` is storage that
    /// is the set's alone.
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if the hardware has no tags.
    /// * [`Error::Storage`] if `words` has fewer than [`Self::words_for`] the number of tags.
    pub fn new(
        platform: &P,
        config: GlobalAsidsConfig,
        words: &'a mut [P::Word],
    ) -> Result<Self, Error> {
        let bits = platform.mmu().tag_bits();
        if bits == 0 {
            return Err(Error::Unsupported("tags"));
        }
        let config =
            GlobalAsidsConfig { last_epoch: config.last_epoch.min(Cookie::LAST_EPOCH), ..config };
        let tags = config.tags.min(1 << bits.min(16));
        let needed = Self::words_for(tags);
        if words.len() < needed {
            return Err(Error::Storage { needed, given: words.len() });
        }
        let (in_use, pinned) = words[..needed].split_at(needed / 2);
        Ok(Self {
            epoch: Aligned(P::Word::ZERO),
            tags,
            config,
            in_use,
            pinned,
            turn: Aligned(Rollover {
                lock: Ticket::NEW,
                cursor: P::Word::ZERO,
                pins: P::Word::ZERO,
                window: P::Word::ZERO,
                mid_switch: P::Word::ZERO,
            }),
            platform: PhantomData,
        })
    }

    /// The present epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed) // Relaxed: a snapshot for people.
    }

    /// The tags that spaces can have, pinned ones included.
    #[must_use]
    pub const fn usable(&self) -> u32 {
        self.tags.saturating_sub(FIRST_TAG)
    }

    fn last_epoch(&self) -> u64 {
        self.config.last_epoch
    }

    /// In the last epoch: whether this CPU, which goes on under a tag of an earlier one, may run any
    /// space that is known by the one tag.
    #[cold]
    fn may_run_any(this_cpu: &CurrentCpu<'_, P, Self>) -> bool {
        // Relaxed: an epoch that passes this CPU meanwhile is the last already.
        let active = this_cpu.cpu().active.cookie.load(Ordering::Relaxed);
        !Cookie::from_bits(active).adopted()
    }
}

// SAFETY: see the invariants above.
unsafe impl<P: Platform> Tags<P> for GlobalAsids<'_, P> {
    type Cpu = GlobalAsidsCpu<P::Word>;

    const CPU: Self::Cpu = GlobalAsidsCpu {
        active: Aligned(Active { cookie: P::Word::ZERO, lazy: P::Word::ZERO }),
        asid_cache: AsidCache::NEW,
        reserved: Aligned(P::Word::ZERO),
    };

    fn begin(&mut self, platform: &P, cpus: &mut [Cpu<P, Self>]) -> Result<(), Error> {
        // It may have been made for other hardware.
        let tags = 1 << platform.mmu().tag_bits().min(16);
        if self.tags > tags {
            return Err(Error::TagOutOfRange { tag: self.tags - 1, tags });
        }
        let needed = (cpus.len() as u32 + 1).saturating_add(self.config.pins);
        if self.usable() < needed {
            return Err(Error::TooFewTags { usable: self.usable(), needed });
        }
        if platform.mmu().sharing() == Sharing::Shared && !platform.mmu().broadcasts() {
            return Err(Error::Unsupported("shared translations without broadcast invalidation"));
        }
        // Relaxed, all of them: no CPU knows these words yet.
        let used = |cpu: &Cpu<P, Self>| cpu.tags.active.cookie.load(Ordering::Relaxed) != 0;
        if let Some(cpu) = cpus.iter().position(used) {
            return Err(Error::UsedStorage { cpu: CpuId(cpu as u32) });
        }
        for word in self.in_use.iter().chain(self.pinned) {
            word.store(0, Ordering::Relaxed);
        }
        self.turn.cursor.store(u64::from(FIRST_TAG), Ordering::Relaxed);
        // An eighth of the tags may lie in stocks when the epoch turns.
        let window = u64::from(self.usable() / (8 * cpus.len() as u32)).clamp(1, 64);
        self.turn.window.store(window, Ordering::Relaxed);
        self.epoch.store(1, Ordering::Relaxed);
        for cpu in cpus {
            cpu.tags.active.cookie.store(Cookie::flush_pending(1).bits(), Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn switch_in(this_cpu: &StrategyCpu<'_, P, Self>, next: &AddressSpace<'_, P>) -> Switched {
        this_cpu.tlb().tags().switch_in_fast(this_cpu, next)
    }

    fn lazy(this_cpu: &StrategyCpu<'_, P, Self>) {
        this_cpu.mmu().settle();
        // The register goes on naming the space, and so does `active`: the tag stays taken.
        //
        // ORDER O-LAZY-READ (pairs with O-SEES): whoever skips this CPU because it is lazy knows that what
        // its user code did before has been done.
        this_cpu.cpu().active.lazy.store(1, Ordering::Release);
    }

    fn park(this_cpu: &StrategyCpu<'_, P, Self>) -> Switched {
        this_cpu.mmu().settle();
        let cpu = this_cpu.cpu();
        // Relaxed: this CPU's own word; a turnover in between leaves it outside, which is right too.
        let active = Cookie::from_bits(cpu.active.cookie.load(Ordering::Relaxed));
        if active.adopted() && active.tag() == Tag::RESERVED {
            return Switched::Unchanged;
        }
        // The tag may go once the register no longer names it, not before.
        this_cpu.park_register();
        cpu.active.lazy.store(0, Ordering::Relaxed); // Relaxed: it names no space.
        let tags = this_cpu.tlb().tags();
        let parked = Cookie::new(active.epoch(), Tag::RESERVED);
        if !active.adopted() || !tags.adopt_epoch(this_cpu, active, parked) {
            tags.rest(this_cpu);
        }
        Switched::Kept
    }

    const GLOBAL_TAGS: bool = true;
    const TRACKS_GENERATIONS: bool = false;

    #[inline]
    fn context_id(tlb: &Tlb<'_, P, Self>, space: &AddressSpace<'_, P>) -> Option<u64> {
        let last = tlb.tags().last_epoch();
        // Relaxed: the caller's barrier comes before it. A CPU that enters the space by what is not
        // yet visible here walks the tables as they are now.
        if tlb.tags().epoch.load(Ordering::Relaxed) == last && !Self::is_pinned(space) {
            return Some(Cookie::new(last, LAST_TAG).bits());
        }
        // As O-FRESH: with the cookie comes what is noted of former tags.
        let cookie = Cookie::from_bits(space.cookie.load(Ordering::Acquire));
        (cookie != Cookie::NONE).then_some(cookie.bits())
    }

    fn has_context(
        this_cpu: &CurrentCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        context: u64,
    ) -> bool {
        this_cpu.tlb().tags().has_context(space, Cookie::from_bits(context))
    }

    fn root_state(tlb: &Tlb<'_, P, Self>, cpu: CpuId, context: u64) -> RootState {
        let Some(cpu) = tlb.cpus().get(cpu.index()) else { return RootState::NotLoaded };
        tlb.tags().root_state_of(tlb, cpu, Cookie::from_bits(context))
    }

    #[inline]
    fn is_loaded(this_cpu: &CurrentCpu<'_, P, Self>, context: u64) -> bool {
        // No epoch takes the tag away that the register names.
        let tag = Cookie::from_bits(context).tag();
        this_cpu.tag() == tag || tag == LAST_TAG && Self::may_run_any(this_cpu)
    }

    fn nmi_uaccess_okay(cpu: &Cpu<P, Self>, space: &AddressSpace<'_, P>) -> bool {
        let (root, tag) = cpu.loaded();
        // Relaxed, both: this CPU's own word; and a cookie that is out of date has another tag, or comes
        // with a root that is not named. On the way in the root is noted before the load and the tag
        // after it, so they do not fit in between. The tag of the last epoch is in no cookie.
        tag != Tag::RESERVED
            && root.table == space.root().table
            && tag == Cookie::from_bits(space.cookie.load(Ordering::Relaxed)).tag()
            && cpu.tags.active.lazy.load(Ordering::Relaxed) == 0
    }

    unsafe fn stopped(cpu: &Self::Cpu) {
        let cookie = &cpu.active.cookie;
        // Whether it has joined is no matter: it walks nothing, and its TLB is emptied before it runs any
        // space again. So it parks in the epoch that it is in, and the next turnover keeps nothing for it.
        // If it was lazy, it ends that when it first switches.
        //
        // Relaxed, all of it: whoever waits for it needs nothing of it, and the word decides whether a
        // turnover comes before or after.
        let mut now = cookie.load(Ordering::Relaxed);
        loop {
            let parked = Cookie::new(Cookie::from_bits(now).epoch(), Tag::RESERVED).bits();
            let done = cookie.compare_exchange(now, parked, Ordering::Relaxed, Ordering::Relaxed);
            match done {
                Ok(_) => break,
                Err(found) => now = found,
            }
        }
    }

    #[inline]
    fn flush_local(this_cpu: &StrategyCpu<'_, P, Self>, request: &FlushRequest<'_>) -> bool {
        if let FlushScope::AddressSpace { context, .. } = request.scope {
            let (mmu, tag) = (this_cpu.mmu(), Cookie::from_bits(context).tag());
            if tag == LAST_TAG {
                mmu.flush_all(this_cpu.errata());
            } else {
                request.ranges.flush(this_cpu.tlb().platform(), this_cpu.errata(), tag);
            }
        }
        true
    }

    fn flush_broadcast(
        this_cpu: &StrategyCpu<'_, P, Self>,
        context: u64,
        ranges: &FlushRanges,
        wait: Wait,
    ) {
        let (mmu, tag) = (this_cpu.mmu(), Cookie::from_bits(context).tag());
        if tag == LAST_TAG {
            return mmu.flush_all_broadcast(this_cpu.errata());
        }
        ranges.flush_broadcast(this_cpu.tlb().platform(), this_cpu.errata(), tag, wait);
    }

    fn retag(
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        context: u64,
    ) -> bool {
        this_cpu.tlb().tags().retag(this_cpu, space, context)
    }

    #[inline]
    fn is_pinned(space: &AddressSpace<'_, P>) -> bool {
        // Relaxed: a device walks for a space only after the pin was made known to who flushes.
        space.pins.load(Ordering::Relaxed) != 0
    }

    fn restore_root(this_cpu: &StrategyCpu<'_, P, Self>) {
        match this_cpu.tag() {
            Tag::RESERVED => this_cpu.park_register(),
            LAST_TAG => this_cpu.reload(Held::Drop, Sharing::Private),
            // No turnover takes away the tag of a register: the number is still right.
            _ => this_cpu.reload(Held::Keep, this_cpu.mmu().sharing()),
        }
    }

    fn release(
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &mut AddressSpace<'_, P>,
    ) -> Result<Released, Error> {
        this_cpu.tlb().tags().give_up(this_cpu, space)
    }
}
