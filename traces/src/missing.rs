//! Which events a trace lacks, and what nobody knows for that.

use crate::{Kind, Trace};

/// Events that belong together, and what is unknown without them.
struct Group {
    /// Their names in tracefs.
    names: &'static str,
    /// What is unknown without them.
    unknown: &'static str,
    is: fn(&Kind) -> bool,
    /// The names by which a recorder says that it had none of these: all of one of the lists are needed.
    needed: &'static [&'static [&'static str]],
}

const GROUPS: &[Group] = &[
    Group {
        names: "sched_switch",
        unknown: "who ran where, so that no space can be told",
        is: |kind| matches!(kind, Kind::Switch { .. }),
        needed: &[&["sched/sched_switch"]],
    },
    Group {
        names: "tlb_flush",
        unknown: "which flushes there were; they are taken to follow from calls and faults",
        is: |kind| matches!(kind, Kind::Flush { .. }),
        needed: &[&["tlb/tlb_flush"]],
    },
    Group {
        names: "sys_enter_munmap, sys_exit_munmap and those of the other calls",
        unknown: "which call flushed, and which pages",
        is: |kind| matches!(kind, Kind::Call { .. }),
        needed: &[&["syscalls/sys_enter_munmap", "syscalls/sys_enter_mprotect"]],
    },
    Group {
        names: "page_fault_user",
        unknown: "which pages were there, and which flushes copied a page",
        is: |kind| matches!(kind, Kind::Fault { .. }),
        needed: &[&["exceptions/page_fault_user"]],
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
        needed: &[
            &["csd/csd_queue_cpu", "csd/csd_function_entry"],
            &["ipi/ipi_send_cpu", "irq_vectors/call_function_single_entry"],
        ],
    },
    Group {
        names: "task_newtask and sched_process_exit",
        unknown: "which threads share a space, but for those that were listed",
        is: |kind| matches!(kind, Kind::Create { .. } | Kind::Exit | Kind::Execute { .. }),
        needed: &[&["task/task_newtask", "sched/sched_process_exit"]],
    },
];

impl Group {
    /// Whether a recorder that lacked `absent` would have recorded them.
    fn was_recorded(&self, absent: &[String]) -> bool {
        let there = |name: &&str| !absent.iter().any(|absent| absent == name);
        self.needed.iter().any(|list| list.iter().all(there))
    }
}

impl Trace {
    /// Which events were not recorded and what that makes unknown, in a sentence; none where each kind was. A kind that was
    /// recorded and did not occur is not missing. Where nobody knows what was recorded, kinds that do not occur are named, and
    /// the sentence says so.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let known = self.origin.knows_absent();
        let lacks = |group: &&Group| {
            let occurs = self.events.iter().any(|event| (group.is)(&event.kind));
            !(occurs || known && group.was_recorded(&self.origin.absent))
        };
        let parts: Vec<String> = GROUPS
            .iter()
            .filter(lacks)
            .map(|group| format!("no {} (unknown: {})", group.names, group.unknown))
            .collect();
        let unless = if known { "" } else { "; it does not say whether they were recorded" };
        (!parts.is_empty()).then(|| format!("the trace has {}{unless}", parts.join("; ")))
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
        assert!(trace.missing().unwrap().ends_with("whether they were recorded"));
    }

    #[test]
    fn what_was_recorded_and_did_not_occur_is_not_missing() {
        let mut trace = Trace::default();
        trace.origin.kernel = Some("6.18".into());
        assert_eq!(trace.missing(), None);
        // Without requests there are interrupts, which did not occur either.
        let requests = ["csd/csd_queue_cpu", "csd/csd_function_entry"];
        trace.origin.absent = requests.map(str::to_owned).to_vec();
        assert_eq!(trace.missing(), None);
        trace.origin.absent.push("ipi/ipi_send_cpu".into());
        let missing = trace.missing().unwrap();
        assert!(
            missing.contains("no csd_queue_cpu") && missing.ends_with("for whom)"),
            "{missing}"
        );
        assert_eq!(missing.matches("unknown:").count(), 1, "{missing}");
    }
}
