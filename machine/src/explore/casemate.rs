//! Runs as traces for others.

use super::{End, Explorer, Recorded, Schedule, ScheduleError, replay::Follow};
use crate::{
    adversary::{Arch, Violation},
    casemate::{Written, write},
};

/// A run, as traces.
#[derive(Clone, Debug)]
pub struct Exported {
    /// What it breaks, if anything. The traces end there.
    pub violation: Option<Violation>,
    /// One trace for each space that a CPU has run.
    pub traces: Vec<Written>,
}

impl Explorer {
    /// Executes a schedule again, and writes what it did to page tables in the format of casemate, which
    /// knows Arm only: of another architecture there are no traces.
    ///
    /// # Errors
    ///
    /// As [`Self::replay`].
    pub fn casemate(&mut self, schedule: &Schedule) -> Result<Exported, ScheduleError> {
        self.check_name(schedule)?;
        let mut recorded = Recorded::new(Follow::new(schedule));
        let (end, tape) = self.executor.tape(&mut recorded);
        if let Some((point, choices)) = recorded.chooser.stale {
            return Err(ScheduleError::Stale { point, choices });
        }
        let config = self.executor.scenario().config();
        let traces = if config.arch == Arch::Arm { write(&config, &tape) } else { Vec::new() };
        let violation = if let End::Violated(violation) = end { Some(violation) } else { None };
        Ok(Exported { violation, traces })
    }
}
