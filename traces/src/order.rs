//! Events are put in order, and CPUs are counted.

use super::{Event, Kind};

/// Sorts events by time; those of the same time stay as they are. Tells how many were before an earlier
/// one of the same CPU.
pub(super) fn order(events: &mut [Event]) -> u64 {
    let mut latest: Vec<u64> = Vec::new();
    let mut reordered = 0;
    for event in &*events {
        let cpu = usize::from(event.cpu);
        if latest.len() <= cpu {
            latest.resize(cpu + 1, 0);
        }
        let latest = &mut latest[cpu];
        reordered += u64::from(event.time < *latest);
        *latest = (*latest).max(event.time);
    }
    if !events.is_sorted_by_key(|event| event.time) {
        events.sort_by_key(|event| event.time);
    }
    reordered
}

/// How many CPUs there must be for these events.
pub(super) fn cpus(events: &[Event]) -> u32 {
    let named = |event: &Event| match event.kind {
        Kind::Migrate { to: cpu, .. }
        | Kind::Ask { target: cpu, .. }
        | Kind::Send { target: cpu, .. } => u32::from(cpu) + 1,
        Kind::SendMany { targets, .. } => u64::BITS - targets.leading_zeros(),
        _ => 0,
    };
    events.iter().map(|event| named(event).max(u32::from(event.cpu) + 1)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn only_what_one_cpu_has_out_of_order_counts() {
        let event =
            |time, cpu, task| Event { time, cpu, in_interrupt: None, task, kind: Kind::Exit };
        let mut events = vec![event(5, 0, 1), event(3, 1, 2), event(4, 0, 3), event(5, 1, 4)];
        assert_eq!(order(&mut events), 1);
        assert_eq!(events.iter().map(|event| event.task).collect::<Vec<_>>(), [2, 3, 1, 4]);
    }
}
