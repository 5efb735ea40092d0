//! Which events a trace lacks, and what nobody knows for that.

use crate::{Kind, Trace};

/// Events that belong together, and what is unknown without them.
struct Group {
    /// Their names in tracefs.
    names: &'static str,
    /// What is unknown without them.
    unknown: &'static str,
    is: fn(&Kind) -> bool,
}

const GROUPS: &[Group] = &[
    Group {
        names: "sched_switch",
        unknown: "who ran where, so that no space can be told",
        is: |kind| matches!(kind, Kind::Switch { .. }),
    },
    Group {
        names: "tlb_flush",
        unknown: "which flushes there were; they are taken to follow from calls and faults",
        is: |kind| matches!(kind, Kind::Flush { .. }),
    },
    Group {
        names: "sys_enter_munmap, sys_exit_munmap and those of the other calls",
        unknown: "which call flushed, and which pages",
        is: |kind| matches!(kind, Kind::Call { .. }),
    },
    Group {
        names: "page_fault_user",
        unknown: "which pages were there, and which flushes copied a page",
        is: |kind| matches!(kind, Kind::Fault { .. }),
    },
    Group {
        names: "csd_queue_cpu and csd_function_entry, or ipi_send_cpu and call_function_single_entry",
        unknown: "which CPUs were interrupted, and for whom",
        is: |kind| {
            matches!(
                kind,
                Kind::Ask { .. }
                    | Kind::Serve { .. }
                    | Kind::Send { .. }
                    | Kind::SendMany { .. }
                    | Kind::Interrupt
            )
        },
    },
    Group {
        names: "task_newtask and sched_process_exit",
        unknown: "which threads share a space, but for those that were listed",
        is: |kind| matches!(kind, Kind::Create { .. } | Kind::Exit | Kind::Execute { .. }),
    },
];

impl Trace {
    /// Which events are missing and what that makes unknown, in a sentence; none where each kind is there. A program
    /// that does not do a thing has no events of it either.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let lacks = |group: &&Group| !self.events.iter().any(|event| (group.is)(&event.kind));
        let parts: Vec<String> = GROUPS
            .iter()
            .filter(lacks)
            .map(|group| format!("no {} (unknown: {})", group.names, group.unknown))
            .collect();
        (!parts.is_empty()).then(|| format!("the trace has {}", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Event, Kind, NameId, Pages, Reason, Trace};

    #[test]
    fn each_missing_kind_is_told_once() {
        let event = |kind| Event { time: 0, cpu: 0, in_interrupt: None, task: 1, kind };
        let mut trace = Trace::default();
        trace.events.push(event(Kind::Switch { next: 1, name: NameId(0), runnable: true }));
        trace
            .events
            .push(event(Kind::Flush { reason: Reason::LocalSpace, pages: Pages::Everything }));
        let missing = trace.missing().unwrap();
        assert!(!missing.contains("sched_switch") && !missing.contains("tlb_flush"), "{missing}");
        assert_eq!(missing.matches("unknown:").count(), 4, "{missing}");
        trace.events.push(event(Kind::Fault { address: 0, code: 7 }));
        assert!(!trace.missing().unwrap().contains("page_fault_user"));
    }
}
