//! NMIs: they come at any step, whatever is masked, and find what a handler of theirs must not use.

use crate::common::{Programs, programs};
use lookaside::{
    arch::x86_64::Instructions as _,
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release},
        Word as _,
    },
};
use lookaside_machine::{
    adversary::{
        Access, Buffers, Config, Frame, Rule, Word, access, as_cpu, interrupt, irq_off, irq_on,
        oracle, outcome, relax, tables, x86::Insn,
    },
    explore::Budget,
};

/// What the handlers have found, as bits.
struct World {
    at: Word,
    found: Word,
}

fn world() -> World {
    World { at: Word::ZERO, found: Word::ZERO }
}

fn config(cpus: usize) -> Config {
    Config::x86(cpus).with_buffers(Buffers::None)
}

/// Notes where the program was.
fn note(world: &World, _: usize) {
    world.found.fetch_or(1 << world.at.load(Relaxed), Relaxed);
}

#[test]
fn one_comes_at_any_step_though_interrupts_are_off_and_need_not_come() {
    const STEPS: u64 = 6;
    let found = programs(config(1), world, |world: &World, _| {
        irq_off();
        for step in 1..=STEPS {
            world.at.store(step, Relaxed);
        }
    })
    .nmi(1, note)
    .finish(|world| outcome(world.found.peek()))
    .holds()
    .outcomes;
    // The last of them after the program has ended.
    let all = [0].into_iter().chain((0..=STEPS).map(|step| 1 << step)).collect::<Vec<_>>();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn one_comes_between_two_accesses_to_words_of_the_cpus_own() {
    let found = programs(config(1), world, |world: &World, _| {
        // Setting a word to what it is changes nothing, and is passed like any other.
        for place in [1, 2, 2, 3] {
            world.at.set(place);
        }
        let _ = world.at.get();
        world.at.set(4);
    })
    .nmi(1, |world, _| world.found.set(1 << world.at.get()))
    .finish(|world| outcome(world.found.peek()))
    .holds()
    .outcomes;
    let all = [0].into_iter().chain((0..=4).map(|place| 1 << place)).collect::<Vec<_>>();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn one_comes_in_the_middle_of_a_handler_and_leaves_interrupts_as_they_are() {
    let found = programs(config(2), world, |_: &World, cpu| {
        if cpu == 0 {
            interrupt(0b10);
        }
    })
    .interrupt(|world, _| {
        world.at.store(1, Relaxed);
        world.at.store(2, Relaxed);
    })
    .nmi(1, |world, cpu| {
        if cpu == 1 {
            note(world, cpu);
        }
    })
    .finish(|world| outcome(world.found.peek()))
    .holds()
    .outcomes;
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [0, 1 << 0, 1 << 1, 1 << 2]);

    // A program with interrupts off still has them off afterwards, and one with interrupts on has them on.
    let taken = |off: bool| {
        programs(config(2), world, move |world: &World, cpu| {
            if cpu == 0 {
                while world.at.load(Acquire) == 0 {
                    relax();
                }
                interrupt(0b10);
                world.at.store(2, Release);
                return;
            }
            if off {
                irq_off();
            }
            world.at.store(1, Release);
            while world.at.load(Acquire) == 1 {
                relax();
            }
            world.found.fetch_or(1, Relaxed);
            irq_on();
        })
        .interrupt(|world, _| {
            // Whether the program had come to the end of its wait.
            world.found.fetch_or(2 << (world.found.load(Relaxed) & 1), Relaxed);
        })
        .nmi(1, |world, _| {
            let _ = world.at.load(Relaxed);
        })
        .finish(|world| outcome(world.found.peek()))
        .holds()
        .outcomes
        .into_iter()
        .collect::<Vec<_>>()
    };
    assert_eq!(taken(true), [0b101]);
    assert_eq!(taken(false), [0b011, 0b101]);
}

#[test]
fn none_comes_in_the_middle_of_another_and_only_so_many_come() {
    let found = programs(config(1), world, |world: &World, _| world.at.store(1, Relaxed))
        .nmi(2, |world, _| {
            oracle::check(world.at.load(Relaxed) < 4, "an NMI came in the middle of an NMI");
            world.at.fetch_add(4, Relaxed);
            world.found.fetch_add(1, Relaxed);
            world.at.fetch_add(4_u64.wrapping_neg(), Relaxed);
        })
        .finish(|world| outcome(world.found.peek()))
        .holds()
        .outcomes;
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn nobody_can_rely_on_one() {
    let waits = programs(config(1), world, |world: &World, _| {
        while world.found.load(Relaxed) == 0 {
            relax();
        }
    })
    .nmi(1, note);
    waits.breaks(Rule::NoProgress);
}

struct Mapped {
    root: Frame,
    pte: &'static Word,
    signalled: Word,
}

/// CPU 1 rests in a space, and CPU 0 takes the page from it.
fn taken_from_one_that_rests(uses: bool) -> Programs<Mapped> {
    let build = || {
        let (root, table) = (tables::allocate(), tables::allocate());
        tables::word(root, 0).store(tables::table(table), Relaxed);
        tables::map(root, 0x1000, Frame(7), Access::WRITE);
        as_cpu(CpuId(1), || Insn.write_cr3(root.address()));
        Mapped { root, pte: tables::pte(root, 0x1000), signalled: Word::ZERO }
    };
    let config = Config::x86(2).with_levels(2);
    programs(config, build, |world: &Mapped, cpu| {
        if cpu == 1 {
            oracle::rests();
            world.signalled.store(1, Release);
            return;
        }
        while world.signalled.load(Acquire) == 0 {
            relax();
        }
        world.pte.swap(0, Relaxed);
        oracle::revoked(world.root, 0x1000);
    })
    .nmi(1, move |_, cpu| {
        if uses && cpu == 1 {
            let _ = access(0x1000);
        }
    })
}

#[test]
fn user_memory_is_not_for_an_nmi_in_a_cpu_that_rests() {
    taken_from_one_that_rests(false).holds();
    taken_from_one_that_rests(true).breaks(Rule::StaleTranslation);
}

#[test]
fn chance_finds_them_too() {
    let report = taken_from_one_that_rests(true).explorer().random(1, 500);
    assert_eq!(report.broken(), Rule::StaleTranslation);
    let report = taken_from_one_that_rests(true).explorer().pct(1, 3, 500);
    assert_eq!(report.broken(), Rule::StaleTranslation);
    let bounded = taken_from_one_that_rests(true).explorer().bounded(1, Budget::UNLIMITED);
    assert_eq!(bounded.broken(), Rule::StaleTranslation);
}
