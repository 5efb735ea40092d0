//! Lines one by one: what the samples do not have.

use lookaside_traces::{BadPlace, Call, Event, Kind, Pages, Purpose, Reason, Trace, fault, import};

use super::read_text;

/// A line of tracefs.
fn line(cpu: u16, time: &str, event: &str) -> String {
    format!("          worker-4101    (   4101) [{cpu:03}] ..... {time}: {event}\n")
}

/// What one event of tracefs is read as.
#[track_caller]
fn kind(event: &str) -> Kind {
    let trace = read_text(line(0, "1.000000", event)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((trace.events.len(), trace.origin.losses.damaged), (1, 0), "{event}");
    trace.events[0].kind
}

/// Whether a line is counted as one that cannot be read.
#[track_caller]
fn damaged(event: &str) {
    let good = line(0, "1.000000", "call_function_exit: vector=1");
    let trace = read_text(good + &line(0, "1.000000", event)).expect("a trace");
    let losses = trace.origin.losses;
    assert_eq!((trace.events.len(), losses.damaged, losses.foreign), (1, 1, 0), "{event}");
}

fn name(trace: &Trace, kind: Kind) -> &str {
    match kind {
        Kind::Switch { name, .. } | Kind::Create { name, .. } | Kind::Rename { name, .. } => {
            &trace.names[name.0 as usize]
        }
        _ => panic!("{kind:?} has no name"),
    }
}

#[test]
fn calls_that_write_back_are_read_in_each_dialect() {
    let call = |call, arguments| Kind::Call { call, arguments };
    for (tracefs, perf, expected) in [
        (
            "sys_msync(start: 0x7f00, len: 0x2000, flags: 4)",
            "syscalls:sys_enter_msync: start: 0x00007f00, len: 0x00002000, flags: 0x00000004",
            call(Call::Msync, [0x7f00, 0x2000, 4, 0, 0]),
        ),
        (
            "sys_fsync(fd: 3)",
            "syscalls:sys_enter_fsync: fd: 0x00000003",
            call(Call::Fsync, [3, 0, 0, 0, 0]),
        ),
        (
            "sys_fdatasync(fd: 3)",
            "syscalls:sys_enter_fdatasync: fd: 0x00000003",
            call(Call::Fdatasync, [3, 0, 0, 0, 0]),
        ),
        (
            "sys_sync_file_range(fd: 3, offset: 0x1000, nbytes: 0, flags: 2)",
            "syscalls:sys_enter_sync_file_range: fd: 0x3, offset: 0x1000, nbytes: 0x0, flags: 0x2",
            call(Call::SyncFileRange, [3, 0x1000, 0, 2, 0]),
        ),
    ] {
        assert_eq!(kind(tracefs), expected);
        let perf = format!("worker  4101/4101  [000]  4223.516174123:      {perf}\n");
        assert_eq!(read_text(perf).expect("a trace").events[0].kind, expected);
    }
    let returned = Kind::Return { call: Call::Msync, value: -12 };
    assert_eq!(kind("sys_msync -> 0xfffffffffffffff4"), returned);
}

#[test]
fn interrupts_to_many_cpus_are_read() {
    let many = |mask: &str, site: &str, callback: &str| {
        kind(&format!("ipi_send_cpumask: cpumask={mask} callsite={site} callback={callback}"))
    };
    let handler = "generic_smp_call_function_single_interrupt+0x0/0x10";
    let functions = |targets| Kind::SendMany { targets, purpose: Purpose::Functions };
    let site = "smp_call_function_many_cond+0x1/0x2";
    assert_eq!(many("0000000c", site, handler), functions(12));
    assert_eq!(many("ff,00000001,00000002", site, handler), functions(1 << 32 | 2));
    assert_eq!(many("0,2-3", site, handler), functions(13));
    assert_eq!(many("62-8191", site, handler), functions(3 << 62));
    let reschedule = Kind::SendMany { targets: 1, purpose: Purpose::Reschedule };
    assert_eq!(many("1", "native_x", "0x0"), reschedule);
    damaged("ipi_send_cpumask: cpumask=ARRAY[01, 00] callsite=x callback=y");
    damaged("ipi_send_cpumask: cpumask=g callsite=x callback=y");
}

#[test]
fn the_purpose_of_an_interrupt_depends_on_its_sender() {
    let handler = "generic_smp_call_function_single_interrupt+0x0/0x10";
    for (site, callback, expected) in [
        ("on_each_cpu_cond_mask+0x20/0x60", handler, Purpose::Functions),
        ("generic_exec_single+0x36/0x150", handler, Purpose::Functions),
        ("ttwu_queue_wakelist+0x11d/0x150", handler, Purpose::WakeUp),
        ("wakeup_preempt+0x92/0xa0", "0x0", Purpose::Reschedule),
        ("irq_work_queue_on+0x1/0x2", "irq_work_run+0x0/0x10", Purpose::Other),
    ] {
        let event = format!("ipi_send_cpu: cpu=3 callsite={site} callback={callback}");
        assert_eq!(kind(&event), Kind::Send { target: 3, purpose: expected }, "{site}");
    }
    damaged("ipi_send_cpu: cpu=3 callsite=x");
    damaged("ipi_send_cpu: cpu=99999 callsite=x callback=0x0");
}

#[test]
fn functions_that_flush_are_known() {
    for (function, flush) in [
        ("flush_tlb_func", true),
        ("flush_tlb_func_remote", true),
        ("do_flush_tlb_all", true),
        ("do_kernel_range_flush", true),
        ("kernel_tlb_flush_all", true),
        ("do_sync_core", false),
        ("tlb_remove_table_smp_sync", false),
    ] {
        let event = format!("csd_function_entry: func={function}, csd=00000000deadbeef");
        assert_eq!(kind(&event), Kind::Serve { request: 0xdead_beef, flush }, "{function}");
    }
    let hidden = kind("csd_queue_cpu: cpu=1 callsite=x func=flush_tlb_func csd=(____ptrval____)");
    assert_eq!(hidden, Kind::Ask { target: 1, request: 0, flush: true });
}

#[test]
fn flushes_are_known_by_the_number_of_their_reason() {
    let flush = |reason, pages| Kind::Flush { reason, pages };
    for (event, expected) in [
        ("pages:16 reason:remote IPI send (4)", flush(Reason::Send, Pages::Some(16))),
        ("pages=16 reason= (4)", flush(Reason::Send, Pages::Some(16))),
        ("pages:-1 reason:a (new) word (1)", flush(Reason::Remote, Pages::Everything)),
        ("reason=5 pages=0", flush(Reason::WrongSpace, Pages::Some(0))),
        ("reason=3 pages=18446744073709551615", flush(Reason::LocalSpace, Pages::Everything)),
    ] {
        assert_eq!(kind(&format!("tlb_flush: {event}")), expected, "{event}");
    }
    damaged("tlb_flush: pages:1 reason:x (6)");
    damaged("tlb_flush: pages:1 reason:x");
    damaged("tlb_flush: pages:4294967296 reason:x (1)");
    damaged("tlb_flush: reason:x (1)");
    damaged("tlb_flush");
}

#[test]
fn faults_of_the_kernel_are_faults_and_its_own_addresses_may_be_names() {
    let read = |text: &str| kind(&format!("page_fault_kernel: address={text} error_code=0x2"));
    let at = |address| Kind::Fault { address, code: fault::WRITE };
    assert_eq!(read("0x7f373f90c000 ip=rep_movs_alternative+0x4a/0x90"), at(0x7f37_3f90_c000));
    assert_eq!(read("init_task+0x10/0x2000 ip=probe_kernel_read+0x1/0x10"), at(fault::KERNEL));
    damaged("page_fault_kernel: address= ip=0x1 error_code=0x2");
}

#[test]
fn names_hold_anything() {
    let text = [
        line(
            0,
            "1.000000",
            "sched_switch: prev_comm= prev_pid=1  prev_pid=5 prev_prio=120 \
             prev_state=R+ ==> next_comm=a next_pid=2 x next_pid=7 next_prio=120",
        ),
        line(
            0,
            "1.000001",
            "task_newtask: pid=8 comm=a clone_flags=1 clone_flags=3d0f00 oom_score_adj=0",
        ),
        line(0, "1.000002", "task_rename: pid=8 oldcomm=a newcomm=b: c=d] [1] oom_score_adj=0"),
    ]
    .concat();
    let trace = read_text(text).expect("a trace");
    let kinds: Vec<_> = trace.events.iter().map(|event| event.kind).collect();
    assert!(matches!(kinds[0], Kind::Switch { next: 7, runnable: true, .. }), "{:?}", kinds[0]);
    assert_eq!(trace.events[0].task, 5);
    assert_eq!(name(&trace, kinds[0]), "a next_pid=2 x");
    assert!(matches!(kinds[1], Kind::Create { task: 8, flags: 0x3d_0f00, .. }), "{:?}", kinds[1]);
    assert_eq!(name(&trace, kinds[1]), "a clone_flags=1");
    assert_eq!(name(&trace, kinds[2]), "b: c=d] [1]");
}

#[test]
fn bytes_that_are_no_text_survive_in_names() {
    let mut text = line(0, "1.000000", "task_rename: pid=8 oldcomm=a newcomm=b?c oom_score_adj=0");
    let at = text.find('?').expect("it is there");
    let mut bytes = core::mem::take(&mut text).into_bytes();
    bytes[at] = 0xff;
    let trace = read_text(bytes).expect("a trace");
    assert_eq!(name(&trace, trace.events[0].kind), "b\u{fffd}c");
}

#[test]
fn states_tell_which_threads_are_runnable() {
    for (state, expected) in
        [("R", true), ("R+", true), ("S", false), ("0", true), ("256", true), ("1", false)]
    {
        let arrow = if state.starts_with(|c: char| c.is_ascii_digit()) { "" } else { " ==>" };
        let event = format!(
            "sched_switch: prev_comm=a prev_pid=5 prev_prio=120 prev_state={state}{arrow} \
             next_comm=b next_pid=7 next_prio=120"
        );
        let Kind::Switch { runnable, .. } = kind(&event) else { panic!("{event}") };
        assert_eq!(runnable, expected, "{state}");
    }
}

#[test]
fn lost_events_are_reported_where_they_were_lost() {
    let end = "call_function_exit: vector=1";
    let text = [
        "# entries-in-buffer/entries-written: 3/10   #P:4\n".to_owned(),
        line(0, "1.000000", end),
        "CPU:0 [LOST 20 EVENTS]\n".to_owned(),
        line(0, "3.000000", end),
        line(1, "2.000000", end),
        "CPU:1 [LOST EVENTS]\n".to_owned(),
        "CPU:1 [5 EVENTS DROPPED]\n".to_owned(),
    ]
    .concat();
    let trace = read_text(text).expect("a trace");
    assert_eq!(trace.origin.losses.lost, 7 + 20 + 1 + 5);
    assert_eq!(trace.origin.cpus, 4);
    let lost = |event: &Event| match event.kind {
        Kind::Lost { events } => Some((event.cpu, event.time, events)),
        _ => None,
    };
    let lost: Vec<_> = trace.events.iter().filter_map(lost).collect();
    assert_eq!(lost, [(0, 1_000_000_000, 20), (1, 2_000_000_000, 0), (1, 2_000_000_000, 5)]);
    assert_eq!((trace.origin.losses.damaged, trace.origin.losses.reordered), (0, 0));
}

#[test]
fn events_are_put_in_order_and_equal_times_keep_theirs() {
    let exit = |cpu, time, pid: u32| {
        line(cpu, time, &format!("sched_process_exit: comm=a pid={pid} prio=120 group_dead=false"))
    };
    let text = [
        exit(0, "1.000002", 1),
        exit(1, "1.000001", 2),
        exit(0, "1.000002", 3),
        exit(0, "1.000001", 4),
        exit(1, "1.000002", 5),
    ];
    let trace = read_text(text.concat()).expect("a trace");
    assert_eq!(trace.events.iter().map(|event| event.task).collect::<Vec<_>>(), [2, 4, 1, 3, 5]);
    assert_eq!(trace.origin.losses.reordered, 1);
}

#[test]
fn foreign_damaged_and_truncated_lines_are_distinguished() {
    let text = [
        line(0, "1.000000", "sys_mprotect(start: 0x7fe9457d8000, len: 0x10000, prot: 3)"),
        line(0, "1.000000", "sys_read(fd: 3, buf: 0x1, count: 1)"),
        line(0, "1.000000", "sys_read -> 0x1"),
        line(0, "1.000000", "sched_wakeup: comm=a pid=1 prio=120 target_cpu=000"),
        line(0, "1.000000", "sys_mprotect(start: 0x7fe9457d8000, len: zzz, prot: 3)"),
        line(0, "1.000000", "sys_mprotect -> "),
        "\n => a_function_of_a_stack\n".to_owned(),
        "no line of a trace\n".to_owned(),
        line(0, "1.000000", "tlb_flush: pages:16 reason:remote IPI send (4)").trim_end().to_owned(),
    ]
    .concat();
    let trace = read_text(text).expect("a trace");
    let losses = trace.origin.losses;
    assert_eq!((trace.events.len(), losses.foreign, losses.damaged), (1, 3, 3));
    assert!(losses.truncated, "the last line may have been longer");
}

#[test]
fn text_that_is_no_trace_is_refused_with_the_line() {
    let error = read_text("# tracer: nop\nsomething\nelse\n").expect_err("no trace");
    assert_eq!(error.place, BadPlace::Line(2));
    assert!(error.to_string().starts_with("text:2: no event of interest"), "{error}");
    assert_eq!(read_text("").expect_err("no trace").place, BadPlace::Whole);
    assert_eq!(read_text(vec![0; 3 << 20]).expect_err("no trace").place, BadPlace::Whole);
    let foreign = line(0, "1.000000", "sched_wakeup: comm=a pid=1 prio=120 target_cpu=000");
    assert!(read_text(foreign).is_err(), "nothing in it is of interest");
}

#[test]
fn recordings_of_other_tools_are_refused_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("recording");
    for (start, words) in [
        (&b"\x17\x08\x44tracing6\0"[..], "a recording of trace-cmd, and it ends before"),
        (b"PERFILE2\x68\0", "a damaged or cut recording of perf"),
        (b"", "it is empty"),
    ] {
        std::fs::write(&path, start).expect("a file");
        let error = import::open(&path).expect_err("no trace").to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = import::open(&directory.path().join("none")).expect_err("no file").to_string();
    assert!(error.contains("cannot be read"), "{error}");
}
