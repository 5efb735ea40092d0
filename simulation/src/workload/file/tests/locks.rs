//! Locks for writers and readers, words that all share, and deadlocks.

use super::*;

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
