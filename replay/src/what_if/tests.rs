use lookaside_simulation::reproduce::Book;
use lookaside_traces::{
    Call,
    reconstruct::{Act, Initiator, Operation, Script, Space, SpaceId, Step},
};

use super::*;
use crate::Upkeep;

const A: SpaceId = SpaceId(0);
const OTHER: SpaceId = SpaceId(1);

/// A program that maps 512 pages one by one on CPU 0, and unmaps them in pieces of 16 while a second thread of it runs on
/// CPU 1, beside another program.
fn scenario() -> Scenario {
    let initiator = |process: &str, operation, recorded| Initiator {
        process: process.into(),
        operation,
        function: None,
        recorded,
    };
    let step = |time: u64, task, initiator, act| Step { time, task, initiator, counted: true, act };
    let run = |time, task, space| step(time, task, if space == A { 0 } else { 3 }, Act::Run(space));
    let mut first = vec![run(0, 1, A)];
    for page in 0..512 {
        first.push(step(100 + u64::from(page), 1, 1, Act::Map { space: A, first: page, pages: 1 }));
    }
    for piece in 0..32 {
        let act =
            Act::Unmap { space: A, first: 16 * piece, pages: 16, tables: false, whole: false };
        first.push(step(100_000 + 10_000 * u64::from(piece), 1, 2, act));
    }
    let second = vec![
        run(0, 2, A),
        step(450_000, 0, 3, Act::Idle),
        run(460_000, 9, OTHER),
        step(600_000, 0, 3, Act::Idle),
        run(700_000, 2, A),
    ];
    let space = |name: &str, threads, recorded| Space {
        name: name.into(),
        pages: 1024,
        threads,
        recorded,
        older: false,
    };
    let script = Script {
        spaces: vec![space("a", 2, true), space("other", 1, false)],
        initiators: vec![
            initiator("a", Operation::Switch, true),
            initiator("a", Operation::Fault, true),
            initiator("a", Operation::Call(Call::Munmap), true),
            initiator("other", Operation::Switch, false),
        ],
        cpus: vec![first, second],
        length: 1_000_000,
        ..Script::default()
    };
    let book = Book::shipped().unwrap();
    Scenario {
        machine: book.machine("skylake_sp").unwrap().clone(),
        script,
        strategy: "linux-ipi-2025".into(),
        cpus: 2,
        working_set: WorkingSet { window: 100_000, hot: 64, others: 16, pool: 512 },
        assumed: Vec::new(),
    }
}

fn knobs(text: &str) -> Vec<Knob> {
    text.split(' ').map(|knob| knob.parse().unwrap()).collect()
}

fn with(text: &str) -> Replayed {
    scenario().with(&knobs(text)).unwrap().replay(1).unwrap()
}

#[test]
fn knobs_are_read_as_they_are_written() {
    for text in [
        "ceiling=1",
        "thp=on",
        "pin=0,1,4",
        "batch=off",
        "pti=on",
        "pcid=off",
        "cpus=4",
        "strategy=x",
    ] {
        assert_eq!(text.parse::<Knob>().unwrap().to_string(), text);
    }
    assert_eq!("pin=0-1,4".parse::<Knob>().unwrap(), Knob::Pin(vec![0, 1, 4]));
    let why = |text: &str| text.parse::<Knob>().unwrap_err().0;
    let unknown = why("thq=on");
    assert!(KNOBS.iter().all(|(form, _)| unknown.contains(form)), "{unknown}");
    assert!(why("thp").contains("NAME=VALUE"));
    assert_eq!(why("thp=maybe"), "`thp` takes `on` or `off`, not `maybe`");
    assert!(why("cpus=0").contains("a number from 1"));
    assert!(why("pin=3-1").contains("CPUs"));
}

#[test]
fn a_lower_ceiling_flushes_everything() {
    let now = with("ceiling=33");
    let low = with("ceiling=8");
    assert_eq!(now.operations.page_flushes, 32 * 16 * 2, "on both CPUs");
    assert_eq!(low.operations.page_flushes, 0);
    assert!(low.upkeep.flushes < now.upkeep.flushes, "sixteen invalidations cost more than one");
    // As many interrupts: the ceiling is about what a CPU does.
    assert_eq!(low.operations.interrupts, now.operations.interrupts);
}

#[test]
fn huge_pages_need_fewer_faults_and_fewer_invalidations() {
    let scenario = scenario().with(&knobs("thp=on")).unwrap();
    let maps = |script: &Script| {
        script.cpus.iter().flatten().filter(|step| matches!(step.act, Act::Map { .. })).count()
    };
    assert_eq!(maps(&scenario.script), 1);
    let huge = scenario.replay(1).unwrap();
    assert_eq!(huge.operations.page_flushes, 32 * 2);
    assert!(scenario.assumed[0].contains("512 faults become 1"), "{:?}", scenario.assumed);
}

/// A buffer of 256 KiB that is mapped and unmapped for each request: Linux has no huge page for it, with any setting.
#[test]
fn what_is_mapped_in_parts_of_two_mebibytes_stays_small_pages() {
    let mut parts = scenario();
    let map = |time, page| Step {
        time,
        task: 1,
        initiator: 1,
        counted: true,
        act: Act::Map { space: A, first: page, pages: 1 },
    };
    // Pages 512 on are of one mapping of 2 MiB, which stays.
    let steps = &mut parts.script.cpus[0];
    steps.extend((0..64).map(|page| map(500_000 + u64::from(page), page)));
    let act = Act::Unmap { space: A, first: 0, pages: 64, tables: false, whole: false };
    steps.push(Step { time: 600_000, task: 1, initiator: 2, counted: true, act });
    steps.extend((512..1024).map(|page| map(650_000 + u64::from(page), page)));
    let on = parts.clone().with(&knobs("thp=on")).unwrap();
    let mut changed = on.script.cpus[0].iter().filter_map(|step| match step.act {
        Act::Unmap { first, pages, .. } => Some((first, pages)),
        _ => None,
    });
    let last = changed.next_back().expect("an unmap");
    assert_eq!(last, (0, 64), "a flush of 64 small pages is one of 64 small pages");
    let maps: Vec<u32> = (on.script.cpus[0].iter())
        .filter_map(|step| match step.act {
            Act::Map { first, .. } => Some(first),
            _ => None,
        })
        .collect();
    assert_eq!(maps.len(), 512 + 64 + 1);
    assert_eq!(maps.last(), Some(&512), "the second 2 MiB is one page");
    assert_eq!(on.script.spaces[0].pages, 512 + 1 + 1);
    assert!(on.assumed[0].contains("(1088 faults become 577)"), "{:?}", on.assumed);
    assert!(on.assumed[0].contains("1 piece of 2 MiB stay"), "{:?}", on.assumed);
    // As many pages are used as before, but for those of the huge one.
    let half = parts.working_set.hot * 576 / 1088;
    assert!((half..=half + 2).contains(&on.working_set.hot), "{:?}", on.working_set);
}

#[test]
fn neighbours_are_unmapped_at_once() {
    let batched = with("batch=on");
    assert!(batched.operations.flushes < 4, "{:?}", batched.operations);
    assert!(with("batch=off").operations.flushes >= 32);
}

#[test]
fn a_pinned_program_interrupts_nobody() {
    assert!(with("cpus=2").operations.interrupts >= 32);
    let pinned = with("pin=0");
    assert_eq!(pinned.operations.interrupts, 0);
    assert!(pinned.upkeep.flushes > 0);
    // The other program stays where it was.
    assert_ne!(pinned.rest, Upkeep::default());
    let why = |text| scenario().with(&knobs(text)).unwrap_err().0;
    assert!(why("pin=7").contains("CPU 7"));
    assert!(why("pin=0 cpus=1").contains("give one"));
}

#[test]
fn a_second_table_costs_more() {
    let (without, with_tables) = (with("pti=off"), with("pti=on"));
    assert!(with_tables.upkeep.flushes > without.upkeep.flushes);
    let mut haswell = scenario();
    haswell.machine = Book::shipped().unwrap().machine("haswell_desktop").unwrap().clone();
    let off = haswell.with(&knobs("pti=off")).unwrap().replay(1).unwrap();
    assert!(off.upkeep.flushes < haswell.replay(1).unwrap().upkeep.flushes);
}

#[test]
fn without_tags_switches_flush() {
    let misses = |text| with(text).observed.unwrap().misses;
    assert!(misses("pcid=off") > misses("pcid=on"));
}

#[test]
fn knobs_of_x86_are_refused_elsewhere() {
    let mut arm = scenario();
    arm.machine = Book::shipped().unwrap().machine("neoverse_n1").unwrap().clone();
    for text in ["ceiling=9", "pti=on", "pcid=off"] {
        assert!(arm.with(&knobs(text)).unwrap_err().0.contains("knob of x86"));
    }
    assert!(scenario().with(&knobs("strategy=nothing")).unwrap_err().0.contains("no strategy"));
}
