//! A hunter: mappings change in every way that there is, while the readers wait at the gate. When it opens,
//! they know exactly what they must read.

use core::{
    array,
    sync::atomic::{AtomicU64, Ordering},
};

use super::hunters::{self, Stamp, Task, Totals};
use crate::{
    gate::{self, Gate},
    memory::Area,
    random::Random,
    report::Report,
    system::{self, Kind, WRITE},
    threads::Thread,
};

const PAGES: usize = 16;
const ROUNDS: u32 = 120;
const OWNER: u16 = 3;
/// Readers write these, from this number on.
const READER: u16 = 16;

static GATE: Gate = Gate::new();
/// What each page must hold, in its first word. Stored while the gate is closed.
static EXPECTED: [AtomicU64; PAGES] = [const { AtomicU64::new(0) }; PAGES];

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let task = Task::from(argument);
    let mut random = Random::new(task.seed.into());
    system::run_on(0);
    let helpers = hunters::helpers();
    let area = Area::map(PAGES, hunters::any_kind(&mut random)).expect("memory");
    let readers: [_; gate::MEMBERS] = array::from_fn(|reader| {
        (reader < helpers).then(|| {
            Thread::start(hunters::cpu_of(reader), move || {
                let mut reads = 0;
                GATE.attend(reader, || reads += look(area, reader));
                hunters::count_reads(reads);
            })
        })
    });

    // Free room stays free from here on: the threads have their stacks.
    let away = Area::free(PAGES).expect("room");
    let mut hunt = Hunt { area, away, random, generation: 1 };
    hunt.stamp(0, PAGES);
    let mut totals = Totals::default();
    for _ in 0..ROUNDS {
        GATE.open();
        GATE.wait_for_work(helpers);
        GATE.close(helpers);
        let pages = hunt.change();
        totals.revokes += pages as u64;
        totals.seen += pages as u64; // All have worked, so all were read.
    }
    GATE.end(readers.into_iter().flatten());
    totals.finish("moves", task, report)
}

/// Reads every page, and writes to it. Returns how much was judged.
fn look(area: Area, reader: usize) -> u64 {
    for (page, expected) in EXPECTED.iter().enumerate() {
        let word = area.word(page, 0);
        let found = Stamp::load(word);
        let expected = Stamp::load(expected);
        if found != expected {
            hunters::stale(format_args!("{:p}: {found:?}, not {expected:?}", word.as_ptr()));
        }
        let mine = area.word(page, 1 + reader);
        Stamp::new(expected.generation(), READER + reader as u16, page).store(mine);
    }
    PAGES as u64
}

struct Hunt {
    /// What the readers read.
    area: Area,
    /// Where pages are moved to.
    away: Area,
    random: Random,
    generation: u32,
}

impl Hunt {
    /// Writes new stamps to some pages.
    fn stamp(&mut self, first: usize, count: usize) {
        for (page, expected) in EXPECTED.iter().enumerate().skip(first).take(count) {
            let stamp = Stamp::new(self.generation, OWNER, page);
            stamp.store(self.area.word(page, 0));
            stamp.store(expected);
        }
        self.generation += 1;
    }

    /// Changes what some addresses mean. Returns how many.
    fn change(&mut self) -> usize {
        let first = self.random.below(PAGES);
        let count = 1 + self.random.below(PAGES - first);
        let part = self.area.part(first, count);
        let kind = hunters::any_kind(&mut self.random);
        match self.random.below(5) {
            0 => {
                part.unmap();
                map_again(part, kind);
                self.stamp(first, count);
            }
            1 => {
                part.discard();
                self.stamp(first, count);
            }
            2 => self.move_away(first, count, kind),
            3 => self.turn(first, count),
            _ => {
                part.protect(0);
                part.protect(WRITE);
                self.stamp(first, count);
            }
        }
        count
    }

    /// Moves pages away and maps new ones in their place. What readers write from now on must not
    /// arrive in the old ones.
    fn move_away(&mut self, first: usize, count: usize, kind: Kind) {
        let away = self.area.part(first, count).move_to(self.away.start);
        map_again(self.area.part(first, count), kind);
        let before: [_; PAGES] = array::from_fn(|page| (page < count).then(|| words(away, page)));
        for (page, words) in before.iter().flatten().enumerate() {
            let expected = Stamp::load(&EXPECTED[first + page]);
            if words[0] != expected {
                hunters::stale(format_args!("{:?} was moved, not {expected:?}", words[0]));
            }
        }
        self.stamp(first, count);
        GATE.open();
        GATE.wait_for_work(hunters::helpers());
        for (page, before) in before.iter().flatten().enumerate() {
            let after = words(away, page);
            if after != *before {
                hunters::stale(format_args!("page {page} moved and became {after:?}"));
            }
        }
        GATE.close(hunters::helpers());
        away.unmap();
    }

    /// Turns pages around by one: the last becomes the first.
    fn turn(&mut self, first: usize, count: usize) {
        let (area, away) = (self.area, self.away.start);
        let last = first + count - 1;
        let stamp = EXPECTED[last].load(Ordering::Relaxed); // Relaxed: this thread has stored it.
        let page = area.part(last, 1).move_to(away);
        for page in (first..last).rev() {
            area.part(page, 1).move_to(area.part(page + 1, 1).start);
            EXPECTED[page + 1].store(EXPECTED[page].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        page.move_to(area.part(first, 1).start);
        EXPECTED[first].store(stamp, Ordering::Relaxed); // The gate publishes it.
    }
}

/// New pages where there were some. There need not be enough frames in a row for blocks.
fn map_again(area: Area, kind: Kind) {
    Area::map_at(area.start, area.pages, kind)
        .or_else(|_| Area::map_at(area.start, area.pages, Kind::Pages))
        .expect("memory where there was some");
}

fn words(area: Area, page: usize) -> [Stamp; 1 + gate::MEMBERS] {
    array::from_fn(|word| Stamp::load(area.word(page, word)))
}
