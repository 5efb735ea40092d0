//! The shadow against an adversary that is too simple to be wrong: it keeps every translation that a CPU has used until
//! the hardware's rules remove it, in a plain list, and compares it with the tables at every access. What it can reach
//! of old frames, the shadow reports, and nothing else: on ten thousand programs drawn at random.

mod kit;

use kit::Machine;
use lookaside_hardware::{Cached, riscv};
use lookaside_watch::Memory;

const CPUS: u64 = 2;
const PAGES: u64 = 4;
const ROOTS: u64 = 2;
const TAGS: u64 = 2;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[derive(Default)]
struct Adversary {
    /// CPU, translation, frame.
    held: Vec<(u32, Cached, u64)>,
    reached: u64,
}

impl Adversary {
    fn touch(&mut self, cpu: u32, tag: u16, page: u64, entry: u64) {
        if entry & 1 == 0 {
            return;
        }
        let (frame, global) = (entry >> 10, entry >> 5 & 1 != 0);
        let of_page = |(of, cached, _): &(u32, Cached, u64)| {
            *of == cpu && cached.pages.0 == page && (cached.global || cached.tag == tag)
        };
        let stale = self.held.iter().filter(|held| of_page(held) && held.2 != frame).count() as u64;
        self.reached += stale;
        let kept = self.held.iter().any(|held| of_page(held) && held.2 == frame);
        if stale > 0 {
            self.held.retain(|held| !of_page(held) || held.2 == frame);
        }
        if !kept {
            let cached = Cached { tag, global, pages: (page, page), level: 0, table: false };
            self.held.push((cpu, cached, frame));
        }
    }
}

fn program(seed: u64) -> (u64, u64, u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut machine = Machine::riscv(CPUS as u32);
    let mut adversary = Adversary::default();
    let mut running = [(0, 0); CPUS as usize];
    (0..CPUS as u32).for_each(|cpu| machine.run(cpu, 0, 0));
    for _ in 0..10 {
        random.below(2);
    }
    for _ in 0..200 {
        let cpu = random.below(CPUS) as u32;
        let page = random.below(PAGES);
        match random.below(8) {
            0..=2 => {
                let (root, tag) = running[cpu as usize];
                let entry = machine.memory.word(Machine::slot(root, page)).unwrap();
                adversary.touch(cpu, tag, page, entry);
                machine.touch(cpu, page);
            }
            3 | 4 => {
                // The last page is global, the others are not.
                let frame = 0x20 + random.below(3);
                let entry = machine.entry(frame, false, page == PAGES - 1);
                let entry = if random.below(3) == 0 { 0 } else { entry };
                machine.store(cpu, None, Machine::slot(random.below(ROOTS), page), entry);
            }
            5 => {
                let (root, tag) = (random.below(ROOTS), random.below(TAGS) as u16);
                running[cpu as usize] = (root, tag);
                machine.run(cpu, root, tag);
            }
            _ => {
                let page = (random.below(2) == 0).then_some(page);
                let tag = (random.below(2) == 0).then_some(random.below(TAGS) as u16);
                let removes = riscv::fenced(page.map(|page| (page, page)), tag);
                adversary.held.retain(|(of, cached, _)| *of != cpu || !removes.names(cached));
                machine.sfence(cpu, page, tag);
            }
        }
    }
    let reported = machine.shadow.findings().iter().map(|finding| finding.count).sum();
    (adversary.reached, reported, adversary.held.len() as u64)
}

#[test]
fn the_shadow_reports_exactly_what_the_adversary_reaches() {
    let mut reached = 0;
    for seed in 1..=10_000 {
        let (can, reported, _) = program(seed);
        assert_eq!(can, reported, "seed {seed}");
        reached += can;
    }
    // Otherwise the programs would show nothing.
    assert!(reached > 5_000, "{reached}");
}
