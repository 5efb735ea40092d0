//! The explorers, replay, shortening and reports.

use crate::common::{Programs, programs};
use lookaside::platform::{
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    Word as _,
};
use lookaside_machine::{
    adversary::{
        Buffers, Config, Rule, Word, interrupt, irq_off, irq_on, milestone, oracle, outcome, relax,
    },
    explore::{Budget, Explorer, Schedule, ScheduleError},
};

#[derive(Debug)]
struct Words([Word; 4]);

fn words() -> Words {
    Words([Word::ZERO, Word::ZERO, Word::ZERO, Word::ZERO])
}

/// Two CPUs add to a counter without care: an update can be lost.
fn lost_update(cpus: usize, rounds: u64) -> Programs<Words> {
    let config = Config::x86(cpus).with_buffers(Buffers::None);
    programs(config, words, move |words: &Words, _| {
        for _ in 0..rounds {
            let seen = words.0[0].load(Relaxed);
            words.0[0].store(seen + 1, Relaxed);
        }
    })
    .finish(move |words| {
        let expected = cpus as u64 * rounds;
        oracle::check(words.0[0].peek() == expected, "an update is lost");
        outcome(words.0[0].peek());
    })
}

#[test]
fn pre_emption_bounds_are_what_they_say() {
    // Losing an update takes one pre-emption.
    let mut explorer = lost_update(2, 2).explorer();
    let none = explorer.bounded(0, Budget::UNLIMITED);
    none.assert_proved();
    assert_eq!(none.outcomes.into_iter().collect::<Vec<_>>(), [4]);
    assert_eq!(explorer.bounded(1, Budget::UNLIMITED).broken(), Rule::Assertion);
}

/// An error that takes exactly `depth` pre-emptions: CPU 1 must answer each time between a store
/// and a load of CPU 0.
fn ladder(depth: u64) -> Programs<Words> {
    let config = Config::x86(2).with_buffers(Buffers::None);
    programs(config, words, move |words: &Words, cpu| {
        let [question, answer, over, _] = &words.0;
        for round in 1..=depth {
            if cpu == 0 {
                question.store(round, Relaxed);
                if answer.load(Relaxed) != round {
                    over.store(1, Relaxed);
                    return;
                }
            } else {
                while question.load(Relaxed) != round {
                    if over.load(Relaxed) == 1 {
                        return;
                    }
                    relax();
                }
                answer.store(round, Relaxed);
            }
        }
        if cpu == 0 {
            oracle::fail("the top of the ladder");
        }
    })
}

#[test]
fn bounds_grow_with_the_error() {
    for depth in 1..4 {
        let mut explorer = ladder(u64::from(depth)).explorer();
        explorer.bounded(depth - 1, Budget::UNLIMITED).assert_proved();
        assert_eq!(explorer.bounded(depth, Budget::UNLIMITED).broken(), Rule::Assertion);
    }
}

#[test]
fn every_explorer_finds_a_lost_update_and_says_so_again() {
    let mut explorer = lost_update(3, 2).explorer();
    let reports = [
        explorer.exhaust(Budget::UNLIMITED),
        explorer.bounded(1, Budget::UNLIMITED),
        explorer.random(1, 1000),
        explorer.pct(1, 2, 1000),
    ];
    for report in reports {
        let failure = report.failure.expect("the update is lost");
        let replay = explorer.replay(&failure.schedule).expect("the schedule is fresh");
        assert_eq!(replay.violation, Some(failure.violation.clone()));
        let text = failure.schedule.to_string();
        let parsed: Schedule = text.parse().expect("schedules are printed as they are parsed");
        assert_eq!(parsed, failure.schedule);
        let again = explorer.replay(&parsed).expect("the schedule is fresh");
        assert_eq!(again, replay);
    }
}

#[test]
fn shortened_schedules_fail_in_the_same_way() {
    let mut explorer = lost_update(3, 4).explorer();
    let failure = explorer.random(5, 1000).failure.expect("the update is lost");
    let short = explorer.shrink(&failure);
    assert!(short.schedule.deviations().len() < failure.schedule.deviations().len());
    let replay = explorer.replay(&short.schedule).expect("the schedule is fresh");
    assert_eq!(replay.violation, Some(short.violation.clone()));
    assert_eq!(short.violation.rule, failure.violation.rule);
    assert_eq!(replay.preemptions, 1, "one pre-emption loses an update");
}

#[test]
fn chance_is_repeatable() {
    let run = |seed: u64| {
        let mut explorer = lost_update(3, 3).explorer();
        let failure = explorer.pct(seed, 3, 1000).failure.expect("the update is lost");
        explorer.explain(&failure).expect("the schedule is fresh")
    };
    assert_eq!(run(7), run(7));
    let walk = |seed: u64| {
        let mut explorer = lost_update(3, 3).explorer();
        let report = explorer.random(seed, 1000);
        (report.steps, report.schedules, report.failure)
    };
    assert_eq!(walk(9), walk(9));
}

#[test]
fn stale_and_foreign_schedules_are_refused() {
    let mut explorer = lost_update(2, 1).explorer();
    let parse = |text: &str| text.parse::<Schedule>().expect("well-formed");
    let foreign = explorer.replay(&parse("v1:other:")).unwrap_err();
    assert!(matches!(foreign, ScheduleError::Scenario { .. }), "{foreign}");
    let stale = explorer.replay(&parse("v1:test:0.z")).unwrap_err();
    assert_eq!(stale, ScheduleError::Stale { point: 0, choices: 2 });
    assert!(explorer.replay(&Schedule::default_of("test")).is_ok());
}

#[test]
fn exhaust_counts_what_there_is() {
    // Two CPUs with two loads each: every point but the ends has two choices, and a state is how
    // far each CPU has come. Of the nine states, four have a choice.
    let config = Config::x86(2).with_buffers(Buffers::None);
    let loads = programs(config, words, |words: &Words, _| {
        words.0[0].load(Relaxed);
        words.0[0].load(Relaxed);
    });
    let report = loads.holds();
    assert_eq!(report.states, 4);
}

#[test]
fn milestones_let_the_past_be_forgotten() {
    let run = |forget: bool| {
        let config = Config::x86(2).with_buffers(Buffers::None);
        programs(config, words, move |words: &Words, _| {
            for _ in 0..4 {
                words.0[0].fetch_add(1, Relaxed);
                if forget {
                    milestone();
                }
            }
        })
        .holds()
        .states
    };
    assert!(run(true) < run(false));
}

#[test]
fn stuck_programs_are_reported() {
    let waits = programs(Config::x86(2), words, |words: &Words, cpu| {
        if cpu == 0 {
            while words.0[0].load(Acquire) == 0 {
                relax();
            }
        }
    });
    waits.breaks(Rule::NoProgress);
    // Each waits for the other.
    let crossed = programs(Config::arm(2), words, |words: &Words, cpu| {
        while words.0[1 - cpu].load(Acquire) == 0 {
            relax();
        }
        words.0[cpu].store(1, Release);
    });
    crossed.breaks(Rule::NoProgress);
    // A wake-up between the look and the wait is not lost; one that sits in a buffer arrives.
    let woken = programs(Config::arm(2), words, |words: &Words, cpu| {
        words.0[cpu].store(1, Relaxed);
        while words.0[1 - cpu].load(Relaxed) == 0 {
            relax();
        }
    });
    woken.holds();
}

/// Both CPUs interrupt each other and wait until they are answered.
fn duel(interrupts_off: bool, serve: bool) -> Programs<Words> {
    programs(Config::x86(2), words, move |words: &Words, cpu| {
        if interrupts_off {
            irq_off();
        }
        interrupt(1 << (1 - cpu));
        while words.0[cpu].load(Acquire) == 0 {
            if serve {
                words.0[1 - cpu].store(1, Release);
            }
            relax();
        }
        irq_on();
    })
    .interrupt(|words, cpu| words.0[1 - cpu].store(1, Release))
}

#[test]
fn waiting_with_interrupts_off_is_found() {
    duel(false, false).holds();
    duel(true, false).breaks(Rule::NoProgress);
    duel(true, true).holds();
}

#[test]
fn interrupts_come_anywhere_but_where_they_are_off() {
    let run = |off: bool| {
        programs(Config::x86(2), words, move |words: &Words, cpu| {
            if cpu == 0 {
                interrupt(0b10);
                return;
            }
            if off {
                irq_off();
            }
            words.0[0].store(1, SeqCst);
            words.0[0].store(2, SeqCst);
            if off {
                irq_on();
            }
        })
        .interrupt(|words, _| {
            let seen = words.0[0].load(Relaxed);
            words.0[1].store(seen, Relaxed);
        })
        .finish(|words| outcome(words.0[1].peek()))
        .holds()
        .outcomes
        .into_iter()
        .collect::<Vec<_>>()
    };
    assert_eq!(run(false), [0, 1, 2]);
    assert_eq!(run(true), [0, 2]);
}

#[test]
fn private_words_belong_to_one_cpu() {
    let touch = |check: bool, shared: bool| {
        let mut config = Config::x86(2);
        config.check_private = check;
        programs(config, words, move |words: &Words, cpu| {
            if cpu == 0 {
                words.0[0].set(1);
                words.0[3].store(1, Relaxed);
            } else if shared && words.0[3].load(Relaxed) == 1 {
                words.0[0].load(Relaxed);
            }
        })
    };
    touch(true, false).holds();
    touch(false, true).holds();
    touch(true, true).breaks(Rule::PrivateWord);
}

#[test]
fn panics_identities_and_endless_programs() {
    let panics = programs(Config::x86(1), words, |words: &Words, _| {
        assert_ne!(words.0[0].load(Relaxed), 0, "as expected");
    });
    panics.breaks(Rule::Panic);
    let twice = programs(Config::x86(2), words, |words: &Words, cpu| {
        let id = words.0[0].load(Relaxed);
        words.0[0].store(id + 1, SeqCst);
        oracle::identity("generation", id, cpu as u64);
    });
    twice.breaks(Rule::Identity);
    let once = programs(Config::x86(2), words, |words: &Words, cpu| {
        oracle::identity("generation", words.0[0].fetch_add(1, Relaxed), cpu as u64);
    });
    once.holds();
    let ended = programs(Config::x86(1), words, |_: &Words, _| {
        oracle::identity("generation", 1, 1);
        oracle::identity_ended("generation", 1);
        oracle::identity("generation", 1, 2);
    });
    ended.holds();
    let endless =
        programs(Config::x86(1), words, |words: &Words, _| while words.0[0].load(Relaxed) == 0 {});
    endless.breaks(Rule::TooManySteps);
}

#[test]
fn reports_fit_a_page() {
    let mut explorer = lost_update(2, 1).explorer();
    let failure = explorer.exhaust(Budget::UNLIMITED).failure.expect("the update is lost");
    let short = explorer.shrink(&failure);
    let table = explorer.explain(&short).expect("the schedule is fresh");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.contains("adversary/explorer.rs"), "{table}");
    assert!(table.contains("store w0 <- 0x1"), "{table}");
    assert!(table.ends_with("broken: the scenario's assertion: an update is lost\n"), "{table}");
}

#[test]
fn explorers_can_be_used_together() {
    let mut one = lost_update(2, 1).explorer();
    let mut two = Explorer::new(lost_update(3, 1));
    assert!(one.exhaust(Budget::UNLIMITED).failure.is_some());
    assert!(two.exhaust(Budget::UNLIMITED).failure.is_some());
    assert!(one.random(3, 1000).failure.is_some());
}
