//! A program that fails is made shorter, as long as it fails.

use lookaside_scenarios::generate::{Program, shortest};

#[test]
fn what_is_not_needed_is_left_out() {
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
fn nothing_is_left_of_a_program_that_is_never_wrong_but_itself() {
    let program: Program = "arm epochs(3) [Run(A)] [Unmap(A)]".parse().expect("a program");
    assert_eq!(shortest::<()>(&program, &|_| None), (program, None));
}
