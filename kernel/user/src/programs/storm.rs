//! Threads that map and unmap without end, while others read what is not concerned.

use core::{
    array,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::hunters::{self, Stamp};
use crate::{
    gate, memory::Area, random::Random, report::Report, system, system::Kind, threads::Thread,
};

/// How many storms there are, each with so many unmappings.
const STORMS: usize = 2;
const ROUNDS: u32 = 120;
/// The most pages that are unmapped at once.
const PAGES: usize = 64;
/// What is read meanwhile.
const CALM: usize = 16;
const OWNER: u16 = 6;

static STOP: AtomicBool = AtomicBool::new(false);
static UNMAPPED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let mut random = Random::new(argument as u64);
    let calm = Area::map(CALM, Kind::Pages).expect("memory");
    (0..CALM).for_each(|page| Stamp::new(1, OWNER, page).store(calm.word(page, page)));
    let readers: [_; gate::MEMBERS] = array::from_fn(|reader| {
        (reader < hunters::helpers())
            .then(|| Thread::start(hunters::cpu_of(reader), move || read(calm)))
    });
    let storms: [_; STORMS] = array::from_fn(|storm| {
        let seed = random.next();
        Thread::start(storm % system::cpus(), move || rage(seed, OWNER + 1 + storm as u16))
    });
    storms.into_iter().for_each(Thread::join);
    STOP.store(true, Ordering::Relaxed);
    readers.into_iter().flatten().for_each(Thread::join);
    let pages = UNMAPPED.load(Ordering::Relaxed);
    report.end("storm", format_args!("{} unmappings of {pages} pages", STORMS as u32 * ROUNDS));
    0
}

fn read(calm: Area) {
    while !STOP.load(Ordering::Relaxed) {
        for page in 0..CALM {
            let found = Stamp::load(calm.word(page, page));
            let right = found == Stamp::new(1, OWNER, page);
            assert!(right, "STALE: a page that nobody changes holds {found:?}");
        }
    }
}

fn rage(seed: u64, owner: u16) {
    let mut random = Random::new(seed);
    for round in 1..=ROUNDS {
        // Most are small.
        let most = if random.one_in(4) { PAGES } else { 4 };
        let area = Area::map(1 + random.below(most), Kind::Pages).expect("memory");
        for page in 0..area.pages {
            let found = Stamp::load(area.word(page, page));
            assert!(found.is_zero(), "STALE: a new page holds {found:?}");
            Stamp::new(round, owner, page).store(area.word(page, page));
        }
        for page in 0..area.pages {
            let found = Stamp::load(area.word(page, page));
            let right = found == Stamp::new(round, owner, page);
            assert!(right, "STALE: page {page} of {owner} in round {round} holds {found:?}");
        }
        // In two pieces: what is between unmappings must stay.
        let (first, rest) = (area.pages / 2, area.pages - area.pages / 2);
        area.part(first, rest).unmap();
        if first > 0 {
            let found = Stamp::load(area.word(0, 0));
            assert!(
                found == Stamp::new(round, owner, 0),
                "STALE: a page that stays holds {found:?}"
            );
            area.part(0, first).unmap();
        }
        UNMAPPED.fetch_add(area.pages as u64, Ordering::Relaxed);
    }
}
