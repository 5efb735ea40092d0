use std::collections::BTreeMap;

use super::*;
use crate::data::Text;

mod children;
mod keys;
mod protection;
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
fn paths_take_longer_where_the_clock_is_slower() {
    let ranges = Files::own().ranges().unwrap();
    let middle =
        |machine: &str| ranges.path(&Machine::named(machine).unwrap(), "unmap").unwrap().middle();
    // 1.8 and 3 GHz.
    assert!((middle("phytium_n80") / middle("skylake_sp") - 3.0 / 1.8).abs() < 1e-9);
}

#[test]
fn reclaim_in_batches_waits_less_often() {
    let text = |how: &str| one("", &format!("touch 0 64\nbegin r\nreclaim 0 64 {how}\nend r"));
    let time = |machine, strategy, cpus, how| {
        let outcome = run_on(machine, strategy, cpus, &text(how)).unwrap();
        outcome.metric("r").unwrap()
    };
    for (machine, strategy, cpus) in
        [("altra_1node", "linux-broadcast", 1), ("skylake_sp", "lookaside", 4)]
    {
        let [each, batch] = ["each", "batch 32"].map(|how| time(machine, strategy, cpus, how));
        assert!(each > batch, "{strategy}: {each} {batch}");
    }
}

/// Linux: everything of each CPU on x86 (`arch_tlbbatch_flush`); each page, and one wait, on Arm64, however many.
#[test]
fn linux_flushes_a_batch_in_full_on_x86_and_page_by_page_on_arm() {
    let counters = |machine, strategy, cpus| {
        let head = "about = \"a test\"\n[[space]]\nname = \"app\"\npages = 600\n";
        let group = |name, place, program| {
            format!(
                "[[threads]]\nname = \"{name}\"\nspace = \"app\"\n{place}\nprogram = \"\"\"\n{program}\n\"\"\"\n"
            )
        };
        let reclaimer =
            group("reclaimer", "cpu = 0", "work 50 us\ntouch 0 600\nreclaim 0 600 batch 600");
        let other = group("other", "count = \"cpus - 1\"\ncpu = \"me + 1\"", "work 50 ms");
        let text = format!("{head}{reclaimer}{other}");
        run_on(machine, strategy, cpus, &text).unwrap().report.counters()
    };
    let few = counters("skylake_sp", "linux-ipi-2025", 2);
    assert!(few.page_flushes == 0 && few.full_flushes > 0 && few.sent > 0, "{few:?}");
    // Nobody else: nothing is put off. And so it was before 2015.
    let alone = counters("skylake_sp", "linux-ipi-2025", 1);
    assert!(alone.page_flushes >= 600, "{alone:?}");
    assert!(counters("skylake_sp", "page-by-page", 2).page_flushes >= 600);
    let all = counters("turin", "linux-invlpgb-2025", 2);
    assert!((1..10).contains(&all.broadcasts) && all.sent == 0, "{all:?}");
    for machine in ["altra_1node", "neoverse_v2"] {
        let many = counters(machine, "linux-broadcast", 2);
        assert!(many.broadcasts >= 600 && many.syncs < 100, "{machine}: {many:?}");
    }
}

#[test]
fn a_parameter_has_no_name_of_the_language() {
    let why = refused(&one("[parameters]\nthreads = 1\n", "work 1 us"));
    assert!(why.contains("`threads` is a name of the language itself"), "{why}");
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

/// Without PCIDs each crossing would flush, which is not modelled.
#[test]
fn isolation_needs_pcids() {
    let text = one("isolation = true", "call");
    for entry in strategy::all().filter(|entry| entry.isas.contains(&Isa::X86_64)) {
        if entry.name == "linux-invlpgb-2025" {
            continue; // A Skylake has no INVLPGB.
        }
        let ran = run_on("skylake_sp", entry.name, 1, &text);
        match strategy::is_without_pcids(entry.name) {
            true => {
                let why = ran.unwrap_err().0;
                let words =
                    format!("`isolation` needs PCIDs, and strategy `{}` uses none", entry.name);
                assert!(why.starts_with("w.toml:2: ") && why.contains(&words), "{why}");
                let without = one("", "call");
                assert!(run_on("skylake_sp", entry.name, 1, &without).is_ok());
            }
            false => assert!(ran.is_ok(), "{}", entry.name),
        }
    }
    let why = run_on("westmere_ep_2s", "linux-ipi-2025", 1, &text).unwrap_err().0;
    assert!(why.contains("machine `westmere_ep_2s` has none"), "{why}");
    assert!(run_on("neoverse_n1", "linux-broadcast", 1, &text).is_ok());
}

/// Two processes that take turns on a CPU lose their translations at each switch without PCIDs, and with them keep them.
#[test]
fn strategies_without_pcids_flush_at_each_switch() {
    let text = "about = \"a test\"\n[[space]]\nname = \"a\"\npages = 8\nmapped = 8\neach = true\n\
                [[threads]]\nname = \"t\"\nspace = \"a\"\ncount = 2\ncpu = 0\n\
                program = \"\"\"\nrepeat 100\ntouch 0 8\nyield\ndone\n\"\"\"\n";
    for entry in strategy::all().filter(|entry| entry.isas.contains(&Isa::X86_64)) {
        let Ok(outcome) = run_on("skylake_sp", entry.name, 1, text) else { continue };
        let misses = outcome.report.counters().walks;
        let flushes = misses > 1000;
        assert_eq!(flushes, strategy::is_without_pcids(entry.name), "{}: {misses}", entry.name);
    }
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
    assert!(body("exec 3").contains("between `fork` or `vfork` and its `done`"));
    let why = body("fork\nexec 67108865\ndone");
    assert!(
        why.starts_with("w.toml:13: a program of 67108865 pages: a space has at most"),
        "{why}"
    );
    let why = body("repeat 1000\nfork\nexec 60000\ndone\ndone");
    assert!(why.starts_with("w.toml:14: 120000000 pages of all threads"), "{why}");
    assert!(body("fork on 2\ndone").contains("there is no CPU 2: there are 2"));
    assert!(body("fork on\ndone").contains("a number is needed"));
    assert!(body("fork on 1\nbarrier\ndone\nbarrier").contains("comes to no `barrier`"));
    assert!(body("waitpid").contains("a semaphore that the child of a `fork on CPU` posts"));
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

/// CPU 0 does something while another one runs another process, and a third one sleeps.
fn beside_others(statement: &str, sleeps: bool) -> String {
    format!(
        "about = \"a test\"\nsleeps = {sleeps}\ntime = \"400 us\"\ncpus = 3\n\
         [[space]]\nname = \"app\"\npages = 8\nmapped = 8\neach = true\n\
         [[threads]]\nname = \"main\"\nspace = \"app\"\n\
         program = \"\"\"\nsleep 50 us\nrepeat 10\nbegin t\n{statement}\nend t\nwork 20 us\ndone\n\"\"\"\n\
         [[threads]]\nname = \"busy\"\nspace = \"app\"\ncpu = 1\nprogram = \"\"\"\nforever\nwork 1 us\ndone\n\"\"\"\n\
         [[threads]]\nname = \"short\"\nspace = \"app\"\ncpu = 2\nprogram = \"\"\"\nwork 1 us\n\"\"\"\n"
    )
}

#[test]
fn interrupts_that_flush_nothing_reach_the_cpus_that_are_named_and_are_waited_for() {
    for (machine, strategy) in [
        ("zen5", "lookaside"),
        ("zen5", "linux-ipi-2025"),
        ("neoverse_n1", "linux-broadcast"),
        ("jh7110", "lookaside"),
    ] {
        let of = |statement: &str| run_on(machine, strategy, 3, &beside_others(statement, false));
        let taken = |statement: &str| of(statement).unwrap().report.counters().taken;
        let none = taken("work 1 us");
        // Of itself nobody is interrupted.
        assert_eq!(
            ["interrupt 0 1", "interrupt 1 1", "interrupt 0 3"].map(|one| taken(one) - none),
            [0, 10, 20],
            "{machine}, {strategy}"
        );
        let time = |statement: &str| of(statement).unwrap().metric("t").unwrap();
        // The RISC-V machine has no price for any part of it.
        let waits = machine == "jh7110" || time("interrupt 0 3") > 50.0;
        assert!(time("interrupt 0 1") < 1.0 && waits, "{machine}");
    }
    let why = run(3, &beside_others("interrupt 1 3", false)).unwrap_err().0;
    assert!(why.ends_with("there is no CPU 3: there are 3"), "{why}");
}

#[test]
fn a_flush_of_kernel_addresses_reaches_all_cpus() {
    for strategy in ["lookaside", "linux-ipi-2025", "shared-counter"] {
        let of = |statement: &str| {
            run_on("skylake_sp", strategy, 3, &beside_others(statement, false)).unwrap()
        };
        // No other CPU runs this process.
        let taken = |statement: &str| of(statement).report.counters().taken;
        assert_eq!(taken("flush 0 2 of app 0") - taken("work 1 us"), 0, "{strategy}");
        assert_eq!(taken("flush 0 2 of kernel") - taken("work 1 us"), 20, "{strategy}");
    }
    let why = run(3, &beside_others("flush 4000 97 of kernel", false)).unwrap_err().0;
    assert!(why.ends_with("pages 4000 to 4097 of the kernel: there are 4096"), "{why}");
    let why = run(3, &beside_others("unmap 0 1 of kernel", false)).unwrap_err().0;
    assert!(why.contains("names the space `kernel`, which is unknown"), "{why}");
}

#[test]
fn who_interrupts_a_cpu_that_sleeps_waits_until_it_is_awake() {
    let halt = Files::own().ranges().unwrap().path(&zen5(), "halt").unwrap().middle();
    for statement in ["interrupt 2 1", "flush 0 2 of kernel"] {
        let time = |sleeps| {
            let outcome = run(3, &beside_others(statement, sleeps)).unwrap();
            outcome.metric("t").unwrap()
        };
        let more = time(true) - time(false);
        assert!((0.8 * halt..1.5 * halt).contains(&more), "{statement}: {more}, {halt}");
    }
}

#[test]
fn calls_and_paths_take_what_the_kernel_takes() {
    let time = |program: &str| {
        let text = one("", &format!("begin t\nrepeat 10\n{program}\ndone\nend t"));
        let outcome = run(1, &text.replace("mapped = 64", "mapped = 0"));
        outcome.unwrap().metric("t").unwrap() / 10.0
    };
    let ranges = Files::own().ranges().unwrap();
    let path = |name: &str| ranges.path(&zen5(), name).unwrap().middle().floor();
    assert!((time("call") - path("call")).abs() < 1.0, "{}", time("call"));
    assert!((time("path copy 3") - 3.0 * path("copy")).abs() < 3.0, "{}", time("path copy 3"));
    // Of pages that are not there (none was touched): what takes time is the area.
    for (program, area) in [
        ("map 0 8", "map"),
        ("unmap 0 8", "unmap"),
        ("discard 0 8", "discard"),
        ("protect 0 8", "protect"),
        ("allow 0 8", "protect"),
    ] {
        let expected = path("call") + path(area);
        assert!((time(program) - expected).abs() < 2.0, "{program}: {}", time(program));
    }
}

#[test]
fn a_word_that_all_share_costs_more_the_more_share_it() {
    let time = |cpus| {
        let program = "barrier\nbegin t\nrepeat 2000\natomic w\ndone\nend t";
        run(cpus, &one("words = [\"w\"]", program)).unwrap().metric("t").unwrap()
    };
    // Eight CPUs take the line from each other one after the other, each time from within the cluster.
    let prices = &zen5().model.prices;
    let line = prices.get(Price::LineCluster).unwrap() as f64 / NS as f64;
    assert!(time(1) < 2000.0 * line, "{}", time(1));
    assert!(time(8) > 3.0 * 2000.0 * line, "{} {line}", time(8));
}

#[test]
fn populated_pages_do_not_fault_and_flushed_ones_stay() {
    let program = "discard 0 8\nbegin t\ntouch 0 8\nend t\ndiscard 0 8\npopulate 0 8\nbegin p\ntouch 0 8\nend p\n\
                   flush 0 8\nbegin f\ntouch 0 8\nend f";
    let outcome = run(1, &one("", program)).unwrap();
    let metric = |name| outcome.metric(name).unwrap();
    assert!(metric("t") > 8.0 * 300.0 && metric("p") < 0.2 * metric("t"), "{:?}", outcome.metrics);
    assert!(metric("f") < 0.2 * metric("t"), "{:?}", outcome.metrics);
    assert!(outcome.report.counters().page_flushes >= 16);
}

/// Pages of a file that is mapped privately, with faults that map around.
fn private(program: &str) -> Outcome {
    let text = one("", program).replace("mapped = 64", "private = true\naround = 16");
    run(1, &text).unwrap()
}

#[test]
fn a_fault_of_reading_maps_the_pages_around() {
    let outcome = private(
        "begin a\ntouch 3 1\nend a\nbegin b\ntouch 0 16\nend b\nbegin c\ntouch 16 1\nend c",
    );
    let metric = |name| outcome.metric(name).unwrap();
    assert!(
        metric("a") > 300.0 && metric("b") < 300.0 && metric("c") > 300.0,
        "{:?}",
        outcome.metrics
    );
}

#[test]
fn a_write_to_a_page_of_a_private_file_copies_it_until_it_is_discarded() {
    let outcome = private(
        "touch 0 1\nbegin first\nwrite 0 1\nend first\nbegin again\nwrite 0 1\nend again\ndiscard 0 1\n\
         touch 0 1\nbegin anew\nwrite 0 1\nend anew",
    );
    let metric = |name| outcome.metric(name).unwrap();
    assert!(metric("first") > 600.0 && metric("again") < 100.0, "{:?}", outcome.metrics);
    assert!(metric("anew") > 600.0, "{:?}", outcome.metrics);
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

#[test]
fn readers_share_a_lock_and_wait_behind_a_writer_who_waits() {
    // They come at 10, 20 and 30 us, and each has the lock for 100 us.
    let elapsed = |takes: [&str; 3]| {
        let threads: String = takes
            .iter()
            .enumerate()
            .map(|(i, take)| {
                format!(
                    "[[threads]]\nname = \"t{i}\"\nspace = \"a\"\ncpu = {i}\nprogram = \"\"\"\n\
                     sleep {} us\n{take} l\nwork 100 us\nunlock l\n\"\"\"\n",
                    10 * (i + 1)
                )
            })
            .collect();
        let head = "about = \"a test\"\nlocks = [\"l\"]\n[[space]]\nname = \"a\"\npages = 8\n";
        run(3, &format!("{head}{threads}")).unwrap().metric("elapsed").unwrap() / 1e3
    };
    let about = |time: f64, us: f64| (us..us + 15.0).contains(&time);
    let all = elapsed(["share", "share", "share"]);
    assert!(about(all, 130.0), "at once, the last from 30 us on: {all}");
    let last = elapsed(["share", "share", "lock"]);
    assert!(about(last, 220.0), "after the second reader, which began at 20 us: {last}");
    let between = elapsed(["share", "lock", "share"]);
    assert!(about(between, 310.0), "one after the other: {between}");
    let first = elapsed(["lock", "share", "share"]);
    assert!(about(first, 210.0), "both after the writer, at once: {first}");
    let held = one("locks = [\"l\"]", "share l\nunlock l\nunlock l");
    assert!(refused(&held).contains("what nobody has locked"));
}

#[test]
fn isolation_may_be_a_parameter() {
    let text = one("isolation = \"on\"\n[parameters]\non = 1", "begin c\ncall\nend c");
    let machine = Machine::named("skylake_sp").unwrap();
    let time = |on: f64| {
        let options = BTreeMap::from([("on".to_owned(), on)]);
        let setup = Setup {
            machine: &machine,
            strategy: "lookaside",
            cpus: Some(1),
            x: None,
            options: &options,
            seed: 1,
            timeline: 0,
        };
        workload(&text).unwrap().run(&setup).unwrap().metric("c").unwrap()
    };
    let root = machine.model.prices.get(Price::Root).unwrap() as f64 / NS as f64;
    assert!((time(1.0) - time(0.0) - 2.0 * root).abs() < 1.0, "{} {}", time(1.0), time(0.0));
}

#[test]
fn unknown_paths_and_words_are_said() {
    let body = |program: &str| refused(&one("words = [\"count\"]", program));
    assert!(body("path falut").contains("did you mean `fault`?"), "{}", body("path falut"));
    assert!(body("atomic cuont").contains("did you mean `count`?"));
    assert!(body("flush 60 5").starts_with("w.toml:12: pages 60 to 65"));
    assert!(refused(&one("sleeps = 3 parsec", "call")).starts_with("w.toml:2:"));
}

#[test]
fn loops_that_do_not_end_are_refused_with_their_line() {
    let time = "time = \"1 ms\"";
    for program in ["forever\ndone", "forever\nbegin a\nend a\ndone"] {
        let why = refused(&one(time, program));
        assert!(why.starts_with("w.toml:1"), "{why}");
        assert!(why.contains("no time") && why.contains("work 1 us"), "{why}");
    }
    for (head, inner) in [("", ""), (time, "touch 0 1\nunmap 0 1\n")] {
        let why = refused(&one(head, &format!("repeat 999999999999\n{inner}done")));
        assert!(why.contains("1999999999998 rounds") && why.contains("`forever`"), "{why}");
    }
    let why = refused(&one("", "repeat 100000\nrepeat 100000\nwork 1 us\ndone\ndone"));
    assert!(why.contains("w.toml:13: 20000000000 rounds"), "{why}");
}

#[test]
fn threads_that_spin_for_ever_are_named_with_their_lines() {
    let of = |program: &str| refused(&one("locks = [\"a\", \"b\"]", program));
    let why = of("spin a\nspin a\nleave a\nleave a");
    assert!(why.starts_with("w.toml:13: ") && why.contains("would wait for itself"), "{why}");
    assert!(of("leave a").contains("it does not have this lock"));
    let text = one("locks = [\"a\", \"b\"]", "spin a\nwork 9 us\nspin b\nleave b\nleave a");
    let other = "[[threads]]\nname = \"other\"\nspace = \"app\"\ncpu = 1\n\
                 program = \"\"\"\nspin b\nwork 9 us\nspin a\nleave a\nleave b\n\"\"\"\n";
    let why = refused(&(text.replace("\"cpus\"", "1") + other));
    assert!(
        why.starts_with("w.toml:14: a deadlock: threads spin: `all` in line 14, `other`"),
        "{why}"
    );
}

#[test]
fn what_would_be_lost_or_taken_for_another_is_refused() {
    let good = one("", "work 1 us");
    assert!(run(2, &good).is_ok());
    let two = good.replace("[[threads]]", "[[space]]\nname = \"app\"\npages = 1\n[[threads]]");
    for (text, words) in [
        (two, "w.toml:8: there are two spaces `app`"),
        (one("", "count elapsed"), "names `elapsed`, which is another metric"),
        (one("", "count a\nbegin a\nend a"), "names `a`, which is another metric"),
        (one("", "begin x\nwork 1 us"), "`begin x` lacks its `end x`"),
        (good.replace("pages = 64", "pages = 100000000000"), "`pages` is 100000000000"),
        (one("time = 2", "work 1 us"), "`time` is 2 without a unit; write it as \"2 us\""),
        (good.replace("\"cpus\"", "-2"), "`-2` has a number below 0; all are 0 or more"),
        (good.replace("\"cpus\"", "0"), "w.toml:8: it has no thread"),
    ] {
        let why = refused(&text);
        assert!(why.starts_with("w.toml:") && why.contains(words), "{why}");
    }
}

#[test]
fn threads_that_never_run_and_what_none_came_to_are_said() {
    let text = one("time = \"2 ms\"", "forever\nwork 5 us\ncount rounds\ndone");
    let late = "[[threads]]\nname = \"late\"\nspace = \"app\"\ncount = 1\ncpu = 0\n\
                program = \"\"\"\nforever\nwork 5 us\ncount progress\ndone\n\"\"\"\n";
    let notes = |text: &str| run(1, text).unwrap().notes;
    assert_eq!(notes(&text), [""; 0]);
    let [never, none] = &notes(&format!("{text}{late}"))[..] else { panic!("two notes") };
    let line = 2 + text.lines().count();
    assert!(
        never.starts_with(&format!("w.toml:{line}: 1 of 1 threads of `late` never ran")),
        "{never}"
    );
    assert!(never.contains("a shorter `quantum`"), "{never}");
    assert!(none.contains("`progress` is 0 as no thread came to it"), "{none}");
    let short = text.replace("time =", "quantum = \"100 us\"\ntime =");
    assert_eq!(notes(&format!("{short}{late}")), [""; 0]);
    // It ends, and all with it, before the tenth is over that is left out of longer runs.
    let early = late.replace("forever\nwork 5 us\ncount progress\ndone", "count progress");
    let [end] = &notes(&format!("{short}{early}"))[..] else { panic!("one note") };
    assert!(end.starts_with("w.toml: the run ended after "), "{end}");
    assert!(end.contains("`time` was not reached, and counters are of all of it"), "{end}");
}

/// One computes on CPU 0, and a thread of another process does this to its pages from CPU 1.
fn beside(statement: &str) -> String {
    format!(
        "about = \"a test\"\ntime = \"1 ms\"\n[[space]]\nname = \"app\"\npages = 64\nmapped = 64\n\
         [[space]]\nname = \"kernel\"\npages = 1\n[[space]]\nname = \"alone\"\npages = 1\neach = true\n\
         [[space]]\nname = \"nobody\"\npages = 1\n\
         [[threads]]\nname = \"app\"\nspace = \"app\"\ncount = 1\ncpu = 0\n\
         program = \"\"\"\nforever\ntouch 0 64\nwork 1 us\ncount rounds\ndone\n\"\"\"\n\
         [[threads]]\nname = \"kswapd\"\nspace = \"kernel\"\ncount = 1\ncpu = 1\n\
         program = \"\"\"\nforever\n{statement}\nwork 20 us\ndone\n\"\"\"\n"
    )
}

#[test]
fn a_process_loses_pages_to_another_that_it_does_not_run_beside() {
    let rounds = |of: &Outcome| of.metric("rounds").unwrap();
    let idle = run(2, &beside("work 1 us")).unwrap();
    for statement in
        ["reclaim 0 64 each of app", "protect 0 8 of app", "flush 0 8 of app", "discard 0 8 of app"]
    {
        for strategy in ["lookaside", "linux-ipi-2025"] {
            let of = run_on("zen5", strategy, 2, &beside(statement)).unwrap();
            let sent = of.report.counters().sent;
            assert!(sent > 10, "{statement} {strategy}: the other CPU runs the process: {sent}");
            assert!(rounds(&of) < rounds(&idle), "{statement} {strategy}");
        }
    }
    // Its own pages are nobody else's.
    let own = run(2, &beside("protect 0 1")).unwrap();
    assert_eq!(own.report.counters().sent, 0);
}

#[test]
fn of_which_processes_pages_are_is_checked() {
    let why = |statement: &str| refused(&beside(statement));
    assert!(
        why("protect 0 8 of ap")
            .contains("names the space `ap`, which is unknown; did you mean `app`?")
    );
    assert!(why("touch 0 8 of app").contains("is of its own process alone; there are `protect`, "));
    assert!(why("protect 0 1 of alone").contains("of which every thread has one"));
    assert!(why("protect 0 1 of nobody").contains("in which no thread is"));
    assert!(why("protect 0 65 of app").contains("pages 0 to 65 of a space that has 64"));
    assert!(why("protect 0 1 of").contains("names no space"));
    let none = beside("protect 0 1 of app").replacen("count = 1", "count = 0", 1);
    assert!(refused(&none).contains("its `count` is 0"), "{}", refused(&none));
}

#[test]
fn a_rate_is_the_same_however_long_the_threads_last_that_end() {
    let outcome = |rounds: u32| {
        let text = format!(
            "about = \"a test\"\ntime = \"1 ms\"\n[[space]]\nname = \"a\"\npages = 64\nmapped = 64\n\
             [[threads]]\nname = \"loops\"\nspace = \"a\"\ncount = \"cpus - 1\"\ncpu = \"me\"\n\
             program = \"\"\"\nforever\nwork 1 us\ncount progress\ndone\n\"\"\"\n\
             [[threads]]\nname = \"ends\"\nspace = \"a\"\ncpu = \"cpus - 1\"\n\
             program = \"\"\"\nrepeat {rounds}\nprotect 0 1\nwork 5 us\ndone\n\"\"\"\n"
        );
        run(4, &text).unwrap()
    };
    let progress = |rounds| outcome(rounds).metrics[0].value;
    let long = progress(150);
    // The first ends before the tenth of the time that is left out of longer runs.
    for rounds in [5, 20, 80] {
        let ratio = progress(rounds) / long;
        assert!((0.85..1.15).contains(&ratio), "{rounds}: {ratio}");
    }
    let notes = |rounds| outcome(rounds).notes.join(" ");
    assert!(notes(400).contains("`interrupts` are of the whole run"), "{}", notes(400));
    assert!(notes(80).contains("`time` was not reached"), "{}", notes(80));
}
