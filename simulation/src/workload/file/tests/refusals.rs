//! What is refused: names, numbers, loops and keys, each with its line.

use super::*;

#[test]
fn a_parameter_has_no_name_of_the_language() {
    let why = refused(&one("[parameters]\nthreads = 1\n", "work 1 us"));
    assert!(why.contains("`threads` is a name of the language itself"), "{why}");
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let body = |program: &str| refused(&one("", program));
    assert!(body("work 5").starts_with("w.toml:12: `work 5` has a number where a time is needed"));
    assert!(body("work 5 parsec").contains("unknown unit `parsec`"));
    assert!(body("wrok 5 us").contains("did you mean `work`?"));
    assert!(body("touch 0 1\ntouch 60 5").starts_with("w.toml:13: pages 60 to 65"));
    assert!(body("repeat 3").contains("`repeat 3` lacks its `done`"));
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
