//! Which pages fault: those that are not there, and those of a file that is mapped privately.

use super::*;

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
