//! Threads that read and write what another protects and frees again: no thread may die of it, for
//! each touches only what it may, and a right that was given back must be there at once.

use core::{
    array,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use super::hunters::{self, Stamp};
use crate::{
    gate::{self, Gate},
    memory::Area,
    report::Report,
    system::{self, Kind, WRITE},
    threads::Thread,
};

const PAGES: usize = 8;
const ROUNDS: u32 = 60;

static GATE: Gate = Gate::new();
/// What threads may do, and write. Stored while the gate is closed, which publishes it.
static WRITABLE: AtomicBool = AtomicBool::new(true);
static ROUND: AtomicU32 = AtomicU32::new(0);

pub(crate) fn main(_: usize) -> u8 {
    let report = Report::start();
    system::run_on(0);
    let helpers = hunters::helpers();
    let area = Area::map(PAGES, Kind::Pages).expect("memory");
    let threads: [_; gate::MEMBERS] = array::from_fn(|thread| {
        (thread < helpers).then(|| {
            Thread::start(hunters::cpu_of(thread), move || {
                GATE.attend(thread, || work(area, thread));
            })
        })
    });
    for round in 1..=ROUNDS {
        for protection in [WRITE, 0] {
            area.protect(protection);
            WRITABLE.store(protection == WRITE, Ordering::Relaxed);
            ROUND.store(round, Ordering::Relaxed);
            GATE.open();
            GATE.wait_for_work(helpers);
            GATE.close(helpers);
        }
    }
    GATE.end(threads.into_iter().flatten());
    report.end("protect", format_args!("{} changes of {PAGES} pages", 2 * ROUNDS));
    0
}

fn work(area: Area, thread: usize) {
    let round = ROUND.load(Ordering::Relaxed);
    for page in 0..PAGES {
        let word = area.word(page, thread);
        let stamp = Stamp::new(round, thread as u16, page);
        if WRITABLE.load(Ordering::Relaxed) {
            stamp.store(word);
        }
        let found = Stamp::load(word);
        assert!(found == stamp, "STALE: page {page} holds {found:?}, not {stamp:?}");
    }
}
