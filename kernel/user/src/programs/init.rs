//! The first program: it runs the tests, one after the other, and then ends the machine.

use super::hunters::{Task, Totals};
use crate::{
    Program, memory, println,
    random::Random,
    system::{self, KILLED, Parameter},
};

const TESTS: [Program; 13] = [
    Program::LatCtx,
    Program::PingPong,
    Program::Protect,
    Program::Churn,
    Program::Storm,
    Program::Blocks,
    Program::Fork,
    Program::Moves,
    Program::Dirty,
    Program::Used,
    Program::Discard,
    Program::Doomed,
    Program::Bad,
];

/// The tests that can go on for hours.
const HUNTERS: [Program; 5] =
    [Program::Discard, Program::Moves, Program::Fork, Program::Dirty, Program::Used];

pub(crate) fn main(_: usize) -> u8 {
    let seconds = system::parameter(Parameter::Soak) as u64;
    let right = if seconds == 0 { run_tests() } else { soak(seconds) };
    system::shutdown(u8::from(!right))
}

/// Whether a program is among the requested ones.
fn is_asked_for(program: Program) -> bool {
    let only = system::parameter(Parameter::Only);
    only == usize::MAX >> 1 || only == program as usize
}

/// A seed that depends on the one seed of the machine, and is printed with what it led to.
fn seeds() -> impl FnMut() -> u32 {
    let mut random = Random::new(system::parameter(Parameter::Seed) as u64);
    move || (random.next() >> 32) as u32
}

/// Runs every test, once.
fn run_tests() -> bool {
    let mut seeds = seeds();
    let (mut tests, mut passed) = (0, 0);
    for test in TESTS {
        // Each test has its seed, whether the others run or not.
        let seed = seeds();
        if !is_asked_for(test) {
            continue;
        }
        let frames = memory::free_frames();
        let end = run(test, Task { seed, pipe: None });
        let missing = memory::missing_frames(frames);
        if missing > 0 {
            println!("{}: {missing} frames did not come back", test.name());
        }
        let right = end == Ok(0) && missing == 0;
        if !right {
            println!("{} ended with {end:?}, seed {seed}", test.name());
        }
        println!("{} {}", if right { "PASS" } else { "FAIL" }, test.name());
        tests += 1;
        passed += usize::from(right);
    }
    tests > 0 && passed == tests
}

/// Runs the hunters, again and again.
fn soak(seconds: u64) -> bool {
    let end = system::clock() + seconds * 1_000_000_000;
    let pipe = system::pipe().expect("a pipe");
    let mut seeds = seeds();
    let mut totals = Totals::default();
    let (mut rounds, mut failures) = (0, 0);
    while system::clock() < end {
        for hunter in HUNTERS.into_iter().filter(|&hunter| is_asked_for(hunter)) {
            let seed = seeds();
            let end = run(hunter, Task { seed, pipe: Some(pipe) });
            // Those that end by themselves have said what they found.
            if matches!(end, Ok(0 | 1)) && totals.receive(pipe).is_err() || end != Ok(0) {
                println!("{} failed with {end:?}, seed {seed}", hunter.name());
                failures += 1;
            }
            rounds += 1;
        }
        if rounds == 0 {
            return false;
        }
    }
    println!("soak: {seconds} seconds, {totals}, {rounds} rounds");
    println!("{} soak", if failures == 0 { "PASS" } else { "FAIL" });
    failures == 0
}

/// Runs a program. What it returns or that it was killed.
fn run(program: Program, task: Task) -> Result<u8, &'static str> {
    let child = system::spawn(program, task.argument()).map_err(|_| "no process")?;
    match system::wait(child).map_err(|_| "no end")? {
        KILLED => Err("a kill"),
        code => Ok(code as u8),
    }
}
