//! The activities of one CPU, as slices within slices.

use std::io;

use core::cmp::Reverse;

use lookaside_machine::timed::{Doing, Moment, Ps, Timeline};

/// The activity of a CPU before its program begins.
const BEFORE: [&str; 2] = ["boot", "start"];

/// The activities of one CPU.
#[derive(Default)]
pub(super) struct Lane {
    /// From when on it is known.
    pub(super) begin: Ps,
    /// When its program ended.
    ended: Ps,
    /// By beginning; what is around others comes before them.
    slices: Vec<Slice>,
}

#[derive(Clone, Copy)]
struct Slice {
    begin: Ps,
    end: Ps,
    doing: Doing,
}

/// A step on the way through the slices of a lane.
pub(super) enum Step {
    /// A slice begins.
    Begin { name: &'static str, category: &'static str, handler: bool },
    /// The innermost slice ends.
    End,
}

impl Lane {
    /// Those of all CPUs.
    pub(super) fn all(timeline: &Timeline) -> Vec<Self> {
        let lane = |&ended: &Ps| Self { ended, ..Self::default() };
        let mut lanes: Vec<Self> = timeline.ended.iter().map(lane).collect();
        for moment in &timeline.moments {
            if let Moment::Slice { cpu, doing, begin, end } = *moment
                && let Some(lane) = lanes.get_mut(cpu as usize)
            {
                if matches!(doing, Doing::Activity(name) if BEFORE.contains(&name)) {
                    lane.begin = lane.begin.max(end);
                }
                lane.slices.push(Slice { begin, end, doing });
            }
        }
        let complete = timeline.dropped == 0;
        lanes.iter_mut().for_each(|lane| lane.sort(complete));
        lanes
    }

    fn sort(&mut self, complete: bool) {
        let begin = self.begin;
        self.slices.retain(|slice| slice.begin >= begin);
        // Within equal slices, the one that was over last is around the others.
        self.slices.reverse();
        self.slices.sort_by_key(|slice| (slice.begin, Reverse(slice.end)));
        if !complete && self.begin == 0 {
            self.begin = self.slices.first().map_or(self.ended, |slice| slice.begin);
        }
    }

    /// Calls `step` with each beginning and end of a slice, in order.
    pub(super) fn walk(&self, mut step: impl FnMut(Ps, Step) -> io::Result<()>) -> io::Result<()> {
        let mut open: Vec<Ps> = Vec::new();
        if self.begin < self.ended {
            let begin = Step::Begin { name: "program", category: "program", handler: false };
            step(self.begin, begin)?;
            open.push(self.ended);
        }
        for &Slice { begin, end, doing } in &self.slices {
            while let Some(until) = open.pop_if(|until| *until <= begin && *until < end) {
                step(until, Step::End)?;
            }
            let (name, category) = match doing {
                Doing::Activity(name) => (name, "activity"),
                Doing::Waiting(cause) => (cause.key(), "waiting"),
            };
            step(begin, Step::Begin { name, category, handler: name == "interrupt" })?;
            open.push(end);
        }
        while let Some(until) = open.pop() {
            step(until, Step::End)?;
        }
        Ok(())
    }
}
