use super::*;

/// What a fault takes without the machine's part, in nanoseconds.
fn fault() -> f64 {
    let path = zen5().path("fault");
    path.map_or_else(
        |_| Files::own().ranges().unwrap().path(&zen5(), "fault").unwrap().middle(),
        |time| time as f64 / 1e3,
    )
}

/// How many pages of eight fault at the timer `t`.
fn faults(outcome: &Outcome) -> u64 {
    (outcome.metric("t").unwrap() / fault()).floor() as u64
}

#[test]
fn a_write_to_a_protected_page_faults_once() {
    let of = |program: &str| {
        let text = one("", &format!("write 0 64\n{program}"));
        faults(&run(1, &text).unwrap())
    };
    let timed = |before: &str| format!("{before}\nbegin t\nwrite 0 8\nend t");
    assert_eq!(of(&timed("touch 0 8")), 0);
    assert_eq!(of(&timed("protect 0 8")), 8);
    assert_eq!(of(&timed("protect 4 60")), 4);
    assert_eq!(of(&timed("protect 0 64\nwrite 0 8")), 0, "they are writable again");
    assert_eq!(of(&timed("protect 0 64\nallow 0 6")), 2);
    assert_eq!(of("protect 0 8\nbegin t\ntouch 0 8\nend t"), 0, "reading does not fault");
    assert_eq!(of(&timed("flush 0 8")), 0, "a flush takes no permission");
    for gone in ["unmap 0 8", "discard 0 8", "free 0 8"] {
        // One fault maps a page for writing, and a page that is there again is not protected.
        assert_eq!(of(&timed(&format!("protect 0 8\n{gone}"))), 8, "{gone}");
        assert_eq!(of(&timed(&format!("protect 0 8\n{gone}\npopulate 0 8"))), 0, "{gone}");
    }
    assert_eq!(of(&timed("protect 0 8\nreclaim 0 8 each")), 8, "one fault each");
}

/// A fault that copies a page allows writing to it as well.
#[test]
fn a_protected_page_that_is_shared_faults_once() {
    let program = "write 0 8\nprotect 0 8\nfork\ntouch 0 8\nbegin t\nwrite 0 8\nend t\nwrite 0 8\ndone\n\
                   write 0 8\nbegin again\nwrite 0 8\nend again";
    let outcome = run(1, &one("", program)).unwrap();
    assert!(outcome.metric("again").unwrap() < fault(), "{:?}", outcome.metrics);
    let program = program.replacen("protect 0 8\n", "", 1);
    let without = run(1, &one("", &program)).unwrap();
    assert_eq!(outcome.metric("t"), without.metric("t"));
}

/// One takes permission of another's pages, as KSM does: the other faults when it writes.
#[test]
fn a_process_whose_pages_another_one_protects_faults() {
    let text = |statement: &str| {
        format!(
            "about = \"a test\"\n[semaphores]\ndone = 0\n[[space]]\nname = \"guest\"\npages = 8\nmapped = 8\n\
             [[space]]\nname = \"ksm\"\npages = 8\nmapped = 8\n\
             [[threads]]\nname = \"ksmd\"\nspace = \"ksm\"\ncpu = 1\n\
             program = \"\"\"\nwork 20 us\n{statement}\npost done\nbegin own\nwrite 0 8\nend own\n\"\"\"\n\
             [[threads]]\nname = \"guest\"\nspace = \"guest\"\ncpu = 0\n\
             program = \"\"\"\nwrite 0 8\nwait done\nbegin t\nwrite 0 8\nend t\n\"\"\"\n"
        )
    };
    for (statement, count) in [("work 1 us", 0), ("protect 0 5 of guest", 5), ("protect 0 5", 0)] {
        for strategy in ["lookaside", "linux-ipi-2025"] {
            let outcome = run_on("zen5", strategy, 2, &text(statement)).unwrap();
            assert_eq!(faults(&outcome), count, "{statement} {strategy}: {:?}", outcome.metrics);
            let own = outcome.metric("own").unwrap() > 5.0 * fault();
            assert_eq!(own, statement == "protect 0 5", "{statement}");
        }
    }
}

/// Only strategies that flush when more is allowed flush at such a fault.
#[test]
fn making_a_page_writable_flushes_where_promotions_do() {
    let flushes = |machine, strategy, program: &str| {
        let text = one("", &format!("write 0 64\nprotect 0 8\n{program}"));
        let counters = run_on(machine, strategy, 1, &text).unwrap().report.counters();
        counters.page_flushes + counters.full_flushes + counters.broadcasts
    };
    for (strategy, more) in [("linux-ipi-2022-promote", 8), ("linux-ipi-2022", 0)] {
        let of = |program| flushes("skylake_sp", strategy, program);
        assert_eq!(of("write 0 8") - of("touch 0 8"), more, "{strategy}");
    }
}
