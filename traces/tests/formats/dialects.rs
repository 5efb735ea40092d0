//! The text of tracefs, of `trace-cmd` and of `perf`.

use std::{fs, io::Write};

use lookaside_traces::{Call, Event, Kind, Pages, Purpose, Reason, Summary, Trace, import};

use super::{read, read_text, text};

/// How often each kind is in a trace, as `call 3, create 1`.
fn kinds(trace: &Trace) -> String {
    let kinds = Summary::of(trace).kinds;
    kinds.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
}

fn nothing_is_missing(trace: &Trace) {
    let losses = trace.origin.losses;
    assert_eq!((losses.lost, losses.damaged, losses.reordered), (0, 0, 0));
    assert!(!losses.truncated);
}

/// The kinds without the numbers of names, which depend on what else a file names.
fn comparable(trace: &Trace) -> Vec<(u16, u32, String)> {
    let name = |name: lookaside_traces::NameId| trace.names[name.0 as usize].clone();
    let words = |event: &Event| match event.kind {
        Kind::Switch { next, name: by, runnable } => format!("{next} {} {runnable}", name(by)),
        Kind::Create { task, name: by, flags } => format!("{task} {} {flags:x}", name(by)),
        Kind::Rename { task, name: by } => format!("{task} {}", name(by)),
        Kind::Unmapped { space } => format!("{space:x}"),
        kind => format!("{kind:?}"),
    };
    trace.events.iter().map(|event| (event.cpu, event.task, words(event))).collect()
}

#[test]
fn tracefs_is_read() {
    let trace = read("tracefs.txt");
    nothing_is_missing(&trace);
    assert_eq!(kinds(&trace), TRACEFS);
    assert_eq!(trace.origin.cpus, 2);
    assert_eq!(trace.origin.architecture.as_deref(), Some("x86_64"));
    assert!(trace.events.iter().all(|event| event.in_interrupt.is_some()));
    // Requests are served in interrupts where another CPU asked, and not where it was this one.
    let served = |asked: bool| {
        let of = move |event: &&Event| matches!(event.kind, Kind::Serve { request, .. } if (request != 0) == asked);
        trace.events.iter().filter(of).map(|event| event.in_interrupt)
    };
    assert!(served(true).count() > 3 && served(true).all(|interrupt| interrupt == Some(true)));
    assert!(served(false).count() > 3 && served(false).all(|interrupt| interrupt == Some(false)));
}

/// Counted with other means.
const TRACEFS: &str = "ask 9, call 17, create 5, execute 1, exit 1, \
    fault 48, flush 46, interrupt 9, migrate 2, rename 1, \
    resume 9, return 18, send 10, serve 17, served 16, switch 18, unmapped 1";

#[test]
fn existing_threads_come_from_the_list_and_from_the_column() {
    let trace = read("tracefs.txt");
    let task = |id| {
        let found = trace.tasks.iter().filter(|task| task.id == id).collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{id}");
        (found[0].process, trace.names[found[0].name.0 as usize].as_str(), found[0].kernel)
    };
    // In the list alone; in both; in the column alone.
    assert_eq!(task(2), (2, "kthreadd", true));
    assert_eq!(task(15), (15, "rcu_preempt", true));
    assert_eq!(task(8521), (8519, "build", false));
    let made = |event: &Event| match event.kind {
        Kind::Create { task, .. } => Some(task),
        _ => None,
    };
    let made: Vec<u32> = trace.events.iter().filter_map(made).collect();
    assert!(made.len() > 3 && trace.tasks.iter().all(|task| !made.contains(&task.id)));

    let alone = read_text(text("tracefs.txt")).expect("a trace");
    let kernel: Vec<_> = alone.tasks.iter().filter(|t| t.kernel).map(|t| t.id).collect();
    assert_eq!(kernel, [15], "by its name, and by how it sleeps");
    assert!(alone.tasks.iter().any(|task| (task.id, task.process) == (8521, 8519)));
    assert_eq!(comparable(&alone), comparable(&trace));
}

#[test]
fn tracefs_without_the_column_of_processes_is_the_same_without_tasks() {
    let whole = text("tracefs.txt");
    let without: String = whole
        .lines()
        .map(|line| match line.find(") [") {
            Some(close) => {
                let open = line[..close].rfind(" (").expect("it is opened");
                format!("{}{}\n", &line[..open], &line[close + 1..])
            }
            None => format!("{line}\n"),
        })
        .collect();
    assert!(!without.contains("(-------)"));
    let (whole, without) = (read_text(whole), read_text(without));
    let (whole, without) = (whole.expect("a trace"), without.expect("a trace"));
    assert_eq!(comparable(&without), comparable(&whole));
    assert!(without.tasks.is_empty() && !whole.tasks.is_empty());
}

#[test]
fn trace_cmd_output_reads_the_same_without_its_plugins() {
    let (plain, raw) = (read("trace-cmd.txt"), read("trace-cmd-raw.txt"));
    for trace in [&plain, &raw] {
        nothing_is_missing(trace);
        assert_eq!(kinds(trace), TRACE_CMD);
        assert!(trace.events.iter().all(|event| event.in_interrupt.is_none()));
    }
    assert_eq!(comparable(&plain), comparable(&raw));
    let micros = |trace: &Trace| trace.events.iter().map(|e| e.time).collect::<Vec<_>>();
    let pairs = micros(&plain).into_iter().zip(micros(&raw));
    assert!(pairs.into_iter().all(|(micro, nano)| micro.abs_diff(nano) <= 500));
}

/// Counted with other means.
const TRACE_CMD: &str = "call 15, create 3, execute 1, \
    fault 39, flush 16, migrate 1, rename 1, \
    resume 1, return 14, send 1, serve 3, served 4, switch 11, unmapped 2";

#[test]
fn perf_output_reads_the_same_without_processes() {
    let (full, short) = (read("perf.txt"), read("perf-default.txt"));
    for trace in [&full, &short] {
        nothing_is_missing(trace);
        assert_eq!(kinds(trace), PERF);
    }
    assert_eq!(comparable(&full), comparable(&short));
    assert!(short.tasks.is_empty() && full.tasks.iter().any(|task| task.id != task.process));
    // Of a thread that is gone, `perf` says -1.
    assert!(text("perf.txt").contains("17663/-1"));
    assert!(full.events.iter().all(|event| event.task != u32::MAX));
}

/// Counted with other means.
const PERF: &str = "ask 1, call 9, create 4, execute 1, exit 1, \
    fault 22, flush 11, migrate 1, rename 1, return 10, send 2, serve 6, served 7, switch 9, unmapped 2";

#[test]
fn all_dialects_mean_the_same() {
    // One recording cannot be had in all of them; but all have the same program, which makes threads: the
    // C library maps a stack for each.
    let stack = [0, 0x80_1000, 0, 0x2_0022, 0xffff_ffff];
    let mapped = Kind::Call { call: Call::Mmap, arguments: stack };
    let names =
        ["tracefs.txt", "trace-cmd.txt", "trace-cmd-raw.txt", "perf.txt", "perf-default.txt"];
    for name in names {
        assert!(read(name).events.iter().any(|event| event.kind == mapped), "{name}");
    }
    let flush = Kind::Flush { reason: Reason::Switch, pages: Pages::Everything };
    for name in names {
        assert!(read(name).events.iter().any(|event| event.kind == flush), "{name}");
    }
    for (name, target) in [("tracefs.txt", 0), ("perf.txt", 1)] {
        let send = Kind::Send { target, purpose: Purpose::Functions };
        assert!(read(name).events.iter().any(|event| event.kind == send), "{name}");
    }
}

#[test]
fn compressed_files_are_read_and_cut_ones_say_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let plain = text("tracefs.txt");
    let expected = read_text(&plain).expect("a trace");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain.as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::bulk::compress(plain.as_bytes(), 3).expect("memory");
    let mut own = Vec::new();
    lookaside_traces::file::write(&expected, &mut own).expect("memory");
    let packed = zstd::bulk::compress(&own, 3).expect("memory");
    for (name, bytes) in [("a.gz", gzip), ("a.zst", zstd), ("a.trace", own), ("b.zst", packed)] {
        let path = directory.path().join(name);
        fs::write(&path, &bytes).expect("a file");
        assert_eq!(import::open(&path).expect("a trace"), expected, "{name}");
        fs::write(&path, &bytes[..bytes.len() - 9]).expect("a file");
        // All of zstd's few blocks, and of the own format's, may be in what is missing.
        if let Ok(cut) = import::open(&path) {
            assert!(cut.origin.losses.truncated, "{name}");
        }
    }
    let path = directory.path().join("a.gz");
    assert!(import::open(&path).expect("most is there").events.len() > 100);
}

#[test]
fn what_the_header_of_perf_says_was_recorded_is_not_missing() {
    let line = "true  15062/15062 [001] 17858.712618966: tlb:tlb_flush: pages:1 reason:local MM shootdown (3)\n";
    let named = |name: &str| format!("# event : name = {name}, , id = {{ 237, 238 }}, type = 2\n");
    let header =
        ["tlb:tlb_flush", "sched:sched_switch", "csd:csd_queue_cpu", "csd:csd_function_entry"];
    let header: String = header.iter().map(|name| named(name)).collect();
    let missing = |text: String| read_text(text).expect("it has an event").missing();
    let without = missing(line.to_owned()).expect("nobody knows");
    assert!(without.contains("csd_queue_cpu") && without.contains("does not say"), "{without}");
    let with = missing(header + line).expect("calls were not recorded");
    assert!(!with.contains("csd_queue_cpu") && !with.contains("sched_switch"), "{with}");
    assert!(with.contains("sys_enter_munmap") && !with.contains("does not say"), "{with}");
}

#[test]
fn a_call_chain_is_of_what_its_thread_has_asked_for_and_not_of_what_interrupts_it() {
    let of = |what: &str, chain: bool| {
        let chain = if chain { "\t          1234 work (/bin/true)\n\n" } else { "\n" };
        format!("true  7/7 [001] 17.712618966: {what}\n{chain}")
    };
    let flush = |reason: &str| format!("tlb:tlb_flush: pages:1 reason:{reason}");
    for (what, caller) in [
        ("syscalls:sys_enter_munmap: addr: 0x5000, len: 0x1000".to_owned(), true),
        (flush("local MM shootdown (3)"), true),
        (flush("remote IPI send (4)"), true),
        (flush("flush on task switch (0)"), false),
        (flush("remote shootdown (1)"), false),
        (flush("remote wrong CPU (5)"), false),
    ] {
        let number = |chain| read_text(of(&what, chain)).expect("an event").events.len();
        assert_eq!((number(false), number(true)), (1, 1 + usize::from(caller)), "{what}");
    }
}
