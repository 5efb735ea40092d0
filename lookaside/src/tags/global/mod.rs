//! Global ASIDs: a space has the same tag on all CPUs, until the tags run out and a rollover begins the
//! next epoch.
//!
//! # The state
//!
//! A space's *cookie* is its tag and the epoch in which it was given. A CPU's `active` word is the cookie
//! that its root register names, or a mark that a flush is pending: a new epoch has begun, and the CPU has
//! not *adopted* it, that is, has not flushed its TLB since. A CPU's `reserved` word is the cookie that its
//! register named at the latest rollover: that tag stays in use, and its space may keep it. The `in_use` map
//! has the tags that are taken from the beginning of the epoch.
//!
//! # The invariants
//!
//! * **E1** If a space has the cookie `(e, t)`, no other space has tag `t` in epoch `e`.
//! * **E2** A CPU that has adopted epoch `e` holds entries only under tags that epoch `e` gave to
//!   their space, or reserved for it.
//! * **E3** A tag that a root register names is not given away: it is in the CPU's `active` word,
//!   or in its `reserved` word and therefore in the map. Exception: between the write of `active` and the load
//!   of the root, the register names a tag that nothing reserves, so that a rollover may give it to another
//!   space. Where TLBs are private that is harmless: by E2 this CPU flushes its TLB when it adopts the new
//!   epoch, and runs the tag's new owner only after that. Where CPUs share entries, the register is parked
//!   before `active` is written (F-PARK).
//! * **E4** A space gets another tag only when no register names the space under its former one, not even
//!   in that moment: see `mid_switch.rs`. So a search for the CPUs that run the space's tag misses none.
//!
//! # Switch-in
//!
//! 1. Fast path: the space's cookie is of the CPU's own epoch. One compare-exchange on the CPU's `active`
//!    word, which fails if a rollover came in between, however the CPU was delayed.
//! 2. Slow path, still without the lock of [`Ticket`]: flush the TLB if the CPU has not adopted the epoch; keep
//!    the old tag if it was reserved, or take one from the CPU's `asid_cache`; write the cookie under the
//!    residency lock of the space, without which no cookie changes; then the same compare-exchange.
//! 3. Slow path, with that lock: fill the `asid_cache`, after a rollover if no tag is free, and do as in 2.
//!    Rollovers happen only under the lock, so this succeeds at the first try, and each CPU needs it once
//!    for every window of up to 64 tags.
//!
//! # The last epoch
//!
//! Epochs are numbered with 47 bits and do not wrap. The last one never ends: in it every CPU runs
//! every space under one and the same tag, privately, and drops the tag's entries at each switch.
//! That is slow and correct, and with a rollover every microsecond it is four years away.

mod asid_cache;
mod config;
mod cookie;
mod mid_switch;
mod pins;
mod release;
mod retag;
mod rollover;
mod switch_in;
#[cfg(test)]
mod tests;
mod ticket;

use core::{fmt, marker::PhantomData, num::NonZeroU64};

use self::{asid_cache::AsidCache, config::usable, pins::is_pinned, ticket::Ticket};
pub use self::{config::GlobalAsidsConfig, cookie::Cookie};
use crate::{
    arch::{FOREIGN_TAG, Held, Invalidation, KeptLoads, Mmu, Scope, Sharing, Tag, Wait},
    error::Error,
    ids::CpuId,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, FlushRequest, FlushScope},
    space::AddressSpace,
    tlb::{AllocatorCpu, Cpu, CurrentCpu, Released, RootState, Switched, Tags, Tlb},
    word::{Aligned, Ordering, Word},
};

/// The first tag that a space can have; below it are the tags of the reserved root and of foreign roots.
const FIRST_TAG: u32 = 2;

/// The tag that all spaces share in the last epoch. Foreign roots have it too: neither leaves entries
/// behind under it.
const LAST_TAG: Tag = FOREIGN_TAG;

/// The ASID allocator of Arm and RISC-V: tags that are the same on all CPUs.
#[doc(alias = "ASID allocator")]
#[doc(alias = "check_and_switch_context")]
pub struct GlobalAsids<'a, P: Platform> {
    /// The present epoch; read at switch-in, written at rollover.
    epoch: Aligned<P::Word>,
    /// How many tags there are, including those below [`FIRST_TAG`].
    tags: u32,
    config: GlobalAsidsConfig,
    /// Tags that are taken from the beginning of the epoch: bit `t` of the map. The bits of tags below
    /// [`FIRST_TAG`] are not read.
    in_use: &'a [P::Word],
    /// Tags that devices use, written under the lock.
    pinned: &'a [P::Word],
    turn: Aligned<Rollover<P::Word>>,
    platform: PhantomData<fn(&P)>,
}

/// The lock, and the words that are written only under it.
struct Rollover<W> {
    lock: Ticket<W>,
    /// The first tag that no CPU's `asid_cache` was filled with in this epoch.
    cursor: W,
    /// How many tags are pinned.
    pins: W,
    /// How many tags a CPU's `asid_cache` is filled with at a time.
    window: W,
    /// The epoch whose rollover met a CPU between the write of its `active` word and the load of the root, or 0 if there is no
    /// such CPU any more.
    mid_switch: W,
}

struct Active<W> {
    /// The cookie that the register names, or is about to name. Written by this CPU, and by the CPU that
    /// does a rollover.
    cookie: W,
    /// What keeps the CPU off the fast path: [`LAZY`], [`SHARED`], [`TWO_REGISTERS`], [`LOADS_SLOWLY`], so that a switch asks once. Written by this CPU, and before it comes up.
    mode: W,
}

/// In a CPU's `mode` word: the CPU is in lazy mode.
const LAZY: u64 = 1;
/// In a CPU's `mode` word: CPUs use each other's entries ([`Sharing::Shared`]).
const SHARED: u64 = 2;
/// In a CPU's `mode` word: [`Mmu::load_kept`] writes two registers. Alone it keeps no CPU off the fast path.
const TWO_REGISTERS: u64 = 4;
/// In a CPU's `mode` word: it has an erratum of loads, or its hardware cannot be loaded by [`Mmu::load_kept`].
const LOADS_SLOWLY: u64 = 8;

/// The `mode` of a CPU that is not lazy.
fn mode_of<P: Platform, T: HasGlobalAsids<P>>(this_cpu: &AllocatorCpu<'_, P, T>) -> u64 {
    let shared = this_cpu.mmu().properties().sharing == Sharing::Shared;
    let loads = match this_cpu.kept_loads() {
        KeptLoads::OneWrite => 0,
        KeptLoads::TwoRegisters => TWO_REGISTERS,
        KeptLoads::None => LOADS_SLOWLY,
    };
    loads | if shared { SHARED } else { 0 }
}

/// The state that [`GlobalAsids`] has for each CPU.
pub struct GlobalAsidsCpu<W> {
    active: Aligned<Active<W>>,
    asid_cache: AsidCache<W>,
    /// Where a CPU waits for the lock ([`Ticket`]): whichever has the ticket.
    grant: W,
    /// The cookie that the register named at the latest rollover. Written by the CPU that does the
    /// rollover, read by all CPUs: so it has a cache line of its own.
    reserved: Aligned<W>,
}

impl<W: Word> GlobalAsidsCpu<W> {
    /// Whether a CPU of a [`Tlb`] has this state, or had it.
    pub(super) fn is_used(&self) -> bool {
        self.active.cookie.load(Ordering::Relaxed) != 0 // Relaxed: no CPU knows the word yet.
    }
}

/// An allocator that is [`GlobalAsids`], or may turn out to be.
pub trait HasGlobalAsids<P: Platform>: Tags<P> {
    /// The allocator.
    fn global(&self) -> &GlobalAsids<'_, P>;

    /// What it keeps for a CPU.
    fn global_cpu(cpu: &Cpu<P, Self>) -> &GlobalAsidsCpu<P::Word>;
}

impl<P: Platform> HasGlobalAsids<P> for GlobalAsids<'_, P> {
    #[inline]
    fn global(&self) -> &GlobalAsids<'_, P> {
        self
    }

    #[inline]
    fn global_cpu(cpu: &Cpu<P, Self>) -> &GlobalAsidsCpu<P::Word> {
        &cpu.tags
    }
}

impl<'a, P: Platform> GlobalAsids<'a, P> {
    /// How many words of storage `tags` tags need.
    #[must_use]
    pub const fn words_for(tags: u32) -> usize {
        2 * (tags as usize).div_ceil(64)
    }

    /// An allocator of as many tags as `config` and the hardware of `platform` allow. `words` is storage
    /// that nothing else uses.
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
        let bits = platform.mmu().properties().tag_bits;
        if bits == 0 {
            return Err(Error::Unsupported("tags"));
        }
        let config = GlobalAsidsConfig {
            last_epoch: config.last_epoch.clamp(1, Cookie::LAST_EPOCH),
            ..config
        };
        let tags = config.tags_of(bits);
        let needed = Self::words_for(tags);
        if words.len() < needed {
            return Err(Error::Storage { needed, given: words.len() });
        }
        let (in_use, pinned) = words[..needed].split_at(needed / 2);
        Ok(Self { tags, in_use, pinned, ..Self::without_tags(config) })
    }

    /// An allocator that serves no machine.
    pub(super) const fn without_tags(config: GlobalAsidsConfig) -> Self {
        Self {
            epoch: Aligned(P::Word::ZERO),
            tags: 0,
            config,
            in_use: &[],
            pinned: &[],
            turn: Aligned(Rollover {
                lock: Ticket::NEW,
                cursor: P::Word::ZERO,
                pins: P::Word::ZERO,
                window: P::Word::ZERO,
                mid_switch: P::Word::ZERO,
            }),
            platform: PhantomData,
        }
    }

    /// The present epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed) // Relaxed: a snapshot for people.
    }

    /// How many tags spaces can have, pinned ones included.
    #[must_use]
    pub const fn usable(&self) -> u32 {
        usable(self.tags)
    }

    /// In the last epoch: whether this CPU, which still runs under a tag of an earlier epoch, may run any
    /// of the spaces whose context id has the shared tag.
    #[cold]
    fn may_run_any<T: HasGlobalAsids<P>>(this_cpu: &CurrentCpu<'_, P, T>) -> bool {
        // Relaxed: no rollover comes after the last epoch.
        let active = T::global_cpu(this_cpu.cpu).active.cookie.load(Ordering::Relaxed);
        !Cookie(active).adopted()
    }
}

// SAFETY: see the invariants above.
unsafe impl<P: Platform, T: HasGlobalAsids<P>> Tags<P, T> for GlobalAsids<'_, P> {
    type Cpu = GlobalAsidsCpu<P::Word>;

    const CPU: Self::Cpu = GlobalAsidsCpu {
        active: Aligned(Active { cookie: P::Word::ZERO, mode: P::Word::ZERO }),
        asid_cache: AsidCache::NEW,
        grant: P::Word::ZERO,
        reserved: Aligned(P::Word::ZERO),
    };

    type Choice = ();

    fn begin(&mut self, platform: &P, cpus: &mut [Cpu<P, T>]) -> Result<(), Error> {
        // The allocator may have been made for other hardware.
        let tags = 1 << platform.mmu().properties().tag_bits.min(16);
        if self.tags > tags {
            return Err(Error::TagOutOfRange { tag: self.tags - 1, tags });
        }
        self.config.check_tags(self.tags, cpus.len())?;
        if platform.mmu().properties().sharing == Sharing::Shared
            && !platform.mmu().properties().broadcasts
        {
            return Err(Error::Unsupported("shared translations without broadcast invalidation"));
        }
        if platform.mmu().properties().defers_user_flush {
            return Err(Error::Unsupported("flushes at the exit to user mode with global ASIDs"));
        }
        if let Some(cpu) = cpus.iter().position(|cpu| T::global_cpu(cpu).is_used()) {
            return Err(Error::UsedStorage { cpu: CpuId(cpu as u32) });
        }
        // Relaxed, all of them: no CPU knows these words yet.
        for word in self.in_use.iter().chain(self.pinned) {
            word.store(0, Ordering::Relaxed);
        }
        self.turn.cursor.store(u64::from(FIRST_TAG), Ordering::Relaxed);
        // At a rollover at most an eighth of the tags lies unused in the CPUs' `asid_cache`s.
        let window = u64::from(self.usable() / (8 * cpus.len() as u32)).clamp(1, 64);
        self.turn.window.store(window, Ordering::Relaxed);
        self.epoch.store(1, Ordering::Relaxed);
        for cpu in cpus {
            let active = &T::global_cpu(cpu).active.cookie;
            active.store(Cookie::flush_pending(1).bits(), Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(always)] // As `switch_in_fast`.
    fn switch_in(this_cpu: &AllocatorCpu<'_, P, T>, next: &AddressSpace<P>) -> Switched {
        Self::switch_in_fast(this_cpu, next)
    }

    fn lazy(this_cpu: &AllocatorCpu<'_, P, T>) {
        this_cpu.mmu().settle();
        // The register still names the space, and so does `active`: the tag stays in use.
        //
        // ORDER O-LAZY-READ (pairs with O-SEES): an initiator that skips this CPU because it is lazy sees
        // all that its user code did before, on x86 its non-temporal stores too: a locked instruction waits for them.
        T::global_cpu(this_cpu.cpu).active.mode.fetch_or(LAZY, Ordering::Release);
    }

    fn park(this_cpu: &AllocatorCpu<'_, P, T>) -> Switched {
        this_cpu.mmu().settle();
        let cpu = T::global_cpu(this_cpu.cpu);
        // Relaxed: this CPU's own word. After a rollover in between a flush is pending, which is right too.
        let active = Cookie(cpu.active.cookie.load(Ordering::Relaxed));
        let parked = active.adopted() && active.tag() == Tag::RESERVED;
        if !parked {
            // The tag may be given away once the register no longer names it, not before.
            this_cpu.park_register();
        }
        // For a CPU that comes up, too: its errata are known now.
        //
        // Relaxed: this CPU's own word, and the register names no space.
        cpu.active.mode.store(mode_of(this_cpu), Ordering::Relaxed);
        if parked {
            return Switched::Unchanged;
        }
        let tags = this_cpu.tlb.tags.global();
        let parked = Cookie::new(active.epoch(), Tag::RESERVED);
        if !active.adopted() || !Self::adopt_epoch(this_cpu, active, parked) {
            tags.adopt_parked(this_cpu);
        }
        Switched::Kept
    }

    #[inline]
    fn has_global_tags(_: &Tlb<'_, P, T>) -> bool {
        true
    }

    #[inline]
    fn tracks_generations(_: &Tlb<'_, P, T>) -> bool {
        false
    }

    fn local_generation(_: &Tlb<'_, P, T>, _: CpuId, _: u64, _: bool) -> u64 {
        u64::MAX
    }

    #[inline]
    fn catch_up_with(this_cpu: &AllocatorCpu<'_, P, T>, _: Option<CpuId>) -> u64 {
        let (context, range) = this_cpu.cpu.queue.posted.pending_ipi.inline_range();
        let scope = FlushScope::AddressSpace { context, first: 0, last: 0 };
        let request = FlushRequest { scope, ranges: &FlushRanges::of(range), early: false };
        Self::flush_local(this_cpu, &request).into()
    }

    fn catch_up(this_cpu: &AllocatorCpu<'_, P, T>) -> u64 {
        // An initiator has stopped before it wrote its range. Nobody waits for this.
        Self::flush_all_spaces(this_cpu);
        1
    }

    #[inline]
    fn context_id(tlb: &Tlb<'_, P, T>, space: &AddressSpace<P>) -> Option<u64> {
        let last = tlb.tags.global().config.last_epoch;
        // The caller's barrier comes before it. A CPU that switches in by a cookie or an epoch that is not yet
        // visible here walks the tables as they are now.
        //
        // ORDER O-LAST (pairs with O-PUBLISH): if this is the last epoch, a CPU that runs the space under a tag
        // of the epoch before is seen to be met by the rollover, and not under that tag.
        if tlb.tags.global().epoch.load(Ordering::Acquire) == last && !is_pinned(space) {
            return Some(Cookie::new(last, LAST_TAG).bits());
        }
        // As O-FRESH: with the cookie come the flags about former tags.
        let cookie = Cookie(space.cookie.load(Ordering::Acquire));
        (cookie != Cookie::NONE).then_some(cookie.bits())
    }

    #[inline]
    fn loaded_context(
        this_cpu: &CurrentCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> Option<NonZeroU64> {
        // No cookie has the tag of the last epoch. There the register may name the space under the tag of the epoch before, as long
        // as this CPU has not switched since; those that run it under the last tag are residents as ever, since nobody becomes
        // absent with a cookie any more. If the cookie is of an older epoch, the tag may be another space's by now: then this
        // CPU holds nothing of this one.
        let cookie = Cookie(space.cookie.load(Ordering::Acquire)); // As O-FRESH.
        if this_cpu.cpu.names(cookie.tag()) { NonZeroU64::new(cookie.bits()) } else { None }
    }

    fn has_context(this_cpu: &CurrentCpu<'_, P, T>, space: &AddressSpace<P>, context: u64) -> bool {
        this_cpu.tlb.tags.global().has_context(space, Cookie(context))
    }

    fn root_state(tlb: &Tlb<'_, P, T>, cpu: CpuId, context: u64) -> RootState {
        let Some(cpu) = tlb.cpus.get(cpu.index()) else { return RootState::NotLoaded };
        tlb.tags.global().root_state_of(tlb, cpu, Cookie(context))
    }

    #[inline]
    fn is_loaded(this_cpu: &CurrentCpu<'_, P, T>, context: u64) -> bool {
        // No rollover gives the tag away that the register names.
        let tag = Cookie(context).tag();
        this_cpu.cpu.names(tag) || tag == LAST_TAG && Self::may_run_any(this_cpu)
    }

    fn nmi_uaccess_okay(_: &Tlb<'_, P, T>, cpu: &Cpu<P, T>, space: &AddressSpace<P>) -> bool {
        let (root, tag) = cpu.loaded();
        // Relaxed, both: this CPU's own word; and a cookie that is out of date has another tag, or its root
        // is not the loaded one. At switch-in the root is recorded before the load and the tag after it, so
        // they do not match in between. The shared tag of the last epoch is in no cookie.
        tag != Tag::RESERVED
            && root.table == space.root_on(cpu.id).table
            && tag == Cookie(space.cookie.load(Ordering::Relaxed)).tag()
            && T::global_cpu(cpu).active.mode.load(Ordering::Relaxed) & LAZY == 0
    }

    unsafe fn stopped(_: &Tlb<'_, P, T>, cpu: &Cpu<P, T>) {
        let cookie = &T::global_cpu(cpu).active.cookie;
        // Whether it has adopted the epoch does not matter: it walks nothing, and its TLB is flushed before
        // it runs any space again. So it is parked in the epoch of its word, and the next rollover reserves
        // nothing for it. If it was lazy, its first switch-in ends that.
        //
        // Relaxed, all of it: a CPU that waits for it reads nothing that it wrote, and the word decides
        // whether a rollover comes before or after.
        let mut now = cookie.load(Ordering::Relaxed);
        loop {
            let parked = Cookie::new(Cookie(now).epoch(), Tag::RESERVED).bits();
            let done = cookie.compare_exchange(now, parked, Ordering::Relaxed, Ordering::Relaxed);
            match done {
                Ok(_) => break,
                Err(found) => now = found,
            }
        }
    }

    #[inline(always)] // Out of line, each caller writes the request to memory.
    fn flush_local(this_cpu: &AllocatorCpu<'_, P, T>, request: &FlushRequest<'_>) -> bool {
        if let FlushScope::AddressSpace { context, .. } = request.scope {
            let (mmu, tag) = (this_cpu.mmu(), Cookie(context).tag());
            if tag == LAST_TAG {
                mmu.flush(this_cpu.errata(), Invalidation::All, Scope::Local);
            } else {
                this_cpu.flush_ranges(tag, request.ranges, None);
            }
        }
        true
    }

    #[inline]
    fn flush_page(this_cpu: &AllocatorCpu<'_, P, T>, context: u64, _: u64, page: VaRange) {
        this_cpu.invalidate_page(Cookie(context).tag(), page);
    }

    fn flush_all_spaces(this_cpu: &AllocatorCpu<'_, P, T>) {
        this_cpu.mmu().flush(this_cpu.errata(), Invalidation::All, Scope::Local);
    }

    fn flush_broadcast(
        this_cpu: &AllocatorCpu<'_, P, T>,
        context: u64,
        ranges: &FlushRanges,
        wait: Wait,
    ) {
        let (mmu, tag) = (this_cpu.mmu(), Cookie(context).tag());
        if tag == LAST_TAG {
            return mmu.flush(this_cpu.errata(), Invalidation::All, Scope::Broadcast);
        }
        ranges.flush_broadcast(&this_cpu.tlb.platform, this_cpu.errata(), tag, wait);
    }

    fn retag(this_cpu: &AllocatorCpu<'_, P, T>, space: &AddressSpace<P>, context: u64) -> bool {
        this_cpu.tlb.tags.global().retag(this_cpu, space, context)
    }

    #[inline]
    fn is_pinned(space: &AddressSpace<P>) -> bool {
        // Relaxed: a device walks for a space only after the pin is visible to the CPUs that flush.
        space.pins.load(Ordering::Relaxed) != 0
    }

    fn restore_root(this_cpu: &AllocatorCpu<'_, P, T>) {
        match this_cpu.tag() {
            Tag::RESERVED => this_cpu.park_register(),
            LAST_TAG => this_cpu.reload(Held::Drop, Sharing::Private),
            // No rollover gives away the tag that a register names: the number is still right.
            _ => this_cpu.reload(Held::Keep, this_cpu.mmu().properties().sharing),
        }
    }

    fn user_held(_: &AllocatorCpu<'_, P, T>) -> Held {
        Held::Keep // `begin` refuses hardware that defers flushes.
    }

    fn release(this_cpu: &AllocatorCpu<'_, P, T>, space: &AddressSpace<P>) -> Released {
        this_cpu.tlb.tags.global().release_asid(this_cpu, space)
    }
}

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
        let cookie = |word: &W| Cookie(word.load(Ordering::Relaxed));
        f.debug_struct("GlobalAsidsCpu")
            .field("active", &cookie(&self.active.cookie))
            .field("reserved", &cookie(&self.reserved))
            .finish_non_exhaustive()
    }
}
