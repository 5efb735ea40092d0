//! What a trace lacks, events and lines that were not read, and what is unknown for that.

use crate::{Call, Event, Kind, Trace};

/// How many events of the same time are looked through for the same one.
const NEAR: usize = 64;

/// Events that belong together, and what is unknown without them.
struct Group {
    /// Their names in tracefs.
    names: &'static str,
    /// What is unknown without them.
    unknown: &'static str,
    is: fn(&Kind) -> bool,
    /// Events without each of which nothing is unknown for their absence.
    matters: &'static [fn(&Kind) -> bool],
    /// The names by which a recorder says that it had none of these: all of one of the lists are needed.
    needed: &'static [&'static [&'static str]],
}

const GROUPS: &[Group] = &[
    Group {
        names: "sched_switch",
        unknown: "who ran where, so that no space can be told",
        is: |kind| matches!(kind, Kind::Switch { .. }),
        matters: &[],
        needed: &[&["sched/sched_switch"]],
    },
    Group {
        names: "tlb_flush",
        unknown: "which flushes there were; they are taken to follow from calls and faults",
        is: |kind| matches!(kind, Kind::Flush { .. }),
        matters: &[],
        needed: &[&["tlb/tlb_flush"]],
    },
    Group {
        names: "sys_enter_munmap, sys_exit_munmap and those of the other calls",
        unknown: "which call flushed, and which pages",
        is: |kind| matches!(kind, Kind::Call { .. }),
        matters: &[],
        needed: &[&["syscalls/sys_enter_munmap", "syscalls/sys_enter_mprotect"]],
    },
    Group {
        names: "page_fault_user",
        unknown: "which pages were there, and which flushes copied a page",
        is: |kind| matches!(kind, Kind::Fault { .. }),
        matters: &[],
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
        matters: &[],
        needed: &[
            &["csd/csd_queue_cpu", "csd/csd_function_entry"],
            &["ipi/ipi_send_cpu", "irq_vectors/call_function_single_entry"],
        ],
    },
    Group {
        names: "task_newtask and sched_process_exit",
        unknown: "which threads share a space, but for those that were listed",
        is: |kind| matches!(kind, Kind::Create { .. } | Kind::Exit | Kind::Execute { .. }),
        matters: &[],
        needed: &[&["task/task_newtask", "sched/sched_process_exit"]],
    },
    Group {
        names: "sys_enter_msync, sys_enter_fsync, sys_enter_fdatasync and sys_enter_sync_file_range",
        unknown: "which pages of shared files were written back and flushed, each by itself",
        is: |kind| matches!(kind, Kind::Call { call, .. } if Call::WRITE_BACK.contains(call)),
        matters: &[maps_a_file_to_write_back],
        needed: &[&[
            "syscalls/sys_enter_msync",
            "syscalls/sys_enter_fsync",
            "syscalls/sys_enter_fdatasync",
            "syscalls/sys_enter_sync_file_range",
        ]],
    },
    Group {
        names: "sys_enter_close",
        unknown: "whether a descriptor that was written back is still that of the file that was mapped by it",
        is: |kind| matches!(kind, Kind::Call { call: Call::Close, .. }),
        matters: &[maps_a_file_to_write_back, writes_back_a_descriptor],
        needed: &[&["syscalls/sys_enter_close"]],
    },
];

fn writes_back_a_descriptor(kind: &Kind) -> bool {
    let of_descriptor = [Call::Fsync, Call::Fdatasync, Call::SyncFileRange];
    matches!(kind, Kind::Call { call, .. } if of_descriptor.contains(call))
}

/// Whether it maps a file shared, and it may be written (`PROT_WRITE`).
fn maps_a_file_to_write_back(kind: &Kind) -> bool {
    const PROT_WRITE: u64 = 2;
    kind.maps_file_shared().is_some_and(|(_, allowed)| allowed & PROT_WRITE != 0)
}

impl Group {
    /// Whether a recorder that lacked `absent` would have recorded them.
    fn was_recorded(&self, absent: &[String]) -> bool {
        let there = |name: &&str| !absent.iter().any(|absent| absent == name);
        self.needed.iter().any(|list| list.iter().all(there))
    }
}

impl Trace {
    /// How much of the text was not read, whether a recording is there twice, which events were not recorded and what that
    /// makes unknown, in a sentence; none where all is there. A kind that was
    /// recorded and did not occur is not missing. Where nobody knows what was recorded, kinds that do not occur are named, and
    /// the sentence says so.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let known = self.origin.knows_absent();
        let lacks = |group: &&Group| {
            let any = |is: fn(&Kind) -> bool| self.events.iter().any(|event| is(&event.kind));
            let recorded = any(group.is) || known && group.was_recorded(&self.origin.absent);
            !recorded && group.matters.iter().all(|&occurs| any(occurs))
        };
        let parts: Vec<String> = GROUPS
            .iter()
            .filter(lacks)
            .map(|group| format!("no {} (unknown: {})", group.names, group.unknown))
            .collect();
        let unless = if known { "" } else { "; it does not say whether they were recorded" };
        let missing =
            (!parts.is_empty()).then(|| format!("the trace has {}{unless}", parts.join("; ")));
        let all: Vec<String> =
            [self.damaged(), self.repeated(), missing].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// What part of its lines cannot be read.
    fn damaged(&self) -> Option<String> {
        let damaged = self.origin.losses.damaged;
        let is_line =
            |event: &&Event| !matches!(event.kind, Kind::Caller { .. } | Kind::Lost { .. });
        let read = self.events.iter().filter(is_line).count() as u64 + self.origin.losses.foreign;
        (damaged > 0).then(|| format!("{damaged} of {} lines cannot be read", damaged + read))
    }

    /// Whether the same events are there twice, as in a file that was appended to itself.
    fn repeated(&self) -> Option<String> {
        let mut repeated = 0;
        for (place, event) in self.events.iter().enumerate() {
            let later =
                self.events[place + 1..].iter().take_while(|other| other.time == event.time);
            repeated += usize::from(later.take(NEAR).any(|other| other == event));
        }
        let all = self.events.len();
        (3 * repeated > all).then(|| {
            format!("{repeated} of {all} events are there twice, at the same time: the recording may be in the file twice")
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Call, Event, Kind, NameId, Pages, Reason, Trace};

    #[test]
    fn unreadable_lines_and_a_recording_twice_are_told_first() {
        let event = |time| Event { time, cpu: 0, in_interrupt: None, task: 1, kind: Kind::Exit };
        let mut trace = Trace::default();
        trace.origin.kernel = Some("6.18".into());
        trace.events = (0..4).map(event).collect();
        assert_eq!(trace.missing(), None);
        trace.origin.losses.damaged = 2;
        assert_eq!(trace.missing().unwrap(), "2 of 6 lines cannot be read");
        trace.origin.losses.damaged = 0;
        trace.events = (0..4).flat_map(|time| [event(time), event(time)]).collect();
        assert!(trace.missing().unwrap().starts_with("4 of 8 events are there twice"));
    }

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
    fn calls_that_write_back_are_missed_where_a_shared_file_is_mapped() {
        let map = |flags| Kind::Call { call: Call::Mmap, arguments: [0, 4096, 3, flags, 3] };
        let event = |kind| Event { time: 0, cpu: 0, in_interrupt: None, task: 1, kind };
        let mut trace = Trace::default();
        trace.origin.kernel = Some("6.18".into());
        trace.origin.absent = Call::WRITE_BACK.into_iter().flat_map(Call::events).collect();
        // Private files, and memory that is shared with children, are not written back.
        trace.events = vec![event(map(2)), event(map(0x21))];
        assert_eq!(trace.missing(), None);
        trace.events.push(event(map(1)));
        assert!(trace.missing().unwrap().contains("no sys_enter_msync"));
        trace.origin.absent.clear();
        assert_eq!(trace.missing(), None);
        // By a descriptor that may have been closed.
        trace.origin.absent = Call::Close.events().to_vec();
        assert_eq!(trace.missing(), None);
        trace.events.push(event(Kind::Call { call: Call::Fsync, arguments: [3, 0, 0, 0, 0] }));
        assert!(trace.missing().unwrap().contains("no sys_enter_close"));
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
