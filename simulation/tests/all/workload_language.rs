//! The language of workload files: what the README says of it, and what a newcomer gets wrong.

use std::collections::BTreeMap;

use lookaside_simulation::{
    data::{Machine, Program, Text},
    workload::{Outcome, Setup, file::Workload},
};
use lookaside_terminal::Refused;

fn run(cpus: usize, text: &str) -> Result<Outcome, Refused> {
    let machine = Machine::named("zen5")?;
    let setup = Setup {
        machine: &machine,
        strategy: "linux-ipi-2022",
        cpus: Some(cpus),
        x: None,
        options: &BTreeMap::new(),
        seed: 1,
        timeline: 0,
    };
    Workload::new(Program::read(&Text::new("w.toml", text))?)?.run(&setup)
}

#[track_caller]
fn refused(text: &str) -> String {
    match run(4, text) {
        Ok(_) => panic!("it was not refused"),
        Err(Refused(why)) => why,
    }
}

/// A file with one group of threads, each in a space of its own.
fn each(head: &str, space: &str, program: &str) -> String {
    format!(
        "about = \"a test\"\n{head}\n[[space]]\nname = \"own\"\neach = true\n{space}\n\
         [[threads]]\nname = \"all\"\nspace = \"own\"\ncount = \"cpus\"\nprogram = \"\"\"\n{program}\n\"\"\"\n"
    )
}

const PAGES: &str = "pages = 64\nmapped = 64";

#[test]
fn the_example_of_the_readme_runs() {
    let readme = include_str!("../../../workloads/README.md");
    let example = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.expect("it has an example");
    assert!(example.contains("locks = ") && example.contains("each = 0"), "{example}");
    let outcome = run(16, example).unwrap_or_else(|Refused(why)| panic!("{why}"));
    assert!(outcome.metric("unmap").is_ok_and(|time| time > 0.0));
}

/// Each thread takes a page of the next, whose CPU is interrupted, or of its own.
#[test]
fn pages_of_a_process_that_each_thread_has_are_named_by_its_number() {
    let sent = |whose: &str| {
        let program = format!("barrier\nwork 20 us\nprotect 0 1 of own {whose}\nwork 40 us");
        run(4, &each("", PAGES, &program)).unwrap().report.counters().sent
    };
    assert_eq!(sent("me"), 0, "nobody else runs it");
    assert!(sent("(me + 1) % 4") >= 4, "each interrupts the next: {}", sent("(me + 1) % 4"));
}

#[test]
fn whose_pages_are_meant_has_to_be_said_and_has_to_be_there() {
    let why = |statement: &str| refused(&each("", PAGES, statement));
    assert!(why("protect 0 1 of own").contains("say whose, as `of own 0`"));
    assert!(why("protect 0 1 of own 4").contains("no `own` 4: there are 4, from 0 on"));
    assert!(why("protect 0 1 of own 1 2").contains("has `2` too much"));
}

/// Pairs that wake each other through a pipe for each pair do not meet.
#[test]
fn threads_of_the_same_number_share_a_semaphore_of_each() {
    let text = |first: &str| {
        let group = |name: &str, cpu: &str, program: &str| {
            format!(
                "[[threads]]\nname = \"{name}\"\nspace = \"a\"\ncount = \"cpus / 2\"\ncpu = \"{cpu}\"\n\
                 program = \"\"\"\n{program}\n\"\"\"\n"
            )
        };
        format!(
            "about = \"a test\"\n[semaphores]\nthere = {first}\nback = {first}\n\
             [[space]]\nname = \"a\"\npages = 8\nmapped = 8\n{}{}",
            group(
                "one",
                "me * 2",
                "repeat 50\nbegin t\nsend there\nreceive back\nend t\nwork 3 us\ndone"
            ),
            group("other", "me * 2 + 1", "repeat 50\nreceive there\nsend back\ndone"),
        )
    };
    let time = |cpus, first: &str| run(cpus, &text(first)).unwrap().metric("t").unwrap();
    let (alone, apart) = (time(2, "{ each = 0 }"), time(8, "{ each = 0 }"));
    assert!((0.9..1.1).contains(&(apart / alone)), "{alone} {apart}");
    // Number 0 posts and number 1 waits.
    let crossed = |first| {
        text(first).replace(
            "repeat 50\nbegin t\nsend there\nreceive back\nend t\nwork 3 us\ndone",
            "repeat 1 / (me + 1)\npost there\ndone",
        )
    };
    let crossed = |first| {
        crossed(first)
            .replace("repeat 50\nreceive there\nsend back\ndone", "repeat me\nwait there\ndone")
    };
    assert!(run(4, &crossed("0")).is_ok());
    assert!(refused(&crossed("{ each = 0 }")).contains("a deadlock"));
    assert!(
        refused(&text("{ all = 0 }")).starts_with("w.toml:3: `semaphores.there.all` is no key")
    );
    assert!(refused(&text("{ each = -1 }")).contains("is not a whole number"));
}

#[test]
fn keys_of_the_head_below_it_are_named_as_such() {
    let good = each("", PAGES, "work 1 us");
    assert!(run(2, &good).is_ok());
    for (text, line) in [
        (
            good.replace("[[space]]", "[parameters]\nlocks = [\"mm\"]\n[[space]]"),
            "w.toml:4: `parameters.locks`",
        ),
        (
            good.replace("[[space]]", "[semaphores]\nwords = [\"w\"]\n[[space]]"),
            "w.toml:4: `semaphores.words`",
        ),
        (format!("{good}time = \"1 ms\"\n"), "w.toml:15: `threads.time`"),
        (
            good.replace("pages = 64\n", "pages = 64\nsemaphores = {}\n"),
            "w.toml:7: `space.semaphores`",
        ),
    ] {
        let why = refused(&text);
        assert!(why.starts_with(line), "{why}");
        assert!(why.contains("is a key of the head: write it above the first table"), "{why}");
    }
}

#[test]
fn numbers_that_were_taken_for_others_are_refused() {
    let why = |space: &str, program: &str| refused(&each("", space, program));
    assert!(
        why("pages = 0", "work 1 us")
            .contains("`pages` is 0 for thread 0 of 4, and has to be from 1")
    );
    assert!(
        why("pages = 8\nmapped = 9", "work 1 us")
            .starts_with("w.toml:4: `mapped` is 9, and `pages` 8")
    );
    assert!(why(PAGES, "reclaim 0 8 batch 0").contains("a batch is of 1 page at least"));
}

#[test]
fn what_there_is_is_listed_where_a_name_is_far_from_all() {
    let why = |program: &str| refused(&each("words = [\"mm\", \"rmap\"]", PAGES, program));
    assert!(why("atomic zzzzzz").contains("there are `mm`, `rmap`"), "{}", why("atomic zzzzzz"));
    let path = why("path zzzzzz");
    assert!(path.contains("there are ") && path.contains("`fault`"), "{path}");
    assert!(why("lock zzzzzz").contains("declares none (`locks`)"));
}

/// What everyone hands on to the next comes round; to one's own number it goes nowhere.
#[test]
fn a_semaphore_of_each_may_be_that_of_another_number() {
    let ring = |to: &str, count: &str| {
        let program = format!(
            "repeat 1 / (me + 1)\nsend byte{count} of 0\ndone\nrepeat 3\nreceive byte\nsend byte{to}\ndone"
        );
        each("[semaphores]\nbyte = { each = 0 }", PAGES, &program)
    };
    let next = ring(" of (me + 1) % threads", "");
    assert!(run(4, &next).unwrap().metric("elapsed").unwrap() > 0.0);
    assert!(refused(&ring("", "")).contains("a deadlock"));
    // The count stands before it.
    assert!(run(4, &ring(" of (me + 1) % threads", " 2")).is_ok());
    assert!(
        refused(&ring(" of me + 1", "")).contains("there is no `byte` 4: there are 4, from 0 on")
    );
    // Whoever waits says it alike.
    let crossed = "send byte of (me + 1) % threads\nreceive byte of me";
    assert!(run(4, &each("[semaphores]\nbyte = { each = 0 }", PAGES, crossed)).is_ok());
    let why = refused(&each("[semaphores]\nbyte = 0", PAGES, "send byte of 1"));
    assert!(why.contains("`byte` is one for all; write `byte = { each = 0 }`"), "{why}");
}

/// A kernel flushes what was there, and no more.
#[test]
fn pages_that_were_never_there_are_neither_flushed_nor_worked_on() {
    let of = |space: &str, program: &str| run(1, &each("", space, program)).unwrap();
    let time = |program: &str| {
        let program = format!("{program}\nbegin t\nunmap 0 32\nend t");
        of("pages = 32", &program).metric("t").unwrap()
    };
    let (none, one, all) = (time("work 1 us"), time("touch 7 1"), time("touch 0 32"));
    assert!(none < one && one < all, "{none} {one} {all}");
    let flushed = |program: &str| {
        let counters = of("pages = 32", program).report.counters();
        counters.page_flushes
    };
    assert_eq!(flushed("touch 7 1\nunmap 0 32"), 1);
    assert_eq!(flushed("touch 7 1\ntouch 9 1\nunmap 0 32"), 3, "from the first to the last");
    assert_eq!(flushed("unmap 0 32"), 0);
    assert_eq!(flushed("touch 7 1\nprotect 0 32"), 1);
}

/// A CPU that sleeps is woken by an interrupt, which is one.
#[test]
fn interrupts_that_wake_a_cpu_are_counted() {
    let text = |sleeps: &str| {
        let head = format!("sleeps = {sleeps}\n[semaphores]\nbyte = {{ each = 0 }}");
        let program = "repeat 1 / (me + 1)\nsend byte of 0\ndone\n\
            repeat 50\nreceive byte\nwork 5 us\nsend byte of (me + 1) % threads\ndone";
        each(&head, PAGES, program)
    };
    let per_second = |sleeps: &str| {
        let outcome = run(2, &text(sleeps)).unwrap();
        (outcome.metric("interrupts").unwrap(), outcome.metric("elapsed").unwrap())
    };
    assert_eq!(per_second("false").0, 0.0);
    let (rate, elapsed) = per_second("true");
    let all = rate * elapsed / 1e9;
    // The byte is handed on 100 times.
    assert!((80.0..=101.0).contains(&all), "{all}");
}

#[test]
fn what_is_called_otherwise_elsewhere_is_told_how_it_is_written() {
    let why = |statement: &str| refused(&each("", PAGES, statement));
    assert!(why("read 0 1").contains("write `touch FIRST PAGES`"), "{}", why("read 0 1"));
    assert!(why("madvise 0 1").contains("write `discard FIRST PAGES`"));
    assert!(why("if me").contains("there is no `if`"));
    assert!(why("membarrier").contains("`interrupt FIRST CPUS`"));
}
