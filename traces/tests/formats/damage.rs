//! Files with random damage. `PROPTEST_CASES=100000 cargo test --release -p lookaside-traces --test formats damage`
//! looks for longer.

use std::{io::Write, path::Path};

use lookaside_traces::{Kind, Trace, file, import, lackey};
use proptest::{collection::vec, prelude::*, sample::Index};

use super::{read, sample};

const TEXTS: [&str; 5] =
    ["tracefs.txt", "trace-cmd.txt", "trace-cmd-raw.txt", "perf.txt", "perf-default.txt"];

/// One way to do damage. Places are fractions of the length.
#[derive(Clone, Debug)]
enum Damage {
    Byte(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    Insert(Index, Vec<u8>),
    Digits(Index),
    Swap(Index, Index),
    Truncate(Index),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        2 => (place(), 1..200usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        2 => (place(), 1..400usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
        1 => (place(), vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        2 => place().prop_map(Damage::Digits),
        3 => (place(), place()).prop_map(|(a, b)| Damage::Swap(a, b)),
        1 => place().prop_map(Damage::Truncate),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        let range = |at: &Index, wide: usize| {
            let at = at.index(length);
            at..(at + wide).min(length)
        };
        match self {
            Self::Byte(at, byte) => bytes[at.index(length)] = *byte,
            Self::Remove(at, wide) => drop(bytes.drain(range(at, *wide))),
            Self::Repeat(at, wide) => {
                let part = bytes[range(at, *wide)].to_vec();
                let at = at.index(length);
                bytes.splice(at..at, part);
            }
            Self::Insert(at, part) => {
                let at = at.index(length);
                bytes.splice(at..at, part.iter().copied());
            }
            // The next number becomes one that is too large.
            Self::Digits(at) => {
                let from = at.index(length);
                if let Some(digit) = bytes[from..].iter().position(u8::is_ascii_digit) {
                    bytes.splice(from + digit..from + digit, *b"99999999999999999999");
                }
            }
            Self::Swap(a, b) => {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
                let count = lines.len();
                lines.swap(a.index(count), b.index(count));
                *bytes = lines.concat();
            }
            Self::Truncate(at) => bytes.truncate(at.index(length)),
        }
    }
}

/// What holds of everything that was read, and that it comes back from the project's own format.
pub(super) fn sound(trace: &Trace) {
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    let names = trace.names.len() as u32;
    assert!(trace.tasks.iter().all(|task| task.name.0 < names));
    for event in &trace.events {
        assert!(u32::from(event.cpu) < trace.origin.cpus);
        if let Kind::Switch { name, .. } | Kind::Create { name, .. } | Kind::Rename { name, .. } =
            event.kind
        {
            assert!(name.0 < names);
        }
    }
    let mut bytes = Vec::new();
    file::write(trace, &mut bytes).expect("memory takes everything");
    assert_eq!(&file::read(&bytes[..], Path::new("x")).expect("it comes back"), trace);
}

/// That each line is an event, or counted, or no event at all.
fn accounted(trace: &Trace, bytes: &[u8]) {
    let whole = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let remark = |line: &&[u8]| {
        let line = line.trim_ascii();
        let starts = [&b"#"[..], b"CPU", b"cpus=", b"=>"];
        line.is_empty() || starts.iter().any(|start| line.starts_with(start))
    };
    let remarks = bytes.split(|&byte| byte == b'\n').filter(remark).count() as u64;
    let losses = trace.origin.losses;
    let lost = trace.events.iter().filter(|e| matches!(e.kind, Kind::Lost { .. })).count() as u64;
    let told = trace.events.len() as u64 - lost + losses.foreign + losses.damaged;
    assert!(told <= whole && whole <= told + remarks, "{whole} lines, {told} told of, {remarks}");
    assert!(losses.truncated || bytes.is_empty() || bytes.ends_with(b"\n"));
}

/// Few cases, unless somebody says how many.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 64 };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_text_is_read_or_refused_and_every_line_is_accounted_for(
        which in 0..TEXTS.len(),
        damage in vec(any_damage(), 1..30),
    ) {
        let mut bytes = std::fs::read(sample(TEXTS[which])).expect("a sample");
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        if let Ok(trace) = import::read_text(&bytes[..], Path::new("x")) {
            sound(&trace);
            accounted(&trace, &bytes);
        }
    }

    #[test]
    fn text_of_anything_is_read_or_refused(
        lines in vec("[ -~]{0,30}(-[0-9]{1,6})? (\\(? *[0-9-]{1,7}\\)? )?\\[[0-9]{1,6}\\] ([.dhHsN0-9]{5} )?\
            [0-9]{1,12}\\.[0-9]{6}([0-9]{3})?: ([a-z]{2,6}:)?(tlb_flush|sched_switch|sys_mmap|sys_enter_brk|\
            task_newtask|csd_queue_cpu|ipi_send_cpumask)[:( ][ -~]{0,80}", 1..20),
    ) {
        let text = lines.join("\n") + "\n";
        if let Ok(trace) = import::read_text(text.as_bytes(), Path::new("x")) {
            sound(&trace);
            accounted(&trace, text.as_bytes());
        }
    }

    #[test]
    fn a_damaged_file_is_refused_or_gives_a_beginning(
        damage in vec(any_damage(), 1..4),
        wrong_end in any::<bool>(),
    ) {
        let trace = read("tracefs.txt");
        let mut bytes = Vec::new();
        file::write(&trace, &mut bytes).expect("memory takes everything");
        let whole = bytes.clone();
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        if wrong_end {
            bytes.extend_from_slice(&whole);
        }
        if let Ok(found) = file::read(&bytes[..], Path::new("x")) {
            prop_assert!(bytes == whole || found.origin.losses.truncated);
            prop_assert_eq!(&found.events[..], &trace.events[..found.events.len()]);
            prop_assert!(found.names.len() <= trace.names.len());
        }
    }

    #[test]
    fn blocks_of_anything_are_read_or_refused(
        blocks in vec((1..6u8, vec(any::<u8>(), 0..200)), 0..6),
    ) {
        // The checksums are right, so that what is behind them is tried.
        let mut bytes = Vec::new();
        file::write(&read("perf.txt"), &mut bytes).expect("memory takes everything");
        let stored = u32::from_le_bytes(bytes[25..29].try_into().expect("four bytes")) as usize;
        bytes.truncate(20 + 17 + stored);
        for (kind, block) in blocks {
            let mut head = vec![kind];
            for number in [block.len() as u32, block.len() as u32, crc32fast::hash(&block)] {
                head.extend_from_slice(&number.to_le_bytes());
            }
            head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
            bytes.extend([head, block].concat());
        }
        if let Ok(trace) = file::read(&bytes[..], Path::new("x")) {
            sound(&trace);
        }
    }

    #[test]
    fn a_damaged_list_of_threads_or_archive_is_read_or_refused(
        list in vec(any_damage(), 0..10),
        archive in vec(any_damage(), 0..3),
        gzip in any::<bool>(),
    ) {
        let mut tasks = std::fs::read(sample("tracefs.tasks")).expect("a sample");
        list.iter().for_each(|damage| damage.apply(&mut tasks));
        let text = std::fs::read(sample("tracefs.txt")).expect("a sample");
        let mut packed = if gzip {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&text).expect("memory takes everything");
            encoder.finish().expect("memory takes everything")
        } else {
            zstd::bulk::compress(&text, 1).expect("memory takes everything")
        };
        archive.iter().for_each(|damage| damage.apply(&mut packed));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.txt.gz");
        std::fs::write(directory.path().join("a.tasks"), &tasks).expect("a file");
        std::fs::write(&path, &packed).expect("a file");
        if let Ok(trace) = import::open(&path) {
            sound(&trace);
        }
    }

    #[test]
    fn a_damaged_log_of_lackey_is_read_or_refused(damage in vec(any_damage(), 1..30)) {
        let mut bytes = std::fs::read(sample("lackey.txt")).expect("a sample");
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        std::fs::write(&path, &bytes).expect("a file");
        if let Ok(pattern) = lackey::working_set_in(&path, 50) {
            prop_assert!(!pattern.threads.is_empty());
        }
    }
}
