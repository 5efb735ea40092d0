//! Litmus tests of loads that happen early: exactly the outcomes that are allowed.

use crate::common::{Programs, programs};
use lookaside::{
    arch::{
        aarch64::{Dsb, Instructions as _},
        riscv64::Instructions as _,
    },
    platform::{
        Ordering::{self, *},
        Word as _,
    },
};
use lookaside_machine::adversary::{Config, Word, arm, interrupt, outcome, relax, riscv};

struct World {
    x: Word,
    y: Word,
    /// What the programs have read: a digit each.
    seen: [Word; 4],
}

/// Programs of as many CPUs, on a machine with early loads.
fn early(config: Config, run: impl Fn(&World, usize) + 'static) -> Programs<World> {
    let build = || World { x: Word::ZERO, y: Word::ZERO, seen: [const { Word::ZERO }; 4] };
    let mut config = config.with_early_loads();
    config.check_private = false;
    programs(config, build, run).finish(|world| {
        outcome(world.seen.iter().fold(0, |all, word| all << 4 | word.peek()));
    })
}

/// All that can be seen, by the digits of the four words.
#[track_caller]
fn outcomes(programs: &Programs<World>) -> Vec<u64> {
    programs.holds().outcomes.into_iter().collect()
}

fn arm(run: impl Fn(&World, usize) + 'static) -> Vec<u64> {
    outcomes(&early(Config::arm(2), run))
}

/// CPU 0 writes data in order and then a flag; CPU 1 reads.
fn message_passing(read: impl Fn(&World) + 'static) -> Vec<u64> {
    arm(move |world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            world.y.store(1, Release);
        } else {
            read(world);
        }
    })
}

/// Reads the flag and the data, with orderings and something between.
fn flag_and_data(world: &World, orders: [Ordering; 2], between: impl Fn()) {
    let flag = world.y.load(orders[0]);
    between();
    let data = world.x.load(orders[1]);
    world.seen[0].set(flag);
    world.seen[1].set(data);
}

const ALL: [u64; 4] = [0x0000, 0x0100, 0x1000, 0x1100];
const NO_STALE_DATA: [u64; 3] = [0x0000, 0x0100, 0x1100];

#[test]
fn message_passing_needs_acquire() {
    assert_eq!(message_passing(|world| flag_and_data(world, [Relaxed; 2], || ())), ALL);
    // The second load acquires for what comes after it, not for itself.
    assert_eq!(message_passing(|world| flag_and_data(world, [Relaxed, Acquire], || ())), ALL);
    for first in [Acquire, SeqCst] {
        let ordered = message_passing(move |world| flag_and_data(world, [first, Relaxed], || ()));
        assert_eq!(ordered, NO_STALE_DATA, "{first:?}");
    }
}

#[test]
fn message_passing_needs_release() {
    let relaxed = arm(|world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            world.y.store(1, Relaxed);
        } else {
            flag_and_data(world, [Acquire, Relaxed], || ());
        }
    });
    assert_eq!(relaxed, ALL);
}

#[test]
fn fences_between_loads() {
    for order in [Acquire, AcqRel, SeqCst] {
        let fenced = message_passing(move |world| {
            flag_and_data(world, [Relaxed; 2], || Word::fence(order));
        });
        assert_eq!(fenced, NO_STALE_DATA, "{order:?}");
    }
    let released = message_passing(|world| {
        flag_and_data(world, [Relaxed; 2], || Word::fence(Release));
    });
    assert_eq!(released, ALL);
    for (kind, expected) in
        [(Dsb::Ish, &NO_STALE_DATA[..]), (Dsb::Nsh, &NO_STALE_DATA), (Dsb::Ishst, &ALL)]
    {
        let barrier = message_passing(move |world| {
            flag_and_data(world, [Relaxed; 2], || arm::Insn.dsb(kind));
        });
        assert_eq!(barrier, expected, "{kind:?}");
    }
    // An ISB alone does not order loads.
    let isb = message_passing(|world| flag_and_data(world, [Relaxed; 2], || arm::Insn.isb()));
    assert_eq!(isb, ALL);
}

#[test]
fn fences_between_loads_on_riscv() {
    let passing = |between: fn()| {
        outcomes(&early(Config::riscv(2), move |world, cpu| {
            if cpu == 0 {
                world.x.store(1, Relaxed);
                world.y.store(1, Release);
            } else {
                flag_and_data(world, [Relaxed; 2], between);
            }
        }))
    };
    assert_eq!(passing(|| riscv::Insn.fence()), NO_STALE_DATA);
    assert_eq!(passing(|| riscv::Insn.sfence_vma(None, None)), ALL);
}

#[test]
fn an_acquiring_fence_holds_later_loads_back_behind_all_earlier_ones() {
    // The flag is read, then something else, then the fence: still behind the flag.
    let both = message_passing(|world| {
        let flag = world.y.load(Relaxed);
        let _ = world.seen[3].load(Relaxed);
        Word::fence(Acquire);
        world.seen[0].set(flag);
        world.seen[1].set(world.x.load(Relaxed));
    });
    assert_eq!(both, NO_STALE_DATA);
    // A fence before both is none between them.
    let before = message_passing(|world| {
        Word::fence(SeqCst);
        flag_and_data(world, [Relaxed; 2], || ());
    });
    assert_eq!(before, ALL);
}

#[test]
fn loads_of_one_word_do_not_go_back() {
    let coherent = arm(|world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            world.x.store(2, Relaxed);
        } else {
            world.seen[0].set(world.x.load(Relaxed));
            world.seen[1].set(world.x.load(Relaxed));
        }
    });
    assert_eq!(coherent, [0x0000, 0x0100, 0x0200, 0x1100, 0x1200, 0x2200]);
    // Nor behind what the CPU has written, be it by a store or by a locked operation.
    let own = arm(|world, cpu| {
        world.x.store(cpu as u64 + 1, Relaxed);
        world.seen[cpu].set(world.x.load(Relaxed));
    });
    assert_eq!(own, [0x1100, 0x1200, 0x2200]);
    let locked = arm(|world, cpu| {
        world.x.fetch_or(1 << cpu, Relaxed);
        world.seen[cpu].set(world.x.load(Relaxed));
    });
    assert_eq!(locked, [0x1300, 0x3200, 0x3300]);
}

#[test]
fn a_load_may_read_the_first_of_two_equal_values() {
    // Zero, one, zero: who reads the last zero may go on to read the one.
    let again = arm(|world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            world.x.store(0, Relaxed);
        } else {
            world.seen[0].set(world.x.load(Relaxed));
            world.seen[1].set(world.x.load(Relaxed));
        }
    });
    assert_eq!(again, [0x0000, 0x0100, 0x1000, 0x1100]);
}

#[test]
fn no_load_sees_what_has_not_been_stored() {
    // Load buffering is not modelled.
    let buffering = arm(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        world.seen[cpu].set(mine.load(Relaxed));
        other.store(1, Relaxed);
    });
    assert_eq!(buffering, [0x0000, 0x0100, 0x1000]);
}

/// Two CPUs write one word each, two read both in opposite orders.
fn independent_readers(order: Ordering) -> Vec<u64> {
    outcomes(&early(Config::arm(4), move |world, cpu| match cpu {
        0 => world.x.store(1, Relaxed),
        1 => world.y.store(1, Relaxed),
        2 => {
            world.seen[0].set(world.x.load(order));
            world.seen[1].set(world.y.load(order));
        }
        _ => {
            world.seen[2].set(world.y.load(order));
            world.seen[3].set(world.x.load(order));
        }
    }))
}

#[test]
fn all_cpus_see_stores_in_one_order() {
    let relaxed = independent_readers(Relaxed);
    assert_eq!(relaxed.len(), 16, "{relaxed:x?}");
    let acquire = independent_readers(Acquire);
    assert_eq!(acquire.len(), 15, "{acquire:x?}");
    assert!(!acquire.contains(&0x1010));
}

#[test]
fn seqcst_and_barriers_forbid_store_buffering() {
    let buffering = |first: fn(&Word), order| {
        arm(move |world, cpu| {
            let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
            first(mine);
            world.seen[cpu].set(other.load(order));
        })
    };
    let shown = [0x0000, 0x0100, 0x1000, 0x1100];
    let forbidden = [0x0100, 0x1000, 0x1100];
    let fenced = |word: &Word| {
        word.store(1, Relaxed);
        Word::fence(SeqCst);
    };
    let published = |word: &Word| {
        word.store(1, Relaxed);
        arm::Insn.dsb(Dsb::Ishst);
    };
    assert_eq!(buffering(fenced, Relaxed), forbidden);
    assert_eq!(buffering(published, Relaxed), forbidden);
    assert_eq!(buffering(|word| word.store(1, SeqCst), SeqCst), forbidden);
    assert_eq!(buffering(|word| word.store(1, SeqCst), Acquire), shown);
    // Between the exclusives of a locked operation a load may be satisfied, unless it is SeqCst, too.
    for order in [Relaxed, Acquire] {
        assert_eq!(buffering(|word| _ = word.swap(1, SeqCst), order), shown, "{order:?}");
    }
    assert_eq!(buffering(|word| _ = word.swap(1, SeqCst), SeqCst), forbidden);
    assert_eq!(buffering(|word| _ = word.swap(1, AcqRel), SeqCst), shown);
}

#[test]
fn an_acquiring_read_modify_write_holds_later_loads_back() {
    let passing = |order, between: fn()| {
        message_passing(move |world| {
            let flag = world.y.fetch_or(2, order) & 1;
            between();
            world.seen[0].set(flag);
            world.seen[1].set(world.x.load(Relaxed));
        })
    };
    assert_eq!(passing(Relaxed, || ()), ALL);
    assert_eq!(passing(Release, || ()), ALL);
    assert_eq!(passing(Acquire, || ()), NO_STALE_DATA);
    assert_eq!(passing(Relaxed, || Word::fence(Acquire)), NO_STALE_DATA);
    // One that fails orders as its failure does.
    let failed = |failure| {
        message_passing(move |world| {
            let flag = world.y.compare_exchange(7, 8, Acquire, failure).unwrap_or_else(|flag| flag);
            world.seen[0].set(flag);
            world.seen[1].set(world.x.load(Relaxed));
        })
    };
    assert_eq!(failed(Relaxed), ALL);
    assert_eq!(failed(Acquire), NO_STALE_DATA);
}

#[test]
fn a_lock_keeps_loads_in() {
    // What is read under a lock is not older than what the former holder has written.
    let locked = |order| {
        arm(move |world, cpu| {
            while world.y.compare_exchange(0, 1, order, Relaxed).is_err() {
                relax();
            }
            let value = world.x.load(Relaxed);
            world.x.store(value + 1, Relaxed);
            world.y.store(0, Release);
            world.seen[cpu].set(value);
        })
    };
    assert_eq!(locked(Acquire), [0x0100, 0x1000]);
    assert!(locked(Relaxed).contains(&0x0000));
}

#[test]
fn waiting_on_a_word_ends_and_orders_only_with_acquire() {
    let waits = |order| {
        message_passing(move |world| {
            while world.y.load(order) == 0 {
                relax();
            }
            world.seen[0].set(1);
            world.seen[1].set(world.x.load(Relaxed));
        })
    };
    assert_eq!(waits(Relaxed), [0x1000, 0x1100]);
    assert_eq!(waits(Acquire), [0x1100]);
    // One word after the other, the second of which has long changed.
    let twice = arm(|world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            world.y.store(1, Relaxed);
        } else {
            for word in [&world.y, &world.x] {
                while word.load(Relaxed) == 0 {
                    relax();
                }
            }
        }
    });
    assert_eq!(twice, [0]);
}

#[test]
fn a_handler_sees_what_was_stored_before_the_interrupt() {
    let interrupted = early(Config::arm(2), |world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            interrupt(0b10);
        } else {
            // Early, and before the interrupt.
            world.seen[1].set(world.x.load(Relaxed) + 1);
        }
    })
    .interrupt(|world, _| {
        world.seen[0].set(world.x.load(Relaxed) + 1);
    });
    assert_eq!(outcomes(&interrupted), [0x2100, 0x2200]);
}

#[test]
fn states_differ_by_what_may_still_be_read() {
    // The fence before both writes, between them or after them: memory, and what was read, are the same,
    // and what may be read is not. The explorer meets the last first.
    let fenced = arm(|world, cpu| {
        if cpu == 0 {
            world.x.swap(1, Relaxed);
            world.y.swap(1, Relaxed);
        } else {
            world.seen[2].store(0, Relaxed);
            Word::fence(SeqCst);
            flag_and_data(world, [Relaxed; 2], || ());
        }
    });
    assert_eq!(fenced, ALL);
}
