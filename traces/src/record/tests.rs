//! Pages as a kernel gave them (Linux 6.18 on x86-64), beside the text that the same kernel printed of
//! the same events. The files hold what two threads and a child of one small program did on two CPUs;
//! names of other programs were replaced.

use std::io::Write;

use super::*;
use crate::{Call, NameId, Pages, Reason, import};

const FORMATS: &str = include_str!("../../tests/recorded/formats");
const HEADER_PAGE: &str = include_str!("../../tests/recorded/header_page");
const KALLSYMS: &str = include_str!("../../tests/recorded/kallsyms");
const TEXT: &str = include_str!("../../tests/recorded/trace.txt");
const CPUS: [&[u8]; 2] = [
    include_bytes!("../../tests/recorded/cpu0.pages"),
    include_bytes!("../../tests/recorded/cpu1.pages"),
];

/// A decoder that knows the formats of the fixture.
fn decoder() -> Decoder {
    let mut decoder = Decoder::new(Symbols::parse(KALLSYMS));
    for part in FORMATS.split("== ").skip(1) {
        let (name, text) = part.split_once('\n').expect("a name and a format");
        let format = Format::parse(text).expect("a format");
        assert!(decoder.learn(name, &format), "{name}");
    }
    decoder
}

fn layout() -> Layout {
    Layout::parse(HEADER_PAGE).expect("the layout of a page")
}

/// The trace that these pages are of.
fn read(cpus: [&[u8]; 2]) -> Result<Trace, Damaged> {
    let (layout, decoder) = (layout(), decoder());
    let (mut trace, mut names) = (Trace::default(), Names::default());
    for (cpu, pages) in (0..).zip(cpus) {
        for page in pages.chunks(layout.size) {
            read_page(layout, cpu, page, &decoder, &mut None, &mut names, &mut trace)?;
        }
    }
    trace.names = names.into_all();
    trace.events.sort_by_key(|event| event.time);
    Ok(trace)
}

/// The trace that the text importer makes of the text.
fn imported() -> Trace {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(TEXT.as_bytes()).expect("the text fits");
    import::open(file.path()).expect("a trace")
}

/// What a trace says of one CPU, with names instead of their numbers and without what the text does not
/// have: nanoseconds.
fn told(trace: &Trace, cpu: u16) -> Vec<String> {
    let name = |name: NameId| &trace.names[name.0 as usize];
    let of_cpu = trace.events.iter().filter(|event| event.cpu == cpu);
    of_cpu
        .map(|event| {
            let kind = match event.kind {
                Kind::Switch { next, name: id, runnable } => {
                    format!("switch {next} {} {runnable}", name(id))
                }
                Kind::Create { task, name: id, flags } => {
                    format!("create {task} {} {flags:x}", name(id))
                }
                Kind::Rename { task, name: id } => format!("rename {task} {}", name(id)),
                // The text names it by its tree, which is a part of it.
                Kind::Unmapped { .. } => "unmapped".to_owned(),
                kind => format!("{kind:?}"),
            };
            format!("{:?} {} {kind}", event.in_interrupt, event.task)
        })
        .collect()
}

#[test]
fn pages_tell_what_the_text_of_the_same_events_tells() {
    let (recorded, imported) = (read(CPUS).expect("sound pages"), imported());
    assert_eq!(recorded.origin.losses, crate::Losses::default());
    for cpu in 0..2 {
        let (ours, theirs) = (told(&recorded, cpu), told(&imported, cpu));
        for (place, (our, their)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(our, their, "event {place} of CPU {cpu}");
        }
        assert_eq!(ours.len(), theirs.len(), "CPU {cpu}");
    }
    // Times are those of the text, in nanoseconds instead of rounded microseconds.
    let times = |trace: &Trace| -> Vec<u64> {
        let of_cpu = trace.events.iter().filter(|event| event.cpu == 0);
        of_cpu.map(|event| event.time).collect()
    };
    for (ours, theirs) in times(&recorded).into_iter().zip(times(&imported)) {
        assert!(ours.abs_diff(theirs) <= 1000, "{ours} is not {theirs}");
    }
    assert!(recorded.events.iter().any(|event| event.time % 1000 != 0));
}

#[test]
fn all_kinds_of_events_that_the_program_caused_are_there() {
    let recorded = read(CPUS).expect("sound pages");
    let some = |wanted: &dyn Fn(&Kind) -> bool| recorded.events.iter().any(|e| wanted(&e.kind));
    assert!(some(&|kind| matches!(kind, Kind::Switch { .. })));
    assert!(some(&|kind| matches!(kind, Kind::Create { .. })));
    assert!(some(&|kind| matches!(kind, Kind::Exit)));
    assert!(some(&|kind| matches!(kind, Kind::Ask { target: 1, flush: true, .. })));
    assert!(some(&|kind| matches!(kind, Kind::Serve { request: 1.., flush: true })));
    assert!(some(&|kind| {
        let purpose = crate::Purpose::Functions;
        *kind == Kind::Send { target: 1, purpose }
    }));
    assert!(some(&|kind| {
        let pages = Pages::Some(4);
        *kind == Kind::Flush { reason: Reason::Remote, pages }
    }));
    assert!(some(&|kind| match kind {
        Kind::Call { call: Call::Mprotect, arguments: [_, length, protection, 0, 0] } =>
            (*length, *protection) == (4 * 4096, 1),
        _ => false,
    }));
    assert!(some(&|kind| *kind == Kind::Return { call: Call::Munmap, value: -22 }));
}

#[test]
fn lost_events_stand_where_they_were_lost() {
    let mut pages = CPUS[0].to_vec();
    // The kernel sets this bit of the second page where it had to throw the page before away.
    pages[4096 + 11] |= 0x80;
    let trace = read([&pages[4096..], CPUS[1]]).expect("sound pages");
    let first = trace.events.iter().find(|event| event.cpu == 0).expect("events");
    assert_eq!(first.kind, Kind::Lost { events: 0 });
}

#[test]
fn damage_is_an_error_or_counted_and_never_a_panic() {
    let mut state = 7_u64;
    let mut damaged = 0;
    for _ in 0..3000 {
        let mut pages = CPUS[1].to_vec();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let place = (state >> 33) as usize % pages.len();
        pages[place] ^= 1 << (state >> 30 & 7);
        damaged += u32::from(read([&[], &pages]).is_err());
    }
    assert!(damaged > 0, "some bits are lengths");
}

#[test]
fn buffers_take_a_part_of_the_memory_that_is_free() {
    assert_eq!(buffer_kib(2, None), BUFFER_KIB);
    assert_eq!(buffer_kib(2, Some(64 << 20)), BUFFER_KIB);
    assert_eq!(buffer_kib(1024, Some(32 << 20)), 8 << 10);
    assert_eq!(buffer_kib(1024, Some(1 << 20)), LEAST_BUFFER_KIB);
}
