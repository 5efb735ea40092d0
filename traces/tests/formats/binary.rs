//! Binary recordings. `perf.data.gz` is what `perf record` (6.1) wrote of `true` on Linux 6.18, and `perf-chains.txt.gz` what
//! `perf script` printed of it: both are read, and have to say the same.

use std::{fs, io::Read, path::Path};

use lookaside_traces::{Call, Event, Kind, Trace, import};

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
    // Both have a caller for as many events, before the event that it is of.
    let callers = |trace: &Trace| {
        let events = trace.events.windows(2);
        events.filter(|pair| matches!(pair[0].kind, Kind::Caller { .. })).all(|pair| {
            pair[0].task == pair[1].task && !matches!(pair[1].kind, Kind::Caller { .. })
        })
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
fn a_cut_file_of_perf_is_refused() {
    let packed = fs::File::open(Path::new(FOLDER).join("perf.data.gz")).expect("the file");
    let mut whole = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut whole).expect("it is sound");
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
