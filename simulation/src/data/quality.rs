//! How much a number of a machine can be trusted.

use lookaside_machine::timed::{Model, Price, Topology};

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

    /// The price that stands for `flush_tag` where the file has none: a write of the root register that flushes, on x86, and an
    /// invalidation by address elsewhere, which the ranges of `flush_tag` begin with.
    #[must_use]
    pub fn tag_as(&self) -> Option<Price> {
        let price = if self.isa == Isa::X86_64 { Price::RootFlush } else { Price::FlushPage };
        let is_known = self.model.prices.get(price).is_some();
        (is_known && self.unpriced().any(|price| price == Price::FlushTag)).then_some(price)
    }

    /// What a run is charged by: the model, with what [stands for `flush_tag`](Self::tag_as). By the same the library chooses between
    /// pages and the tag. Were the tag for nothing, and the choice by what it may take, the library would do what is dear there.
    #[must_use]
    pub fn charged(&self) -> Model {
        let mut model = self.model.clone();
        if let Some(price) = self.tag_as() {
            model.prices.set(Price::FlushTag, model.prices.charge(price));
        }
        model
    }

    /// Whether a machine of this shape has what the price is for.
    fn can_be_charged(&self, price: Price) -> bool {
        let Topology { threads, clusters, sockets, hops, nodes, .. } = self.model.topology;
        let broadcasts = self.isa == Isa::Aarch64 || self.features.invlpgb;
        let tags = self.features.tag_bits > 0;
        match price {
            Price::LineThread | Price::Sibling => threads > 1,
            Price::LineSocket => clusters > 1,
            // Two cores never ask for one line while another is served that does not wait for the line itself.
            Price::LineService => self.model.topology.cores() > 2,
            Price::LineRemote | Price::InterruptDeliverRemote => sockets > 1,
            Price::Hop => hops.most() > 1,
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
