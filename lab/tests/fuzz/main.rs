//! Fuzz targets: everything that reads what others wrote. Whatever the bytes are, it answers, with a value or with
//! a refusal, and does not panic or hang.
//!
//! `cargo test` tries some hundred inputs of each; `cargo bolero test --package lookaside-cli --test fuzz
//! own_traces` (of the program `cargo-bolero`) looks for more, guided by coverage.

mod damage;

use core::{fmt::Debug, str::FromStr};
use std::{io::Write as _, path::Path};

use lookaside_checking::{
    check::{Outcome, Shard},
    litmus::{Litmus, Recorded},
};
use lookaside_machine::{casemate, explore::Schedule};
use lookaside_scenarios::generate::Program;
use lookaside_simulation::{
    calibrate,
    data::{Machine, Target, Text},
    reproduce::Reference,
};
use lookaside_terminal::plain;
use lookaside_traces::{BadTrace, Trace, file, import, lackey};

/// How many inputs `cargo test` tries of each target.
const INPUTS: usize = 400;

/// Gives each input to `target`: bytes that resemble none of the `seeds`, or one of them with damage.
fn fuzz(seeds: &[&[u8]], target: impl Fn(&[u8]) + core::panic::RefUnwindSafe) {
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(512)
        .for_each(|input| target(&damage::applied(input, seeds)));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A refusal says something, in words that can be shown.
fn refusal(why: impl ToString) {
    let why = why.to_string();
    assert!(!why.trim().is_empty());
    assert!(!plain::text(&why).contains('\u{1b}'));
}

/// What was read can be written, and is then read again as it was.
fn judge(read: Result<Trace, BadTrace>) {
    match read {
        Ok(trace) => {
            let mut bytes = Vec::new();
            file::write(&trace, &mut bytes).expect("memory takes everything");
            assert_eq!(file::read(&bytes[..], Path::new("again")).expect("our own"), trace);
        }
        Err(why) => refusal(why),
    }
}

#[test]
fn own_traces() {
    let seeds: [&[u8]; 2] = [
        include_bytes!("../../../traces/threads.trace"),
        include_bytes!("../../../traces/compile.trace"),
    ];
    // A short one as well: in a long one little of the damage meets what is read first.
    let mut short = Vec::new();
    let trace = Trace { names: vec!["cat".into()], ..Trace::default() };
    file::write(&trace, &mut short).expect("memory takes everything");
    fuzz(&[seeds[0], seeds[1], &short], |bytes| judge(file::read(bytes, Path::new("fuzzed"))));
}

#[test]
fn traces_of_other_tools() {
    let seeds: [&[u8]; 5] = [
        include_bytes!("../../../traces/tests/formats/tracefs.txt"),
        include_bytes!("../../../traces/tests/formats/trace-cmd.txt"),
        include_bytes!("../../../traces/tests/formats/trace-cmd-raw.txt"),
        include_bytes!("../../../traces/tests/formats/perf.txt"),
        include_bytes!("../../../traces/tests/formats/perf-default.txt"),
    ];
    fuzz(&seeds, |bytes| judge(import::read_text(bytes, Path::new("fuzzed"))));
}

#[test]
fn files_of_any_kind() {
    let seeds: [&[u8]; 2] = [
        include_bytes!("../../../traces/sort.trace"),
        include_bytes!("../../../traces/tests/formats/perf.txt"),
    ];
    fuzz(&seeds, |bytes| {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("it takes them");
        judge(import::open(file.path()));
    });
}

#[test]
fn logs_of_lackey() {
    fuzz(&[include_bytes!("../../../traces/tests/formats/lackey.txt")], |bytes| {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("it takes them");
        if let Err(why) = lackey::working_set_in(file.path(), 100) {
            refusal(why);
        }
    });
}

#[test]
fn litmus_tests() {
    let seeds: [&[u8]; 8] = [
        include_bytes!("../../../litmus/unmap.litmus"),
        include_bytes!("../../../litmus/dirty-cleaned.litmus"),
        include_bytes!("../../../litmus/remap.litmus"),
        include_bytes!("../../../litmus/frame-reused.litmus"),
        include_bytes!("../../../litmus/riscv/global-left-asid.litmus"),
        include_bytes!("../../../litmus/riscv/map-remote.litmus"),
        include_bytes!("../../../litmus/x86/ipi4.litmus"),
        include_bytes!("../../../litmus/x86/n5-synonym.litmus"),
    ];
    fuzz(&seeds, |bytes| match Litmus::read(&text(bytes)) {
        Ok(litmus) => {
            let mut names = litmus.names.clone();
            let _ = Recorded::read(&text(bytes), &mut names);
        }
        Err(why) => refusal(why),
    });
}

#[test]
fn litmus_tests_of_isla() {
    let seeds: [&[u8]; 1] = [include_bytes!("../../../checking/tests/isla/unmap.toml")];
    assert!(Litmus::read_isla(&text(seeds[0])).is_ok(), "the seed is sound");
    fuzz(&seeds, |bytes| {
        if let Err(why) = Litmus::read_isla(&text(bytes)) {
            refusal(why);
        }
    });
}

#[test]
fn programs() {
    let seeds: [&[u8]; 3] = [
        b"arm-cnp+early epochs(5,1,2) [Run(A) Tell Unmap(A)] [Await Run(B) Batch(A,B)]",
        b"x86 recent [Run(B) Bury Release(A)] [Run(A) Halt]",
        b"blocks-riscv two [Fold(0) Unmap(1..3) Tell] [Await Store(3) Clean(4..8)]",
    ];
    for seed in seeds {
        assert!(text(seed).parse::<Program>().is_ok(), "the seed is sound");
    }
    fuzz(&seeds, |bytes| match text(bytes).parse::<Program>() {
        Ok(program) => assert_eq!(program.to_string().parse(), Ok(program)),
        Err(why) => refusal(why),
    });
}

#[test]
fn recorded_states() {
    let test = include_str!("../../../litmus/unmap.litmus");
    let names = Litmus::read(test).expect("a test").names;
    let seeds: [&[u8]; 1] = [b"Test unmap Allowed\nStates 2\n0:X0=0; 1:X2=1;\n0:X0=1; 1:X2=0;\nOk\n\
        Witnesses\nPositive: 1 Negative: 1\nCondition exists (1:X2=1)\nObservation unmap Sometimes 1 1\n"];
    assert!(Recorded::read(&text(seeds[0]), &mut names.clone()).is_ok(), "the seed is sound");
    fuzz(&seeds, |bytes| {
        if let Err(why) = Recorded::read(&text(bytes), &mut names.clone()) {
            refusal(why);
        }
    });
}

#[test]
fn casemate_traces() {
    let seeds: [&[u8]; 1] = [b"(mem-init (id 0) (tid 0) (address 0x1000) (size 0x1000) (src \"a.c:1\"))\n\
        (mem-write (id 1) (tid 0) (mem-order plain) (address 0x1008) (value 0x3) (src \"a.c:2\"))\n"];
    assert!(casemate::check(&text(seeds[0])).is_ok(), "the seed is sound");
    fuzz(&seeds, |bytes| {
        if let Err((_, why)) = casemate::check(&text(bytes)) {
            refusal(why);
        }
    });
}

#[test]
fn machine_files() {
    let seeds: [&[u8]; 3] = [
        include_bytes!("../../../machines/zen5.toml"),
        include_bytes!("../../../machines/westmere_ep_2s.toml"),
        include_bytes!("../../../machines/cortex_a72_graviton1.toml"),
    ];
    fuzz(&seeds, |bytes| {
        if let Err(why) = Machine::read(&Text::new("fuzzed", text(bytes))) {
            refusal(why);
        }
    });
}

#[test]
fn words_of_the_command_line() {
    fn words<T: FromStr<Err: ToString> + Debug>(text: &str) {
        if let Err(why) = text.parse::<T>() {
            refusal(why);
        }
    }
    let seeds: [&[u8]; 4] = [
        b"v1:relies-arm:0.1",
        b"2/4",
        b"d8041-shootdown-time:recommended",
        b"fbsd-asid-a72-latctx.series[0]@3.5",
    ];
    fuzz(&seeds, |bytes| {
        let text = text(bytes);
        words::<Schedule>(&text);
        words::<Shard>(&text);
        words::<Target>(&text);
        words::<Reference>(&text);
    });
}

#[test]
fn parts_of_a_check() {
    let seed = br#"{"format":1,"source":"0","seed":1,"shards":[[0,2]],"schedules":1,"steps":3,
        "stale":0,"agrees":true,"seconds":0.5,"scenarios":[],"mutants":null,"zoo":null,"litmus":null}"#;
    let seeds: [&[u8]; 1] = [seed];
    assert!(serde_json::from_slice::<Outcome>(seed).is_ok(), "the seed is sound");
    fuzz(&seeds, |bytes| match serde_json::from_slice::<Outcome>(bytes) {
        Ok(outcome) => drop(Outcome::merge(vec![outcome])),
        Err(why) => refusal(why),
    });
}

#[test]
fn measurements() {
    fuzz(&[include_bytes!("../../../simulation/tests/all/calibrate/guest.json")], |bytes| {
        if let Err(why) = serde_json::from_slice::<calibrate::Recording>(bytes) {
            refusal(why);
        }
    });
}
