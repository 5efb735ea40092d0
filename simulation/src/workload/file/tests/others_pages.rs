//! Calls about the pages of another process.

use super::*;

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
