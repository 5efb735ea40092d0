//! How much a number of a machine can be trusted.

use lookaside_machine::timed::{Price, Topology};

use super::{Isa, Machine, Origin, Value};

/// How much a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quality {
    /// Measured on, or documented for, this machine.
    Measured,
    /// Set so that a published value comes out.
    Fitted,
    /// Measured on another machine.
    Proxy,
    /// Assumed: a number for which the file of the machine has a range instead of a source, or a path that a workload
    /// needs and the file lacks, which is in the middle of its range.
    Assumed,
    /// Nobody has published it: it is charged as nothing, and lies somewhere in the range that the literature
    /// gives.
    Unpriced,
}

impl Quality {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Proxy => "proxy",
            Self::Assumed => "assumed",
            Self::Unpriced => "unpriced",
        }
    }
}

impl Value {
    /// How much it can be trusted.
    #[must_use]
    pub const fn quality(&self) -> Quality {
        match self.origin {
            Origin::Assumed { .. } => Quality::Assumed,
            Origin::Fitted { .. } => Quality::Fitted,
            Origin::Source { proxy: true, .. } => Quality::Proxy,
            Origin::Source { .. } => Quality::Measured,
        }
    }
}

impl Machine {
    /// The prices that this machine can be charged and that its file neither has nor says to be part of another
    /// number: they are not for nothing in reality.
    pub fn unpriced(&self) -> impl Iterator<Item = Price> + '_ {
        Price::ALL.iter().copied().filter(|&price| {
            let in_another = || {
                let mut parts = self.values.iter().flat_map(|value| &value.includes);
                parts.any(|part| part == price.key())
            };
            self.model.prices.get(price).is_none() && self.can_be_charged(price) && !in_another()
        })
    }

    /// Whether a machine of this shape has what the price is for.
    fn can_be_charged(&self, price: Price) -> bool {
        let Topology { threads, clusters, sockets, nodes, .. } = self.model.topology;
        let broadcasts = self.isa == Isa::Aarch64 || self.features.invlpgb;
        let tags = self.features.tag_bits > 0;
        match price {
            Price::LineThread | Price::Sibling => threads > 1,
            Price::LineSocket => clusters > 1,
            // Two cores never ask for one line while another is served that does not wait for the line itself.
            Price::LineService => self.model.topology.cores() > 2,
            Price::LineRemote | Price::InterruptDeliverRemote => sockets > 1,
            Price::SecondLevel => self.model.tlb.second.is_some(),
            // Where a walk caches nothing, `walk` is all of it.
            Price::WalkUpper => self.model.tlb.walk_cache > 0,
            Price::RootFlush | Price::FlushGlobal => self.isa == Isa::X86_64,
            Price::FlushOtherPage => self.isa == Isa::X86_64 && self.features.invpcid,
            Price::FlushTag => tags && (self.isa != Isa::X86_64 || self.features.invpcid),
            Price::FlushAll => self.isa != Isa::X86_64 || self.features.invpcid,
            Price::Barrier => self.isa == Isa::Aarch64,
            Price::BroadcastIssue
            | Price::FabricOperation
            | Price::FabricSync
            | Price::FabricLatency
            | Price::FabricVictim => broadcasts,
            Price::FabricRemote => broadcasts && nodes > 1,
            Price::Firmware => self.isa == Isa::Riscv64,
            _ => true,
        }
    }
}
