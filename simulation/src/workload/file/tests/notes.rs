//! What is said of a run that did not come to all, and what is counted of it.

use super::*;

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
