//! Per-CPU ASIDs: each CPU has a few slots for the spaces that it ran last, each with the generation up to
//! which the CPU has flushed.
//!
//! # The state
//!
//! A slot holds the identifier of a space, which is never given twice, and the generation up to which
//! this CPU has flushed that space. The tag follows from the slot's number. A space's *generation* counts
//! how often translations of it were revoked.
//!
//! A CPU's `active` word says which space its root register names, whether a switch to it is under way, and
//! whether the CPU is lazy in it. Initiators of flushes read it.
//!
//! # The invariants
//!
//! * **R1** Under the tag of slot `k` this CPU holds entries only of the space whose identifier is in
//!   slot `k`, and none that was revoked up to the generation there. A CPU may flush more than it records;
//!   it records only what it has flushed. An empty slot says nothing of what is held under its tag, which the next load drops.
//! * **R2** An initiator that does not find this CPU running the space has raised the generation before this
//!   CPU reads it.
//!
//! # Without tags
//!
//! On hardware without tags, or with tags switched off, every load is under tag 0 and drops all entries of
//! the CPU. Then no search of the slots finds a space; but the generation up to which the CPU has flushed is
//! recorded, because a CPU needs it when it ends lazy mode.

mod catch_up;
mod kernel;
mod replacement;
mod slots;
mod switch_in;

use core::{fmt, marker::PhantomData, num::NonZeroU64};

pub use self::replacement::{Replacement, RoundRobin};
use self::{
    catch_up::CatchUp,
    slots::{Slots, tag_of},
};
use crate::{
    arch::{FOREIGN_TAG, Held, Invalidation, Mmu, Scope, Sharing, TableChange, Tag, Wait},
    error::Error,
    ids::CpuId,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, FlushRequest, FlushScope, Mapped},
    space::AddressSpace,
    tlb::{AllocatorCpu, Cpu, CurrentCpu, Released, RootState, Switched, Tags, Tlb},
    word::{Aligned, Ordering, Word},
};

/// A switch is under way: the register names the former space or the next.
const SWITCHING: u64 = 1;
/// The register names the space, but no user code runs.
const LAZY: u64 = 2;

/// In a slot: the generation there is true, but no entries are kept under its tag, so searches must not
/// find it.
const DROPPED: u64 = 1;

/// What an empty slot holds. Identifiers begin with 1.
const EMPTY_SLOT: u64 = 0;

/// `active` of a CPU that runs the space with this identifier.
const fn running(id: u64) -> u64 {
    id << 2
}

const fn id_of(active: u64) -> u64 {
    active >> 2
}

/// The ASID allocator of x86: a few slots for each CPU. With six of them the CPU's slots fill two
/// cache lines.
#[doc(alias = "PCID")]
#[doc(alias = "choose_new_asid")]
pub struct PerCpuAsids<const SLOTS: usize = 6, R = RoundRobin> {
    replacement: PhantomData<fn() -> R>,
}

/// The state that [`PerCpuAsids`] has for each CPU.
#[repr(C, align(128))]
pub struct PerCpuAsidsCpu<W, const SLOTS: usize> {
    /// Which space the register names; read by initiators.
    active: W,
    /// The rest of that cache line: what follows is written often, and nobody else reads it.
    _line: [u64; 7],
    /// What this CPU has mapped in the space of each slot since the tag was last empty.
    mapped: [Mapped; SLOTS],
    /// Whether revoked entries of kernel addresses may be left under [`Tag::RESERVED`], so that the next park drops them.
    /// Private to the CPU.
    reserved_is_stale: W,
    slots: Aligned<Slots<W, SLOTS>>,
}

impl<const SLOTS: usize, R: Replacement> PerCpuAsids<SLOTS, R> {
    /// `SLOTS` slots for each CPU, reused as `R` says.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(SLOTS > 0 && SLOTS <= 64, "1 to 64 slots") }
        Self { replacement: PhantomData }
    }
}

impl<const SLOTS: usize, R: Replacement> Default for PerCpuAsids<SLOTS, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Word, const SLOTS: usize> PerCpuAsidsCpu<W, SLOTS> {
    /// Whether a CPU of a [`Tlb`] has this state, or had it.
    pub(super) fn is_used(&self) -> bool {
        // Relaxed: no CPU knows the word yet.
        self.slots.hold_any() || self.active.load(Ordering::Relaxed) != 0
    }
}

/// An allocator that is [`PerCpuAsids`], or may turn out to be.
pub trait HasPerCpuAsids<P: Platform, const SLOTS: usize>: Tags<P> {
    /// What it keeps for a CPU.
    fn per_cpu(cpu: &Cpu<P, Self>) -> &PerCpuAsidsCpu<P::Word, SLOTS>;
}

impl<P: Platform, const SLOTS: usize, R: Replacement> HasPerCpuAsids<P, SLOTS>
    for PerCpuAsids<SLOTS, R>
{
    #[inline]
    fn per_cpu(cpu: &Cpu<P, Self>) -> &PerCpuAsidsCpu<P::Word, SLOTS> {
        &cpu.tags
    }
}

// SAFETY: see the invariants above.
unsafe impl<P: Platform, const SLOTS: usize, R: Replacement, T: HasPerCpuAsids<P, SLOTS>> Tags<P, T>
    for PerCpuAsids<SLOTS, R>
{
    type Cpu = PerCpuAsidsCpu<P::Word, SLOTS>;

    #[expect(clippy::declare_interior_mutable_const, reason = "each use is to be a CPU of its own")]
    const CPU: Self::Cpu = PerCpuAsidsCpu {
        active: P::Word::ZERO,
        _line: [0; 7],
        mapped: [const { Mapped::new() }; SLOTS],
        reserved_is_stale: P::Word::ZERO,
        slots: Aligned(Slots::EMPTY),
    };

    type Choice = ();

    fn begin(&mut self, platform: &P, cpus: &mut [Cpu<P, T>]) -> Result<(), Error> {
        if let Some(cpu) = cpus.iter().position(|cpu| T::per_cpu(cpu).is_used()) {
            return Err(Error::UsedStorage { cpu: CpuId(cpu as u32) });
        }
        let bits = platform.mmu().properties().tag_bits;
        let needed = SLOTS as u32 + u32::from(FOREIGN_TAG.0) + 1;
        if bits != 0 && 1 << bits < needed {
            return Err(Error::TooFewTags { usable: 1 << bits, needed });
        }
        if platform.mmu().properties().sharing == Sharing::Shared {
            return Err(Error::Unsupported("numbers of one CPU's own on CPUs that share entries"));
        }
        Ok(())
    }

    #[inline(always)] // Out of line, `this_cpu` is in memory.
    fn switch_in(this_cpu: &AllocatorCpu<'_, P, T>, next: &AddressSpace<P>) -> Switched {
        debug_assert!(this_cpu.register_is_ours(), "the root register was written by others");
        let mmu = this_cpu.mmu();
        mmu.settle();
        let cpu = T::per_cpu(this_cpu.cpu);
        // Relaxed: this CPU's own word.
        let active = cpu.active.load(Ordering::Relaxed);
        let who = running(next.id());
        if active & !LAZY == who {
            return Self::switch_in_again(this_cpu, next, active);
        }
        // FENCE F-SWITCH (pairs with F-GENERATION): this CPU is seen to be switching before it reads the
        // generation. An initiator either sends it an IPI, or has raised the generation that is read here.
        cpu.active.swap(who | SWITCHING, Ordering::SeqCst);
        if this_cpu.is_present(next) {
            Self::switch_in_present(this_cpu, next, who)
        } else {
            Self::switch_in_absent(this_cpu.copied(), next)
        }
    }

    fn lazy(this_cpu: &AllocatorCpu<'_, P, T>) {
        this_cpu.mmu().settle();
        let active = &T::per_cpu(this_cpu.cpu).active;
        let now = active.load(Ordering::Relaxed); // Relaxed: this CPU's own word.
        if now != 0 {
            // ORDER O-LAZY (pairs with O-ACTIVE-READ, O-CAUGHT-UP-READ): an initiator that skips this CPU
            // because it is lazy sees all that its user code did before. A swap and not a store: on x86 a store may
            // overtake the non-temporal ones of user mode, and a locked instruction waits for them (SDM vol. 3, "Buffering
            // of Write Combining Memory Locations").
            active.swap(now | LAZY, Ordering::Release);
        }
    }

    fn park(this_cpu: &AllocatorCpu<'_, P, T>) -> Switched {
        this_cpu.mmu().settle();
        let active = &T::per_cpu(this_cpu.cpu).active;
        // Relaxed: this CPU's own word.
        if active.load(Ordering::Relaxed) == 0 {
            return Switched::Unchanged;
        }
        Self::park_register(this_cpu);
        // ORDER O-PARKED (pairs with O-ACTIVE-READ, O-CAUGHT-UP-READ): as O-SWITCHED.
        active.store(0, Ordering::Release);
        Switched::Kept
    }

    #[inline]
    fn has_global_tags(_: &Tlb<'_, P, T>) -> bool {
        false
    }

    #[inline]
    fn tracks_generations(_: &Tlb<'_, P, T>) -> bool {
        true
    }

    #[inline]
    fn context_id(_: &Tlb<'_, P, T>, space: &AddressSpace<P>) -> Option<u64> {
        Some(space.id())
    }

    #[inline]
    fn loaded_context(
        this_cpu: &CurrentCpu<'_, P, T>,
        space: &AddressSpace<P>,
    ) -> Option<NonZeroU64> {
        if Self::is_loaded(this_cpu, space.id()) { NonZeroU64::new(space.id()) } else { None }
    }

    fn has_context(_: &CurrentCpu<'_, P, T>, _: &AddressSpace<P>, _: u64) -> bool {
        true
    }

    fn root_state(tlb: &Tlb<'_, P, T>, cpu: CpuId, context: u64) -> RootState {
        let Some(cpu) = tlb.cpus.get(cpu.index()) else { return RootState::NotLoaded };
        // ORDER O-ACTIVE-READ (pairs with O-SWITCHED, O-LAZY, O-PARKED): and after F-GENERATION.
        let active = T::per_cpu(cpu).active.load(Ordering::SeqCst);
        if active == running(context) || active & SWITCHING != 0 {
            RootState::Loaded
        } else if id_of(active) != context {
            RootState::NotLoaded
        } else if active & LAZY != 0 {
            RootState::Lazy
        } else {
            RootState::Loaded
        }
    }

    #[inline]
    fn is_loaded(this_cpu: &CurrentCpu<'_, P, T>, context: u64) -> bool {
        // Relaxed: this CPU's own word.
        id_of(T::per_cpu(this_cpu.cpu).active.load(Ordering::Relaxed)) == context
    }

    #[inline(always)] // Out of line, each caller writes the request to memory.
    fn flush_local(this_cpu: &AllocatorCpu<'_, P, T>, request: &FlushRequest<'_>) -> bool {
        let FlushScope::AddressSpace { context, first, last } = request.scope else { return false };
        let slots = &*T::per_cpu(this_cpu.cpu).slots;
        // Relaxed: this CPU's own word.
        let (slot, tag) =
            if id_of(T::per_cpu(this_cpu.cpu).active.load(Ordering::Relaxed)) == context {
                (slots.current(), this_cpu.cpu.tag())
            } else if request.ranges.change() == TableChange::FreedTables
                && this_cpu.mmu().properties().walks_outlive_tags
            {
                match slots.holding(running(context)) {
                    Some(slot) => (slot, tag_of(slot)),
                    None => return false,
                }
            } else {
                return false;
            };
        Self::flush_generations(this_cpu, (slot, tag), (first, last), |mapped| {
            this_cpu.flush_ranges(tag, request.ranges, Some(mapped));
        })
    }

    #[inline]
    fn flush_page(this_cpu: &AllocatorCpu<'_, P, T>, _: u64, generation: u64, page: VaRange) {
        let (slot, tag) = (T::per_cpu(this_cpu.cpu).slots.current(), this_cpu.cpu.tag());
        Self::flush_generations(this_cpu, (slot, tag), (generation, generation), |_| {
            this_cpu.invalidate_page(tag, page);
        });
    }

    fn local_generation(tlb: &Tlb<'_, P, T>, cpu: CpuId, context: u64, lazily: bool) -> u64 {
        let Some(cpu) = tlb.cpus().get(cpu.index()) else { return u64::MAX };
        T::per_cpu(cpu).local_generation(context, lazily)
    }

    #[inline]
    fn catch_up_with(this_cpu: &AllocatorCpu<'_, P, T>, described_by: Option<CpuId>) -> u64 {
        match (CatchUp::unless_lazy(this_cpu), described_by) {
            (Err(done), _) => done,
            (Ok(missed), None) => missed.flush_inline_page(this_cpu),
            (Ok(missed), Some(initiator)) => missed.flush_request(this_cpu.copied(), initiator),
        }
    }

    fn catch_up(this_cpu: &AllocatorCpu<'_, P, T>) -> u64 {
        match CatchUp::unless_lazy(this_cpu) {
            Err(done) => done,
            // SAFETY: the register names a space.
            Ok(missed) => missed.flush_missed(this_cpu, None, unsafe {
                T::per_cpu(this_cpu.cpu).slots.current_generation()
            }),
        }
    }

    #[inline]
    fn mapped(this_cpu: &AllocatorCpu<'_, P, T>, space: &AddressSpace<P>, pages: u64) {
        let cpu = T::per_cpu(this_cpu.cpu);
        // Relaxed: this CPU's own word.
        if id_of(cpu.active.load(Ordering::Relaxed)) == space.id() {
            cpu.mapped[cpu.slots.current()].add(pages);
        }
    }

    fn flush_all_spaces(this_cpu: &AllocatorCpu<'_, P, T>) {
        let missed = CatchUp::of(this_cpu);
        // Read before the flush, which does not cover what is revoked later.
        //
        // SAFETY: the register names a space if `missed` is not `None`.
        let now =
            missed.map_or(0, |_| unsafe { T::per_cpu(this_cpu.cpu).slots.current_generation() });
        // These stores come after the load of `now`, which acquires, and the flush after the stores: a barrier for loads
        // alone would order the load before no invalidation.
        T::per_cpu(this_cpu.cpu).mapped.iter().for_each(|mapped| mapped.set(0));
        this_cpu.mmu().flush(this_cpu.errata(), Invalidation::All, Scope::Local);
        if let Some(missed) = missed {
            missed.note_flushed(this_cpu, now);
        }
    }

    fn flush_kernel(this_cpu: &AllocatorCpu<'_, P, T>, ranges: &FlushRanges) {
        Self::flush_kernel_addresses(this_cpu, ranges);
    }

    fn nmi_uaccess_okay(_: &Tlb<'_, P, T>, cpu: &Cpu<P, T>, space: &AddressSpace<P>) -> bool {
        let slots = &*T::per_cpu(cpu).slots;
        // Relaxed: this CPU's own word. It is neither switching nor lazy.
        T::per_cpu(cpu).active.load(Ordering::Relaxed) == running(space.id())
            // As F-UNLAZY-RESUME: a CPU that has just ended lazy mode has not flushed yet.
            && slots.flushed_up_to(slots.current()) >= space.generation.load(Ordering::SeqCst)
    }

    unsafe fn stopped(_: &Tlb<'_, P, T>, cpu: &Cpu<P, T>) {
        // Relaxed: a CPU that waits for it reads nothing that it wrote.
        T::per_cpu(cpu).active.store(0, Ordering::Relaxed);
    }

    fn flush_broadcast(_: &AllocatorCpu<'_, P, T>, _: u64, _: &FlushRanges, _: Wait) {
        unreachable!("a tag is one CPU's own");
    }

    fn retag(_: &AllocatorCpu<'_, P, T>, _: &AddressSpace<P>, _: u64) -> bool {
        false
    }

    #[inline]
    fn is_pinned(_: &AddressSpace<P>) -> bool {
        false
    }

    fn restore_root(this_cpu: &AllocatorCpu<'_, P, T>) {
        // Relaxed: this CPU's own word. It named the space all the while, so that initiators went on
        // sending requests to this CPU: it has missed no flush without a request. One of them may have
        // parked it.
        if T::per_cpu(this_cpu.cpu).active.load(Ordering::Relaxed) == 0 {
            return Self::park_register(this_cpu);
        }
        // Without tags the foreign root had the same one.
        let held = if this_cpu.tag() == Tag::RESERVED { Held::Drop } else { Held::Keep };
        this_cpu.reload(held, Sharing::Private);
    }

    fn user_held(this_cpu: &AllocatorCpu<'_, P, T>) -> Held {
        T::per_cpu(this_cpu.cpu).slots.take_user_flush()
    }

    fn cancel_exit(this_cpu: &AllocatorCpu<'_, P, T>) {
        let slots = &T::per_cpu(this_cpu.cpu).slots;
        slots.user_needs_flush(slots.current()); // Also if none was pending: it costs one flush.
    }

    fn release(_: &AllocatorCpu<'_, P, T>, space: &AddressSpace<P>) -> Released {
        // A slot keeps the identifier until it is reused, and no other space gets it. A CPU that switches to
        // this space again flushes.
        let _ = space.bump_generation();
        Released::Later
    }
}

impl<const SLOTS: usize, R> fmt::Debug for PerCpuAsids<SLOTS, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpuAsids").field("slots", &SLOTS).finish_non_exhaustive()
    }
}

impl<W: Word, const SLOTS: usize> fmt::Debug for PerCpuAsidsCpu<W, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a snapshot for people.
        let read = |word: &W| word.load(Ordering::Relaxed);
        f.debug_struct("PerCpuAsidsCpu")
            .field("active", &read(&self.active))
            .field("slots", &self.slots.id.each_ref().map(read))
            .field("flushed_up_to", &self.slots.flushed_up_to.each_ref().map(read))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
