use std::collections::BTreeMap;

use super::*;
use crate::data::Text;

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
fn pages_are_flushed_by_every_call_on_every_cpu_of_the_space() {
    let program = "touch 0 64\nbarrier\nrepeat 5\nprotect me 1\ntouch me 1\ndone\nbarrier";
    let counters = run(4, &one("", program)).unwrap().report.counters();
    // All CPUs run the space when the first flush begins.
    assert!(counters.sent > 0 && counters.taken > 0, "{counters:?}");
    assert!(counters.page_flushes + counters.full_flushes >= 20);
}

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
fn a_fork_has_pages_copied_when_either_side_writes() {
    let program = "write 0 8\nfork\nwrite 0 4\nexec 32\nwrite 0 2\ndone\nbegin copy\nwrite 0 8\nend copy\n\
                   begin again\nwrite 0 8\nend again";
    let outcome = run(1, &one("", program)).unwrap();
    let (copy, again) = (outcome.metric("copy").unwrap(), outcome.metric("again").unwrap());
    assert!(copy > 8.0 * 300.0 && again < 0.1 * copy, "{copy} {again}");
}

#[test]
fn reclaim_in_batches_waits_less_often() {
    let text = |how: &str| one("", &format!("touch 0 64\nbegin r\nreclaim 0 64 {how}\nend r"));
    let time = |how| {
        let outcome = run_on("altra_1node", "lookaside", 1, &text(how)).unwrap();
        (outcome.metric("r").unwrap(), outcome.report.counters())
    };
    let ((each, _), (batch, _)) = (time("each"), time("batch 32"));
    assert!(each > batch, "{each} {batch}");
}

#[test]
fn bystanders_lose_what_others_take() {
    let text = |flushes: &str| {
        format!(
            "about = \"a test\"\ntime = \"2 ms\"\n\
             [[space]]\nname = \"app\"\npages = 64\nmapped = 64\n\
             [[threads]]\nname = \"flusher\"\nspace = \"app\"\ncpu = 0\n\
             program = \"\"\"\nforever\n{flushes}\nwork 1 us\ndone\n\"\"\"\n\
             [[threads]]\nname = \"bystander\"\nspace = \"app\"\ncpu = 1\n\
             program = \"\"\"\nforever\nwork 1 us\ncount progress\ntouch 1 1\ndone\n\"\"\"\n"
        )
    };
    let progress = |flushes| run(2, &text(flushes)).unwrap().metric("progress").unwrap();
    assert!(progress("protect 0 1") < 0.95 * progress("touch 0 1"));
}

#[test]
fn isolation_costs_two_root_writes_for_each_call() {
    let program = "begin c\nrepeat 100\nallow 0 1\ndone\nend c";
    let time = |head: &str| {
        let outcome = run_on("skylake_sp", "lookaside", 1, &one(head, program)).unwrap();
        outcome.metric("c").unwrap() / 100.0
    };
    let machine = Machine::named("skylake_sp").unwrap();
    let root = machine.model.prices.get(Price::Root).unwrap() as f64 / NS as f64;
    let more = time("isolation = true") - time("");
    assert!((more - 2.0 * root).abs() < 1.0, "{more} {root}");
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

#[test]
fn a_deadlock_is_said_with_its_lines() {
    let why = refused(&one("locks = [\"a\"]", "lock a\nlock a"));
    assert!(why.starts_with("w.toml:12: a deadlock"), "{why}");
    assert!(why.contains("`all` in line 12"), "{why}");
    let why = refused(
        "about = \"a test\"\n[semaphores]\ns = 0\n[[space]]\nname = \"a\"\npages = 1\n\
         [[threads]]\nname = \"t\"\nspace = \"a\"\nprogram = \"wait s\"\n",
    );
    assert!(why.starts_with("w.toml:10: a deadlock"), "{why}");
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let body = |program: &str| refused(&one("", program));
    assert!(body("work 5").starts_with("w.toml:12: `work 5` has a number where a time is needed"));
    assert!(body("work 5 parsec").contains("unknown unit `parsec`"));
    assert!(body("wrok 5 us").contains("did you mean `work`?"));
    assert!(body("touch 0 1\ntouch 60 5").starts_with("w.toml:13: pages 60 to 65"));
    assert!(body("repeat 3").contains("lacks its `done`"));
    assert!(body("done").contains("closes nothing"));
    assert!(body("forever\ndone").contains("needs `time`"));
    assert!(body("lock x").contains("names the lock `x`"));
    assert!(body("end x").starts_with("w.toml:12: it has not begun"));
    assert!(body("exec 3").contains("between `fork` and its `done`"));
    assert!(body("touch 0 1 2").contains("has `2` too much"));
    assert!(body("migrate 2").contains("there is no CPU 2: there are 2"));
    let why = refused(&one("[parameters]\nunused = 3", "work 5 us"));
    assert!(why.starts_with("w.toml:3: `parameters.unused` is read by no"), "{why}");
    let why = refused(&one("tiem = \"1 ms\"", "work 5 us"));
    assert!(why.starts_with("w.toml:2: `tiem` is no key"), "{why}");
    let why = refused(&one("time = \"1 fortnight\"", "work 5 us"));
    assert!(why.contains("unknown unit `fortnight`"), "{why}");
    let cpus = run(1 << 12, &one("", "work 5 us")).unwrap_err().0;
    assert!(cpus.contains("4096 CPUs, and machine `zen5` has 96"), "{cpus}");
}
