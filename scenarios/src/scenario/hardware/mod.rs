//! The translation hardware of each architecture, on the adversarial machine.

mod arm;
mod deviations;
mod options;
mod riscv;
mod x86;

use lookaside::{
    Error,
    arch::Mmu,
    counts::{Event, Outcome},
    platform::{Costs, OperationCosts},
};
use lookaside_machine::adversary::{COSTS, Config, Frame, Updates, saw};

pub(in crate::scenario) use self::{arm::*, deviations::*, options::*, riscv::*, x86::*};

/// A kind of machine: what the adversary must be, and how the library operates it.
pub(in crate::scenario) trait Hardware: 'static {
    /// The library's type for it.
    type Mmu: Mmu + 'static;

    /// The adversary.
    fn config(cpus: usize) -> Config;

    /// Its translation hardware, parked on `reserved`.
    ///
    /// # Errors
    ///
    /// None, unless library and adversary disagree.
    fn mmu(reserved: Frame) -> Result<Self::Mmu, Error>;

    /// The features that each CPU reports.
    fn features() -> <Self::Mmu as Mmu>::Features;

    /// What operations cost.
    fn costs() -> Costs {
        COSTS
    }

    /// Receives the events that the library reports.
    fn observe(event: Event) {
        see(event);
    }
}

/// A [`Hardware`] with its type erased, but for the library's: the scenarios of all kinds that have this
/// type in common are one type, and are compiled once.
pub(in crate::scenario) struct Described<M: Mmu> {
    pub(in crate::scenario) machine: fn(usize) -> Config,
    pub(in crate::scenario) more: More,
    pub(in crate::scenario) mmu: fn(Frame) -> Result<M, Error>,
    pub(in crate::scenario) features: fn() -> M::Features,
    pub(in crate::scenario) costs: fn() -> Costs,
    pub(in crate::scenario) observe: fn(Event),
}

/// Options of the hardware beyond its kind, and of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct More {
    /// See [`Early`].
    pub(crate) early: bool,
    /// See [`Invalid`].
    pub(crate) invalid: bool,
    /// See [`Noting`].
    pub(crate) noting: bool,
    /// See [`Nmis`].
    pub(crate) nmis: bool,
    /// The kernel has `Asids`, which chooses the allocator at run time, and does not name one.
    pub(crate) chosen: bool,
    /// The kernel has a top table for each CPU in every space, with a page that only this CPU sees.
    pub(crate) roots: bool,
}

impl More {
    /// Nothing more.
    pub(crate) const NONE: Self = Self {
        early: false,
        invalid: false,
        noting: false,
        nmis: false,
        chosen: false,
        roots: false,
    };
    /// The allocator is chosen at run time.
    pub(crate) const CHOSEN: Self = Self { chosen: true, ..Self::NONE };

    /// What there is, by name, and whether it is on.
    pub(crate) const fn names(self) -> [(&'static str, bool); 6] {
        let Self { early, invalid, noting, nmis, chosen, roots } = self;
        [
            ("early", early),
            ("invalid", invalid),
            ("noting", noting),
            ("nmi", nmis),
            ("chosen", chosen),
            ("roots", roots),
        ]
    }

    /// The option of this name.
    pub(crate) fn slot(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "early" => Some(&mut self.early),
            "invalid" => Some(&mut self.invalid),
            "noting" => Some(&mut self.noting),
            "nmi" => Some(&mut self.nmis),
            "chosen" => Some(&mut self.chosen),
            "roots" => Some(&mut self.roots),
            _ => None,
        }
    }
}

impl<M: Mmu> Clone for Described<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Mmu> Copy for Described<M> {}

impl<M: Mmu> Described<M> {
    /// What there is to know of `H`.
    pub(in crate::scenario) const fn of<H: Hardware<Mmu = M>>() -> Self {
        Self {
            machine: H::config,
            more: More::NONE,
            mmu: H::mmu,
            features: H::features,
            costs: H::costs,
            observe: H::observe,
        }
    }

    /// The adversary.
    pub(in crate::scenario) fn config(&self, cpus: usize) -> Config {
        let config = (self.machine)(cpus);
        let More { early, invalid, noting, nmis, chosen: _, roots: _ } = self.more;
        let config = if early { config.with_early_loads() } else { config };
        let config = if invalid { config.with_invalid_entries() } else { config };
        let config = if noting { config.with_updates(Updates::Dirty) } else { config };
        if nmis { config.with_nmis(1) } else { config }
    }
}

/// Records the events that the library reports.
fn see(event: Event) {
    saw(match event {
        Event::Flushed { outcome: Outcome::NoCpu, .. } => "a flush that concerned nobody",
        Event::Flushed { outcome: Outcome::Local, .. } => "a flush here",
        Event::Flushed { outcome: Outcome::Retagged, .. } => "a fresh tag",
        Event::Flushed { outcome: Outcome::Broadcast, .. } => "a broadcast",
        Event::Flushed { outcome: Outcome::Ipis, .. } => "a shootdown",
        Event::CaughtUp => "a CPU that caught up",
        _ => return,
    });
}

/// Retagging costs nothing.
const FRESH: Costs = Costs { retag: 0, ..COSTS };

/// Interrupts cost nothing: one is cheaper than a broadcast, and two are not.
const INTERRUPTS: Costs = Costs { ipi: 0, ..COSTS };

const fn pa(frame: Frame) -> u64 {
    frame.0 << 12
}

/// Interrupts cost nothing, and every flush is by address.
const BY_ADDRESS: Costs =
    Costs { local: OperationCosts { address: 0, ..COSTS.local }, ..INTERRUPTS };
