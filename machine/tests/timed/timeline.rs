//! Timelines: what each CPU did and when, interrupts with their answers, and no effect on the run.

use lookaside::platform::{Ordering::Relaxed, Word as _};
use lookaside_machine::timed::{
    self, Cause, Doing, Interrupt, Model, Moment, Options, Ps, Report, Timeline, Word, World,
    during, idle_until, relax, work,
};

use crate::{
    storm::{self, Flush, Storm},
    support::{LIMIT, arena, interrupt, model, words},
};

struct Closures<P, I>(P, I);

impl<P: Fn(usize), I: Fn()> World for Closures<P, I> {
    fn run(&self, cpu: lookaside::platform::CpuId) {
        (self.0)(cpu.index());
    }

    fn interrupt(&self) {
        (self.1)();
    }
}

fn run(
    model: &Model,
    timeline: usize,
    arena: &timed::Arena,
    program: impl Fn(usize),
    handler: impl Fn(),
) -> Report {
    let options = Options { cpus: 2, seed: 1, limit: LIMIT, timeline };
    let world = || Closures(program, handler);
    timed::simulate(model, arena, options, world).map(|(_, report)| report).unwrap()
}

/// CPU 0 interrupts CPU 1 and waits until the handler has written a word.
fn shootdown(timeline: usize) -> Report {
    let arena = arena();
    let [answer, noise]: [&Word; 2] = words(&arena);
    let program = |cpu| {
        if cpu == 0 {
            during("before", || idle_until(1000));
            during("flush", || {
                answer.load(Relaxed);
                interrupt(0b10);
                while answer.load(Relaxed) == 0 {
                    relax();
                }
            });
            during("after", || noise.load(Relaxed));
        } else {
            work(10_000);
        }
    };
    let handler = || {
        during("serve", || work(100));
        noise.store(1, Relaxed);
        answer.store(1, Relaxed);
        work(50);
    };
    run(&model(), timeline, &arena, program, handler)
}

fn slices(timeline: &Timeline, of: u32) -> Vec<(Doing, Ps, Ps)> {
    let slice = |moment: &Moment| match *moment {
        Moment::Slice { cpu, doing, begin, end } if cpu == of => Some((doing, begin, end)),
        _ => None,
    };
    timeline.moments.iter().filter_map(slice).collect()
}

fn interrupts(timeline: &Timeline) -> Vec<Interrupt> {
    let interrupt = |moment: &Moment| match *moment {
        Moment::Interrupt(interrupt) => Some(interrupt),
        _ => None,
    };
    timeline.moments.iter().filter_map(interrupt).collect()
}

#[test]
fn an_interrupt_is_sent_taken_left_and_answered() {
    let report = shootdown(100);
    let timeline = report.timeline.unwrap();
    let [one] = interrupts(&timeline)[..] else { panic!("{timeline:?}") };
    // The first touch of a line is for nothing; sending takes 60, the way 500.
    assert_eq!((one.from, one.to), (0, 1));
    assert_eq!((one.sent, one.taken), (1061, Some(1561)));
    let Doing::Activity(_) = slices(&timeline, 1)[0].0 else { panic!("{timeline:?}") };
    let of_handler = slices(&timeline, 1);
    assert_eq!(of_handler[0], (Doing::Activity("serve"), 1861, 1961));
    assert_eq!(of_handler[1].0, Doing::Activity("interrupt"));
    assert_eq!((Some(of_handler[1].1), Some(of_handler[1].2)), (one.taken, one.returned));
    // The sender has its answer in its activity, after the handler wrote it, before it returned.
    let flush = slices(&timeline, 0).into_iter().find(|s| s.0 == Doing::Activity("flush"));
    let (_, begin, end) = flush.unwrap();
    let answered = one.answered.unwrap();
    assert!(begin < one.sent && 1961 < answered && answered <= end, "{one:?} {begin} {end}");
    assert!(answered < one.returned.unwrap(), "{one:?}");
    // What it waited for is within the flush.
    let waits: Vec<_> = slices(&timeline, 0)
        .into_iter()
        .filter(|s| s.0 == Doing::Waiting(Cause::Waiting))
        .collect();
    assert!(!waits.is_empty() && waits.iter().all(|w| begin <= w.1 && w.2 <= end), "{waits:?}");
    assert_eq!(timeline.dropped, 0);
    assert_eq!(timeline.ended.len(), 2);
}

#[test]
fn a_sender_that_does_not_wait_has_no_acknowledgement() {
    let arena = arena();
    let [word]: [&Word; 1] = words(&arena);
    let program = |cpu| {
        if cpu == 0 {
            during("send", || interrupt(0b10));
            work(5000);
            word.load(Relaxed);
        } else {
            work(10_000);
        }
    };
    let report = run(&model(), 100, &arena, program, || word.store(1, Relaxed));
    let [one] = interrupts(report.timeline.as_ref().unwrap())[..] else { panic!("{report:?}") };
    assert!(one.taken.is_some() && one.returned.is_some(), "{one:?}");
    assert_eq!(one.answered, None);
}

#[test]
fn slices_of_a_cpu_are_nested_and_those_of_waits_add_up() {
    for arm in [false, true] {
        let run = if arm { storm::arm_with } else { storm::x86_with };
        let report = run(storm(), 1, 1 << 20).unwrap();
        let timeline = report.timeline.as_ref().unwrap();
        assert_eq!(timeline.dropped, 0);
        for cpu in 0..4 {
            let mut slices = slices(timeline, cpu);
            slices.sort_by_key(|slice| (slice.1, core::cmp::Reverse(slice.2)));
            let mut open: Vec<Ps> = Vec::new();
            for (_, begin, end) in slices {
                while open.pop_if(|until| *until <= begin).is_some() {}
                assert!(open.last().is_none_or(|&until| end <= until));
                open.push(end);
            }
        }
        for cause in [Cause::Waiting, Cause::Locks, Cause::BroadcastQueue] {
            let all = (0..4).flat_map(|cpu| slices(timeline, cpu));
            let waited: Ps = all.filter(|s| s.0 == Doing::Waiting(cause)).map(|s| s.2 - s.1).sum();
            assert_eq!(waited, report.spent_on(cause), "{cause:?}");
        }
        let kinds =
            |wanted: fn(&Moment) -> bool| timeline.moments.iter().filter(move |m| wanted(m));
        let sent = kinds(|moment| matches!(moment, Moment::Interrupt(_))).count() as u64;
        let broadcast = kinds(|moment| matches!(moment, Moment::Broadcast { .. })).count() as u64;
        let counters = report.counters();
        assert_eq!((sent, broadcast), (counters.sent, counters.broadcasts));
        assert_eq!(sent == 0, arm);
        assert_eq!(broadcast > 0, arm);
        // Walks are noted where activities begin and end, of which the storm on Arm has none.
        let walks = timeline.moments.iter().rev().find_map(|moment| match moment {
            Moment::Walks { cpu: 0, count, .. } => Some(*count),
            _ => None,
        });
        let most = report.cpus[0].counters.walks;
        assert!(walks.map_or(arm, |walks| walks > 0 && walks <= most), "{walks:?} {most}");
    }
}

fn storm() -> Storm {
    Storm { cpus: 4, group: 4, flushes: 50, switches: 1, touched: 4, flush: Flush::Right }
}

#[test]
fn a_timeline_changes_nothing_and_keeps_the_latest() {
    let without = storm::x86_with(storm(), 1, 0).unwrap();
    let whole = storm::x86_with(storm(), 1, 1 << 20).unwrap();
    let part = storm::x86_with(storm(), 1, 100).unwrap();
    assert!(without.timeline.is_none());
    for with in [&whole, &part] {
        assert_eq!((with.elapsed, with.events), (without.elapsed, without.events));
        assert_eq!(with.counters(), without.counters());
    }
    let (whole, part) = (whole.timeline.unwrap(), part.timeline.unwrap());
    assert_eq!(part.moments.len(), 100);
    assert_eq!(part.dropped as usize, whole.moments.len() - 100);
    assert_eq!(part.moments[..], whole.moments[whole.moments.len() - 100..]);
}
