//! The interconnect that carries broadcast invalidations: a queue.
//!
//! Arm's interconnects distribute one invalidation at a time, let a CPU have a few under way, and
//! carry out one synchronisation (what a `DSB` waits for) in the whole system at a time (Arm CCN-502
//! TRM 2.7; the model of CHI in gem5, which Arm wrote). AMD's `INVLPGB` and `TLBSYNC` are treated
//! alike.

use super::{
    model::Model,
    price::{Price, Ps},
};

/// The state of the interconnect.
#[derive(Debug, Default)]
pub(crate) struct Fabric {
    /// When it has distributed all that it was given.
    free: Ps,
    /// When the synchronisation under way is over.
    sync_free: Ps,
    /// How many invalidations were ever broadcast: what every CPU has received.
    pub(crate) operations: u64,
}

/// When something begins and when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) begins: Ps,
    pub(crate) ends: Ps,
}

impl Fabric {
    /// One invalidation, issued at `now`: when its distribution begins, and when it is answered.
    pub(crate) fn operation(&mut self, model: &Model, now: Ps) -> Service {
        self.operations += 1;
        let begins = now.max(self.free);
        self.free = begins + occupation(model, Price::FabricOperation);
        Service { begins, ends: self.free + model.prices.charge(Price::FabricLatency) }
    }

    /// One wait for the invalidations of a CPU, all of which are answered.
    pub(crate) fn sync(&mut self, model: &Model, now: Ps) -> Service {
        let begins = now.max(self.sync_free);
        self.sync_free = begins + occupation(model, Price::FabricSync);
        Service { begins, ends: self.sync_free + model.prices.charge(Price::FabricLatency) }
    }
}

/// How long something occupies an interconnect of so many nodes.
fn occupation(model: &Model, price: Price) -> Ps {
    let further = Ps::from(model.topology.nodes - 1);
    let one = model.prices.charge(price);
    if price == Price::FabricSync {
        one + further * model.prices.charge(Price::FabricRemote)
    } else {
        one * (further + 1)
    }
}
