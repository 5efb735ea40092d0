//! Storms: many CPUs that switch, touch and flush at once, with the library's own strategies.

#![allow(dead_code, reason = "each user of this module needs another part of it")]
#![allow(unreachable_pub, reason = "the module is part of several crates")]

use core::mem::ManuallyDrop;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, GlobalAsids, PerCpuAsids, Platform as _, Tlb, VaRange,
    arch::{
        Mmu, Root,
        aarch64::{self, Aarch64, AsidIn, IdRegisters, Pairing},
        x86_64::{self, Levels, Tables, Use, X86},
    },
    platform::{CpuId, Word as _},
    tags::{GlobalAsidsConfig, Residents, Tags},
};
use lookaside_machine::timed::{
    self, Arena, CacheShape, Failure, Hops, Model, Options, Platform, Price, Prices, Report,
    TlbShape, Topology, Word, World, arm, simulate, tables, x86,
};

const RESERVED: u64 = 0x7fff_f000;
const PAGES: u64 = 64;

/// What a storm is like.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many CPUs take part.
    pub cpus: usize,
    /// How many consecutive CPUs share their spaces.
    pub group: usize,
    /// How many flushes each CPU makes.
    pub flushes: usize,
    /// How many times a CPU switches to its other space and back, for each flush.
    pub switches: usize,
    /// How many pages are touched after each switch and flush.
    pub touched: u64,
    /// What a flush is.
    pub flush: Flush,
}

/// When a storm says that a flush is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// When it is.
    Right,
    /// Before it has begun.
    ClaimedEarly,
    /// Though nothing is flushed.
    LeftOut,
}

/// A machine with `cpus` CPUs: prices are of the order that they have on servers.
pub fn model(cpus: usize, arm: bool) -> Model {
    use Price::*;
    let clusters = (cpus as u32).div_ceil(8).max(1);
    let mut prices = Prices::new();
    for (price, value) in [
        (Hit, 1_000),
        (Atomic, 6_000),
        (Fence, 8_000),
        (LineThread, 8_000),
        (Sibling, 600),
        (LineCluster, 25_000),
        (LineSocket, 60_000),
        (LineRemote, 140_000),
        (SecondLevel, 3_000),
        (Walk, 12_000),
        (WalkUpper, 20_000),
        (Root, 40_000),
        (RootFlush, 60_000),
        (FlushPage, 60_000),
        (FlushTag, 80_000),
        (FlushAll, 100_000),
        (FlushGlobal, 250_000),
        (Barrier, 10_000),
        (BroadcastIssue, 4_000),
        (FabricOperation, 20_000),
        (FabricSync, 60_000),
        (FabricLatency, 300_000),
        (FabricRemote, 200_000),
        (FabricVictim, 10_000),
        (InterruptSend, 60_000),
        (InterruptDeliver, 500_000),
        (InterruptEntry, 300_000),
        (InterruptExit, 200_000),
    ] {
        prices.set(price, value);
    }
    Model {
        topology: Topology {
            threads: 1,
            cores_per_cluster: (cpus as u32).min(8),
            clusters,
            sockets: 1,
            hops: Hops::ONE,
            nodes: if arm { 2 } else { 1 },
        },
        tlb: TlbShape {
            first: CacheShape { entries: 64, ways: 4 },
            second: Some(CacheShape { entries: 1536, ways: 12 }),
            walk_cache: 32,
            blocks: arm,
            fractured: false,
        },
        prices,
        fabric_window: 4,
        interrupt_group: 1,
    }
}

struct Running<'a, M: Mmu, T: Tags<Platform<'a, M>>> {
    storm: Storm,
    tlb: &'a Tlb<'a, Platform<'a, M>, T>,
    features: M::Features,
    set_up: fn(&M),
    spaces: Vec<(u64, &'a AddressSpace<Platform<'a, M>>)>,
}

impl<'a, M: Mmu, T: Tags<Platform<'a, M>>> Running<'a, M, T> {
    fn this_cpu(&self) -> CurrentCpu<'_, Platform<'a, M>, T> {
        self.tlb.this_cpu(&())
    }
}

impl<'a, M: Mmu, T: Tags<Platform<'a, M>>> World for Running<'a, M, T> {
    fn run(&self, cpu: CpuId) {
        timed::interrupts_off(|| {
            (self.set_up)(self.tlb.platform().mmu());
            self.tlb.online(&(), &self.features).expect("all CPUs are alike");
        });
        let group = cpu.index() / self.storm.group;
        let own = [2 * group, 2 * group + 1].map(|space| self.spaces[space]);
        let touched = self.storm.touched;
        let lane = cpu.index() as u64 % (PAGES / touched.max(1)) * touched;
        let switch = |(_, space): (u64, &AddressSpace<_>)| {
            let _ = timed::interrupts_off(|| self.this_cpu().switch(space));
            let _ = timed::touch(lane, touched);
        };
        switch(own[0]);
        timed::work(timed::random_below(1_000_000));
        for _ in 0..self.storm.flushes {
            for _ in 0..self.storm.switches {
                switch(own[1]);
                switch(own[0]);
            }
            let (root, space) = own[0];
            let stamp = tables::revoke(root, lane, 1, true);
            if self.storm.flush != Flush::Right {
                tables::flushed(root, lane, 1, stamp);
            }
            if self.storm.flush != Flush::LeftOut {
                timed::interrupts_off(|| {
                    let mut gather = Gather::new(space);
                    gather.revoke(VaRange::new(lane << 12, 1 << 12, 12).expect("one page"));
                    let _ = self.this_cpu().flush(gather);
                });
            }
            tables::flushed(root, lane, 1, stamp);
            let _ = timed::touch(lane, touched);
            timed::work(200_000 + timed::random_below(100_000));
        }
    }

    fn interrupt(&self) {
        self.this_cpu().handle_ipi();
    }
}

fn arena(storm: Storm) -> Arena {
    Arena::new((1 << 22) + storm.cpus * (8192 + 4 * storm.cpus))
}

/// What a storm runs on.
struct Hardware<M: Mmu, F> {
    arm: bool,
    mmu: F,
    features: M::Features,
    set_up: fn(&M),
}

fn run<'a, M: Mmu + 'a, T: Tags<Platform<'a, M>> + 'a>(
    arena: &'a Arena,
    storm: Storm,
    (seed, timeline): (u64, usize),
    hardware: Hardware<M, impl FnOnce() -> M>,
    tags: impl FnOnce(&Platform<'a, M>) -> T,
) -> Result<Report, Failure> {
    let Hardware { arm, mmu, features, set_up } = hardware;
    let model = model(storm.cpus, arm);
    let options = Options { cpus: storm.cpus, seed, limit: 4_000_000_000_000_000, timeline };
    let build = || {
        let mmu = mmu();
        let costs = mmu.properties().typical_costs;
        let platform = Platform::new(mmu, *costs);
        let tags = tags(&platform);
        let cpus = arena.fill(storm.cpus, |_| Cpu::new());
        timed::name(cpus, "CPUs");
        let tlb = arena.put(Tlb::new(platform, tags, cpus).expect("a machine as there are many"));
        let space = |_| {
            let root = tables::create(PAGES);
            tables::map(root, 0, PAGES, 0);
            let words = Residents::<Word>::words_for(storm.cpus);
            let residents = arena.fill(words, |_| Word::ZERO);
            let space = tlb.space(Root::new(root), residents).expect("a root");
            let space = &**arena.put(ManuallyDrop::new(space));
            timed::name(space, "spaces");
            (root, space)
        };
        let spaces = (0..2 * storm.cpus.div_ceil(storm.group)).map(space).collect();
        Running { storm, tlb, features, set_up, spaces }
    };
    simulate(&model, arena, options, build).map(|(_, report)| report)
}

/// A storm on x86 with PCIDs and without broadcasts: shootdowns by interrupt.
pub fn x86(storm: Storm, seed: u64) -> Result<Report, Failure> {
    x86_with(storm, seed, 0)
}

/// The same with a timeline of so many moments.
pub fn x86_with(storm: Storm, seed: u64, timeline: usize) -> Result<Report, Failure> {
    let mut features = x86_64::Features::decode(|leaf, _| match leaf {
        0 => [7, 0, 0, 0],
        1 => [0, 0, 1 << 17, 1 << 13],
        7 => [0, 1 << 10, 0, 0],
        0x8000_0000 => [0x8000_0008, 0, 0, 0],
        0x8000_0008 => [48 | 48 << 8, 0, 0, 0],
        _ => [0; 4],
    });
    (features.pcid, features.invpcid) = (true, true);
    let config = x86_64::Config {
        pcids: Use::WherePresent,
        invlpgb: Use::Never,
        tables: Tables::One,
        levels: Levels::Four,
        reserved_root: RESERVED,
    };
    let mmu = || X86::new(x86::Insn, &features, config).expect("a CPU").with_global_kernel();
    let arena = arena(storm);
    let hardware = Hardware { arm: false, mmu, features, set_up: X86::set_up_cpu };
    run(&arena, storm, (seed, timeline), hardware, |_| <PerCpuAsids>::new())
}

/// A storm on Arm, where invalidations are broadcast.
pub fn arm(storm: Storm, seed: u64) -> Result<Report, Failure> {
    arm_with(storm, seed, 0)
}

/// The same with a timeline of so many moments.
pub fn arm_with(storm: Storm, seed: u64, timeline: usize) -> Result<Report, Failure> {
    let features = aarch64::Features::decode(IdRegisters { mmfr0: 0x25, ..IdRegisters::default() });
    let config = aarch64::Config {
        features,
        tcr: 16 | 5 << 32 | 1 << 36,
        reserved_root: RESERVED,
        sharing: lookaside::arch::Sharing::Private,
        pairing: Pairing::Single,
        asid_in: AsidIn::Ttbr0,
    };
    let mmu = || Aarch64::new(arm::Insn, config).expect("a CPU");
    let arena = arena(storm);
    let hardware = Hardware { arm: true, mmu, features, set_up: |_| () };
    run(&arena, storm, (seed, timeline), hardware, |platform| {
        let words = GlobalAsids::<Platform<'_, Aarch64<arm::Insn>>>::words_for(1 << 16);
        let words = arena.fill(words, |_| Word::ZERO);
        GlobalAsids::new(platform, GlobalAsidsConfig::default(), words).expect("words for all tags")
    })
}
