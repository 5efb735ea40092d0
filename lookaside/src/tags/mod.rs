//! Tags: who gets which number, and what has to be flushed for it.
//!
//! Two strategies, each the recommendation for some architectures, each able to run on all:
//!
//! * [`GlobalAsids`] (Arm, RISC-V): one number for a space on all CPUs, for as long as an epoch lasts.
//!   Where invalidations are broadcast by tag, the number must be the same everywhere.
//! * [`PerCpuAsids`] (x86): each CPU numbers the few spaces that it ran last. Where every remote flush is
//!   an interrupt anyway, nothing is gained by agreeing on numbers.
//!
//! [`Tags`] is the seam between them and [`crate::CurrentCpu`]. Other strategies, the historical ones that
//! measurements are compared with, implement it elsewhere. Nobody but the library calls it: what it does
//! takes a [`StrategyCpu`], which only the library makes.

mod global;
mod per_cpu;

pub use global::{Cookie, GlobalAsids, GlobalAsidsConfig, GlobalAsidsCpu};
pub use per_cpu::{PerCpuAsids, PerCpuAsidsCpu, Replacement, RoundRobin};

use crate::{
    arch::{Mmu as _, Wait},
    current_cpu::{CurrentCpu, StrategyCpu},
    error::Error,
    flush::{FlushRanges, FlushRequest},
    platform::{CpuId, Platform},
    space::AddressSpace,
    tlb::Tlb,
};

/// What a switch had to do. In the order of what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a changed root may need branch-predictor hardening, which is the kernel's"]
pub enum Switched {
    /// The root register named the space already; nothing was written.
    Unchanged,
    /// The root register named the space already, and a flush was paid that was owed on it.
    CaughtUp,
    /// The space was known here: the root was loaded and its translations were kept.
    Kept,
    /// The space was known here but a flush was owed on it: it was paid, and the root loaded.
    Flushed,
    /// The space got a tag that this CPU may not have seen, and the root was loaded.
    Fresh,
    /// As [`Self::Fresh`], and to get the tag this CPU turned the epoch.
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

/// How a released tag comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// At once: its translations are gone from every CPU.
    AtOnce,
    /// When the epoch turns, or when a CPU needs its slot.
    Later,
}

/// Whether a root register names a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootState {
    /// It does not.
    NotLoaded,
    /// It does, but no user code runs until the CPU has said otherwise and paid.
    Lazy,
    /// It does, or may.
    Loaded,
}

/// A way to give tags to spaces.
///
/// Every method that takes a [`CurrentCpu`] or a [`StrategyCpu`] runs on that CPU, with interrupts off.
///
/// # Safety
///
/// What a completed flush proves starts from what an implementer says and does:
///
/// * [`Self::context_id`] and [`Self::root_state`] find every CPU that may use what it holds of a space, as they
///   say; [`Self::nmi_uaccess_okay`] and [`Self::local_generation`] say no more than is true.
/// * [`Self::flush_local`], [`Self::catch_up_with`], [`Self::catch_up`] and [`Self::flush_broadcast`] remove what is
///   asked for before they return, or have it removed before it can be used again.
/// * [`Self::switch_in`] loads the root of the space, under a tag under which this CPU meets nothing of another
///   space and nothing that was taken back.
/// * [`Self::release`], [`Self::retag`] and [`Self::switch_in`] give a tag to a space only where the entries of
///   its former one can do no harm.
pub unsafe trait Tags<P: Platform>: Sized {
    /// What each CPU remembers. All zeros to begin with.
    type Cpu;
    /// A CPU that was never up.
    const CPU: Self::Cpu;

    /// Checks, once, that the strategy works on this machine, and prepares the CPUs.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration.
    fn begin(&mut self, platform: &P, cpus: &mut [crate::Cpu<P, Self>]) -> Result<(), Error>;

    /// Makes this CPU run `next`, and one of its residents ([`StrategyCpu::mark_present`]).
    fn switch_in(this_cpu: &StrategyCpu<'_, P, Self>, next: &AddressSpace<'_, P>) -> Switched;

    /// Notes that this CPU needs the user's translations no longer, although its root register goes
    /// on naming them.
    fn lazy(this_cpu: &StrategyCpu<'_, P, Self>);

    /// Makes this CPU run no space.
    fn park(this_cpu: &StrategyCpu<'_, P, Self>) -> Switched;

    /// Whether a space has the same tag on every CPU, so that what is broadcast by tag means the
    /// same space everywhere.
    const GLOBAL_TAGS: bool;

    /// Whether CPUs look at a space's generation on their way in, and may be spared a flush by tag if
    /// they find what was owed last; and look at it again whenever they are called.
    const TRACKS_GENERATIONS: bool;

    /// Up to which generation of the space with this label `cpu` has paid: all of them, if it does not
    /// run the space, or is lazy in it and those need not act (`lazily`). Used only with
    /// [`Self::TRACKS_GENERATIONS`].
    fn local_generation(tlb: &Tlb<'_, P, Self>, cpu: CpuId, context: u64, lazily: bool) -> u64 {
        let _ = (tlb, cpu, context, lazily);
        u64::MAX
    }

    /// Pays what `asker` asks, which has called this CPU, if that is the one flush that is owed here;
    /// and says how many flushes were paid. Used only with [`Self::TRACKS_GENERATIONS`].
    fn catch_up_with(this_cpu: &StrategyCpu<'_, P, Self>, asker: CpuId) -> u64 {
        let _ = (this_cpu, asker);
        0
    }

    /// Pays whatever this CPU owes on the space that it runs, and says how many flushes that were. Used
    /// only with [`Self::TRACKS_GENERATIONS`].
    fn catch_up(this_cpu: &StrategyCpu<'_, P, Self>) -> u64 {
        let _ = this_cpu;
        0
    }

    /// Whether the root register of the calling CPU, which is `cpu`, names `space` and this CPU has paid
    /// for whatever it missed. Called by NMIs, so between any two steps of the other methods. No is always
    /// a right answer.
    fn nmi_uaccess_okay(cpu: &crate::Cpu<P, Self>, space: &AddressSpace<'_, P>) -> bool {
        let _ = (cpu, space);
        false
    }

    /// A CPU has stopped and runs no space: nobody waits for it.
    ///
    /// # Safety
    ///
    /// As for [`Tlb::halted`].
    unsafe fn stopped(cpu: &Self::Cpu) {
        let _ = cpu;
    }

    /// What CPUs that run `space` know it by; `None` if no CPU can hold anything of it. Asked after
    /// the tables were changed and published: a CPU that gets to know the space by another label
    /// after that walks the new tables.
    fn context_id(tlb: &Tlb<'_, P, Self>, space: &AddressSpace<'_, P>) -> Option<u64>;

    /// Whether `space` is still known by `context`. Asked with the books of the space open: whoever gives
    /// it another label has them, and whoever enters under another one has had them.
    fn has_context(
        this_cpu: &CurrentCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        context: u64,
    ) -> bool {
        let _ = (this_cpu, space, context);
        true
    }

    /// Whether the root register of `cpu` names the space with this label, or may be about to, or may
    /// still do so. A CPU for which this says [`RootState::NotLoaded`] finds out by its residency
    /// ([`StrategyCpu::mark_present`]), or by the generation of the space, that it has missed a flush.
    fn root_state(tlb: &Tlb<'_, P, Self>, cpu: CpuId, context: u64) -> RootState;

    /// Whether the root register of this CPU names the space with this label.
    #[inline]
    fn is_loaded(this_cpu: &CurrentCpu<'_, P, Self>, context: u64) -> bool {
        Self::root_state(this_cpu.tlb(), this_cpu.id(), context) != RootState::NotLoaded
    }

    /// Removes on this CPU what is demanded of one space, unless the CPU will do so before it loads
    /// the root again; and says whether anything had to be removed.
    fn flush_local(this_cpu: &StrategyCpu<'_, P, Self>, request: &FlushRequest<'_>) -> bool;

    /// Removes everything of every space on this CPU. A strategy that notes up to where the CPU has paid
    /// notes it of the space that it runs.
    fn flush_all_spaces(this_cpu: &StrategyCpu<'_, P, Self>) {
        this_cpu.mmu().flush_all(this_cpu.errata());
    }

    /// Removes what `ranges` says on every CPU, by broadcast. Called only with [`Self::GLOBAL_TAGS`].
    fn flush_broadcast(
        this_cpu: &StrategyCpu<'_, P, Self>,
        context: u64,
        ranges: &FlushRanges,
        wait: Wait,
    );

    /// Gives `space` a tag under which no CPU holds anything, and says whether it could: not, if
    /// another CPU runs the space, or a tag is not at hand.
    fn retag(
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &AddressSpace<'_, P>,
        context: u64,
    ) -> bool {
        let _ = (this_cpu, space, context);
        false
    }

    /// Whether a device may use the tag of `space`.
    fn is_pinned(space: &AddressSpace<'_, P>) -> bool {
        let _ = space;
        false
    }

    /// The register is about to be lent to a foreign root. A strategy that has lazy CPUs leave their
    /// space when they are called has this one leave it now.
    fn prepare_foreign_root(this_cpu: &StrategyCpu<'_, P, Self>) {
        let _ = this_cpu;
    }

    /// Puts back what the register named before it was lent to a foreign root. In the books it
    /// never stopped to name it.
    fn restore_root(this_cpu: &StrategyCpu<'_, P, Self>);

    /// Takes back the tag of a space that no CPU runs and none will run under this tag again.
    ///
    /// # Errors
    ///
    /// * [`Error::StillRunning`] if the root register of a CPU names it.
    /// * [`Error::Pinned`] if a device may use the tag.
    fn release(
        this_cpu: &StrategyCpu<'_, P, Self>,
        space: &mut AddressSpace<'_, P>,
    ) -> Result<Released, Error>;
}
