//! A hunter: one thread asks which pages were written to, while others write. A page that changed
//! between two answers must be in the second.

use core::{
    array,
    sync::atomic::{AtomicBool, Ordering},
};

use super::hunters::{self, Task, Totals};
use crate::{gate, memory::Area, println, random::Random, report::Report, system, threads::Thread};

const PAGES: usize = 16;
const HARVESTS: u32 = 300;
/// How often others are given way before a harvest that finds nothing.
const PATIENCE: u32 = 10_000;

static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let task = Task::from(argument);
    let mut random = Random::new(task.seed.into());
    system::run_on(0);
    let helpers = hunters::helpers();
    let area = Area::map(PAGES, hunters::any_kind(&mut random)).expect("memory");
    let writers: [_; gate::MEMBERS] = array::from_fn(|writer| {
        let seed = random.next();
        (writer < helpers)
            .then(|| Thread::start(hunters::cpu_of(writer), move || write(area, seed)))
    });

    let mut totals = Totals::default();
    let mut after = [0; PAGES];
    for _ in 0..HARVESTS {
        let pause = random.below(2000);
        for _ in 0..pause {
            core::hint::spin_loop();
        }
        if pause.is_multiple_of(16) || system::cpus() == 1 {
            system::yield_now();
        }
        // An answer about pages that nobody has written to proves little.
        let mut patience = PATIENCE;
        while helpers > 0 && patience > 0 && counts(area) == after {
            patience -= 1;
            system::yield_now();
        }
        let before = counts(area);
        let dirty = system::harvest(area.start, area.bytes()).expect("harvest");
        for page in 0..PAGES {
            let (changed, reported) = (before[page] != after[page], dirty & 1 << page != 0);
            totals.revokes += u64::from(reported);
            totals.seen += u64::from(changed && reported);
            if changed && !reported {
                totals.lost += 1;
                let (then, now) = (after[page], before[page]);
                println!("LOST: page {page} went from {then} to {now} and counts as clean");
            }
        }
        after = counts(area);
        totals.reads += 2 * PAGES as u64;
    }
    STOP.store(true, Ordering::Relaxed);
    writers.into_iter().flatten().for_each(Thread::join);
    totals.finish("dirty", task, report)
}

fn counts(area: Area) -> [u64; PAGES] {
    // SeqCst, as in `write`: a value that was read before a harvest was written before it.
    array::from_fn(|page| area.word(page, 0).load(Ordering::SeqCst))
}

/// Writes to a few pages for a while, then to others, so that some are clean at any time.
fn write(area: Area, seed: u64) {
    let mut random = Random::new(seed);
    while !STOP.load(Ordering::Relaxed) {
        let page = random.below(PAGES);
        for _ in 0..random.below(500) {
            area.word(page, 0).fetch_add(1, Ordering::SeqCst);
        }
    }
}
