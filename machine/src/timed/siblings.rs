//! Hardware threads of one core, which slow each other.
//!
//! While two of them execute instructions, a nanosecond of each takes [`Price::Sibling`] more. What counts is what a
//! program computes and accesses to words that are here: that is what measurements of programs with and without a second
//! thread are of. A thread that waits, for a line, a lock or another CPU, leaves the core to the other. Instructions that
//! empty the pipeline, walks and interrupts take the time that they have, which is no want of the core's resources.
//!
//! A CPU's instructions are a span of its time. A span that overlaps with one of the other thread makes both longer, the
//! other one later: when its CPU goes on, by [`Cpu::late`](super::cpu::Cpu). Work that can be interrupted has no end that
//! is known; its span is [`Execution::open`], and is settled when it ends.

use super::{
    account::Cause,
    machine::Machine,
    price::{Price, Ps},
};

/// When a CPU executes instructions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Execution {
    from: Ps,
    until: Ps,
    /// Whether an interrupt may end it before `until`, so that it is not charged yet.
    open: bool,
}

impl Execution {
    /// How much of the time between two moments is in it.
    fn overlap(&self, from: Ps, until: Ps) -> Ps {
        self.until.min(until).saturating_sub(self.from.max(from))
    }
}

impl Cause {
    /// Whether the CPU executes instructions that need what its core has.
    const fn executes(self) -> bool {
        matches!(self, Self::Work | Self::Words | Self::Siblings)
    }
}

impl Machine {
    /// What a nanosecond takes in addition, if CPUs that run programs share cores; else nothing.
    pub(crate) fn price_of_siblings(&self) -> Ps {
        let are_shared = self.cpus.len() > self.model.topology.cores() as usize;
        if are_shared { self.model.prices.charge(Price::Sibling) } else { 0 }
    }

    /// The other CPUs of the core of the CPU that runs.
    fn siblings(&self) -> impl Iterator<Item = usize> + use<> {
        let (cores, cpus) = (self.model.topology.cores() as usize, self.cpus.len());
        let running = self.running;
        (running % cores..cpus).step_by(cores).filter(move |&cpu| cpu != running)
    }

    /// The CPU that runs has executed for so long from `from` on, and has been charged for it. Returns what that takes in
    /// addition, and charges the other threads of the core the same.
    pub(crate) fn slow(&mut self, cause: Cause, from: Ps, time: Ps) -> Ps {
        if !cause.executes() || self.cpu().execution.open {
            return 0;
        }
        let mut extra = 0;
        let mut settled = false;
        for other in self.siblings() {
            let other = &mut self.cpus[other];
            let more = other.execution.overlap(from, from + time) * self.slowdown / 1000;
            other.late += more;
            if other.execution.open {
                settled = true;
            } else {
                other.execution.until += more;
            }
            extra += more;
        }
        let mine = &mut self.cpu().execution;
        let until = from + time + extra;
        // What goes on beside work is charged to both, whatever comes of the work.
        let begins = if settled {
            until
        } else if from == mine.until {
            mine.from
        } else {
            from
        };
        *mine = Execution { from: begins, until, open: false };
        extra
    }

    /// The CPU that runs goes on to work until `until`, or until it is interrupted.
    pub(crate) fn begin_work(&mut self, until: Ps) {
        if self.slowdown == 0 {
            return;
        }
        let from = self.cpu().now;
        for other in self.siblings() {
            let other = &mut self.cpus[other];
            // What it is charged for already goes on beside this.
            if !other.execution.open {
                let more = other.execution.overlap(from, until) * self.slowdown / 1000;
                other.late += more;
                other.execution.until += more;
                other.execution.from = other.execution.until;
                self.cpus[self.running].late += more;
            }
        }
        self.cpu().execution = Execution { from, until, open: true };
    }

    /// The CPU that runs has worked until now.
    pub(crate) fn end_work(&mut self) {
        if !self.cpu().execution.open {
            return;
        }
        let now = self.cpu().now;
        let mine = core::mem::take(&mut self.cpu().execution);
        for other in self.siblings() {
            let other = &mut self.cpus[other];
            if other.execution.open {
                // Of a time in which both worked each has done so much less.
                let both = other.execution.overlap(mine.from, now);
                let less = both * self.slowdown / (1000 + self.slowdown);
                other.execution.from = now.max(other.execution.from);
                other.late += less;
                self.cpus[self.running].late += less;
            }
        }
    }
}
