//! Litmus tests of memory, with each kind of buffer: exactly the outcomes that are allowed.

use crate::common::{Programs, outcomes, programs};
use lookaside::platform::{Ordering::*, Word as _};
use lookaside_machine::adversary::{Buffers, Config, Word, outcome};

/// Two shared words and a result for each of two CPUs.
#[derive(Debug)]
struct Pair {
    x: Word,
    y: Word,
    results: [Word; 2],
}

fn pair(run: impl Fn(&Pair, usize) + 'static) -> Programs<Pair> {
    let build = || Pair { x: Word::ZERO, y: Word::ZERO, results: [Word::ZERO, Word::ZERO] };
    programs(Config::x86(2), build, run).finish(|world| {
        let [a, b] = [&world.results[0], &world.results[1]].map(Word::peek);
        outcome(a << 4 | b);
    })
}

const KINDS: [Buffers; 3] = [Buffers::None, Buffers::Tso, Buffers::Pso];

#[test]
fn store_buffering_shows_with_buffers_only() {
    let sb = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.store(1, Release);
        world.results[cpu].set(other.load(Acquire));
    });
    assert_eq!(outcomes(&sb, KINDS[0]), [0x01, 0x10, 0x11]);
    assert_eq!(outcomes(&sb, KINDS[1]), [0x00, 0x01, 0x10, 0x11]);
    assert_eq!(outcomes(&sb, KINDS[2]), [0x00, 0x01, 0x10, 0x11]);
}

#[test]
fn full_fences_forbid_store_buffering() {
    let fenced = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.store(1, Relaxed);
        Word::fence(SeqCst);
        world.results[cpu].set(other.load(Relaxed));
    });
    let strong = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.store(1, SeqCst);
        world.results[cpu].set(other.load(SeqCst));
    });
    let swapped = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.swap(1, SeqCst);
        world.results[cpu].set(other.load(Relaxed));
    });
    for kind in KINDS {
        for test in [&fenced, &strong, &swapped] {
            assert_eq!(outcomes(test, kind), [0x01, 0x10, 0x11], "{kind:?}");
        }
    }
}

#[test]
fn one_fence_is_not_enough() {
    let half = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.store(1, Relaxed);
        Word::fence(if cpu == 0 { SeqCst } else { Release });
        world.results[cpu].set(other.load(Relaxed));
    });
    for kind in &KINDS[1..] {
        assert!(outcomes(&half, *kind).contains(&0x00), "{kind:?}");
    }
}

#[test]
fn a_locked_operation_on_another_word_drains_under_tso_only() {
    let rmw = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.store(1, Relaxed);
        world.results[cpu].fetch_add(0, Relaxed);
        world.results[cpu].fetch_add(other.load(Relaxed), Relaxed);
    });
    assert!(!outcomes(&rmw, Buffers::Tso).contains(&0x00));
    assert!(outcomes(&rmw, Buffers::Pso).contains(&0x00));
}

/// CPU 0 writes data and then a flag; CPU 1 reads the flag and then the data.
fn message_passing(write: fn(&Pair)) -> impl Fn(&Pair, usize) {
    move |world, cpu| {
        if cpu == 0 {
            write(world);
        } else {
            let flag = world.y.load(Acquire);
            let data = world.x.load(Relaxed);
            world.results[0].set(flag);
            world.results[1].set(data);
        }
    }
}

#[test]
fn message_passing_needs_release_under_pso() {
    let relaxed = pair(|world, cpu| {
        message_passing(|world| {
            world.x.store(1, Relaxed);
            world.y.store(1, Relaxed);
        })(world, cpu)
    });
    assert_eq!(outcomes(&relaxed, Buffers::None), [0x00, 0x01, 0x11]);
    assert_eq!(outcomes(&relaxed, Buffers::Tso), [0x00, 0x01, 0x11]);
    assert_eq!(outcomes(&relaxed, Buffers::Pso), [0x00, 0x01, 0x10, 0x11]);

    let release = pair(|world, cpu| {
        message_passing(|world| {
            world.x.store(1, Relaxed);
            world.y.store(1, Release);
        })(world, cpu)
    });
    let fence = pair(|world, cpu| {
        message_passing(|world| {
            world.x.store(1, Relaxed);
            Word::fence(Release);
            world.y.store(1, Relaxed);
        })(world, cpu)
    });
    let rmw = pair(|world, cpu| {
        message_passing(|world| {
            world.x.store(1, Relaxed);
            world.y.fetch_or(1, Release);
        })(world, cpu)
    });
    for kind in KINDS {
        for test in [&release, &fence, &rmw] {
            assert_eq!(outcomes(test, kind), [0x00, 0x01, 0x11], "{kind:?}");
        }
    }
}

#[test]
fn a_relaxed_rmw_overtakes_buffered_stores_under_pso() {
    let overtake = pair(|world, cpu| {
        message_passing(|world| {
            world.x.store(1, Relaxed);
            world.y.fetch_or(1, Relaxed);
        })(world, cpu)
    });
    assert!(outcomes(&overtake, Buffers::Pso).contains(&0x10));
    let held = pair(|world, cpu| {
        message_passing(|world| {
            world.x.store(1, Relaxed);
            Word::fence(Release);
            world.y.fetch_or(1, Relaxed);
        })(world, cpu)
    });
    assert!(!outcomes(&held, Buffers::Pso).contains(&0x10));
}

#[test]
fn a_failed_exchange_orders_as_its_failure_does() {
    let failed = pair(|world, cpu| {
        let (mine, other) = if cpu == 0 { (&world.x, &world.y) } else { (&world.y, &world.x) };
        mine.store(1, Relaxed);
        let result = world.results[cpu].compare_exchange(7, 8, SeqCst, Relaxed);
        assert_eq!(result, Err(0));
        world.results[cpu].fetch_or(other.load(Relaxed), Relaxed);
    });
    assert!(outcomes(&failed, Buffers::Pso).contains(&0x00));
    assert!(!outcomes(&failed, Buffers::Tso).contains(&0x00));
}

#[test]
fn stores_to_one_word_stay_in_order() {
    let ordered = pair(|world, cpu| {
        if cpu == 0 {
            world.x.store(1, Relaxed);
            world.x.store(2, Relaxed);
        } else {
            world.results[0].set(world.x.load(Relaxed));
            world.results[1].set(world.x.load(Relaxed));
        }
    });
    for kind in KINDS {
        assert_eq!(outcomes(&ordered, kind), [0x00, 0x01, 0x02, 0x11, 0x12, 0x22], "{kind:?}");
    }
}

#[test]
fn a_cpu_sees_its_own_stores() {
    let own = pair(|world, cpu| {
        world.x.store(cpu as u64 + 1, Relaxed);
        let seen = world.x.load(Relaxed);
        world.results[cpu].set(seen);
    });
    for kind in KINDS {
        assert_eq!(outcomes(&own, kind), [0x11, 0x12, 0x22], "{kind:?}");
    }
}
