//! A machine with prices that tell each other apart, and programs as closures.

use core::cell::RefCell;

use lookaside::platform::{CpuId, Targets};
use lookaside_machine::timed::{
    self, Arena, CacheShape, Failure, Model, Options, Platform, Price, Prices, Ps, Report,
    TlbShape, Topology, Word, World, simulate, x86,
};

/// Every price, in picoseconds.
pub(crate) const PRICES: &[(Price, Ps)] = &[
    (Price::Hit, 1),
    (Price::Atomic, 5),
    (Price::Fence, 7),
    (Price::LineThread, 20),
    (Price::LineCluster, 30),
    (Price::LineSocket, 50),
    (Price::LineRemote, 90),
    (Price::Hop, 40),
    (Price::Sibling, 500),
    (Price::LineService, 8),
    (Price::SecondLevel, 3),
    (Price::Walk, 40),
    (Price::WalkUpper, 17),
    (Price::Root, 11),
    (Price::RootFlush, 13),
    (Price::FlushPage, 19),
    (Price::FlushOtherPage, 23),
    (Price::FlushTag, 29),
    (Price::FlushAll, 31),
    (Price::FlushGlobal, 37),
    (Price::Barrier, 2),
    (Price::BroadcastIssue, 4),
    (Price::FabricOperation, 100),
    (Price::FabricSync, 200),
    (Price::FabricLatency, 1000),
    (Price::FabricRemote, 300),
    (Price::FabricVictim, 6),
    (Price::InterruptSend, 60),
    (Price::InterruptDeliver, 500),
    (Price::InterruptDeliverRemote, 900),
    (Price::InterruptEntry, 300),
    (Price::InterruptExit, 250),
    (Price::Firmware, 800),
];

/// Four CPUs in one cluster.
pub(crate) fn model() -> Model {
    let mut prices = Prices::new();
    for &(price, value) in PRICES {
        prices.set(price, value);
    }
    assert_eq!(PRICES.len(), Price::ALL.len(), "each price is known");
    Model {
        topology: Topology::flat(4),
        tlb: TlbShape {
            first: CacheShape::full(2),
            second: Some(CacheShape { entries: 8, ways: 2 }),
            walk_cache: 1,
            blocks: true,
            fractured: false,
        },
        prices,
        fabric_window: 4,
        interrupt_group: 1,
    }
}

struct Closures<P, I> {
    program: P,
    interrupt: I,
}

impl<P: Fn(usize), I: Fn()> World for Closures<P, I> {
    fn run(&self, cpu: CpuId) {
        (self.program)(cpu.index());
    }

    fn interrupt(&self) {
        (self.interrupt)();
    }
}

/// What a run may take, in picoseconds.
pub(crate) const LIMIT: Ps = 1_000_000;

/// Runs a program on each CPU of a model, and a handler; `build` comes before.
pub(crate) fn try_run(
    model: &Model,
    cpus: usize,
    arena: &Arena,
    build: impl FnOnce(),
    program: impl Fn(usize),
    interrupt: impl Fn(),
) -> Result<Report, Failure> {
    let options = Options { cpus, seed: 1, limit: LIMIT, timeline: 0 };
    let world = || {
        build();
        Closures { program, interrupt }
    };
    simulate(model, arena, options, world).map(|(_, report)| report)
}

/// The same, where nothing goes wrong and nothing is built.
pub(crate) fn run(
    model: &Model,
    cpus: usize,
    arena: &Arena,
    program: impl Fn(usize),
    interrupt: impl Fn(),
) -> Report {
    let report = try_run(model, cpus, arena, || (), program, interrupt);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert_accounts(&report);
    report
}

/// What CPUs spent is what time it is there, without a rest.
pub(crate) fn assert_accounts(report: &Report) {
    for cpu in &report.cpus {
        let activities = 0..report.activities.len();
        let causes = || timed::Cause::ALL.iter();
        let spent: Ps =
            activities.flat_map(|a| causes().map(move |&cause| cpu.spent(a, cause))).sum();
        assert_eq!(spent, cpu.elapsed);
    }
}

/// An arena with room for a few words.
pub(crate) fn arena() -> Arena {
    Arena::new(1 << 16)
}

/// Words, each in a cache line of its own.
pub(crate) fn words<const N: usize>(arena: &Arena) -> [&Word; N] {
    core::array::from_fn(|_| arena.put(<Word as lookaside::platform::Word>::ZERO))
}

/// Moments that programs have noted, in the order in which they noted them.
#[derive(Debug, Default)]
pub(crate) struct Notes(RefCell<Vec<(usize, Ps)>>);

impl Notes {
    /// Notes the time of the CPU that runs.
    pub(crate) fn note(&self) {
        self.0.borrow_mut().push((timed::cpu().index(), timed::now()));
    }

    /// What a CPU has noted.
    pub(crate) fn of(&self, cpu: usize) -> Vec<Ps> {
        self.0.borrow().iter().filter(|note| note.0 == cpu).map(|note| note.1).collect()
    }
}

/// Sends interrupts to the CPUs of a mask.
pub(crate) fn interrupt(mask: u64) {
    use lookaside::{
        Platform as _,
        arch::{Mmu as _, x86_64},
    };
    let features = x86_64::Features::decode(|leaf, _| match leaf {
        0 => [1, 0, 0, 0],
        1 => [0, 0, 0, 1 << 13], // CR4.PGE.
        _ => [0; 4],
    });
    let config = x86_64::Config {
        pcids: x86_64::Use::Never,
        invlpgb: x86_64::Use::Never,
        tables: x86_64::Tables::One,
        levels: x86_64::Levels::Four,
        reserved_root: 0x7fff_f000,
    };
    let mmu = x86_64::X86::new(x86::Insn, &features, config).expect("a CPU");
    let costs = mmu.properties().typical_costs;
    Platform::new(mmu, *costs).send_ipi(Targets { first: CpuId(0), mask });
}
