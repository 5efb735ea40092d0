//! The allocator that is chosen at run time: [`GlobalAsids`] or [`PerCpuAsids`], from what the hardware has.
//!
//! The choice is made once, when the [`Tlb`] is made, and never changes. Both allocators are written for any
//! allocator that contains them, so the code that runs here is theirs; what this file adds is one comparison
//! with a byte that lies beside words of the `Tlb` which every switch reads. Each CPU has the state of both.

use core::{fmt, mem, num::NonZeroU64};

use super::{
    GlobalAsids, GlobalAsidsConfig, GlobalAsidsCpu, PerCpuAsids, PerCpuAsidsCpu,
    global::HasGlobalAsids, per_cpu::HasPerCpuAsids,
};
use crate::{
    arch::{Held, Mmu as _, Sharing, Tag, Wait},
    error::Error,
    ids::CpuId,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, FlushRequest},
    space::AddressSpace,
    tlb::{AllocatorCpu, AsidScope, Cpu, CurrentCpu, Released, RootState, Switched, Tags, Tlb},
};

/// Configuration of [`Asids`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AsidsConfig {
    /// Which allocator: if `None`, [`Self::choose`] decides.
    pub scope: Option<AsidScope>,
    /// For [`GlobalAsids`], should it be chosen.
    pub global: GlobalAsidsConfig,
}

impl AsidsConfig {
    /// Which allocator serves a machine of so many CPUs. The first rule that applies decides:
    ///
    /// 1. what [`Self::scope`] says;
    /// 2. [`GlobalAsids`] if CPUs share translations ([`Sharing::Shared`]), because a number must then mean the
    ///    same on all of them;
    /// 3. [`PerCpuAsids`] if the hardware has no tags, or fewer than [`GlobalAsids`] needs: two that no space can
    ///    have, one more than there are CPUs, and the cap on pins;
    /// 4. [`PerCpuAsids`] if flushes of user mode are left to the exit to it
    ///    ([`Properties::defers_user_flush`](crate::arch::Properties::defers_user_flush)), which [`GlobalAsids`] cannot;
    /// 5. [`PerCpuAsids`] if the hardware is better served by it
    ///    ([`Properties::prefers_per_cpu_tags`](crate::arch::Properties::prefers_per_cpu_tags)): x86-64 without `INVLPGB`;
    /// 6. [`GlobalAsids`].
    ///
    /// The choice may still be refused, by [`Tlb::new`]: there is hardware that suits neither.
    #[must_use]
    pub fn choose<P: Platform>(&self, platform: &P, cpus: usize) -> AsidScope {
        let mmu = platform.mmu();
        if let Some(scope) = self.scope {
            return scope;
        }
        if mmu.properties().sharing == Sharing::Shared {
            return AsidScope::Global;
        }
        let tags = self.global.tags_of(mmu.properties().tag_bits);
        let fits = self.global.check_tags(tags, cpus).is_ok();
        let private = mmu.properties().prefers_per_cpu_tags && !mmu.properties().broadcasts;
        if !fits || mmu.properties().defers_user_flush || private {
            return AsidScope::PerCpu;
        }
        AsidScope::Global
    }

    /// How many words of storage [`Asids`] needs on a machine of so many CPUs: none if [`PerCpuAsids`] is chosen.
    #[must_use]
    pub fn words_needed<P: Platform>(&self, platform: &P, cpus: usize) -> usize {
        match self.choose(platform, cpus) {
            AsidScope::Global => GlobalAsids::<P>::words_for(
                self.global.tags_of(platform.mmu().properties().tag_bits),
            ),
            AsidScope::PerCpu => 0,
        }
    }
}

/// The ASID allocator that kernels use unless they name another: [`GlobalAsids`] or [`PerCpuAsids`], as
/// [`AsidsConfig::choose`] decides when the [`Tlb`] is made. [`Tlb::asid_scope`] says which.
///
/// A switch costs about two instructions more than with the allocator named. [`PerCpuAsids`] has `SLOTS` slots.
#[doc(alias = "ASID allocator")]
pub struct Asids<'a, P: Platform, const SLOTS: usize = 6> {
    config: AsidsConfig,
    /// Storage for `global`, until it is chosen.
    words: &'a mut [P::Word],
    /// Without tags, unless it is chosen.
    global: GlobalAsids<'a, P>,
}

/// The state that [`Asids`] has for each CPU.
pub struct AsidsCpu<W, const SLOTS: usize> {
    global: GlobalAsidsCpu<W>,
    per_cpu: PerCpuAsidsCpu<W, SLOTS>,
}

impl<'a, P: Platform> Asids<'a, P> {
    /// How many words of storage `tags` tags need at most, on whatever hardware. No hardware has more than 2^16 tags.
    #[must_use]
    pub const fn words_for(tags: u32) -> usize {
        GlobalAsids::<P>::words_for(tags)
    }

    /// An allocator with this configuration. `words` is storage that nothing else uses: at least
    /// [`AsidsConfig::words_needed`] on the machine where it runs, and [`Self::words_for`] is enough on all. With too
    /// little of it, [`Tlb::new`] fails.
    #[must_use]
    pub const fn new(config: AsidsConfig, words: &'a mut [P::Word]) -> Self {
        Self::with_slots(config, words)
    }
}

impl<'a, P: Platform, const SLOTS: usize> Asids<'a, P, SLOTS> {
    /// As [`Asids::new`], with another number of slots.
    #[must_use]
    pub const fn with_slots(config: AsidsConfig, words: &'a mut [P::Word]) -> Self {
        Self { config, words, global: GlobalAsids::without_tags(config.global) }
    }

    /// The allocator of global tags, if that was chosen: its epoch, for example.
    #[must_use]
    pub const fn global_asids(&self) -> Option<&GlobalAsids<'a, P>> {
        if self.global.usable() == 0 { None } else { Some(&self.global) }
    }
}

impl<P: Platform, const SLOTS: usize> HasGlobalAsids<P> for Asids<'_, P, SLOTS> {
    #[inline]
    fn global(&self) -> &GlobalAsids<'_, P> {
        &self.global
    }

    #[inline]
    fn global_cpu(cpu: &Cpu<P, Self>) -> &GlobalAsidsCpu<P::Word> {
        &cpu.tags().global
    }
}

impl<P: Platform, const SLOTS: usize> HasPerCpuAsids<P, SLOTS> for Asids<'_, P, SLOTS> {
    #[inline]
    fn per_cpu(cpu: &Cpu<P, Self>) -> &PerCpuAsidsCpu<P::Word, SLOTS> {
        &cpu.tags().per_cpu
    }
}

/// Calls a method of the allocator that was chosen.
macro_rules! chosen {
    ($tlb:expr, $method:ident($($argument:expr),*)) => {
        match $tlb.choice() {
            AsidScope::Global => {
                <GlobalAsids<'_, P> as Tags<P, Self>>::$method($($argument),*)
            }
            AsidScope::PerCpu => {
                <PerCpuAsids<SLOTS> as Tags<P, Self>>::$method($($argument),*)
            }
        }
    };
}

/// Whether [`PerCpuAsids`] was chosen for hardware that prefers [`GlobalAsids`]. Then `rare` has its paths, out of line:
/// inlined, they would make every switch save registers. Always `false` where hardware prefers tags of each CPU's own.
#[inline]
fn is_rare<P: Platform, const SLOTS: usize>(
    this_cpu: &CurrentCpu<'_, P, Asids<'_, P, SLOTS>>,
) -> bool {
    !this_cpu.mmu().properties().prefers_per_cpu_tags && this_cpu.tlb.choice() == AsidScope::PerCpu
}

/// Common paths of [`PerCpuAsids`], out of line.
mod rare {
    use super::{
        AddressSpace, AllocatorCpu, FlushRequest, HasPerCpuAsids, PerCpuAsids, Platform, Switched,
        Tags, VaRange,
    };

    #[cold]
    pub(super) fn switch_in<P: Platform, T: HasPerCpuAsids<P, SLOTS>, const SLOTS: usize>(
        this_cpu: AllocatorCpu<'_, P, T>,
        next: &AddressSpace<P>,
    ) -> Switched {
        <PerCpuAsids<SLOTS> as Tags<P, T>>::switch_in(&this_cpu, next)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn flush_page<P: Platform, T: HasPerCpuAsids<P, SLOTS>, const SLOTS: usize>(
        this_cpu: AllocatorCpu<'_, P, T>,
        (context, generation): (u64, u64),
        page: VaRange,
    ) {
        <PerCpuAsids<SLOTS> as Tags<P, T>>::flush_page(&this_cpu, context, generation, page);
    }

    #[cold]
    pub(super) fn flush_local<P: Platform, T: HasPerCpuAsids<P, SLOTS>, const SLOTS: usize>(
        this_cpu: AllocatorCpu<'_, P, T>,
        request: &FlushRequest<'_>,
    ) -> bool {
        <PerCpuAsids<SLOTS> as Tags<P, T>>::flush_local(&this_cpu, request)
    }
}

// SAFETY: all that is done on one `Tlb` is done by one of two allocators, each of which is right.
unsafe impl<P: Platform, const SLOTS: usize> Tags<P> for Asids<'_, P, SLOTS> {
    type Cpu = AsidsCpu<P::Word, SLOTS>;

    #[expect(clippy::declare_interior_mutable_const, reason = "each use is to be a CPU of its own")]
    const CPU: Self::Cpu = AsidsCpu {
        global: <GlobalAsids<'_, P> as Tags<P>>::CPU,
        per_cpu: <PerCpuAsids<SLOTS> as Tags<P>>::CPU,
    };

    type Choice = AsidScope;

    fn begin(&mut self, platform: &P, cpus: &mut [Cpu<P, Self>]) -> Result<AsidScope, Error> {
        // Each allocator looks only at its own state, and an earlier `Tlb` may have chosen the other.
        let used = |cpu: &Cpu<P, Self>| cpu.tags().global.is_used() || cpu.tags().per_cpu.is_used();
        if let Some(cpu) = cpus.iter().position(used) {
            return Err(Error::UsedStorage { cpu: CpuId(cpu as u32) });
        }
        let choice = self.config.choose(platform, cpus.len());
        match choice {
            AsidScope::Global => {
                self.global =
                    GlobalAsids::new(platform, self.config.global, mem::take(&mut self.words))?;
                Tags::<P, Self>::begin(&mut self.global, platform, cpus)?;
            }
            AsidScope::PerCpu => PerCpuAsids::<SLOTS>::new().begin(platform, cpus)?,
        }
        Ok(choice)
    }

    #[inline(always)] // Out of line, `this_cpu` is in memory.
    fn switch_in(this_cpu: &AllocatorCpu<'_, P, Self>, next: &AddressSpace<P>) -> Switched {
        if is_rare(this_cpu) {
            return rare::switch_in::<P, Self, SLOTS>(this_cpu.copied(), next);
        }
        match this_cpu.tlb.choice() {
            // Out of line where both are common, so that neither needs a frame on the stack.
            AsidScope::Global if this_cpu.mmu().properties().prefers_per_cpu_tags => {
                GlobalAsids::switch_in_by_value(this_cpu.copied(), next)
            }
            AsidScope::Global => GlobalAsids::switch_in_fast(this_cpu, next),
            AsidScope::PerCpu => PerCpuAsids::<SLOTS>::switch_in(this_cpu, next),
        }
    }

    fn lazy(this_cpu: &AllocatorCpu<'_, P, Self>) {
        chosen!(this_cpu.tlb, lazy(this_cpu))
    }

    fn park(this_cpu: &AllocatorCpu<'_, P, Self>) -> Switched {
        chosen!(this_cpu.tlb, park(this_cpu))
    }

    #[inline]
    fn has_global_tags(tlb: &Tlb<'_, P, Self>) -> bool {
        chosen!(tlb, has_global_tags(tlb))
    }

    #[inline]
    fn tracks_generations(tlb: &Tlb<'_, P, Self>) -> bool {
        chosen!(tlb, tracks_generations(tlb))
    }

    fn local_generation(tlb: &Tlb<'_, P, Self>, cpu: CpuId, context: u64, lazily: bool) -> u64 {
        chosen!(tlb, local_generation(tlb, cpu, context, lazily))
    }

    fn catch_up_with(this_cpu: &AllocatorCpu<'_, P, Self>, described_by: Option<CpuId>) -> u64 {
        chosen!(this_cpu.tlb, catch_up_with(this_cpu, described_by))
    }

    fn catch_up(this_cpu: &AllocatorCpu<'_, P, Self>) -> u64 {
        chosen!(this_cpu.tlb, catch_up(this_cpu))
    }

    fn nmi_uaccess_okay(
        tlb: &Tlb<'_, P, Self>,
        cpu: &Cpu<P, Self>,
        space: &AddressSpace<P>,
    ) -> bool {
        chosen!(tlb, nmi_uaccess_okay(tlb, cpu, space))
    }

    unsafe fn stopped(tlb: &Tlb<'_, P, Self>, cpu: &Cpu<P, Self>) {
        // SAFETY: the caller promises it.
        unsafe { chosen!(tlb, stopped(tlb, cpu)) }
    }

    #[inline]
    fn context_id(tlb: &Tlb<'_, P, Self>, space: &AddressSpace<P>) -> Option<u64> {
        chosen!(tlb, context_id(tlb, space))
    }

    #[inline]
    fn loaded_context(
        this_cpu: &CurrentCpu<'_, P, Self>,
        space: &AddressSpace<P>,
    ) -> Option<NonZeroU64> {
        chosen!(this_cpu.tlb, loaded_context(this_cpu, space))
    }

    fn has_context(
        this_cpu: &CurrentCpu<'_, P, Self>,
        space: &AddressSpace<P>,
        context: u64,
    ) -> bool {
        chosen!(this_cpu.tlb, has_context(this_cpu, space, context))
    }

    fn root_state(tlb: &Tlb<'_, P, Self>, cpu: CpuId, context: u64) -> RootState {
        chosen!(tlb, root_state(tlb, cpu, context))
    }

    #[inline]
    fn is_loaded(this_cpu: &CurrentCpu<'_, P, Self>, context: u64) -> bool {
        chosen!(this_cpu.tlb, is_loaded(this_cpu, context))
    }

    #[inline(always)] // As in `GlobalAsids`.
    fn flush_local(this_cpu: &AllocatorCpu<'_, P, Self>, request: &FlushRequest<'_>) -> bool {
        if is_rare(this_cpu) {
            return rare::flush_local::<P, Self, SLOTS>(this_cpu.copied(), &{ *request });
        }
        chosen!(this_cpu.tlb, flush_local(this_cpu, request))
    }

    #[inline]
    fn mapped(this_cpu: &AllocatorCpu<'_, P, Self>, space: &AddressSpace<P>, pages: u64) {
        chosen!(this_cpu.tlb, mapped(this_cpu, space, pages));
    }

    #[inline]
    fn flush_page(
        this_cpu: &AllocatorCpu<'_, P, Self>,
        context: u64,
        generation: u64,
        page: VaRange,
    ) {
        if is_rare(this_cpu) {
            let (this_cpu, name) = (this_cpu.copied(), (context, generation));
            return rare::flush_page::<P, Self, SLOTS>(this_cpu, name, page);
        }
        chosen!(this_cpu.tlb, flush_page(this_cpu, context, generation, page));
    }

    fn flush_all_spaces(this_cpu: &AllocatorCpu<'_, P, Self>) {
        chosen!(this_cpu.tlb, flush_all_spaces(this_cpu))
    }

    fn flush_kernel(this_cpu: &AllocatorCpu<'_, P, Self>, ranges: &FlushRanges) {
        chosen!(this_cpu.tlb, flush_kernel(this_cpu, ranges))
    }

    fn flush_broadcast(
        this_cpu: &AllocatorCpu<'_, P, Self>,
        context: u64,
        ranges: &FlushRanges,
        wait: Wait,
    ) {
        chosen!(this_cpu.tlb, flush_broadcast(this_cpu, context, ranges, wait))
    }

    fn retag(this_cpu: &AllocatorCpu<'_, P, Self>, space: &AddressSpace<P>, context: u64) -> bool {
        chosen!(this_cpu.tlb, retag(this_cpu, space, context))
    }

    #[inline]
    fn is_pinned(space: &AddressSpace<P>) -> bool {
        // Nothing is pinned if tags are each CPU's own.
        <GlobalAsids<'_, P> as Tags<P>>::is_pinned(space)
    }

    fn restore_root(this_cpu: &AllocatorCpu<'_, P, Self>) {
        chosen!(this_cpu.tlb, restore_root(this_cpu))
    }

    fn user_held(this_cpu: &AllocatorCpu<'_, P, Self>) -> Held {
        chosen!(this_cpu.tlb, user_held(this_cpu))
    }

    fn cancel_exit(this_cpu: &AllocatorCpu<'_, P, Self>) {
        chosen!(this_cpu.tlb, cancel_exit(this_cpu))
    }

    fn release(this_cpu: &AllocatorCpu<'_, P, Self>, space: &AddressSpace<P>) -> Released {
        chosen!(this_cpu.tlb, release(this_cpu, space))
    }
}

impl<P: Platform, const SLOTS: usize> CurrentCpu<'_, P, Asids<'_, P, SLOTS>> {
    /// Pins the tag of `space`, as with [`GlobalAsids`]: it keeps the tag through rollovers until [`Self::unpin`] was
    /// called as often as this. While it is pinned, a device may hold translations under the tag: flushes of the space
    /// must reach the device too, for which the kernel is responsible.
    #[doc(alias = "arm64_mm_context_get")]
    ///
    /// # Errors
    ///
    /// * [`Error::Unsupported`] if tags are each CPU's own.
    /// * [`Error::PinCap`] if [`GlobalAsidsConfig::pins`] spaces are pinned.
    /// * [`Error::IdsExhausted`] in the last epoch, when spaces have no tags of their own, if the space has not been pinned
    ///   before.
    /// * [`Error::OtherTlb`] if the space is of another [`Tlb`].
    pub fn pin(&self, space: &AddressSpace<P>) -> Result<Tag, Error> {
        match self.tlb.choice() {
            AsidScope::Global => self.tlb.tags.global.pin(self, space),
            AsidScope::PerCpu => Err(Error::Unsupported("pins of tags that are one CPU's own")),
        }
    }

    /// Undoes one [`Self::pin`]. After the last one the tag lasts as long as any other; in the last epoch, until the
    /// space is released. No device that got the tag for this pin uses it any more: the implementer of
    /// [`Platform`] promises it.
    ///
    /// # Errors
    ///
    /// * [`Error::NotPinned`] if the space is not pinned.
    /// * [`Error::OtherTlb`] if the space is of another [`Tlb`].
    pub fn unpin(&self, space: &AddressSpace<P>) -> Result<(), Error> {
        match self.tlb.choice() {
            AsidScope::Global => self.tlb.tags.global.unpin(self, space),
            AsidScope::PerCpu if space.tlb != self.tlb.id => Err(Error::OtherTlb),
            AsidScope::PerCpu => Err(Error::NotPinned),
        }
    }
}

impl<P: Platform, const SLOTS: usize> fmt::Debug for Asids<'_, P, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asids")
            .field("config", &self.config)
            .field("global", &self.global)
            .field("slots", &SLOTS)
            .finish_non_exhaustive()
    }
}

impl<W: crate::platform::Word, const SLOTS: usize> fmt::Debug for AsidsCpu<W, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsidsCpu")
            .field("global", &self.global)
            .field("per_cpu", &self.per_cpu)
            .finish()
    }
}
