use std::collections::BTreeMap;

use super::*;
use crate::data::Text;

mod children;
mod faults;
mod flushes;
mod interrupts;
mod isolation;
mod keys;
mod locks;
mod notes;
mod others_pages;
mod paths;
mod protection;
mod refusals;
mod scheduler;
mod units;

fn workload(text: &str) -> Result<Workload, Refused> {
    Workload::new(Program::read(&Text::new("w.toml", text))?)
}

fn run_on(machine: &str, strategy: &str, cpus: usize, text: &str) -> Result<Outcome, Refused> {
    let machine = Machine::named(machine)?;
    let options = BTreeMap::new();
    let setup = Setup {
        machine: &machine,
        strategy,
        cpus: Some(cpus),
        x: None,
        options: &options,
        seed: 1,
        timeline: 0,
    };
    workload(text)?.run(&setup)
}

fn zen5() -> Machine {
    Machine::named("zen5").unwrap()
}

fn run(cpus: usize, text: &str) -> Result<Outcome, Refused> {
    run_on("zen5", "lookaside", cpus, text)
}

#[track_caller]
fn refused(text: &str) -> String {
    match run(2, text) {
        Ok(_) => panic!("it was not refused"),
        Err(Refused(why)) => why,
    }
}

/// A file with one group of threads.
fn one(head: &str, program: &str) -> String {
    format!(
        "about = \"a test\"\n{head}\n[[space]]\nname = \"app\"\npages = 64\nmapped = 64\n\
         [[threads]]\nname = \"all\"\nspace = \"app\"\ncount = \"cpus\"\nprogram = \"\"\"\n{program}\n\"\"\"\n"
    )
}

#[test]
fn work_takes_as_long_as_it_says() {
    let outcome = run(1, &one("", "begin all\nrepeat 10\nwork 5 us\ndone\nend all")).unwrap();
    assert_eq!(outcome.metric("all"), Ok(50_000.0));
}

#[test]
fn it_runs_on_every_machine_with_the_library() {
    let text = one("", "touch 0 64\nbarrier\nprotect me 1\nallow me 1\ndiscard me 1\nbarrier");
    for machine in Files::own().machines().unwrap() {
        let cpus = machine.model.topology.cpus().min(4);
        run_on(&machine.key, "lookaside", cpus, &text)
            .unwrap_or_else(|Refused(why)| panic!("{}: {why}", machine.key));
    }
}

#[test]
fn two_runs_give_the_same() {
    let text = one("time = \"1 ms\"", "forever\nprotect me 1\ntouch random(64) 1\ncount n\ndone");
    let metrics = || run(8, &text).unwrap().metrics;
    assert_eq!(metrics(), metrics());
}
