//! The project's own format.

use std::path::Path;

use lookaside_traces::{
    BadPlace, BadTrace, Call, Event, Hardware, Kind, Losses, NameId, Origin, Pages, Purpose,
    Reason, Task, Trace, file,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::read;

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    file::write(trace, &mut bytes).expect("memory takes everything");
    bytes
}

fn read_own(bytes: &[u8]) -> Result<Trace, BadTrace> {
    file::read(bytes, Path::new("a.trace"))
}

/// A trace with an event of each kind, on two CPUs.
fn every_kind() -> Trace {
    let name = NameId(1);
    let kinds = [
        Kind::Switch { next: 7, name, runnable: true },
        Kind::Migrate { task: 7, to: 1 },
        Kind::Create { task: 8, name: NameId(0), flags: 0x3d_0f00 },
        Kind::Execute { task: 8, old: 9 },
        Kind::Exit,
        Kind::Rename { task: 8, name },
        Kind::Unmapped { space: 0xffff_8881_91d0_de00 },
        Kind::Flush { reason: Reason::Send, pages: Pages::Everything },
        Kind::Flush { reason: Reason::Remote, pages: Pages::Some(u32::MAX) },
        Kind::Call { call: Call::Mmap, arguments: [0, 4096, 3, 0x22, u64::MAX] },
        Kind::Return { call: Call::Mmap, value: -12 },
        Kind::Fault { address: u64::MAX, code: 7 },
        Kind::Ask { target: 1, request: 5, flush: true },
        Kind::Serve { request: 5, flush: true },
        Kind::Served { request: 5, flush: false },
        Kind::Send { target: 1, purpose: Purpose::WakeUp },
        Kind::SendMany { targets: 3, purpose: Purpose::Other },
        Kind::Interrupt,
        Kind::Resume,
        Kind::Lost { events: 3 },
        Kind::Caller { function: name },
    ];
    let event = |(i, kind)| Event {
        time: 1_000_000_000_000 + 10 * i as u64,
        cpu: (i % 2) as u16,
        in_interrupt: [None, Some(false), Some(true)][i % 3],
        task: 4100 + (i % 3) as u32,
        kind,
    };
    Trace {
        origin: Origin {
            architecture: Some("x86_64".into()),
            kernel: Some("6.18".into()),
            cpus: 2,
            guest: Some(true),
            hardware: Hardware {
                processor: Some("AuthenticAMD 25/17".into()),
                name: None,
                hypervisor: Some("kvm".into()),
                caches: vec!["L1 data 32K".into()],
            },
            command: vec!["sort".into(), "-n".into()],
            root: Some(0),
            members: vec![7, 4100],
            absent: vec!["csd".into()],
            losses: Losses { lost: 1, foreign: 2, damaged: 3, reordered: 4, truncated: false },
        },
        tasks: vec![Task { id: 2, process: 2, name, kernel: true }],
        names: vec!["sort".into(), "a\u{fffd} b".into()],
        events: kinds.into_iter().enumerate().map(event).collect(),
    }
}

/// The same, in as many blocks as there are events.
fn in_blocks(trace: &Trace) -> Vec<u8> {
    let mut writer = file::Writer::new(Vec::new(), &trace.origin).expect("memory");
    writer.names(&trace.names).expect("memory");
    trace.tasks.iter().for_each(|task| writer.task(task).expect("memory"));
    for event in &trace.events {
        writer.event(event).expect("memory");
        writer.flush().expect("memory");
    }
    writer.finish(&trace.origin).expect("memory")
}

#[test]
fn every_kind_comes_back() {
    let trace = every_kind();
    let words: std::collections::BTreeSet<_> = trace.events.iter().map(|e| e.kind.word()).collect();
    assert_eq!(words.len(), 20, "a kind is missing here");
    assert_eq!(read_own(&written(&trace)).expect("a trace"), trace);
    assert_eq!(read_own(&in_blocks(&trace)).expect("a trace"), trace);
}

#[test]
fn real_traces_take_less_than_eight_bytes_an_event() {
    for name in ["tracefs.txt", "trace-cmd-raw.txt", "perf.txt"] {
        let trace = read(name);
        let bytes = written(&trace);
        assert_eq!(read_own(&bytes).expect("a trace"), trace);
        // These excerpts are short, so that threads and their names weigh more than in whole traces.
        assert!(bytes.len() < 8 * trace.events.len() + 300, "{name}: {}", bytes.len());
    }
}

#[test]
fn a_truncated_file_gives_its_whole_blocks_and_says_so() {
    let trace = every_kind();
    let bytes = in_blocks(&trace);
    let (mut refused, mut counts) = (0, std::collections::BTreeSet::new());
    for end in 0..bytes.len() {
        match read_own(&bytes[..end]) {
            Err(_) => refused += 1,
            Ok(found) => {
                assert!(found.origin.losses.truncated, "{end}");
                assert_eq!(found.events, trace.events[..found.events.len()], "{end}");
                counts.insert(found.events.len());
            }
        }
    }
    assert!(refused < 150, "{refused}: only what ends before its origin is refused");
    assert_eq!(counts.len(), trace.events.len() + 1, "each block is read as soon as it is whole");
}

#[test]
fn every_damaged_byte_is_noticed() {
    let bytes = in_blocks(&every_kind());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        let error = read_own(&damaged).expect_err("the damage is noticed");
        let BadPlace::Byte(byte) = error.place else { panic!("{error}") };
        assert!(byte <= at as u64, "{error}");
    }
}

#[test]
fn a_block_that_is_missing_is_noticed() {
    let trace = every_kind();
    let bytes = in_blocks(&trace);
    // Blocks begin after the magic and the version; each says how long it is.
    let mut starts = vec![20];
    while *starts.last().expect("one") < bytes.len() {
        let start = *starts.last().expect("one");
        let stored = &bytes[start + 5..start + 9];
        let stored = u32::from_le_bytes(stored.try_into().expect("four bytes")) as usize;
        starts.push(start + 17 + stored);
    }
    assert_eq!(starts.len(), trace.events.len() + 5);
    // All but the last, whose absence is truncation.
    for pair in starts[..starts.len() - 1].windows(2) {
        let without = [&bytes[..pair[0]], &bytes[pair[1]..]].concat();
        assert!(read_own(&without).is_err(), "{pair:?}");
    }
    let more = [&bytes[..], b"x"].concat();
    let error = read_own(&more).expect_err("there is more");
    assert_eq!(error.place, BadPlace::Byte(bytes.len() as u64), "{error}");
}

#[test]
fn another_version_is_refused_with_both() {
    let mut bytes = written(&every_kind());
    bytes[16] = 9;
    let error = read_own(&bytes).expect_err("another version").to_string();
    assert_eq!(error, "a.trace: byte 16: it is of version 9; this program reads versions 1 to 6");
    assert!(read_own(b"not a trace at all, but some text").is_err());
}

#[test]
fn what_earlier_recorders_did_not_know_is_absent_in_their_files() {
    let trace = every_kind();
    // The bytes are the same since version 3.
    let mut bytes = written(&trace);
    for (version, more, names) in [
        (
            3,
            18,
            &["syscalls/sys_enter_msync", "syscalls/sys_exit_fsync", "syscalls/sys_enter_mlock"][..],
        ),
        (4, 10, &["syscalls/sys_enter_mlock2", "syscalls/sys_exit_mlockall"]),
        (5, 2, &["syscalls/sys_enter_close", "syscalls/sys_exit_close"]),
        (6, 0, &[]),
    ] {
        bytes[16] = version;
        let absent = read_own(&bytes).expect("a trace of that version").origin.absent;
        assert_eq!(absent.len(), trace.origin.absent.len() + more, "{version}");
        for name in names {
            assert!(absent.iter().any(|absent| absent == name), "{version}: {name}");
        }
    }
    // Where nobody knows what was recorded, it stays so.
    let mut bytes = written(&Trace::default());
    bytes[16] = 3;
    assert_eq!(read_own(&bytes).expect("a trace of version 3").origin.absent, [""; 0]);
}

#[test]
fn a_file_that_is_cut_before_its_first_block_is_whole_is_refused_as_a_trace() {
    let bytes = written(&every_kind());
    let first = u32::from_le_bytes(bytes[25..29].try_into().expect("four bytes")) as usize;
    for end in [1, 15, 16, 18, 20, 30, 20 + 17 + first - 1] {
        let error = read_own(&bytes[..end]).expect_err("it holds nothing");
        assert_eq!(error.place, BadPlace::Byte(end as u64));
        assert!(error.why.starts_with("it is a trace of which only the first"), "{error}");
    }
    assert!(read_own(&bytes[..20 + 17 + first]).is_ok());
    assert!(read_own(b"").is_err_and(|error| error.why.contains("does not begin as a trace")));
}

/// The head of a block, with the right checksum.
fn head(kind: u8, raw: u32, stored: &[u8], length: u32) -> Vec<u8> {
    let mut head = vec![kind];
    for number in [raw, length, crc32fast::hash(stored)] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    head
}

/// A file with this block after the origin.
fn with_block(kind: u8, raw: u32, stored: &[u8]) -> Vec<u8> {
    let empty = Trace { names: vec![], tasks: vec![], events: vec![], ..every_kind() };
    let bytes = written(&empty);
    let first = u32::from_le_bytes(bytes[25..29].try_into().expect("four bytes")) as usize;
    let origin_end = 20 + 17 + first;
    [&bytes[..origin_end], &head(kind, raw, stored, stored.len() as u32), stored].concat()
}

#[test]
fn sizes_made_in_bad_faith_are_refused() {
    let refused = |bytes: &[u8], words: &str| {
        let error = read_own(bytes).expect_err("bad faith");
        assert!(matches!(error.place, BadPlace::Byte(1..)), "{error}");
        assert!(error.why.contains(words), "{error}");
    };
    refused(&with_block(4, u32::MAX, b"abc"), "claims to hold");
    refused(&with_block(4, 1 << 20, b"abc"), "claims to hold");
    refused(&with_block(4, 2, b"abc"), "claims to hold");
    refused(&with_block(9, 3, b"abc"), "unknown kind");
    refused(&with_block(4, 100, b"abc"), "cannot be decompressed");
    // A list that says that it is very long.
    refused(&with_block(1, 9, b"\0\0\x01\0\xff\xff\xff\xff\x0f"), "ends within");
    // An event that bears a name that is not there, one of no known kind, and a text that is none.
    refused(&with_block(4, 6, &[0x80, 2, 7, 2, 0, 0]), "a name that is not there");
    refused(&with_block(4, 2, &[0x80 | 25, 2]), "unknown kind");
    refused(&with_block(2, 3, &[2, 0xff, 0xff]), "not UTF-8");
    refused(&with_block(1, 5, &[0, 0, 0xff, 0xff, 0x7f]), "too many CPUs");
}

#[test]
fn a_trace_of_always_the_same_comes_back_too() {
    let event = |time| Event { time, cpu: 0, in_interrupt: None, task: 1, kind: Kind::Interrupt };
    let events = (0..300_000).map(event).collect();
    let trace =
        Trace { origin: Origin { cpus: 1, ..Origin::default() }, events, ..Trace::default() };
    assert_eq!(read_own(&written(&trace)).expect("a trace"), trace);
}

#[test]
fn a_writer_takes_the_events_of_each_cpu_by_itself() {
    let trace = every_kind();
    let mut writer = file::Writer::new(Vec::new(), &Origin::default()).expect("memory");
    let bad = writer.event(&trace.events[0]).expect_err("its name is not there yet");
    assert!(bad.to_string().contains("no name 1"), "{bad}");
    writer.names(&trace.names).expect("memory");
    writer.task(&trace.tasks[0]).expect("memory");
    for cpu in [1, 0] {
        let own = trace.events.iter().filter(|event| event.cpu == cpu);
        own.for_each(|event| writer.event(event).expect("memory"));
    }
    let bytes = writer.finish(&trace.origin).expect("memory");
    assert_eq!(read_own(&bytes).expect("a trace"), trace);
}

prop_compose! {
    fn any_event(names: u32)(
        time in prop_oneof![0..10_000u64, any::<u64>()],
        cpu in 0..200u16,
        in_interrupt in any::<Option<bool>>(),
        task in any::<u32>(),
        kind in any_kind(names),
    ) -> Event {
        Event { time, cpu, in_interrupt, task, kind }
    }
}

fn any_kind(names: u32) -> impl Strategy<Value = Kind> {
    let name = move || (0..names).prop_map(NameId);
    let call = || select(Call::ALL);
    let purposes = [Purpose::Functions, Purpose::WakeUp, Purpose::Reschedule, Purpose::Other];
    let purpose = move || select(purposes.to_vec());
    let pages = option::of(any::<u32>()).prop_map(|p| p.map_or(Pages::Everything, Pages::Some));
    prop_oneof![
        (any::<u32>(), name(), any::<bool>()).prop_map(|(next, name, runnable)| Kind::Switch {
            next,
            name,
            runnable
        }),
        (any::<u32>(), 0..200u16).prop_map(|(task, to)| Kind::Migrate { task, to }),
        (any::<u32>(), name(), any::<u64>()).prop_map(|(task, name, flags)| Kind::Create {
            task,
            name,
            flags
        }),
        any::<(u32, u32)>().prop_map(|(task, old)| Kind::Execute { task, old }),
        select(vec![Kind::Exit, Kind::Interrupt, Kind::Resume]),
        (any::<u32>(), name()).prop_map(|(task, name)| Kind::Rename { task, name }),
        any::<u64>().prop_map(|space| Kind::Unmapped { space }),
        (select(Reason::ALL.to_vec()), pages)
            .prop_map(|(reason, pages)| Kind::Flush { reason, pages }),
        (call(), any::<[u64; 5]>()).prop_map(|(call, arguments)| Kind::Call { call, arguments }),
        (call(), any::<i64>()).prop_map(|(call, value)| Kind::Return { call, value }),
        any::<(u64, u64)>().prop_map(|(address, code)| Kind::Fault { address, code }),
        (0..200u16, any::<u64>(), any::<bool>()).prop_map(|(target, request, flush)| Kind::Ask {
            target,
            request,
            flush
        }),
        any::<(u64, bool)>().prop_map(|(request, flush)| Kind::Serve { request, flush }),
        any::<(u64, bool)>().prop_map(|(request, flush)| Kind::Served { request, flush }),
        (0..200u16, purpose()).prop_map(|(target, purpose)| Kind::Send { target, purpose }),
        (any::<u64>(), purpose())
            .prop_map(|(targets, purpose)| Kind::SendMany { targets, purpose }),
        any::<u64>().prop_map(|events| Kind::Lost { events }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_trace_comes_back(
        names in vec(".{0,20}", 1..5),
        events in vec(any_event(1), 0..300),
        command in vec(".*", 0..3),
    ) {
        let mut events = events;
        events.sort_by_key(|event| event.time);
        let origin = Origin { cpus: 200, command, ..Origin::default() };
        let trace = Trace { origin, tasks: vec![], names, events };
        prop_assert_eq!(read_own(&written(&trace)).expect("a trace"), trace);
    }
}
