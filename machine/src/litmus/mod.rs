//! Litmus tests: the rules of the adversary on a CPU that runs out of order.

mod access;
mod coherence;
mod descriptor;
mod explore;
mod order;
mod run;
mod state;
mod test;
mod translate;

use crate::adversary::config::Config;

pub use descriptor::Descriptor;
pub use explore::{Outcomes, explore, witness};
pub use test::*;

/// The hardware that a test runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// FEAT_ETS2.
    pub ets2: bool,
}

impl Hardware {
    fn config(self) -> Config {
        let mut config = Config::arm(1);
        config.ets2 = self.ets2;
        config
    }
}
