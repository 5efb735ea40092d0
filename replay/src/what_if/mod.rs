//! What if: the same recorded program under other settings of Linux, or of the program.
//!
//! A [`Knob`] is a setting that exists: of the kernel (`ceiling`, `thp`, `pti`, `pcid`), of whoever starts a program
//! (`pin`, `cpus`), or of the program itself (`batch`). [`Scenario::with`] applies knobs, and says in a sentence what is
//! assumed for each that a trace does not show in full.

mod apply;
mod knob;
mod plausible;
mod script;

use core::mem;

use lookaside_simulation::data::Machine;
use lookaside_terminal::Refused;
use lookaside_traces::reconstruct::Script;

pub use self::{
    knob::{KNOBS, Knob},
    plausible::{RECORDED, Setting},
};
use crate::{Replayed, Setup, WorkingSet, replay};

/// A script and everything that it is replayed with.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The machine.
    pub machine: Machine,
    /// The script.
    pub script: Script,
    /// The strategy.
    pub strategy: String,
    /// How many CPUs are modelled.
    pub cpus: usize,
    /// The pages that programs access.
    pub working_set: WorkingSet,
    /// What the knobs that were applied assume, one sentence each.
    pub assumed: Vec<String>,
}

impl Scenario {
    /// The same with other settings.
    ///
    /// # Errors
    ///
    /// If a knob does not exist on this architecture, or two contradict each other.
    pub fn with(&self, knobs: &[Knob]) -> Result<Self, Refused> {
        let mut other = self.clone();
        for (i, knob) in knobs.iter().enumerate() {
            let same = |other: &Knob| mem::discriminant(other) == mem::discriminant(knob);
            if let Some(before) = knobs[..i].iter().find(|other| same(other)) {
                let why = format!("`{before}` and `{knob}` are of one knob: give one of them");
                return Err(Refused(why));
            }
        }
        let says_where = |knob: &&Knob| matches!(knob, Knob::Pin(_) | Knob::Cpus(_));
        if knobs.iter().filter(says_where).count() > 1 {
            return Err(Refused("`pin` and `cpus` both say where threads run: give one".into()));
        }
        knobs.iter().try_for_each(|knob| apply::apply(knob, &mut other))?;
        if knobs.contains(&Knob::Pti(true)) && other.machine.features.tag_bits == 0 {
            let why = "without PCIDs and with page tables of the kernel's own each way into the kernel and back flushes, which no \
                       trace shows: `pti=on` needs `pcid=on`, and a machine that has PCIDs";
            return Err(Refused(why.into()));
        }
        Ok(other)
    }

    /// Replays it.
    ///
    /// # Errors
    ///
    /// As [`replay`].
    pub fn replay(&self, seed: u64) -> Result<Replayed, Refused> {
        let Self { machine, strategy, cpus, working_set, .. } = self;
        replay(
            &self.script,
            &Setup {
                machine,
                strategy,
                cpus: *cpus,
                working_set: *working_set,
                seed,
                arrivals: None,
            },
        )
    }
}

#[cfg(test)]
mod tests;
