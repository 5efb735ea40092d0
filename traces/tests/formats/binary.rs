//! Binary recordings, and what the tools that write them print of them: both are read, and have to say the same.
//!
//! `perf.data.gz` is what `perf record` (6.1) wrote of `true` on Linux 6.18, and `perf-chains.txt.gz` what `perf script`
//! printed of it; `perf-compressed.data.gz` was recorded with `-z`, `perf-stream.data.gz` with `-o -`. Names of threads that
//! ran before are blanked. `trace.dat.gz` has pages of tracefs that trace-cmd 3.1.6 put into a file (`restore`, `convert`); the
//! formats of events that it does not hold and most names of functions are left out. `trace-dat.txt.gz` is what
//! `trace-cmd report -R -t` prints of it.

use std::{fs, io::Read, path::Path};

use lookaside_traces::{Call, Event, Kind, Reason, Trace, import};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");

fn open(name: &str) -> Trace {
    import::open(&Path::new(FOLDER).join(name)).expect("a trace")
}

/// What both forms tell: text has no flags, and names what a file does not.
fn plain(trace: &Trace) -> Vec<(u64, u16, u32, String)> {
    let event = |event: &Event| {
        let kind = match event.kind {
            Kind::Caller { .. } => return None,
            Kind::Switch { next, name, runnable } => {
                format!("{next} {} {runnable}", trace.names[name.0 as usize])
            }
            kind => format!("{kind:?}"),
        };
        Some((event.time, event.cpu, event.task, kind))
    };
    trace.events.iter().filter_map(event).collect()
}

#[test]
fn a_file_of_perf_says_what_perf_prints_of_it() {
    let (file, text) = (open("perf.data.gz"), open("perf-chains.txt.gz"));
    assert!(file.events.len() > 60);
    assert_eq!(plain(&file), plain(&text));
    assert_eq!(file.origin.architecture.as_deref(), Some("x86_64"));
    assert_eq!((file.origin.cpus, file.origin.losses.damaged), (2, 0));
    assert!(file.origin.absent.iter().any(|name| name == "csd/csd_queue_cpu"));
    assert!(!file.origin.absent.iter().any(|name| name == "tlb/tlb_flush"));
    // Both have a caller for as many events, before the event that it is of: what the thread has asked for. Switches
    // and handlers of interrupts have call chains, too, which are not of what is flushed there.
    let asked_for = |kind: &Kind| match kind {
        Kind::Call { .. } | Kind::Fault { .. } => true,
        Kind::Flush { reason, .. } => {
            matches!(reason, Reason::Local | Reason::LocalSpace | Reason::Send)
        }
        _ => false,
    };
    let callers = |trace: &Trace| {
        let events = trace.events.windows(2);
        events
            .filter(|pair| matches!(pair[0].kind, Kind::Caller { .. }))
            .all(|pair| pair[0].task == pair[1].task && asked_for(&pair[1].kind))
    };
    assert!(callers(&file) && callers(&text));
    let count = |trace: &Trace| {
        trace.events.iter().filter(|event| matches!(event.kind, Kind::Caller { .. })).count()
    };
    assert!(count(&file) > 10 && count(&text) > 10, "{} {}", count(&file), count(&text));
    assert!(
        file.events.iter().any(|event| matches!(event.kind, Kind::Call { call: Call::Mmap, .. }))
    );
}

#[test]
fn what_perf_compressed_or_streamed_is_read() {
    for name in ["perf-compressed", "perf-stream"] {
        let file = open(&format!("{name}.data.gz"));
        let text = open(&format!("{name}.txt.gz"));
        assert!(file.events.len() > 70, "{name}");
        assert_eq!(plain(&file), plain(&text), "{name}");
        let losses = file.origin.losses;
        assert_eq!((losses.damaged, losses.truncated, file.origin.cpus), (0, false, 2), "{name}");
        assert_eq!(file.origin.kernel.as_deref(), Some("6.18.44"));
        assert_eq!(file.origin.hardware.processor.as_deref(), Some("AuthenticAMD 25/17"));
    }
}

#[test]
fn a_file_of_trace_cmd_says_what_trace_cmd_prints_of_it() {
    let (file, text) = (open("trace.dat.gz"), open("trace-dat.txt.gz"));
    assert!(file.events.len() > 400);
    // Functions are addresses in raw text, so that the purpose of a request is known from the file alone.
    let without = |trace: &Trace| {
        let mut trace = trace.clone();
        trace.events.retain(|event| !matches!(event.kind, Kind::Ask { .. } | Kind::Serve { .. }));
        plain(&trace)
    };
    assert_eq!(without(&file), without(&text));
    assert!(file.events.iter().any(|event| matches!(event.kind, Kind::Ask { .. })));
    assert_eq!((file.origin.cpus, file.origin.losses.damaged), (2, 0));
}

#[test]
fn a_recording_of_perf_that_cannot_be_used_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf.data");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        import::open(&path).expect_err("it cannot be used").to_string()
    };
    let mut whole = unpacked("perf.data.gz");
    // What `perf record` leaves that was killed: no length of its records, and no sections.
    let mut killed = whole[..16384].to_vec();
    killed[48..56].fill(0);
    killed[72..104].fill(0);
    assert!(refused(&killed).contains("never finished"), "{}", refused(&killed));
    // Without the section of the formats.
    whole[72] &= !2;
    let table = 1384 + 14712;
    whole.copy_within(table + 16..table + 400, table);
    assert!(refused(&whole).contains("without tracepoints"), "{}", refused(&whole));
    let mut other = b"2ELIFREP".to_vec();
    other.resize(200, 0);
    assert!(refused(&other).contains("order of bytes"), "{}", refused(&other));
}

#[test]
fn compressed_records_that_would_fill_the_memory_are_refused() {
    let packed = zstd::bulk::compress(&vec![0; 32 << 20], 1).expect("memory takes everything");
    let mut stream = b"PERFILE2".to_vec();
    stream.extend(16_u64.to_le_bytes());
    stream.extend(81_u32.to_le_bytes());
    stream.extend([0, 0]);
    stream.extend((8 + packed.len() as u16).to_le_bytes());
    stream.extend(packed);
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), stream).expect("it takes them");
    let why = import::open(file.path()).expect_err("it is 32 MiB of nothing").to_string();
    assert!(why.contains("more than 256 times its size"), "{why}");
}

fn unpacked(name: &str) -> Vec<u8> {
    let packed = fs::File::open(Path::new(FOLDER).join(name)).expect("the file");
    let mut whole = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut whole).expect("it is sound");
    whole
}

#[test]
fn a_cut_file_of_perf_is_refused() {
    let whole = unpacked("perf.data.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perf.data");
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("a file");
        import::open(&path).map_err(|error| error.to_string())
    };
    for part in 1..40 {
        let why = open(&whole[..whole.len() * part / 40]).expect_err("it is cut");
        assert!(why.contains("recording of perf") && why.lines().count() == 1, "{why}");
    }
}
