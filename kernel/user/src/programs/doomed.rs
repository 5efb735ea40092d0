//! A hunter: a thread goes on touching what another takes away. Its death is the right outcome; a
//! touch that begins once the call is over, and succeeds, is stale.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::hunters::{self, Stamp, Task, Totals};
use crate::{
    Program,
    memory::Area,
    println,
    report::Report,
    system::{self, KILLED, Kind},
    threads::Thread,
};

/// What is done to the memory.
type Deed = (&'static str, fn(Area));

/// Milliseconds for what takes none. An emulator may be late.
const PATIENCE: u64 = 20_000;
const DEEDS: [Deed; 3] = [
    ("unmapped", |area| area.unmap()),
    ("protected", |area| area.protect(0)),
    ("moved away", |area| {
        let free = Area::free(area.pages).expect("room");
        area.move_to(free.start);
    }),
];
const ROUNDS: usize = 2;
const PAGES: usize = 4;
/// Of the exit codes: the touch succeeded; nobody died; nobody began.
const STALE: u8 = 1;
const ALIVE: u8 = 2;
const IDLE: u8 = 3;

/// How often the memory was touched.
static TOUCHES: AtomicU64 = AtomicU64::new(0);
/// Whether the call is over.
static OVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn main(argument: usize) -> u8 {
    let report = Report::start();
    let task = Task::from(argument);
    let mut totals = Totals::default();
    for deed in (0..DEEDS.len()).cycle().take(ROUNDS * DEEDS.len()) {
        let victim = system::spawn(Program::Victim, deed).expect("a victim");
        let end = system::wait(victim).expect("it is our child");
        if end != KILLED {
            hunters::stale(format_args!("pages were {}: {end}", DEEDS[deed].0));
        }
        totals.revokes += PAGES as u64;
        totals.seen += 1;
    }
    totals.finish("doomed", task, report)
}

/// The program that is to die of a deed.
pub(crate) fn victim(deed: usize) -> u8 {
    let (what, take) = DEEDS[deed];
    system::run_on(0);
    let area = Area::map(PAGES, Kind::Pages).expect("memory");
    let _toucher = Thread::start(hunters::cpu_of(0), move || touch(area));
    if !system::wait_at_most(PATIENCE, || TOUCHES.load(Ordering::Relaxed) > PAGES as u64) {
        return IDLE;
    }
    take(area);
    OVER.store(true, Ordering::Release); // Release: pairs with `touch`.
    system::wait_at_most(PATIENCE, || false);
    println!("STALE: pages were {what}, and a thread that touches them lives");
    ALIVE
}

fn touch(area: Area) {
    for page in (0..area.pages).cycle() {
        // Acquire: the call is over before the touch begins.
        let over = OVER.load(Ordering::Acquire);
        let was = area.word(page, 0).fetch_add(1, Ordering::Relaxed);
        if over {
            let word = Stamp::new(was as u32, 0, page);
            println!("STALE: a thread touched what is gone, and found {word:?}");
            system::exit(STALE);
        }
        TOUCHES.fetch_add(1, Ordering::Relaxed);
    }
}
