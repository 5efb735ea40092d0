//! The interface between the library and an ASID allocator.

use core::num::NonZeroU64;

use super::{AllocatorCpu, CurrentCpu, Tlb};
use crate::{
    arch::{Held, Wait},
    error::Error,
    ids::CpuId,
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, FlushRequest},
    space::AddressSpace,
};

/// What a switch had to do, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)] // What the C interface returns.
#[must_use = "a changed root may need branch-predictor hardening, which is the kernel's"]
pub enum Switched {
    /// The root register named the space already; nothing was written.
    Unchanged,
    /// The root register named the space already; a flush that this CPU had missed was done.
    CaughtUp,
    /// This CPU had a tag for the space, and the root was loaded. The space's translations were kept, unless the CPU had missed a
    /// flush under [`crate::GlobalAsids`].
    Kept,
    /// This CPU had a tag of its own for the space ([`crate::PerCpuAsids`]) but had missed a flush: the flush was done and the
    /// root loaded.
    Flushed,
    /// The space got a tag that this CPU may not have seen, and the root was loaded.
    Fresh,
    /// As [`Self::Fresh`], and this CPU did a rollover to get the tag.
    RolledOver,
}

impl Switched {
    /// Whether the root register changed, so that what the branch predictor learned belongs to
    /// another space.
    #[must_use]
    pub const fn root_changed(self) -> bool {
        !matches!(self, Self::Unchanged | Self::CaughtUp)
    }
}

/// When a released tag can be given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// At once: its translations are gone from every CPU.
    AtOnce,
    /// At the next rollover, or when a CPU needs its slot.
    Later,
}

/// Whether a root register names a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootState {
    /// It does not.
    NotLoaded,
    /// It does, but the CPU runs no user code before it has ended lazy mode and flushed what it missed.
    Lazy,
    /// It does, or may do so.
    Loaded,
}

/// Where a tag names one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsidScope {
    /// On all CPUs: [`crate::GlobalAsids`].
    Global,
    /// On one CPU, which numbers the spaces that it runs: [`crate::PerCpuAsids`].
    PerCpu,
}

/// `global` and `per-cpu`, as a kernel's command line may name them.
impl core::str::FromStr for AsidScope {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "global" => Ok(Self::Global),
            "per-cpu" => Ok(Self::PerCpu),
            _ => Err(Error::Unsupported("an ASID scope other than `global` and `per-cpu`")),
        }
    }
}

/// An ASID allocator.
///
/// Every method that takes a [`CurrentCpu`] or a [`AllocatorCpu`] runs on that CPU, with interrupts off.
///
/// `In` is the allocator of the [`Tlb`]: the implementer itself, unless it is a part of an allocator that chooses at
/// run time, as [`crate::tags::Asids`] does. No method has a default that would be wrong for an allocator: any other one that is not
/// passed on does not compile.
///
/// # Safety
///
/// The proof of a completed flush relies on the implementer for this:
///
/// * [`Self::context_id`], [`Self::loaded_context`] and [`Self::root_state`] find every CPU that may use entries of a space, as their
///   documentation says; [`Self::nmi_uaccess_okay`] and [`Self::local_generation`] claim no more than is
///   true.
/// * [`Self::flush_local`], [`Self::flush_page`], [`Self::flush_kernel`], [`Self::catch_up_with`], [`Self::catch_up`] and
///   [`Self::flush_broadcast`] remove the entries in question before they return, or have them removed before they can be used again.
/// * [`Self::switch_in`] loads the root of the space under a tag under which this CPU hits no entry of
///   another space and no entry that was revoked.
/// * [`Self::release`], [`Self::retag`] and [`Self::switch_in`] give a space another tag only where the
///   entries under its former one can do no harm.
pub unsafe trait Tags<P: Platform, In: Tags<P> = Self>: Sized {
    /// The allocator's state of each CPU. All zeros to begin with.
    type Cpu;
    /// The state of a CPU that was never up.
    const CPU: Self::Cpu;

    /// What the allocator decides once, in [`Self::begin`], and every path asks ([`Tlb::choice`]): `()` if nothing.
    type Choice: Copy + Send + Sync;

    /// Checks, once, that the allocator works on this machine, and prepares the CPUs.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    fn begin(
        &mut self,
        platform: &P,
        cpus: &mut [crate::Cpu<P, In>],
    ) -> Result<Self::Choice, Error>;

    /// Makes this CPU run `next`, and marks it present there ([`AllocatorCpu::mark_present`]).
    fn switch_in(this_cpu: &AllocatorCpu<'_, P, In>, next: &AddressSpace<P>) -> Switched;

    /// Enters lazy mode: this CPU uses no translations of user addresses, although its root register still
    /// names the space.
    fn lazy(this_cpu: &AllocatorCpu<'_, P, In>);

    /// Makes this CPU run no space, with the reserved root.
    fn park(this_cpu: &AllocatorCpu<'_, P, In>) -> Switched;

    /// Whether a space has the same tag on every CPU, so that a broadcast by tag means the same space
    /// everywhere. The answer never changes.
    fn has_global_tags(tlb: &Tlb<'_, P, In>) -> bool;

    /// Whether a CPU compares a space's generation with its own at switch-in and in every IPI. It can then
    /// flush by page instead of by tag if it missed only the latest flush. The answer never changes.
    fn tracks_generations(tlb: &Tlb<'_, P, In>) -> bool;

    /// The generation of the space with this context id up to which `cpu` has flushed: `u64::MAX` if it does
    /// not run the space, or if it is lazy in it and `lazily` does not say that lazy CPUs must act too. Used
    /// only with [`Self::tracks_generations`].
    fn local_generation(tlb: &Tlb<'_, P, In>, cpu: CpuId, context: u64, lazily: bool) -> u64;

    /// Does the flush of the only initiator whose IPI is pending: of the inline range, or as this initiator has
    /// described it. With [`Self::tracks_generations`] only if that is the next flush that this CPU needs. Returns how many
    /// flushes were done.
    fn catch_up_with(this_cpu: &AllocatorCpu<'_, P, In>, described_by: Option<CpuId>) -> u64;

    /// Flushes whatever this CPU has missed of the space that it runs, or of all if it does not track generations, and
    /// returns how many flushes were done.
    fn catch_up(this_cpu: &AllocatorCpu<'_, P, In>) -> u64;

    /// Whether the root register of the calling CPU, which is `cpu`, names `space` and this CPU has missed no
    /// flush. NMI handlers call it, so it runs between any two steps of the other methods. `false` is always
    /// a right answer.
    fn nmi_uaccess_okay(
        tlb: &Tlb<'_, P, In>,
        cpu: &crate::Cpu<P, In>,
        space: &AddressSpace<P>,
    ) -> bool;

    /// A CPU has stopped and runs no space: no CPU waits for it from now on.
    ///
    /// # Safety
    ///
    /// The CPU executes nothing, and its hardware walks no tables, before it calls [`Tlb::online`].
    unsafe fn stopped(tlb: &Tlb<'_, P, In>, cpu: &crate::Cpu<P, In>);

    /// The context id under which CPUs run `space`; `None` if no CPU can hold entries of it. Called after
    /// the tables were changed and the change published: a CPU that learns another context id of the space
    /// after that walks the new tables.
    fn context_id(tlb: &Tlb<'_, P, In>, space: &AddressSpace<P>) -> Option<u64>;

    /// The context id of `space` if the root register of this CPU names the space under it, seen at a glance: the same as
    /// [`Self::context_id`] and [`Self::is_loaded`], called as they are, with two differences. `None` is always a right answer, and
    /// the one in every state in which a flush of one page is not that page ([`Self::flush_page`]). And it is the context id
    /// of this CPU: others may run the space under another one, and are its residents then.
    fn loaded_context(
        this_cpu: &CurrentCpu<'_, P, In>,
        space: &AddressSpace<P>,
    ) -> Option<NonZeroU64>;

    /// Whether `context` is still the context id of `space`. Called with the residency of the space locked:
    /// a CPU that gives the space another context id holds that lock, and a CPU that switches in under
    /// another one has held it before.
    fn has_context(this_cpu: &CurrentCpu<'_, P, In>, space: &AddressSpace<P>, context: u64)
    -> bool;

    /// Whether the root register of `cpu` names the space with this context id, or may be about to, or may
    /// still do so. A CPU for which this returns [`RootState::NotLoaded`] learns from its residency
    /// ([`AllocatorCpu::mark_present`]), or from the generation of the space, that it has missed a flush.
    #[doc(alias = "loaded_mm")]
    fn root_state(tlb: &Tlb<'_, P, In>, cpu: CpuId, context: u64) -> RootState;

    /// Whether the root register of this CPU names the space with this context id.
    fn is_loaded(this_cpu: &CurrentCpu<'_, P, In>, context: u64) -> bool;

    /// Does on this CPU a flush that is requested of one space, unless the CPU will do it before it loads
    /// the root again. Returns whether a flush was needed.
    fn flush_local(this_cpu: &AllocatorCpu<'_, P, In>, request: &FlushRequest<'_>) -> bool;

    /// As [`Self::flush_local`], of one page and no table, on a CPU that runs the space ([`Self::loaded_context`]): by value,
    /// because most flushes are this one.
    fn flush_page(this_cpu: &AllocatorCpu<'_, P, In>, context: u64, generation: u64, page: VaRange);

    /// This CPU has mapped pages of `space`. An allocator that knows what a CPU holds under a tag counts them: flushes
    /// are chosen by it ([`crate::platform::Costs::by_address_here`]).
    fn mapped(this_cpu: &AllocatorCpu<'_, P, In>, space: &AddressSpace<P>, pages: u64) {
        let _ = (this_cpu, space, pages);
    }

    /// Removes everything of every space on this CPU. An allocator that tracks generations records that of
    /// the space that the CPU runs.
    fn flush_all_spaces(this_cpu: &AllocatorCpu<'_, P, In>);

    /// Removes the entries of `ranges`, which are kernel addresses, on this CPU, under every tag and global ones. An allocator
    /// that knows under which tags the CPU may hold any may leave entries under tags that the root register does not name, and
    /// drop them before the register names the tag again ([`crate::arch::Mmu::flush_kernel_under`]).
    fn flush_kernel(this_cpu: &AllocatorCpu<'_, P, In>, ranges: &FlushRanges) {
        ranges.flush_kernel(this_cpu.mmu(), this_cpu.errata());
    }

    /// Removes the entries of `ranges` on every CPU, by broadcast. Called only with [`Self::has_global_tags`]. A
    /// broadcast with [`Wait::Later`] is completed by [`crate::arch::Mmu::complete_broadcast`] on the same CPU.
    fn flush_broadcast(
        this_cpu: &AllocatorCpu<'_, P, In>,
        context: u64,
        ranges: &FlushRanges,
        wait: Wait,
    );

    /// Gives `space` a tag under which no CPU holds anything, instead of a flush. Returns `false`, and does
    /// nothing, if another CPU runs the space, or if no free tag is at hand.
    fn retag(this_cpu: &AllocatorCpu<'_, P, In>, space: &AddressSpace<P>, context: u64) -> bool;

    /// Whether a device may use the tag of `space`.
    fn is_pinned(space: &AddressSpace<P>) -> bool;

    /// Loads again what the register named before a foreign root was loaded, or the reserved root if the CPU
    /// was parked meanwhile. For the allocator the register has named it all the time.
    fn restore_root(this_cpu: &AllocatorCpu<'_, P, In>);

    /// What the load of the user's root on the way to user mode does with entries under its tag, where
    /// [`crate::arch::Properties::defers_user_flush`]. The flush that it stands for counts as done. An allocator
    /// that always says [`Held::Keep`] refuses such hardware in [`Self::begin`].
    fn user_held(this_cpu: &AllocatorCpu<'_, P, In>) -> Held;

    /// The exit for which [`Self::user_held`] was asked last does not take place: the flush that it stood for is pending again. An
    /// allocator that always says [`Held::Keep`] has nothing to do.
    fn cancel_exit(this_cpu: &AllocatorCpu<'_, P, In>) {
        let _ = this_cpu;
    }

    /// Takes back the tag of a space whose root no register names, and to which no CPU switches any more under
    /// this tag. Afterwards no entry of the space can be used again. Where walks outlive tags
    /// ([`crate::arch::Properties::walks_outlive_tags`]), an allocator with [`Self::has_global_tags`] flushes them; for
    /// others that was done before.
    ///
    /// # Panics
    ///
    /// If a device may use the tag.
    fn release(this_cpu: &AllocatorCpu<'_, P, In>, space: &AddressSpace<P>) -> Released;
}
