//! Interrupts that come as late as they like, and CPUs that wait for each other.

use crate::common::{Programs, programs};
use lookaside::platform::{
    Ordering::{Acquire, Relaxed, Release},
    Word as _,
};
use lookaside_machine::{
    adversary::{
        Buffers, Config, Rule, Word, interrupt, irq_off, irq_on, oracle, outcome, relax, reset,
    },
    explore::Budget,
};

struct World {
    sent: Word,
    steps: Word,
    taken: Word,
}

fn world() -> World {
    World { sent: Word::ZERO, steps: Word::ZERO, taken: Word::ZERO }
}

fn config() -> Config {
    Config::x86(2).with_buffers(Buffers::None)
}

#[test]
fn an_interrupt_comes_at_any_step_however_late() {
    const STEPS: u64 = 12;
    let late = programs(config(), world, |world: &World, cpu| {
        if cpu == 0 {
            interrupt(0b10);
            world.sent.store(1, Relaxed);
        } else {
            // Every step that follows comes after the interrupt was sent.
            while world.sent.load(Acquire) == 0 {
                relax();
            }
            for step in 1..=STEPS {
                world.steps.store(step, Relaxed);
            }
        }
    })
    .interrupt(|world, _| {
        world.taken.fetch_or(1 << world.steps.load(Relaxed), Relaxed);
    })
    .finish(|world| outcome(world.taken.peek()));
    // Once each, and never not at all: when the program has ended at the latest.
    let all = (0..=STEPS).map(|step| 1 << step).collect::<Vec<_>>();
    assert_eq!(late.holds().outcomes.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn a_cpu_that_goes_off_loses_what_waits_for_it() {
    let taken = |lost: bool| {
        programs(config(), world, move |world: &World, cpu| {
            if cpu == 0 {
                while world.sent.load(Acquire) == 0 {
                    relax();
                }
                interrupt(0b10);
                world.sent.store(2, Release);
                return;
            }
            irq_off();
            world.sent.store(1, Release);
            while world.sent.load(Acquire) == 1 {
                relax();
            }
            if lost {
                reset();
            }
            irq_on();
        })
        .interrupt(|world, _| world.taken.store(1, Relaxed))
        .finish(|world| outcome(world.taken.peek()))
        .holds()
        .outcomes
        .into_iter()
        .collect::<Vec<_>>()
    };
    assert_eq!(taken(false), [1]);
    assert_eq!(taken(true), [0]);
}

#[test]
fn it_does_not_come_while_the_target_waits_with_interrupts_off() {
    let waits = |off: bool| {
        programs(config(), world, move |world: &World, cpu| {
            if cpu == 0 {
                while world.sent.load(Acquire) == 0 {
                    relax();
                }
                interrupt(0b10);
                world.sent.store(2, Release);
                return;
            }
            if off {
                irq_off();
            }
            world.sent.store(1, Release);
            while world.sent.load(Acquire) == 1 {
                relax();
            }
            world.steps.store(1, Relaxed);
            if off {
                irq_on();
            }
        })
        .interrupt(|world, _| world.taken.store(1 + world.steps.load(Relaxed), Relaxed))
        .finish(|world| outcome(world.taken.peek()))
        .holds()
        .outcomes
        .into_iter()
        .collect::<Vec<_>>()
    };
    // 1 is during the wait, 2 behind it.
    assert_eq!(waits(false), [1, 2]);
    assert_eq!(waits(true), [2]);
}

#[test]
fn it_may_come_after_the_sender_has_given_up_hope() {
    // A sender that does not wait may end before the handler has begun.
    let ends = programs(config(), world, |world: &World, cpu| {
        if cpu == 0 {
            interrupt(0b10);
            let taken = world.taken.load(Relaxed);
            world.sent.store(1 + taken, Relaxed);
        }
    })
    .interrupt(|world, _| world.taken.store(1, Relaxed))
    .finish(|world| outcome(world.sent.peek()));
    assert_eq!(ends.holds().outcomes.into_iter().collect::<Vec<_>>(), [1, 2]);
}

/// Each CPU asks the other one, and waits for the answer.
fn duel(off: [bool; 2], serves: bool) -> Programs<[Word; 2]> {
    let build = || [Word::ZERO, Word::ZERO];
    programs(config(), build, move |answers: &[Word; 2], cpu| {
        if off[cpu] {
            irq_off();
        }
        interrupt(1 << (1 - cpu));
        while answers[cpu].load(Acquire) == 0 {
            if serves {
                answers[1 - cpu].store(1, Release);
            }
            relax();
        }
        irq_on();
    })
    .interrupt(|answers, cpu| answers[1 - cpu].store(1, Release))
}

#[test]
fn two_that_wait_for_each_other_are_both_named() {
    let stuck = duel([true, true], false).explorer().exhaust(Budget::UNLIMITED);
    let violation = stuck.failure.expect("nobody serves").violation;
    assert_eq!(violation.rule, Rule::NoProgress);
    for cpu in 0..2 {
        let who = format!("CPU {cpu} waits at");
        assert!(violation.message.contains(&who), "{}", violation.message);
    }
    let off = violation.message.matches("(interrupts off, one pending)").count();
    assert_eq!(off, 2, "{}", violation.message);
    // It is found with no pre-emption more than it takes, and by chance, too.
    let mut explorer = duel([true, true], false).explorer();
    assert_eq!(explorer.deepen(2, Budget::UNLIMITED).broken(), Rule::NoProgress);
    assert_eq!(explorer.random(1, 100).broken(), Rule::NoProgress);
}

#[test]
fn it_takes_two_that_do_not_serve() {
    duel([false, false], false).holds();
    duel([true, true], true).holds();
    // One with interrupts off is answered; it answers when it has been.
    duel([true, false], false).holds();
}

#[test]
fn three_that_wait_in_a_ring() {
    let ring = |serves: bool| {
        let build = || [Word::ZERO, Word::ZERO, Word::ZERO];
        let config = Config { cpus: 3, ..config() };
        programs(config, build, move |done: &[Word; 3], cpu| {
            irq_off();
            let next = (cpu + 1) % 3;
            interrupt(1 << next);
            while done[next].load(Acquire) == 0 {
                if serves {
                    done[cpu].store(1, Release);
                }
                relax();
            }
            irq_on();
            oracle::check(done[next].load(Relaxed) == 1, "it was answered");
        })
        .interrupt(|done, cpu| done[cpu].store(1, Release))
    };
    ring(true).holds();
    ring(false).breaks(Rule::NoProgress);
}
