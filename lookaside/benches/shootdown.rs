//! The round trip of a shootdown of one page between two pinned cores: the library's, beside a bare flag and its answer
//! and two protocols of other kernels.
//!
//! An interrupt is a store to a line that the target polls, the same for all, and an invalidation is a store: so what
//! differs is the protocol. The protocols take turns, many times in one run. Printed are the median time of each and of its
//! ratio to the bare flag in the same turn, with the quartiles. (`criterion` measures one after the other, and a busy
//! machine changes in between.)

#[path = "support/peers.rs"]
mod peers;

use core::{
    cell::Cell,
    error::Error,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::Instant;

use core_affinity::CoreId;
use lookaside::{
    AddressSpace, Cpu, Gather, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    arch::{Held, Invalidation, Properties, Root, Scope, TableChange, Tag},
    platform::{CpuId, Targets},
    tags::{GlobalAsidsConfig, Tags},
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};
use peers::{Flag, Flags, Interrupt, Queue, Shootdown, invalidate};

/// How often the protocols take turns, and how many shootdowns a turn is.
const TURNS: usize = 101;
const SHOOTDOWNS: u32 = 2000;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// The host, with two CPUs of which the second has an interrupt.
#[derive(Default)]
struct Host {
    mmu: TestMmu<HostMmu>,
    interrupt: Interrupt,
}

#[derive(Default)]
struct HostMmu;

// SAFETY: each of the two threads has a CPU number of its own, and an interrupt publishes what was stored before.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = TestMmu<HostMmu>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = [AtomicU64; 1];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    #[inline]
    fn mmu(&self) -> &TestMmu<HostMmu> {
        &self.mmu
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    #[inline]
    fn send_ipi(&self, targets: Targets) {
        assert_eq!(
            targets.first.0 + targets.mask.trailing_zeros(),
            1,
            "nobody interrupts the initiator"
        );
        self.interrupt.send();
    }

    #[inline]
    fn relax(&self) {
        core::hint::spin_loop();
    }
}

impl Hardware for HostMmu {
    #[inline]
    fn properties(&self) -> Properties {
        Properties::plain(12, &COSTS)
    }

    #[inline]
    fn load(&self, root: Root, tag: Tag, _: Held) {
        core::hint::black_box((root.table, tag));
    }

    #[inline]
    fn flush(&self, entries: Invalidation<'_>, _: Scope) {
        if let Invalidation::Ranges { ranges: [only], .. } = entries {
            invalidate(only.start());
        }
    }

    #[inline]
    fn operations(&self, range: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        Some(range.pages())
    }
}

/// The library, with two CPUs that run one space.
struct Lookaside<T: Tags<Host> + 'static> {
    tlb: &'static Tlb<'static, Host, T>,
    /// It does not move as long as a CPU runs it: `Platform` promises that.
    space: Box<AddressSpace<Host>>,
}

impl<T: Tags<Host>> Lookaside<T> {
    fn new(tags: T) -> Result<Self, lookaside::Error> {
        let tlb = Tlb::new(Host::default(), tags, Vec::leak(vec![Cpu::new(), Cpu::new()]))?;
        let tlb = &*Box::leak(Box::new(tlb));
        let space = Box::new(tlb.space(Root::new(0x1000), [AtomicU64::new(0)])?);
        for cpu in [1, 0] {
            CPU.set(cpu);
            tlb.online(&(), &())?;
            let _ = tlb.this_cpu(&()).switch(&space);
        }
        Ok(Self { tlb, space })
    }
}

impl<T: Tags<Host> + Sync> Shootdown for Lookaside<T>
where
    T::Cpu: Sync,
{
    fn shoot(&self, page: u64) {
        let mut gather = Gather::new(&self.space);
        gather.revoke(VaRange::new(page, 0x1000, 12).expect("a page"));
        let _ = self.tlb.this_cpu(&()).flush(gather);
    }

    fn handle(&self) {
        self.tlb.this_cpu(&()).handle_ipi();
    }

    fn interrupt(&self) -> &Interrupt {
        &self.tlb.platform().interrupt
    }
}

/// Nanoseconds for each shootdown, in one turn.
fn turn(protocol: &dyn Shootdown, cores: [CoreId; 2]) -> Result<f64, &'static str> {
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let target = scope.spawn(|| {
            CPU.set(1);
            let pinned = pin(cores[1]);
            ready.store(true, Ordering::Release);
            while !over.load(Ordering::Relaxed) {
                if protocol.interrupt().take() {
                    protocol.handle();
                } else {
                    core::hint::spin_loop();
                }
            }
            pinned
        });
        CPU.set(0);
        pin(cores[0])?;
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for page in 0..SHOOTDOWNS / 10 {
            protocol.shoot(u64::from(page) << 12);
        }
        let began = Instant::now();
        for page in 0..SHOOTDOWNS {
            protocol.shoot(u64::from(page) << 12);
        }
        let spent = began.elapsed();
        over.store(true, Ordering::Relaxed);
        target.join().expect("the target does not panic")?;
        Ok(spent.as_secs_f64() * 1e9 / f64::from(SHOOTDOWNS))
    })
}

/// Binds this thread to a core.
fn pin(core: CoreId) -> Result<(), &'static str> {
    core_affinity::set_for_current(core)
        .then_some(())
        .ok_or("this system binds no thread to a core")
}

/// The first quartile, the median and the third.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|part| values[values.len() * part / 4])
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(&[first, second, ..]) = core_affinity::get_core_ids().as_deref() else {
        return Err("a round trip takes two cores that this process may use".into());
    };
    let tags = 256;
    let words =
        Vec::leak((0..GlobalAsids::<Host>::words_for(tags)).map(|_| AtomicU64::new(0)).collect());
    let config = GlobalAsidsConfig { tags, ..Default::default() };
    let (per_cpu, global) =
        (PerCpuAsids::<6>::new(), GlobalAsids::new(&Host::default(), config, words)?);
    let (per_cpu, global) = (Lookaside::new(per_cpu)?, Lookaside::new(global)?);
    let (flag, queue, flags) = (Flag::default(), Queue::new(), Flags::new());
    let protocols: [(&str, &dyn Shootdown); 5] = [
        ("a bare flag and its answer", &flag),
        ("flags of completion, one lock (FreeBSD, 2016)", &flags),
        ("queues of calls, generations (Linux)", &queue),
        ("the library, per-CPU ASIDs", &per_cpu),
        ("the library, global ASIDs", &global),
    ];
    let mut times = protocols.map(|_| Vec::new());
    for _ in 0..TURNS {
        for ((_, protocol), times) in protocols.iter().zip(&mut times) {
            times.push(turn(*protocol, [first, second])?);
        }
    }
    println!(
        "{TURNS} turns of {SHOOTDOWNS} shootdowns, cores {} and {}; medians (quartiles)",
        first.id, second.id
    );
    for ((name, _), own) in protocols.iter().zip(&times) {
        let [low, time, high] = quartiles(own.clone());
        let ratios = own.iter().zip(&times[0]).map(|(own, flag)| own / flag).collect();
        let [least, ratio, most] = quartiles(ratios);
        println!(
            "{name:48} {time:6.0} ns ({low:.0} to {high:.0})  {ratio:.2}x ({least:.2} to {most:.2})"
        );
    }
    Ok(())
}
