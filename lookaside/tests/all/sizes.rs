//! How much memory the library asks for, and that it works for machines of every size.

use core::sync::atomic::AtomicU64;

use crate::support::{Fake, on, words};
use lookaside::{
    AddressSpace, Cpu, Error, GlobalAsids, PerCpuAsids, Tlb,
    arch::Root,
    platform::{CpuId, CpuSet, MAX_CPUS, Ordering},
    tags::{GlobalAsidsConfig, Residents, Switched},
};

const WORD: usize = size_of::<AtomicU64>();

/// Numbers of CPUs at which something could change: the ends, and around the width of a word.
const SIZES: [usize; 11] = [1, 2, 63, 64, 65, 127, 128, 129, 4096, 8191, 8192];

fn set(cpus: usize) -> CpuSet<'static, AtomicU64> {
    CpuSet::new(words(CpuSet::<AtomicU64>::words_for(cpus)), cpus).unwrap()
}

fn cpu(index: usize) -> CpuId {
    CpuId(index as u32)
}

#[test]
fn local_11_a_space_takes_at_most_128_bytes_and_two_bits_for_each_cpu() {
    let space = size_of::<AddressSpace<Fake>>();
    let words = Residents::<AtomicU64>::words_for;
    println!("a space takes {space} bytes, and {} for 4096 CPUs", words(4096) * WORD);
    assert!(space <= 128, "{space}");
    for cpus in 1..=MAX_CPUS {
        let bits = words(cpus) * WORD * 8;
        assert!((2 * cpus..2 * cpus + 64).contains(&bits), "{bits} bits for {cpus} CPUs");
    }
    assert_eq!(words(4096) * WORD, 1024);
}

#[test]
fn a_cpu_takes_at_most_1024_bytes() {
    let (epochs, recent) =
        (size_of::<Cpu<Fake, GlobalAsids<'_, Fake>>>(), size_of::<Cpu<Fake, PerCpuAsids<6>>>());
    let either = size_of::<Cpu<Fake>>();
    println!(
        "a CPU takes {epochs} bytes with epochs, {recent} with six recent spaces, {either} with either"
    );
    assert!(epochs <= 1024 && recent <= 1024, "{epochs} and {recent}");
    // It has the state of both, of which one is never touched.
    assert!(either <= 1280, "{either}");
}

/// All bytes that the library needs for so many CPUs and spaces, with 16-bit tags.
const fn total(cpus: usize, spaces: usize) -> usize {
    let residency = size_of::<Tlb<'_, Fake, GlobalAsids<'_, Fake>>>();
    let tags = GlobalAsids::<Fake>::words_for(1 << 16) * WORD;
    let space = size_of::<AddressSpace<Fake>>() + Residents::<AtomicU64>::words_for(cpus) * WORD;
    residency + tags + cpus * size_of::<Cpu<Fake, GlobalAsids<'_, Fake>>>() + spaces * space
}

#[test]
fn nothing_grows_with_the_square_of_the_cpus() {
    const SPACES: usize = 1000;
    // What one more CPU costs does not depend on how many there are, in steps of whole words.
    let step = total(128, SPACES) - total(64, SPACES);
    for cpus in (64..MAX_CPUS).step_by(64) {
        assert_eq!(total(cpus + 64, SPACES) - total(cpus, SPACES), step, "{cpus} CPUs");
    }
    // And one more space costs its own bytes and two bits for each CPU, whatever else there is.
    for cpus in SIZES {
        let one = total(cpus, 2) - total(cpus, 1);
        assert_eq!(total(cpus, SPACES + 1) - total(cpus, SPACES), one);
        assert!(one <= 128 + cpus.div_ceil(32) * 8, "{one} bytes for {cpus} CPUs");
    }
}

#[test]
fn every_cpu_of_every_machine_enters_and_leaves_a_set() {
    for cpus in SIZES {
        let set = set(cpus);
        assert!(set.capacity() >= cpus);
        for index in 0..cpus {
            assert!(!set.contains(cpu(index), Ordering::Relaxed));
            assert!(set.insert(cpu(index), Ordering::Relaxed), "was absent");
            assert!(!set.insert(cpu(index), Ordering::Relaxed), "is present");
            assert!(set.contains(cpu(index), Ordering::Relaxed));
        }
        assert!(set.iter(Ordering::Relaxed).eq((0..cpus).map(cpu)), "{cpus} CPUs");
        for index in 0..cpus {
            assert!(set.remove(cpu(index), Ordering::Relaxed));
            assert!(!set.contains(cpu(index), Ordering::Relaxed));
        }
        assert_eq!(set.iter(Ordering::Relaxed).count(), 0);
    }
}

#[test]
fn the_first_and_the_last_cpu_are_told_apart_from_their_neighbours() {
    for cpus in SIZES {
        for only in [0, cpus / 2, cpus - 1] {
            let set = set(cpus);
            set.insert(cpu(only), Ordering::Relaxed);
            assert_eq!(set.iter(Ordering::Relaxed).collect::<Vec<_>>(), [cpu(only)]);
            let others = (0..cpus).filter(|&index| index != only);
            assert!(others.into_iter().all(|index| !set.contains(cpu(index), Ordering::Relaxed)));
        }
    }
}

#[test]
fn a_cpu_beyond_the_set_is_in_no_set() {
    let set = set(64);
    for index in [64, 8192, u32::MAX as usize] {
        assert!(!set.contains(cpu(index), Ordering::Relaxed));
        assert!(!set.remove(cpu(index), Ordering::Relaxed));
    }
}

#[test]
#[should_panic(expected = "out of bounds")]
fn a_cpu_beyond_the_set_is_not_forgotten_silently() {
    set(64).insert(cpu(64), Ordering::Relaxed);
}

#[test]
fn no_cpu_and_too_many_are_refused() {
    let storage = words(CpuSet::<AtomicU64>::words_for(MAX_CPUS) + 1);
    for cpus in [0, MAX_CPUS + 1, usize::MAX] {
        assert_eq!(CpuSet::new(storage, cpus).map(drop), Err(Error::CpuCount { cpus }));
    }
    for cpus in SIZES {
        let needed = CpuSet::<AtomicU64>::words_for(cpus);
        let short = &storage[..needed - 1];
        assert_eq!(
            CpuSet::new(short, cpus).map(drop),
            Err(Error::Storage { needed, given: needed - 1 })
        );
    }
    for cpus in [0, MAX_CPUS + 1] {
        let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
        let refused = Tlb::new(Fake::new(1, 12), PerCpuAsids::<6>::new(), storage).map(drop);
        assert_eq!(refused, Err(Error::CpuCount { cpus }));
    }
}

#[test]
fn the_last_cpu_of_the_largest_machine_switches() {
    let fake = Fake::new(MAX_CPUS, 16);
    let config = GlobalAsidsConfig::default();
    let tags = GlobalAsids::new(&fake, config, words(GlobalAsids::<Fake>::words_for(config.tags)))
        .unwrap();
    let storage = Vec::leak((0..MAX_CPUS).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(fake, tags, storage).unwrap();
    let residents = words(Residents::<AtomicU64>::words_for(MAX_CPUS));
    let space = tlb.space(Root::new(4096), residents).unwrap();
    for last in [0, 63, 64, MAX_CPUS as u32 - 1] {
        on(last, || {
            tlb.online(&(), &16).unwrap();
            assert_ne!(tlb.this_cpu(&()).switch(&space), Switched::Unchanged);
        });
    }
    let residents: Vec<_> = space.residents().iter().collect();
    assert_eq!(residents, [CpuId(0), CpuId(63), CpuId(64), CpuId(8191)]);
    let short = tlb.space(Root::new(4096), words(255)).map(drop);
    assert_eq!(short, Err(Error::Storage { needed: 256, given: 255 }));
}
