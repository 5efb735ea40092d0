//! A hunter: one thread asks which pages were used, while others use them. Nobody but the users touches
//! them: an entry is marked as used by the CPU that uses it, or not at all.

use core::{
    array,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::hunters::{self, Task, Totals};
use crate::{gate, memory::Area, println, random::Random, report::Report, system, threads::Thread};

const PAGES: usize = 16;
const HARVESTS: u32 = 200;
/// How often others are given way before a harvest that finds nothing.
const PATIENCE: u32 = 10_000;

/// How often each user has begun and ended to use each page: odd in between.
type Log = [[AtomicU64; PAGES]; gate::MEMBERS];

static STOP: AtomicBool = AtomicBool::new(false);
static LOG: Log = [const { [const { AtomicU64::new(0) }; PAGES] }; gate::MEMBERS];

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let task = Task::from(argument);
    let mut random = Random::new(task.seed.into());
    system::run_on(0);
    let helpers = hunters::helpers();
    let area = Area::map(PAGES, hunters::any_kind(&mut random)).expect("memory");
    let users: [_; gate::MEMBERS] = array::from_fn(|user| {
        let seed = random.next();
        (user < helpers)
            .then(|| Thread::start(hunters::cpu_of(user), move || work(area, user, seed)))
    });

    let mut totals = Totals::default();
    let mut after = look();
    for _ in 0..HARVESTS {
        let mut patience = PATIENCE;
        while patience > 0 && look() == after {
            patience -= 1;
            system::yield_now();
        }
        let before = look();
        let used = system::harvest_used(area.start, area.bytes()).expect("harvest");
        for page in 0..PAGES {
            let reported = used & 1 << page != 0;
            // A use counts if all of it was between two answers: it began after the first had come.
            let whole =
                |user: usize| before[user][page] >= after[user][page].next_multiple_of(2) + 2;
            let surely = (0..helpers).any(whole);
            totals.revokes += u64::from(reported);
            totals.seen += u64::from(surely && reported);
            if surely && !reported {
                totals.lost += 1;
                println!("LOST: page {page} was used and counts as unused");
            }
        }
        after = look();
        totals.reads += PAGES as u64;
    }
    STOP.store(true, Ordering::Relaxed);
    users.into_iter().flatten().for_each(Thread::join);
    totals.finish("used", task, report)
}

fn look() -> [[u64; PAGES]; gate::MEMBERS] {
    // SeqCst: with `work`.
    array::from_fn(|user| array::from_fn(|page| LOG[user][page].load(Ordering::SeqCst)))
}

/// Reads a page for a while, then another, so that some are not used at any time.
fn work(area: Area, user: usize, seed: u64) {
    let mut random = Random::new(seed);
    while !STOP.load(Ordering::Relaxed) {
        let page = random.below(PAGES);
        for _ in 0..random.below(500) {
            // SeqCst: the use is after the one and before the other.
            LOG[user][page].fetch_add(1, Ordering::SeqCst);
            area.word(page, 0).load(Ordering::SeqCst);
            LOG[user][page].fetch_add(1, Ordering::SeqCst);
        }
    }
}
