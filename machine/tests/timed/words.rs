//! Words, cache lines, store buffers, waiting, locks.

use core::cell::Cell;

use lookaside::platform::{Ordering::*, Word as _};
use lookaside_machine::timed::{self, Cause, Lock, Price, Topology, Word, during, idle_until};

use crate::support::{Notes, arena, interrupt, model, run, words};

#[test]
fn a_line_of_ones_own_costs_little() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    run(
        &model(),
        1,
        &arena,
        |_| {
            word.load(Acquire);
            notes.note();
            word.store(1, Release);
            notes.note();
            word.fetch_add(1, Relaxed);
            notes.note();
            Word::fence(SeqCst);
            notes.note();
            word.store(1, SeqCst);
            notes.note();
            Word::fence(Release);
            notes.note();
            word.set(word.get());
            notes.note();
        },
        || (),
    );
    assert_eq!(notes.of(0), [1, 2, 7, 14, 19, 19, 21]);
}

#[test]
fn a_line_of_another_costs_its_distance_and_a_store_does_not_wait_for_it() {
    let (arena, notes) = (arena(), Notes::default());
    let [word, own] = words(&arena);
    let program = |cpu| match cpu {
        0 => {
            word.store(1, Relaxed);
            idle_until(2000);
            word.fetch_or(1, Relaxed);
            notes.note();
        }
        _ => {
            own.store(1, Relaxed);
            idle_until(1000);
            word.load(Relaxed);
            notes.note(); // The line comes.
            word.load(Relaxed);
            notes.note(); // It is here.
            word.store(2, Relaxed);
            notes.note(); // The other copy goes, meanwhile.
            own.store(2, Relaxed);
            notes.note();
            word.load(Relaxed);
            notes.note(); // What it has stored itself.
            Word::fence(SeqCst);
            notes.note(); // At 1031 + 30 the copy is gone.
            idle_until(3000);
            word.store(3, Relaxed);
            own.fetch_add(1, Relaxed);
            notes.note(); // An atomic waits for the store.
        }
    };
    let report = run(&model(), 2, &arena, program, || ());
    assert_eq!(notes.of(0), [2035]);
    assert_eq!(notes.of(1), [1030, 1031, 1032, 1033, 1034, 1068, 3035]);
    assert_eq!(report.spent_on(Cause::Lines), 60);
    assert_eq!(report.counters().lines, 4);
}

#[test]
fn a_loop_of_compare_exchanges_that_is_overtaken_has_the_line_for_its_next_attempt() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let attempts = [Cell::new(0), Cell::new(0)];
    let program = |cpu: usize| {
        if cpu == 0 {
            word.store(1, Relaxed);
        }
        idle_until(1000);
        word.update(|value| {
            attempts[cpu].set(attempts[cpu].get() + 1);
            value + 1
        });
        notes.note();
    };
    run(&model(), 2, &arena, program, || ());
    assert_eq!(word.peek(), 3);
    assert_eq!(attempts.each_ref().map(Cell::get), [1, 2]);
    // CPU 1 reads at 1000 and has a copy at 1030; CPU 0 writes at 1001, when that copy is on its way.
    assert_eq!(notes.of(0), [1000 + 30 + 30 + 5]);
    // It takes the line from CPU 0, and what it finds is not what it has read.
    assert_eq!(notes.of(1), [1060 + 30 + 5 + 5]);
}

/// Adds one by a load and compare-exchanges, and counts those.
fn add(word: &Word) -> u64 {
    let mut seen = word.load(Relaxed);
    let mut attempts = 1;
    while let Err(other) = word.compare_exchange(seen, seen + 1, Relaxed, Relaxed) {
        (seen, attempts) = (other, attempts + 1);
    }
    attempts
}

#[test]
fn a_compare_exchange_that_fails_has_the_line_for_the_next() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let attempts = [const { Cell::new(0) }; 4];
    let program = |cpu: usize| {
        if cpu == 0 {
            word.store(1, Relaxed);
        }
        idle_until(1000);
        attempts[cpu].set(add(word));
        notes.note();
    };
    run(&model(), 4, &arena, program, || ());
    assert_eq!(word.peek(), 5);
    assert_eq!(attempts.each_ref().map(Cell::get), [1, 2, 2, 2]);
    // CPU 0 has the line and reads it; the others' copies are served one after the other, each for 8, and are there at
    // 1030, 1038 and 1046. The write of CPU 0 comes after all of these.
    let first = notes.of(0)[0];
    // Then it goes from one to the next in 30. Each finds another value than it has read and has until half of the next
    // way to try again, which takes another 5.
    assert_eq!([1, 2, 3].map(|cpu| notes.of(cpu)[0] - first), [30 + 5, 60 + 5, 90 + 5]);
}

#[test]
fn a_loop_that_waits_between_compare_exchanges_has_to_get_the_line_again() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let program = |cpu: usize| {
        if cpu == 0 {
            word.store(1, Relaxed);
            idle_until(5000);
            word.store(0, Relaxed);
        } else {
            idle_until(1000);
            while word.compare_exchange(0, 1, Relaxed, Relaxed).is_err() {
                timed::relax();
            }
            notes.note();
            timed::work(100);
            word.store(0, Relaxed);
        }
    };
    run(&model(), 4, &arena, program, || ());
    let mut taken: Vec<_> = (1..4).map(|cpu| notes.of(cpu)[0]).collect();
    taken.sort_unstable();
    assert!(
        taken[0] > 5000 && taken[1] >= taken[0] + 100 && taken[2] >= taken[1] + 100,
        "{taken:?}"
    );
}

#[test]
fn a_reader_does_not_sleep_on_a_value_that_a_second_attempt_replaces() {
    let arena = arena();
    let [word] = words(&arena);
    let program = |cpu: usize| match cpu {
        0 => {
            word.store(1, Relaxed);
            idle_until(1050);
            word.fetch_or(0, Relaxed); // It has the line after CPU 2.
        }
        3 => {
            idle_until(1060);
            while word.load(Relaxed) < 3 {
                timed::relax(); // It has read before CPU 2 has written, and has its copy later.
            }
        }
        _ => {
            idle_until(1000);
            add(word);
        }
    };
    run(&model(), 4, &arena, program, || ());
}

#[test]
fn a_load_that_follows_another_does_not_overlap_with_it() {
    let (arena, notes) = (arena(), Notes::default());
    let [first, second] = words(&arena);
    let program = |cpu: usize| match cpu {
        0 => first.store(1, Relaxed),
        1 => second.store(1, Relaxed),
        2 => {
            idle_until(1000);
            first.load(Relaxed);
            second.load(Relaxed);
            notes.note();
        }
        _ => {
            idle_until(2000);
            first.load(Relaxed);
            timed::follow();
            second.load(Relaxed);
            notes.note();
        }
    };
    run(&model(), 4, &arena, program, || ());
    assert_eq!(notes.of(2), [1030]);
    assert_eq!(notes.of(3), [2060]);
}

#[test]
fn writes_of_one_line_come_one_after_the_other_and_loads_are_served_one_after_the_other() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let program = |cpu| {
        if cpu == 3 {
            word.store(1, Relaxed);
            return;
        }
        idle_until(1000);
        word.fetch_add(1, Relaxed);
        notes.note();
        idle_until(2000);
        word.load(Relaxed);
        notes.note();
    };
    let report = run(&model(), 4, &arena, program, || ());
    assert_eq!(notes.of(0), [1035, 2030]);
    // The home of the line serves CPU 1 when it has served CPU 0; then both are on their way.
    assert_eq!(notes.of(1), [1065, 2038]);
    assert_eq!(notes.of(2), [1095, 2001]);
    assert_eq!(report.spent_on(Cause::LineQueue), 30 + 60 + 8);
    assert_eq!(word.peek(), 4);
}

#[test]
fn loads_are_served_by_the_cluster_that_has_a_copy_and_else_by_the_home() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let mut model = model();
    // CPUs 0 to 3 are a cluster, and 4 to 7; 8 is the other thread of 0.
    model.topology =
        Topology { threads: 2, cores_per_cluster: 4, clusters: 2, sockets: 1, ..Topology::flat(1) };
    let program = |cpu| {
        if cpu == 0 {
            word.store(1, Relaxed);
            idle_until(1004);
            word.fetch_add(1, Relaxed);
        } else if [4, 5, 6, 1, 2, 8].contains(&cpu) {
            idle_until(1000);
            word.load(Relaxed);
        } else {
            return;
        }
        notes.note();
    };
    run(&model, 9, &arena, program, || ());
    // CPU 0's cluster has the line: it serves 1 and then 2. The home serves 4, 5 and 6, as the copy of 4 is not there
    // before; CPU 5 comes straight from the writer.
    assert_eq!([1, 2].map(|cpu| notes.of(cpu)[0]), [1030, 1038]);
    assert_eq!([4, 5, 6].map(|cpu| notes.of(cpu)[0]), [1050, 1058, 1066]);
    // The other thread of the core asks nobody.
    assert_eq!(notes.of(8), [1020]);
    // The write comes after the first load, which CPU 1 has done, and takes the copy that is farthest.
    assert_eq!(notes.of(0), [1030 + 50 + 5]);
}

#[test]
fn a_write_comes_after_the_requests_that_the_home_has() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let mut model = model();
    model.prices.set(Price::LineService, 20);
    let program = |cpu| {
        if cpu == 0 {
            word.store(1, Relaxed);
            idle_until(1004);
            word.fetch_add(1, Relaxed);
        } else {
            idle_until(1000);
            word.load(Relaxed);
        }
        notes.note();
    };
    run(&model, 4, &arena, program, || ());
    assert_eq!([1, 2, 3].map(|cpu| notes.of(cpu)[0]), [1030, 1050, 1070]);
    // The home has served all three at 1060.
    assert_eq!(notes.of(0), [1060 + 30 + 5]);
}

#[test]
fn a_line_that_sockets_contend_for_goes_to_each_waiting_cpu_of_a_socket_before_the_next_socket() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let mut model = model();
    // CPUs 0 and 1 are a socket, 2 and 3 the other.
    model.topology = Topology { sockets: 2, ..Topology::flat(2) };
    let program = |cpu| {
        if cpu == 0 {
            word.store(1, Relaxed);
        }
        idle_until([1000, 1002, 1001, 1003][cpu]);
        for _ in 0..2 {
            word.fetch_add(1, Relaxed);
            notes.note();
        }
    };
    run(&model, 4, &arena, program, || ());
    // They ask in the order 0, 2, 1, 3 and again. CPU 0 has the line first; 2 finds nobody waiting and begins a turn of
    // its socket, and 1 begins one. CPU 3 is in the turn of 2, and 0 in that of 1: they wait where the line is.
    assert_eq!(notes.of(2)[0], 1001 + 90 + 5);
    assert_eq!(notes.of(1)[0], 1091 + 90 + 5);
    assert_eq!(notes.of(3)[0], 1181 + 30 + 5);
    assert_eq!(notes.of(0), [1005, 1211 + 30 + 5]);
    // Who asks again begins the next turn.
    assert_eq!(notes.of(2)[1], 1241 + 90 + 5);
    assert_eq!(notes.of(1)[1], 1331 + 90 + 5);
    assert_eq!(notes.of(3)[1], 1421 + 30 + 5);
}

#[test]
fn each_link_between_sockets_after_the_first_adds_to_the_way() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let mut model = model();
    // A ring of sockets with a CPU each.
    let hops = "0 1 2 1; 1 0 1 2; 2 1 0 1; 1 2 1 0".parse().unwrap();
    let cores_per_cluster = 1;
    model.topology =
        Topology { threads: 1, cores_per_cluster, clusters: 1, sockets: 4, hops, nodes: 1 };
    let program = |cpu| {
        if cpu == 0 {
            word.store(1, Relaxed);
        }
        // The first is written by CPU 0; then the nearest copy is a link away.
        idle_until([1000, 3000, 2000, 4000][cpu]);
        word.load(Relaxed);
        notes.note();
        if cpu == 3 {
            interrupt(1 << 1);
        }
    };
    run(&model, 4, &arena, program, || notes.note());
    assert_eq!(notes.of(2), [2000 + 90 + 40]);
    assert_eq!(notes.of(1)[0], 3000 + 90);
    assert_eq!(notes.of(3), [4000 + 90]);
    assert_eq!(notes.of(1)[1], 4090 + 60 + 900 + 40 + 300);
}

#[test]
fn a_line_comes_from_the_nearest_copy_and_is_taken_from_the_farthest() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let mut model = model();
    // CPUs 0 and 8 are one core; 0 and 1 a cluster; 0 to 3 a socket.
    model.topology =
        Topology { threads: 2, cores_per_cluster: 2, clusters: 2, sockets: 2, ..Topology::flat(1) };
    let turns = [0, 8, 1, 2, 4, 5, 0];
    let program = |cpu| {
        for (turn, _) in turns.iter().enumerate().filter(|(_, who)| **who == cpu) {
            idle_until(1000 * (turn as u64 + 1));
            if turn == turns.len() - 1 {
                word.fetch_add(1, Relaxed);
            } else {
                word.load(Relaxed);
            }
            notes.note();
        }
    };
    run(&model, 9, &arena, program, || ());
    assert_eq!(notes.of(0), [1001, 7095]);
    assert_eq!([8, 1, 2, 4, 5].map(|cpu| notes.of(cpu)[0] % 1000), [20, 30, 50, 90, 30]);
}

#[test]
fn words_side_by_side_share_a_line() {
    let (arena, notes) = (arena(), Notes::default());
    let words = arena.fill(9, |_| Word::ZERO);
    let program = |cpu| {
        if cpu == 0 {
            words[0].store(1, Relaxed);
            words[8].store(1, Relaxed);
            return;
        }
        idle_until(1000);
        words[7].load(Relaxed);
        notes.note();
        words[1].load(Relaxed);
        notes.note();
        words[8].load(Relaxed);
        notes.note();
    };
    run(&model(), 2, &arena, program, || ());
    assert_eq!(notes.of(1), [1030, 1031, 1061]);
}

#[test]
fn a_waiting_cpu_sleeps_until_the_line_is_written() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let program = |cpu| {
        if cpu == 0 {
            idle_until(1000);
            word.store(1, Relaxed);
            return;
        }
        during("wait", || {
            while word.load(Relaxed) == 0 {
                timed::relax();
            }
        });
        notes.note();
    };
    let report = run(&model(), 2, &arena, program, || ());
    // The copy is gone at 1030; then the line comes back.
    assert_eq!(notes.of(1), [1060]);
    assert_eq!(report.spent("wait", Cause::Waiting), 1029);
    assert_eq!(report.spent_in("wait"), 1060);
}

#[test]
fn a_write_between_look_and_sleep_is_not_missed() {
    // CPU 1 reads another line after the word, and CPU 0 writes the word in the meantime.
    for delay in 0..200 {
        let arena = arena();
        let [word, other] = words(&arena);
        let program = |cpu| {
            if cpu == 0 {
                other.store(1, Relaxed);
                timed::work(delay);
                word.store(1, Relaxed);
                return;
            }
            idle_until(50);
            while word.load(Relaxed) == 0 {
                other.load(Relaxed);
                timed::relax();
            }
        };
        run(&model(), 2, &arena, program, || ());
    }
}

#[test]
fn a_loop_that_reads_nothing_polls() {
    let arena = arena();
    let [word] = words(&arena);
    let program = |cpu| {
        if cpu == 0 {
            idle_until(10_000);
            word.store(1, Relaxed);
            return;
        }
        while word.peek() == 0 {
            timed::relax();
        }
    };
    let report = run(&model(), 2, &arena, program, || ());
    // It looks every nanosecond.
    assert_eq!(report.cpus[1].elapsed, 10_000);
}

#[test]
fn a_lock_is_handed_on_in_order() {
    let (arena, notes) = (arena(), Notes::default());
    let lock = core::cell::OnceCell::new();
    let program = |cpu: usize| {
        let lock: &&Lock = lock.get().expect("built");
        idle_until(10 * cpu as u64);
        lock.take();
        notes.note();
        timed::work(1000);
        lock.leave();
        notes.note();
    };
    let build = || {
        let _ = lock.set(arena.put(Lock::new()));
    };
    let report = crate::support::try_run(&model(), 3, &arena, build, program, || ()).unwrap();
    // The first is charged for an atomic; to leave the lock, it fetches the line from the CPU that came last.
    assert_eq!(notes.of(0), [5, 5 + 1000 + 30 + 5]);
    assert_eq!(notes.of(1), [1040 + 30, 1070 + 1000 + 30 + 5]);
    assert_eq!(notes.of(2), [2105 + 30, 2135 + 1000 + 30 + 5]);
    // CPU 1 joins the queue at 10 + 30 + 5, CPU 2 at 40 + 30 + 5.
    assert_eq!(report.spent_on(Cause::Locks), (1070 - 45) + (2135 - 75));
}

#[test]
fn loads_of_several_cpus_lines_are_under_way_together() {
    let (arena, notes) = (arena(), Notes::default());
    let [a, b, c]: [&Word; 3] = words(&arena);
    let program = |cpu| {
        if cpu < 2 {
            if cpu == 0 { a } else { b }.store(1, Relaxed);
            if cpu == 0 {
                c.store(1, Relaxed);
            }
            return;
        }
        idle_until(1000);
        a.load(Relaxed);
        b.load(Relaxed);
        notes.note(); // Both came together.
        a.load(Relaxed);
        timed::work(10);
        c.load(Relaxed);
        notes.note(); // This one was asked for after the work.
    };
    run(&model(), 3, &arena, program, || ());
    assert_eq!(notes.of(2), [1030, 1030 + 1 + 10 + 30]);
}

#[test]
fn a_write_waits_for_the_load_that_takes_the_line_from_the_writer() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let program = |cpu| {
        if cpu == 0 {
            word.store(1, Relaxed);
            idle_until(1010);
            word.fetch_add(1, Relaxed);
            notes.note();
        } else {
            idle_until(1000);
            word.load(Relaxed);
        }
    };
    run(&model(), 2, &arena, program, || ());
    assert_eq!(notes.of(0), [1030 + 30 + 5]);
}
