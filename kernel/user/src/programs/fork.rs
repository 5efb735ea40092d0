//! A hunter: a program is copied while its threads write. Nothing that one side writes from then on
//! may reach the other, and no thread may lose what it or another has written.

use core::{
    array,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::hunters::{self, Stamp, Task, Totals};
use crate::{gate, memory::Area, random::Random, report::Report, system, threads::Thread};

const PAGES: usize = 8;
const FORKS: u32 = 16;
/// How often the child looks whether its copy stays what it is.
const LOOKS: u32 = 100;
/// Writers have these numbers, and as many words of each page.
const WRITERS: usize = gate::MEMBERS + 1;
/// The writer that forks.
const MAIN: usize = gate::MEMBERS;
const CHILD: u16 = 16;

/// What each writer has last written to each page, after it has written it.
static WRITTEN: [[AtomicU64; PAGES]; WRITERS] =
    [const { [const { AtomicU64::new(0) }; PAGES] }; WRITERS];
static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let task = Task::from(argument);
    let mut random = Random::new(task.seed.into());
    system::run_on(0);
    let area = Area::map(PAGES, hunters::any_kind(&mut random)).expect("memory");
    let writers: [_; gate::MEMBERS] = array::from_fn(|writer| {
        (writer < hunters::helpers())
            .then(|| Thread::start(hunters::cpu_of(writer), move || write_on(area, writer)))
    });

    let mut totals = Totals::default();
    let mut generation = 1;
    for _ in 0..FORKS {
        let before = writings();
        system::wait_at_most(20, || writings().iter().zip(before).all(|(now, then)| *now > then));
        let before = writings();
        let child = system::fork().expect("a child");
        if child == 0 {
            system::exit(live(area));
        }
        // The forker may be the one who makes the parent's copy, and the others must follow it.
        for _ in 0..random.below(4) {
            totals.reads += write(area, MAIN, generation);
            generation += 1;
        }
        match system::wait(child) {
            Ok(0) => {}
            end => hunters::stale(format_args!("a child ended with {end:?}")),
        }
        totals.revokes += PAGES as u64;
        totals.seen +=
            writings().iter().zip(before).filter(|(now, then)| **now > *then).count() as u64;
    }
    STOP.store(true, Ordering::Relaxed);
    writers.into_iter().flatten().for_each(Thread::join);
    totals.finish("fork", task, report)
}

/// For each page how often the helpers have written to it.
fn writings() -> [u64; PAGES] {
    let generation = |word: &AtomicU64| u64::from(Stamp::load(word).generation());
    array::from_fn(|page| WRITTEN[..MAIN].iter().map(|written| generation(&written[page])).sum())
}

fn write_on(area: Area, writer: usize) {
    let mut reads = 0;
    let mut generation = 1;
    while !STOP.load(Ordering::Relaxed) {
        reads += write(area, writer, generation);
        generation += 1;
    }
    hunters::count_reads(reads);
}

/// Writes to each page, and looks whether the last writings of everybody are there. Returns how many
/// words were judged.
fn write(area: Area, writer: usize, generation: u32) -> u64 {
    for (page, written) in WRITTEN[writer].iter().enumerate() {
        let word = area.word(page, writer);
        let (found, last) = (Stamp::load(word), Stamp::load(written));
        if found != last {
            hunters::stale(format_args!("{writer} wrote {last:?} and finds {found:?}"));
        }
        let stamp = Stamp::new(generation, writer as u16, page);
        stamp.store(word);
        stamp.store(written); // Released after the page, so that others may rely on it.

        for other in (0..WRITERS).filter(|&other| other != writer) {
            let floor = Stamp::load(&WRITTEN[other][page]).generation();
            let found = Stamp::load(area.word(page, other));
            if floor > 0 && !found.is_by(other as u16, page, floor) {
                hunters::stale(format_args!("{other} wrote {floor} and {writer} finds {found:?}"));
            }
        }
    }
    (WRITERS * PAGES) as u64
}

/// The child's life. It has no threads: its pages are its own, as they were.
fn live(area: Area) -> u8 {
    let copy = snapshot(area);
    for _ in 0..LOOKS {
        let now = snapshot(area);
        if now != copy {
            hunters::stale(format_args!("a child's pages changed: {copy:?} to {now:?}"));
            return 1;
        }
    }
    // Words that the parent's threads write, too. The rest of each page must come along.
    for page in 0..PAGES {
        Stamp::new(1, CHILD, page).store(area.word(page, page % WRITERS));
    }
    for _ in 0..LOOKS {
        for (page, (now, then)) in snapshot(area).into_iter().zip(copy).enumerate() {
            let mut expected = then;
            expected[page % WRITERS] = Stamp::new(1, CHILD, page);
            if now != expected {
                hunters::stale(format_args!("a child's page became {now:?}, not {expected:?}"));
                return 1;
            }
        }
    }
    0
}

fn snapshot(area: Area) -> [[Stamp; WRITERS]; PAGES] {
    array::from_fn(|page| array::from_fn(|word| Stamp::load(area.word(page, word))))
}
