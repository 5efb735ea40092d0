//! Which thread a CPU runs, and what it takes to have it run another.

use super::*;

#[test]
fn threads_that_wake_each_other_take_turns() {
    let text = "about = \"a test\"\n[semaphores]\nping = 0\npong = 0\n\
         [[space]]\nname = \"a\"\npages = 8\nmapped = 8\neach = true\n\
         [[threads]]\nname = \"one\"\nspace = \"a\"\ncpu = 0\n\
         program = \"\"\"\nrepeat 50\npost ping\nwait pong\ndone\n\"\"\"\n\
         [[threads]]\nname = \"other\"\nspace = \"a\"\ncpu = 0\n\
         program = \"\"\"\nrepeat 50\nwait ping\npost pong\ndone\n\"\"\"\n";
    let outcome = run(1, text).unwrap();
    // One CPU: every hand-over is a switch of the space.
    assert!(outcome.report.counters().roots >= 100, "{:?}", outcome.report.counters());
    let apart = run(2, &text.replacen("cpu = 0", "cpu = 1", 1)).unwrap();
    assert!(apart.metric("elapsed").unwrap() < outcome.metric("elapsed").unwrap());
}

#[test]
fn more_threads_than_cpus_take_turns_by_the_quantum() {
    let text = |quantum: &str| {
        format!(
            "about = \"a test\"\nquantum = \"{quantum}\"\n\
             [[space]]\nname = \"a\"\npages = 8\nmapped = 8\neach = true\n\
             [[threads]]\nname = \"all\"\nspace = \"a\"\ncount = 3\n\
             program = \"\"\"\nrepeat 1000\nwork 1 us\ndone\n\"\"\"\n"
        )
    };
    let roots = |quantum| run(1, &text(quantum)).unwrap().report.counters().roots;
    let (often, seldom) = (roots("10 us"), roots("10 ms"));
    assert!(often > 100 * seldom.min(3) && seldom < 20, "{often} {seldom}");
}

#[test]
fn a_cpu_that_sleeps_has_to_be_interrupted() {
    let text = |sleeps: bool| {
        format!(
            "about = \"a test\"\nsleeps = {sleeps}\n[semaphores]\nping = 0\npong = 0\n\
             [[space]]\nname = \"a\"\npages = 8\neach = true\n\
             [[threads]]\nname = \"one\"\nspace = \"a\"\ncpu = 0\nprogram = \"\"\"\n\
             repeat 50\nbegin t\npost ping\nwait pong\nend t\ndone\n\"\"\"\n\
             [[threads]]\nname = \"other\"\nspace = \"a\"\ncpu = 1\nprogram = \"\"\"\n\
             repeat 50\nwait ping\npost pong\ndone\n\"\"\"\n"
        )
    };
    let time =
        |sleeps| run_on("skylake_sp", "lookaside", 2, &text(sleeps)).unwrap().metric("t").unwrap();
    let prices = &Machine::named("skylake_sp").unwrap().model.prices;
    let price = |price| prices.get(price).unwrap() as f64 / NS as f64;
    // Two interrupts for each round, of which a CPU that has not gone to sleep yet needs none, and two ways out of a halt.
    let way = price(Price::InterruptSend) + price(Price::InterruptDeliver);
    let halt = Files::own().ranges().unwrap().path(&zen5(), "halt").unwrap().middle();
    let two = 2.0 * (way + price(Price::InterruptEntry) + price(Price::InterruptExit) + halt);
    let more = time(true) - time(false);
    assert!((0.9 * two..1.1 * two).contains(&more), "{more} {two}");
}
