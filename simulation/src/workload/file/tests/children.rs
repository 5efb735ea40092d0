//! `fork`, a child beside its parent, and `vfork`: what is copied, and who waits.

use super::*;

#[test]
fn a_fork_has_pages_copied_when_either_side_writes() {
    let program = "write 0 8\nfork\nwrite 0 4\nexec 32\nwrite 0 2\ndone\nbegin copy\nwrite 0 8\nend copy\n\
                   begin again\nwrite 0 8\nend again";
    let outcome = run(1, &one("", program)).unwrap();
    let (copy, again) = (outcome.metric("copy").unwrap(), outcome.metric("again").unwrap());
    assert!(copy > 8.0 * 300.0 && again < 0.1 * copy, "{copy} {again}");
}

#[test]
fn a_page_that_nobody_shares_any_more_is_not_copied() {
    let time = |ends: &str| {
        let program = format!("write 0 8\nfork\n{ends}done\nbegin t\nwrite 0 8\nend t");
        run(1, &one("", &program)).unwrap().metric("t").unwrap()
    };
    // The child has written to its copies before it ends, or has ended: either way the parent's pages are its own.
    let both = [time(""), time("write 0 8\n")];
    assert_eq!(both[0], both[1]);
    let [fault, copy] = ["fault", "copy"].map(|path| {
        let ranges = Files::own().ranges().unwrap();
        let assumed = || ranges.path(&zen5(), path).unwrap().middle();
        zen5().path(path).map_or_else(|_| assumed(), |time| time as f64 / NS as f64)
    });
    let each = both[0] / 8.0;
    assert!(each > fault && each < fault + copy, "{each} {fault} {copy}");
}

/// A snapshot: the parent writes while its child is there, and copies; its child reads what was.
#[test]
fn a_child_beside_its_parent_has_the_parent_copy_what_it_writes_to() {
    let text = |child: &str, before: &str| {
        one(
            "[semaphores]\nended = 0\n",
            &format!(
                "write 0 32\nfork on 1\n{child}\npost ended\ndone\n{before}begin t\nwrite 0 32\nend t\nwait ended"
            ),
        )
        .replace("count = \"cpus\"", "count = 1")
    };
    let run = |child, before| run(2, &text(child, before)).unwrap();
    let time = |child, before| run(child, before).metric("t").unwrap();
    let beside = run("touch 0 64\nwork 1 ms", "work 20 us\n");
    let after = time("touch 0 64", "work 900 us\n");
    assert!(beside.metric("t").unwrap() > 1.3 * after, "{beside:?} {after}");
    // The child is the last thread that ends.
    assert!(beside.metric("elapsed").unwrap() > 1e6);
    assert!(run("exec 8\nwrite 0 8\nwork 2 ms", "").metric("elapsed").unwrap() > 2e6);
}

#[test]
fn children_may_have_children_and_each_exits_where_it_began() {
    let program = "write 0 4\nrepeat 3\nfork on (me + i) % cpus\nwrite 0 2\nfork\nwrite 0 4\ndone\nfork on 0\n\
                   post ended\ndone\ndone\nwait ended\ndone";
    let text = one("[semaphores]\nended = 0\n", program);
    for machine in ["zen5", "altra_1node"] {
        for strategy in
            ["lookaside", if machine == "zen5" { "linux-ipi-2025" } else { "linux-broadcast" }]
        {
            run_on(machine, strategy, 3, &text).unwrap();
        }
    }
}

/// The parent's pages stay as they are, and nothing is copied or flushed until the child executes its program.
#[test]
fn a_child_of_vfork_runs_in_its_parents_space() {
    let run = |text: &str| run(1, &one("", text)).unwrap();
    let vfork = run(
        "write 0 64\nbegin t\nvfork\nwrite 0 4\ndone\nend t\nbegin again\nwrite 0 64\nend again",
    );
    let fork = run(
        "write 0 64\nbegin t\nfork\nwrite 0 4\ndone\nend t\nbegin again\nwrite 0 64\nend again",
    );
    for timer in ["t", "again"] {
        let [short, long] = [&vfork, &fork].map(|run| run.metric(timer).unwrap());
        assert!(short < long, "{timer}: {short} {long}");
    }
    let flushes = |outcome: &Outcome| {
        let counters = outcome.report.counters();
        [counters.page_flushes, counters.full_flushes, counters.roots]
    };
    assert_eq!(flushes(&vfork), flushes(&run("write 0 64")));
    let program = run("write 0 64\nvfork\nexec 32\nwrite 0 32\ndone\nwrite 0 64");
    assert!(program.report.counters().full_flushes > 0, "of the child's program");
}

/// A fork copies the entries that are there, and the exit of its child takes them out.
#[test]
fn a_fork_takes_time_for_pages_that_are_there_and_not_for_addresses() {
    let time = |mapped: u64| {
        let text = one("", "begin t\nfork\ndone\nend t");
        let text = text.replace("mapped = 64", &format!("mapped = {mapped}"));
        run(1, &text).unwrap().metric("t").unwrap()
    };
    let each = Files::own().ranges().unwrap().path(&zen5(), "forked").unwrap().middle();
    let more = time(64) - time(8);
    assert!((more - 2.0 * 56.0 * each).abs() < 1.0 + 0.01 * more, "{more} {each}");
}
