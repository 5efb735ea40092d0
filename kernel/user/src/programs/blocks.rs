//! Blocks of pages that hardware may hold as one: parts are taken out while threads read the rest,
//! and programs end with all of it mapped.

use core::{
    array,
    sync::atomic::{AtomicU64, Ordering},
};

use super::hunters::{self, Stamp};
use crate::{
    Program,
    gate::{self, Gate},
    memory::Area,
    println,
    random::Random,
    report::Report,
    system::{self, Kind, Parameter, WRITE},
    threads::Thread,
};

const PROCESSES: usize = 12;
/// How many live at a time.
const ALIVE: usize = 3;
const ROUNDS: usize = 8;
const OWNER: u16 = 9;

static GATE: Gate = Gate::new();
/// How many pages a holder of each kind has. 512 pages of 4 KiB are a large one.
const SIZES: [(Kind, usize); 3] = [(Kind::Pages, 32), (Kind::Large, 512), (Kind::Blocks, 64)];
/// What each page must hold: a generation, or [`GONE`].
static EXPECTED: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
const GONE: u64 = u64::MAX;

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let kinds = if system::parameter(Parameter::Blocks) == 0 { 2 } else { 3 };
    let mut alive = [None; ALIVE];
    for i in 0..PROCESSES + ALIVE {
        let place = &mut alive[i % ALIVE];
        if let Some(oldest) = place.take() {
            assert!(system::wait(oldest) == Ok(0), "a holder failed");
        }
        if i < PROCESSES {
            let kind = (PROCESSES - i) % kinds;
            let argument = (argument & 0xffff_ffff) << 8 | i << 2 | kind;
            *place = Some(system::spawn(Program::Holder, argument).expect("a holder"));
        }
    }
    let which = if kinds == 3 { "blocks and" } else { "no blocks here, only" };
    report.end("blocks", format_args!("{PROCESSES} processes with {which} large and small pages"));
    0
}

/// Takes parts out of what it holds, and ends with the rest.
pub(crate) fn hold(argument: usize) -> u8 {
    let mut random = Random::new(argument as u64);
    let (kind, pages) = SIZES[argument & 3];
    let area = match Area::map(pages, kind) {
        Ok(area) => area,
        // Enough frames, but not in a row.
        Err(system::Refused::Full) if kind != Kind::Pages => return 0,
        Err(error) => {
            println!("no memory of kind {kind:?}: {error:?}");
            return 1;
        }
    };
    (0..pages).for_each(|page| stamp(area, page, 1));
    let helpers = hunters::helpers();
    let _readers: [_; gate::MEMBERS] = array::from_fn(|reader| {
        (reader < helpers).then(|| {
            Thread::start(hunters::cpu_of(reader), move || GATE.attend(reader, || look(area)))
        })
    });
    for round in 2..2 + ROUNDS as u64 {
        GATE.open();
        GATE.wait_for_work(helpers);
        GATE.close(helpers);
        change(area, round, &mut random);
    }
    // The readers go on to the end.
    GATE.open();
    GATE.wait_for_work(helpers);
    0
}

fn change(area: Area, round: u64, random: &mut Random) {
    let first = random.below(area.pages);
    let count = 1 + random.below((area.pages - first).min(20));
    let part = area.part(first, count);
    let pages = first..first + count;
    match random.below(4) {
        0 => {
            part.unmap();
            pages.for_each(|page| EXPECTED[page].store(GONE, Ordering::Relaxed));
        }
        // The rest is about pages that are there.
        _ if pages.clone().any(|page| EXPECTED[page].load(Ordering::Relaxed) == GONE) => {}
        1 => {
            part.discard();
            pages.for_each(|page| EXPECTED[page].store(0, Ordering::Relaxed));
        }
        2 => {
            part.protect(0);
            GATE.open();
            GATE.wait_for_work(hunters::helpers());
            GATE.close(hunters::helpers());
            part.protect(WRITE);
        }
        _ => pages.for_each(|page| stamp(area, page, round)),
    }
}

fn stamp(area: Area, page: usize, generation: u64) {
    Stamp::new(generation as u32, OWNER, page).store(area.word(page, 0));
    EXPECTED[page].store(generation, Ordering::Relaxed); // The gate publishes it.
}

fn look(area: Area) {
    for (page, expected) in EXPECTED[..area.pages].iter().enumerate() {
        let expected = match expected.load(Ordering::Relaxed) {
            GONE => continue,
            0 => 0,
            generation => generation as u32,
        };
        let found = Stamp::load(area.word(page, 0));
        let right = if expected == 0 {
            found.is_zero()
        } else {
            found == Stamp::new(expected, OWNER, page)
        };
        assert!(right, "STALE: page {page} holds {found:?}, not generation {expected}");
    }
}
