//! Whether CPUs that have been idle for long are interrupted: in a guest of KVM not, where its host says which vCPUs do not run.

use crate::{Kind, Trace};

/// A host of KVM polls for work of a vCPU that halts, and takes it from its CPU after this time at the latest, in nanoseconds:
/// `halt_poll_ns` on x86.
pub const HALT_POLL: u64 = 200_000;
/// One request in so many to idle CPUs may find one that its host has just taken away, or is about to run again.
const FEW: u64 = 20;

impl Trace {
    /// Whether requests to flush go to idle CPUs of which nothing was heard for longer than a host polls. Where KVM's
    /// paravirtualised flush works they do not: such a vCPU is left to its host, which flushes before the vCPU runs again. A host
    /// may not say so all the same, if it lets idle vCPUs keep their CPUs, for example. None if no request went to an idle CPU.
    #[must_use]
    pub fn interrupts_halted(&self) -> Option<bool> {
        let cpus = self.events.iter().map(|event| usize::from(event.cpu) + 1).max().unwrap_or(0);
        // Which thread each runs, if known, and when it was heard of.
        let mut heard = vec![(None, 0); cpus];
        let (mut idle, mut quiet) = (0, 0);
        for event in &self.events {
            if let Kind::Ask { target, flush: true, .. } = event.kind
                && let Some(&(Some(0), last)) = heard.get(usize::from(target))
            {
                idle += 1;
                quiet += u64::from(event.time.saturating_sub(last) > HALT_POLL);
            }
            let (runs, last) = &mut heard[usize::from(event.cpu)];
            *last = event.time;
            if let Kind::Switch { next, .. } = event.kind {
                *runs = Some(next);
            }
        }
        (idle > 0).then_some(quiet * FEW > idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, NameId};

    #[test]
    fn it_is_told_by_requests_to_cpus_that_were_idle_for_long() {
        let event = |time, cpu, kind| Event { time, cpu, in_interrupt: None, task: 0, kind };
        let ask = Kind::Ask { target: 1, request: 7, flush: true };
        let switch = |next| Kind::Switch { next, name: NameId(0), runnable: false };
        let told = |next, waits: &[u64]| {
            let mut trace = Trace::default();
            let mut now = 0;
            for wait in waits {
                trace.events.push(event(now, 1, switch(next)));
                now += wait;
                trace.events.push(event(now, 0, ask));
            }
            trace.interrupts_halted()
        };
        assert_eq!(told(0, &[]), None);
        assert_eq!(told(5, &[2 * HALT_POLL]), None, "it runs a thread");
        assert_eq!(told(0, &[HALT_POLL]), Some(false));
        assert_eq!(told(0, &[HALT_POLL + 1]), Some(true));
        // A few may be late.
        assert_eq!(told(0, &[&[HALT_POLL; 19][..], &[2 * HALT_POLL]].concat()), Some(false));
        assert_eq!(told(0, &[&[HALT_POLL; 18][..], &[2 * HALT_POLL]].concat()), Some(true));
        // One that serves a request has been heard of.
        let served = [
            event(0, 1, switch(0)),
            event(HALT_POLL, 1, Kind::Interrupt),
            event(2 * HALT_POLL, 0, ask),
        ];
        let trace = Trace { events: served.to_vec(), ..Trace::default() };
        assert_eq!(trace.interrupts_halted(), Some(false));
    }
}
