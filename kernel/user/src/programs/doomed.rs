//! A hunter: a thread touches pages while another unmaps, protects or moves them. The kernel must kill it; a
//! touch that begins after the call has returned, and succeeds, is stale.

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

/// A name, and an operation on the memory.
type Operation = (&'static str, fn(Area));

/// Timeout in milliseconds of waits that should end at once. An emulator may be late.
const PATIENCE: u64 = 20_000;
const OPERATIONS: [Operation; 3] = [
    ("unmapped", |area| area.unmap()),
    ("protected", |area| area.protect(0)),
    ("moved away", |area| {
        let free = Area::free(area.pages).expect("room");
        area.move_to(free.start);
    }),
];
const ROUNDS: usize = 2;
const PAGES: usize = 4;
/// Exit codes: the touch succeeded; the process was not killed; the toucher did not begin.
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
    for operation in (0..OPERATIONS.len()).cycle().take(ROUNDS * OPERATIONS.len()) {
        let victim = system::spawn(Program::Victim, operation).expect("a victim");
        let end = system::wait(victim).expect("it is our child");
        if end != KILLED {
            hunters::stale(format_args!("pages were {}: {end}", OPERATIONS[operation].0));
        }
        totals.revokes += PAGES as u64;
        totals.seen += 1;
    }
    totals.finish("doomed", task, report)
}

/// The program that the kernel must kill.
pub(crate) fn victim(operation: usize) -> u8 {
    let (what, take) = OPERATIONS[operation];
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
