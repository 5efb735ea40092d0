//! Cache lines under contention: programs that others have measured, to which nothing is fitted.
//!
//! * T. Downs, concurrency-hierarchy-bench (GitHub), results/g2-16/combined.csv, a Graviton 2. `line_service` is from its
//!   'atomic add'; 'ticket spin', which is compared here, was not used for it. results/g1-16/combined.csv, a Graviton 1, has
//!   'cas add'; nothing of that is used elsewhere.
//! * R. Penyaev, ccont (GitHub), README, 'cpu-increase' with `cmpxchg`: two nodes of four CPUs, which it does not name. A
//!   Westmere with as many stands for them.

use core::cell::Cell;

use lookaside::platform::{
    CpuId,
    Ordering::{Relaxed, SeqCst},
    Word as _,
};
use lookaside_machine::timed::{self, Arena, Options, Price, Ps, Word, World};
use lookaside_simulation::{
    data::{self, Machine},
    workload::{self, Setup},
};

/// Threads that take a ticket lock, add to a counter and leave it, again and again. The two words of the lock are in one
/// line.
struct Ticket<'a> {
    dispenser: &'a Word,
    serving: &'a Word,
    counter: &'a Word,
    taken: Cell<u64>,
    until: Ps,
}

impl World for Ticket<'_> {
    fn run(&self, _: CpuId) {
        while timed::now() < self.until {
            let mine = self.dispenser.fetch_add(1, Relaxed);
            while self.serving.load(Relaxed) != mine {
                timed::relax();
            }
            self.counter.set(self.counter.get() + 1);
            let now = self.serving.load(Relaxed);
            self.serving.store(now + 1, Relaxed);
            self.taken.set(self.taken.get() + 1);
        }
    }

    fn interrupt(&self) {}
}

/// How long a machine takes each time that the lock is taken, in nanoseconds.
fn ticket(machine: &Machine, cpus: usize) -> f64 {
    let arena = Arena::new(1 << 12);
    let options = Options { cpus, seed: 1, limit: 1_000_000_000, timeline: 0 };
    let build = || {
        let words = arena.fill(9, |_| Word::ZERO);
        let (dispenser, serving, counter) = (&words[0], &words[1], &words[8]);
        Ticket { dispenser, serving, counter, taken: Cell::new(0), until: 200_000_000 }
    };
    let (world, _) = timed::simulate(&machine.model, &arena, options, build)
        .unwrap_or_else(|why| panic!("{why}"));
    2e5 / world.taken.get() as f64
}

/// By cores: the median of 15 trials, divided by the cores.
const PUBLISHED: [(usize, f64); 5] = [(2, 132.8), (4, 170.4), (8, 249.4), (12, 337.2), (16, 427.6)];

#[test]
fn a_ticket_lock_gets_slower_with_each_waiter() {
    let mut machine = Machine::named("neoverse_n1").unwrap_or_else(|why| panic!("{why}"));
    let curve = |machine: &Machine| PUBLISHED.map(|(cpus, _)| ticket(machine, cpus));
    let modelled = curve(&machine);
    for ((cpus, published), modelled) in PUBLISHED.into_iter().zip(modelled) {
        println!("{cpus} cores: published {published:.0} ns, modelled {modelled:.0} ns");
    }
    // What each waiter adds from 8 cores to 16: 22 ns published. The model has nearly half of that, as nothing in it is
    // fitted to this curve, and says too little throughout.
    let slope = |curve: [f64; 5]| (curve[4] - curve[2]) / 8.0;
    let share = slope(modelled) / slope(PUBLISHED.map(|(_, time)| time));
    assert!((0.35..0.6).contains(&share), "{share}");
    assert!(modelled.iter().zip(PUBLISHED).all(|(&time, (_, published))| time < published));
    // Without the price there is no such thing.
    machine.model.prices.set(Price::LineService, 0);
    assert!(slope(curve(&machine)).abs() < 0.5);
}

/// CPUs that add to one word by a load and compare-exchanges until one succeeds, again and again, and begin in some order.
struct Exchangers<'a> {
    word: &'a Word,
    order: &'a [u64],
    until: Ps,
}

impl World for Exchangers<'_> {
    fn run(&self, cpu: CpuId) {
        timed::idle_until(1000 * (1 + self.order[cpu.index()]));
        while timed::now() < self.until {
            let mut seen = self.word.load(SeqCst);
            while let Err(other) = self.word.compare_exchange(seen, seen + 1, SeqCst, SeqCst) {
                seen = other;
            }
        }
    }

    fn interrupt(&self) {}
}

/// How long such an addition takes by so many CPUs, in nanoseconds, and how often the line moves for one.
fn exchanging(machine: &Machine, cpus: usize, order: &[u64]) -> (f64, f64) {
    let arena = Arena::new(1 << 12);
    let options = Options { cpus, seed: 1, limit: 1_000_000_000, timeline: 0 };
    let build = || {
        let word = arena.put(Word::ZERO);
        timed::name(word, "word");
        Exchangers { word, order, until: 200_000_000 }
    };
    let (world, report) = timed::simulate(&machine.model, &arena, options, build)
        .unwrap_or_else(|why| panic!("{why}"));
    let added = world.word.peek() as f64;
    (2e5 / added, report.lines.first().map_or(0, |line| line.moves) as f64 / added)
}

/// Orders in which CPUs begin: on a machine of several clusters the line goes round in that order ever after.
fn orders(cpus: usize) -> [Vec<u64>; 8] {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64; // Xorshift.
    core::array::from_fn(|_| {
        let mut order: Vec<_> = (0..cpus as u64).collect();
        for i in (1..cpus).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(i, (state % (i as u64 + 1)) as usize);
        }
        order
    })
}

/// A Graviton 1 (results/g1-16/combined.csv): how much longer 'cas add' takes than 'atomic add', by cores.
const EXCHANGED: [(usize, f64); 3] = [(8, 80.1 / 51.3), (12, 109.0 / 67.4), (16, 128.8 / 85.8)];

#[test]
fn compare_exchanges_of_many_cpus_take_a_few_moves_for_each_that_succeeds() {
    let machine = Machine::named("neoverse_n1").unwrap_or_else(|why| panic!("{why}"));
    for cpus in [2, 4, 8, 16, 32, 64] {
        let (time, moves) = exchanging(&machine, cpus, &orders(cpus)[0]);
        println!("{cpus} CPUs: {time:.0} ns, {moves:.2} moves");
        // One for the load, one for the compare-exchange, and with few CPUs another that is in vain. It was 49 with 64.
        assert!((1.9..3.1).contains(&moves), "{cpus} CPUs: {moves}");
    }
    let machine = Machine::named("cortex_a72_graviton1").unwrap_or_else(|why| panic!("{why}"));
    for (cpus, published) in EXCHANGED {
        let ratios = orders(cpus)
            .map(|order| exchanging(&machine, cpus, &order).0 / adding(&machine, cpus, &order));
        let modelled = ratios.iter().sum::<f64>() / ratios.len() as f64;
        println!(
            "{cpus} cores: published {published:.2}, modelled {modelled:.2}, by order {ratios:.2?}"
        );
        // Too cheap, by up to half. It was 12 times too dear with 16 cores.
        let share = modelled / published;
        assert!((0.5..1.0).contains(&share), "{cpus}: {modelled}, published {published}");
    }
}

/// CPUs that add to one word, again and again, and begin in some order.
struct Adders<'a> {
    word: &'a Word,
    order: &'a [u64],
    until: Ps,
}

impl World for Adders<'_> {
    fn run(&self, cpu: CpuId) {
        timed::idle_until(1000 * (1 + self.order[cpu.index()]));
        while timed::now() < self.until {
            self.word.fetch_add(1, Relaxed);
        }
    }

    fn interrupt(&self) {}
}

/// How long an addition takes by so many CPUs, in nanoseconds.
fn adding(machine: &Machine, cpus: usize, order: &[u64]) -> f64 {
    let arena = Arena::new(1 << 12);
    let options = Options { cpus, seed: 1, limit: 1_000_000_000, timeline: 0 };
    let build = || Adders { word: arena.put(Word::ZERO), order, until: 200_000_000 };
    let (world, _) = timed::simulate(&machine.model, &arena, options, build)
        .unwrap_or_else(|why| panic!("{why}"));
    2e5 / world.word.peek() as f64
}

#[test]
fn a_second_socket_makes_contended_atomics_a_little_slower_in_whatever_order_they_ask() {
    let machine = Machine::named("westmere_ep_2s").unwrap_or_else(|why| panic!("{why}"));
    // 72.3 ns for each of four CPUs, and 194.3 ns for each of eight.
    let published = (194.3 / 8.0) / (72.3 / 4.0);
    let by_socket = [0, 1, 2, 3, 4, 5, 6, 7];
    let alternating = [0, 2, 4, 6, 1, 3, 5, 7];
    let one = adding(&machine, 4, &by_socket);
    for order in [by_socket, alternating] {
        let modelled = adding(&machine, 8, &order) / one;
        println!("two sockets over one: published {published:.2}, modelled {modelled:.2}");
        assert!((modelled / published - 1.0).abs() < 0.1, "{modelled}, published {published}");
    }
}

#[test]
fn a_flush_moves_one_line_of_its_space_twice() {
    // 64 CPUs flush one space by broadcasts. A flush writes one line of the space when it begins and when it ends; what it only
    // reads stays with every CPU.
    let machine = Machine::named("turin").unwrap_or_else(|why| panic!("{why}"));
    let (strategy, options) = ("lookaside", data::parameters("storm").unwrap());
    let (cpus, x) = (Some(64), None);
    let setup =
        Setup { machine: &machine, strategy, cpus, x, options: &options, seed: 1, timeline: 0 };
    let outcome = (workload::find("storm").unwrap().run)(&setup);
    let report = outcome.unwrap_or_else(|error| panic!("{error}")).report;
    let spaces = report.lines.iter().find(|line| line.name == "spaces").unwrap();
    let counters = report.counters();
    let (_, flushes) = counters.iter().find(|(name, _)| *name == "broadcasts").unwrap();
    let moves = spaces.moves as f64 / flushes as f64;
    assert!((1.0..2.1).contains(&moves), "{moves} for each of {flushes} flushes");
}
