//! Shortening of a failing program, which must still fail.

use lookaside_scenarios::generate::{Program, shortest};

#[test]
fn shortening_drops_acts_that_are_not_needed() {
    let text = "arm+early+nmi epochs(5) [Run(A) Unmap(A) Lazy Run(B)] [Await Run(A) Write FreeTable(A) Park] \
                [Run(C) Tell]";
    let program: Program = text.parse().expect("a program");
    // It takes a CPU that frees the table, and another one that unmaps, on a machine with early loads.
    let wrong = |program: &Program| {
        let text = program.to_string();
        let script = |act: &str| text.split('[').position(|script| script.contains(act));
        let scripts = (script("Unmap(A)")?, script("FreeTable(A)")?);
        (scripts.0 != scripts.1 && text.contains("+early")).then_some(())
    };
    let (short, found) = shortest(&program, &wrong);
    assert_eq!(short.to_string(), "arm+early epochs(5) [Unmap(A)] [FreeTable(A)]");
    assert!(found.is_some());
}

#[test]
fn a_program_that_never_fails_is_not_shortened() {
    let program: Program = "arm epochs(3) [Run(A)] [Unmap(A)]".parse().expect("a program");
    assert_eq!(shortest::<()>(&program, &|_| None), (program, None));
}
