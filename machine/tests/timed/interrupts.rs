//! Interrupts: sent, on their way, taken, held up, taken as one.

use lookaside::platform::{CpuId, Ordering::Relaxed, Word as _};
use lookaside_machine::timed::{
    self, Cause, Next, Sent, Topology, idle_until, interrupts_off, work,
};

use crate::support::{Notes, arena, interrupt, model, run, words};

#[test]
fn a_program_is_interrupted_and_goes_on() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| {
        if cpu == 0 {
            idle_until(1000);
            interrupt(0b11); // Not itself.
            notes.note();
        } else {
            timed::during("program of CPU 1", || work(10_000));
            notes.note();
        }
    };
    let handler = || {
        notes.note();
        work(100);
    };
    let report = run(&model(), 2, &arena, program, handler);
    assert_eq!(notes.of(0), [1060]);
    assert_eq!(notes.of(1), [1560 + 300, 10_000 + 300 + 100 + 250]);
    assert_eq!(report.spent_in("program of CPU 1"), 10_000);
    assert_eq!(report.spent_in("interrupt"), 650);
    assert_eq!(report.spent_on(Cause::Interrupts), 550);
    assert_eq!((report.counters().sent, report.counters().taken), (1, 1));
}

#[test]
fn interrupts_wait_while_they_are_off_and_are_taken_as_one() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| match cpu {
        0 | 1 => {
            idle_until(1000);
            interrupt(1 << 2);
        }
        _ => {
            interrupts_off(|| work(5000));
            notes.note();
        }
    };
    let report = run(&model(), 3, &arena, program, || notes.note());
    assert_eq!(notes.of(2), [5300, 5550]);
    assert_eq!((report.counters().sent, report.counters().taken), (2, 1));
}

#[test]
fn interrupts_are_sent_as_measured() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| {
        if cpu == 0 {
            idle_until(1000);
            let sent = Sent { arrivals: vec![(CpuId(1), 1700)], until: Some((3000, Next::Own)) };
            timed::sending(sent, || {
                interrupt(0b10);
                assert_eq!(timed::next_after_send(), Some(Next::Own));
            });
            notes.note();
            assert_eq!(timed::next_after_send(), None);
        } else {
            work(10_000);
        }
    };
    run(&model(), 2, &arena, program, || notes.note());
    // The target takes it while its sender is held up.
    assert_eq!((notes.of(0), notes.of(1)), (vec![3000], vec![2000]));
}

#[test]
fn an_interrupt_that_comes_during_the_handler_is_taken_after_it() {
    let (arena, notes) = (arena(), Notes::default());
    let program = |cpu| match cpu {
        0 => interrupt(1 << 1),
        1 => work(2000),
        _ => {
            idle_until(100);
            interrupt(1 << 1);
        }
    };
    run(&model(), 3, &arena, program, || notes.note());
    // They arrive at 560 and 660.
    assert_eq!(notes.of(1), [860, 860 + 250 + 300]);
}

#[test]
fn idle_and_waiting_cpus_take_interrupts() {
    let (arena, notes) = (arena(), Notes::default());
    let [word] = words(&arena);
    let program = |cpu| match cpu {
        0 => {
            interrupt(0b110);
            idle_until(5000);
            word.store(1, Relaxed);
        }
        1 => {
            idle_until(4000);
            notes.note(); // The interrupt has ended the rest.
        }
        _ => {
            while word.load(Relaxed) == 0 {
                timed::relax();
            }
            notes.note();
        }
    };
    run(&model(), 3, &arena, program, || notes.note());
    // Both sends come before the second arrives.
    assert_eq!(notes.of(1), [560 + 300, 560 + 300 + 250]);
    assert_eq!(notes.of(2), [620 + 300, 5060]);
}

#[test]
fn distance_and_groups_count() {
    let (arena, notes) = (arena(), Notes::default());
    let mut model = model();
    model.topology = Topology { sockets: 2, ..Topology::flat(2) };
    model.interrupt_group = 2;
    let program = |cpu| {
        if cpu == 0 {
            interrupt(0b1110);
            notes.note();
        } else {
            work(10_000);
        }
    };
    run(&model, 4, &arena, program, || notes.note());
    assert_eq!(notes.of(0), [120]);
    assert_eq!(notes.of(1), [60 + 500 + 300]);
    assert_eq!(notes.of(2), [120 + 900 + 300]);
    assert_eq!(notes.of(3), [120 + 900 + 300]);
}

#[test]
fn sender_and_handler_wait_for_their_stores() {
    let (arena, notes) = (arena(), Notes::default());
    let [a, b] = words(&arena);
    let program = |cpu| match cpu {
        0 => {
            a.store(1, Relaxed);
            idle_until(1000);
            b.store(1, Relaxed); // Until 1030.
            interrupt(1 << 1);
            notes.note();
        }
        _ => {
            b.store(1, Relaxed);
            work(5000);
            notes.note();
        }
    };
    let handler = || {
        a.store(2, Relaxed);
        notes.note();
    };
    run(&model(), 2, &arena, program, handler);
    assert_eq!(notes.of(0), [1030 + 60]);
    assert_eq!(notes.of(1), [1590 + 300 + 1, 5001 + 300 + 30 + 250]);
}

#[test]
fn a_cpu_whose_program_is_over_still_answers() {
    let arena = arena();
    let [word] = words(&arena);
    let program = |cpu| {
        if cpu == 1 {
            idle_until(10_000);
            interrupt(1);
            while word.load(Relaxed) == 0 {
                timed::relax();
            }
        }
    };
    let report = run(&model(), 2, &arena, program, || word.store(1, Relaxed));
    assert_eq!(report.cpus[0].ended, 0);
    assert_eq!(report.cpus[0].elapsed, 10_560 + 300 + 30 + 250);
    // The word was CPU 1's, which looked again when it was written, at 10860 + 30.
    assert_eq!((report.elapsed, report.cpus[1].ended), (10_920, 10_920));
}
