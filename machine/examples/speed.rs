//! How many steps each explorer executes in a second of one core.
//!
//! Two initiators on an x86 machine of four CPUs shoot at the same space: store, fence, read the
//! mask, interrupt, wait for the answers. `cargo run --release --example speed`.

use core::time::Duration;

use lookaside::{
    arch::x86_64::{Instructions, Invpcid},
    platform::{
        CpuId,
        Ordering::{Acquire, Relaxed, Release, SeqCst},
        Word as _,
    },
};
use lookaside_machine::{
    adversary::{
        Access, Config, Frame, Scenario, Word, as_cpu, interrupt, leak, oracle, relax, tables,
        x86::Insn,
    },
    explore::{Budget, Explorer, Report},
};

const CPUS: usize = 4;
const VA: u64 = 0x5000;

struct Shootdown;

struct World {
    root: Frame,
    ptes: [&'static Word; 2],
    generation: Word,
    mask: Word,
    local_generation: [Word; CPUS],
}

impl Scenario for Shootdown {
    type World = World;

    fn name(&self) -> String {
        "speed".to_owned()
    }

    fn config(&self) -> Config {
        Config::x86(CPUS).with_interrupts()
    }

    fn build(&self) -> &'static World {
        let root = tables::allocate();
        for page in 0..2 {
            tables::map(root, VA + page * 0x1000, Frame(7 + page), Access::WRITE);
        }
        for cpu in 0..CPUS {
            as_cpu(CpuId(cpu as u32), || Insn.write_cr3(root.address() | 1));
        }
        let mask = Word::ZERO;
        mask.store((1 << CPUS) - 1, Relaxed);
        leak(World {
            root,
            ptes: [tables::pte(root, VA), tables::pte(root, VA + 0x1000)],
            generation: Word::ZERO,
            mask,
            local_generation: [const { Word::ZERO }; CPUS],
        })
    }

    fn run(&self, world: &'static World, cpu: CpuId) {
        let cpu = cpu.index();
        if cpu >= 2 {
            return;
        }
        world.ptes[cpu].store(0, Relaxed);
        let generation = world.generation.fetch_add(1, SeqCst) + 1;
        Word::fence(SeqCst);
        let mask = world.mask.load(Relaxed);
        interrupt(mask);
        Insn.invpcid(Invpcid::Context, [1, 0]);
        for other in (0..CPUS).filter(|&other| other != cpu && mask & 1 << other != 0) {
            while world.local_generation[other].load(Acquire) < generation {
                relax();
            }
        }
        oracle::revoked(world.root, VA + cpu as u64 * 0x1000);
    }

    fn interrupt(&self, world: &'static World, cpu: CpuId) {
        let generation = world.generation.load(Acquire);
        Insn.invpcid(Invpcid::Context, [1, 0]);
        world.local_generation[cpu.index()].store(generation, Release);
    }
}

/// The time that this thread has had a core for, where the system says so.
fn core_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn show(name: &str, mut explore: impl FnMut() -> Report) {
    let begin = core_time();
    let report = explore();
    let spent = core_time().zip(begin).map(|(end, begin)| end - begin);
    let seconds = spent.unwrap_or(report.elapsed).as_secs_f64();
    println!(
        "{name:12} {:>9} schedules {:>10} steps {:>8} states {:>6.2} s {:>6.2} M steps/s  {}",
        report.schedules,
        report.steps,
        report.states,
        seconds,
        report.steps as f64 / seconds / 1e6,
        report.failure.as_ref().map_or("nothing broken".to_owned(), |f| f.violation.to_string()),
    );
}

fn main() {
    let mut explorer = Explorer::new(Shootdown);
    let budget = Budget::schedules(300_000);
    show("bounded(0)", || explorer.bounded(0, budget));
    show("bounded(1)", || explorer.bounded(1, budget));
    show("bounded(2)", || explorer.bounded(2, budget));
    show("exhaust", || explorer.exhaust(budget));
    show("random", || explorer.random(1, 100_000));
    show("pct(3)", || explorer.pct(1, 3, 100_000));
}
