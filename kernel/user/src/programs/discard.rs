//! A hunter: pages are discarded while threads on other CPUs read them, and another program takes
//! the frames.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::hunters::{self, Stamp, Task, Totals};
use crate::{
    Program, gate,
    memory::{Area, WORDS},
    println,
    random::Random,
    report::Report,
    system::{self, Kind},
    threads::Thread,
};

const PAGES: usize = 16;
const ROUNDS: u32 = 200;
/// The most milliseconds for which a round waits for its readers.
const PATIENCE: u64 = 10;
/// How often a reader reads everything before it lets others run.
const TURNS: u64 = 64;
const OWNER: u16 = 1;

/// For each page the first generation that may still be seen.
static FLOORS: [AtomicU32; PAGES] = [const { AtomicU32::new(0) }; PAGES];
/// The last generation that each reader has seen of each page.
static SEEN: [[AtomicU32; PAGES]; gate::MEMBERS] =
    [const { [const { AtomicU32::new(0) }; PAGES] }; gate::MEMBERS];
/// Whether readers write, too. What they write to a free frame the kernel notices.
static SCRIBBLE: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let task = Task::from(argument);
    let mut random = Random::new(task.seed.into());
    system::run_on(0);
    let taker = system::spawn(Program::Taker, task.seed as usize).expect("a taker");
    let area = Area::map(PAGES, hunters::any_kind(&mut random)).expect("memory");
    let readers: [_; gate::MEMBERS] = core::array::from_fn(|reader| {
        (reader < hunters::helpers())
            .then(|| Thread::start(hunters::cpu_of(reader), move || read(area, reader)))
    });

    let mut totals = Totals::default();
    for generation in 1..=ROUNDS {
        // Relaxed: it may begin a little later.
        SCRIBBLE.store(generation > ROUNDS / 2, Ordering::Relaxed);
        let first = random.below(PAGES);
        let most = if random.one_in(8) { PAGES } else { 4 };
        let count = 1 + random.below(most.min(PAGES - first));
        let pages = first..first + count;
        for page in pages.clone() {
            Stamp::new(generation, OWNER, page).store(area.word(page, 0));
        }
        let seen = |page: usize| {
            let mut readers = SEEN[..hunters::helpers()].iter();
            readers.all(|seen| seen[page].load(Ordering::Relaxed) == generation)
        };
        system::wait_at_most(PATIENCE, || pages.clone().all(seen));
        totals.seen += pages.clone().filter(|&page| seen(page)).count() as u64;
        area.part(first, count).discard();
        for page in pages {
            // Release: a reader that sees this knows that the call is over. Pairs with `read`.
            FLOORS[page].store(generation + 1, Ordering::Release);
            totals.revokes += 1;
        }
    }

    STOP.store(true, Ordering::Relaxed);
    readers.into_iter().flatten().for_each(Thread::join);
    let taken = system::wait(taker).expect("it is our child");
    totals.stale += u64::from(taken != 0);
    totals.finish("discard", task, report)
}

fn read(area: Area, reader: usize) {
    let mut reads = 0;
    for turn in 1_u64.. {
        if STOP.load(Ordering::Relaxed) {
            break;
        }
        for (page, floor) in FLOORS.iter().enumerate() {
            // Acquire: pairs with the Release in `main`. It comes before the page is looked at.
            let floor = floor.load(Ordering::Acquire);
            let found = Stamp::load(area.word(page, 0));
            if !found.is_zero() && !found.is_by(OWNER, page, floor) {
                let at = area.word(page, 0).as_ptr();
                hunters::stale(format_args!(
                    "{at:p}: {found:?}, when nothing before {floor} of page {page} by {OWNER} may be"
                ));
            }
            SEEN[reader][page].store(found.generation(), Ordering::Relaxed);
            if SCRIBBLE.load(Ordering::Relaxed) {
                area.word(page, 1 + reader).fetch_add(1, Ordering::Relaxed);
            }
        }
        reads += PAGES as u64;
        if turn.is_multiple_of(TURNS) {
            system::yield_now();
        }
    }
    hunters::count_reads(reads);
}

/// How often the taker takes, and how much.
const TAKES: u32 = 40;
const TAKEN: usize = 8;
const TAKER: u16 = 2;

/// Takes frames that others have just lost, and looks whether it is alone on them.
pub(crate) fn take(seed: usize) -> u8 {
    let mut random = Random::new(!seed as u64);
    if system::cpus() > 2 {
        system::run_on(system::cpus() - 1);
    }
    for generation in 1..=TAKES {
        let area = Area::map(1 + random.below(TAKEN), Kind::Pages).expect("memory");
        let words = || (0..area.pages).flat_map(|page| (0..WORDS).map(move |word| (page, word)));
        let word = |(page, word): (usize, usize)| -> &AtomicU64 { area.word(page, word) };
        for at in words() {
            let found = Stamp::load(word(at));
            if !found.is_zero() {
                println!("STALE: new page {} holds {found:?} in word {}", at.0, at.1);
                return 1;
            }
            Stamp::new(generation, TAKER, at.0).store(word(at));
        }
        system::yield_now();
        for at in words() {
            let found = Stamp::load(word(at));
            if found != Stamp::new(generation, TAKER, at.0) {
                println!("STALE: somebody wrote {found:?} to word {} of a page of mine", at.1);
                return 1;
            }
        }
        area.unmap();
    }
    0
}
