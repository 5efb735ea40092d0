//! Processes that come, sort and go, a few at a time: most of their lives is birth and death.

use core::{
    slice,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Program,
    memory::{Area, PAGE},
    println,
    random::Random,
    report::Report,
    system::{self, Kind},
};

const PROCESSES: usize = 96;
/// How many live at a time.
const ALIVE: usize = 8;
const PAGES: usize = 16;

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let mut alive = [None; ALIVE];
    for i in 0..PROCESSES + ALIVE {
        let place = &mut alive[i % ALIVE];
        if let Some(oldest) = place.take() {
            assert!(system::wait(oldest) == Ok(0), "a sorter failed");
        }
        if i < PROCESSES {
            *place = Some(system::spawn(Program::Sorter, argument ^ i << 8).expect("a sorter"));
        }
    }
    report.end("churn", format_args!("{PROCESSES} processes"));
    0
}

/// Sorts random numbers, and looks whether they are all there and sorted.
pub(crate) fn sort(seed: usize) -> u8 {
    // The first half is sorted. The second must stay empty.
    let area = Area::map(PAGES, Kind::Pages).expect("memory");
    let first: *const AtomicU64 = area.word(0, 0);
    // SAFETY: these are fresh zeroed pages that nobody else knows of, and they stay.
    let numbers = unsafe { slice::from_raw_parts_mut(first as *mut u64, PAGES * PAGE / 8 / 2) };
    let mut random = Random::new(seed as u64);
    numbers.fill_with(|| random.next());
    let sum =
        |numbers: &[u64]| numbers.iter().fold(0, |sum: u64, number| sum.wrapping_add(*number));
    let before = sum(numbers);
    numbers.sort_unstable();
    let after = sum(numbers);
    if before != after || !numbers.is_sorted() {
        println!("STALE: the sum of the numbers of {seed:#x} went from {before} to {after}");
        return 1;
    }
    let rest = (PAGES / 2..PAGES).map(|page| area.word(page, 0).load(Ordering::Relaxed));
    u8::from(rest.sum::<u64>() != 0)
}
