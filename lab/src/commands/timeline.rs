//! Timelines of runs: what each CPU did and when.

use std::path::PathBuf;

use clap::Args;
use lookaside_machine::timed;
use lookaside_simulation::{data::Machine, perfetto};
use lookaside_terminal::{Refused, tell};

use super::output;

/// Options of timelines.
#[derive(Args)]
pub(crate) struct Timeline {
    /// Also write a timeline of all CPUs for Perfetto (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// The largest number of moments in the timeline; the latest are kept.
    #[arg(long, value_name = "N", default_value_t = 200_000, requires = "perfetto",
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    moments: u64,
}

impl Timeline {
    /// The number of moments to keep.
    pub(crate) fn moments(&self) -> usize {
        if self.perfetto.is_some() { self.moments as usize } else { 0 }
    }

    /// Refuses an output file that cannot be written, before the work starts.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.perfetto.as_deref().map_or(Ok(()), output::check)
    }

    /// Writes the timeline of a run, and notes if it is incomplete.
    pub(crate) fn write(
        &self,
        timeline: Option<&timed::Timeline>,
        machine: &Machine,
    ) -> std::io::Result<()> {
        let (Some(path), Some(timeline)) = (&self.perfetto, timeline) else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        perfetto::write(timeline, machine, &mut bytes)?;
        output::replace(path, bytes)?;
        if timeline.dropped > 0 {
            let (kept, dropped) = (timeline.moments.len(), timeline.dropped);
            tell!(
                "note: the timeline has the latest {kept} moments; {dropped} before them are \
                 dropped (`--moments` keeps more)"
            );
        }
        Ok(())
    }
}
