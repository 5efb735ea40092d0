//! A machine whose CPUs are loom's threads.

use core::cell::Cell;
use std::sync::Mutex;

use lookaside::{
    AddressSpace, Cpu, CpuId, CurrentCpu, Event, Gather, GlobalAsids, GlobalAsidsConfig, Ordering,
    Outcome, PerCpuAsids, Platform, Residents, Tags, Targets, Tlb, VaRange,
};
use loom::{sync::atomic::AtomicU64, thread};

use crate::{
    arena::{keep, keep_mut},
    hardware::Hardware,
    word::{MAX_CPUS, Word, fork},
};

loom::thread_local! {
    /// The CPU that a thread is.
    static CPU: Cell<u32> = Cell::new(0);
}

/// The CPU that the calling thread is.
pub(crate) fn this_cpu() -> CpuId {
    CpuId(CPU.with(Cell::get))
}

/// Runs `f` as the CPU with this number.
pub fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.with(|this| this.replace(cpu));
    let result = f();
    CPU.with(|this| this.set(before));
    result
}

/// Of a CPU's bell: it was interrupted.
const RUNG: u64 = 1;
/// Of a CPU's bell: nobody will interrupt it any more.
const OVER: u64 = 2;

/// The platform.
pub struct Machine {
    hardware: Hardware,
    bells: Vec<AtomicU64>,
    /// How flushes ended. Not a part of the execution: it outlives it.
    seen: &'static Mutex<Vec<Outcome>>,
}

// SAFETY: a thread is a CPU, which has no interrupts but those that it takes; words are loom's atomics;
// the hardware is that of the calling thread; and a bell is rung with Release and heard with Acquire.
unsafe impl Platform for Machine {
    type Word = Word;
    type Mmu = Hardware;
    type IrqsOff = ();

    fn mmu(&self) -> &Hardware {
        &self.hardware
    }

    fn cpu(&self) -> CpuId {
        this_cpu()
    }

    fn send_ipi(&self, targets: Targets) {
        for cpu in targets.iter() {
            // What the contract asks for, and no more: what came before is visible to the handler.
            self.bells[cpu.index()].fetch_or(RUNG, Ordering::Release);
        }
    }

    fn relax(&self) {
        thread::yield_now();
    }

    fn observe(&self, event: Event) {
        if let Event::Flushed { outcome, .. } = event {
            let mut seen = self.seen.lock().expect("nobody panics with it");
            if !seen.contains(&outcome) {
                seen.push(outcome);
            }
        }
    }
}

/// A machine, its books and its spaces, for one execution.
///
/// Every CPU is up and parked. What is done [`on`] other CPUs before [`Self::start`] comes before all that
/// they do.
pub struct World<T: Tags<Machine> + 'static> {
    /// The books.
    pub tlb: &'static Tlb<'static, Machine, T>,
    /// The spaces, each with one page.
    pub spaces: Vec<AddressSpace<'static, Machine>>,
}

impl World<PerCpuAsids<2>> {
    /// On x86: `PerCpuAsids`, without a barrier where tables are published.
    pub fn recent(seen: &'static Mutex<Vec<Outcome>>, cpus: usize, spaces: usize) -> &'static Self {
        Self::build(seen, Hardware::new(cpus, spaces, false), cpus, spaces, |_| PerCpuAsids::new())
    }
}

impl World<GlobalAsids<'static, Machine>> {
    /// On Arm or RISC-V without broadcasts: `GlobalAsids`, with as few tags as there may be.
    pub fn epochs(seen: &'static Mutex<Vec<Outcome>>, cpus: usize, spaces: usize) -> &'static Self {
        let hardware = Hardware::new(cpus, spaces, true);
        // Reserved and borrowed; and one for each CPU and one more.
        let config = GlobalAsidsConfig { tags: cpus as u32 + 3, ..GlobalAsidsConfig::default() };
        Self::build(seen, hardware, cpus, spaces, |machine| {
            let words = words(GlobalAsids::<Machine>::words_for(config.tags));
            GlobalAsids::new(machine, config, words).expect("the hardware has tags")
        })
    }
}

impl<T: Tags<Machine> + 'static> World<T> {
    fn build(
        seen: &'static Mutex<Vec<Outcome>>,
        hardware: Hardware,
        cpus: usize,
        spaces: usize,
        tags: impl FnOnce(&Machine) -> T,
    ) -> &'static Self {
        assert!(cpus <= MAX_CPUS, "loom has five threads at most");
        let bells = (0..cpus).map(|_| AtomicU64::new(0)).collect();
        let machine = Machine { hardware, bells, seen };
        let tags = tags(&machine);
        let storage = keep_mut((0..cpus).map(|_| Cpu::new()).collect::<Vec<_>>());
        let tlb = keep(Tlb::new(machine, tags, storage).expect("the tags suffice"));
        let space = |number| {
            let residents = words(Residents::<Word>::words_for(cpus));
            // SAFETY: no hardware but ours walks this root, and `keep` leaves the space where it is.
            unsafe { tlb.space(Hardware::root(number), residents) }.expect("any root will do")
        };
        let world = keep(Self { tlb, spaces: (0..spaces).map(space).collect() });
        for cpu in 0..cpus {
            on(cpu as u32, || world.tlb.online(&(), &()).expect("any CPU will do"));
        }
        world
    }

    /// The CPU that calls.
    pub fn this_cpu(&self) -> CurrentCpu<'static, Machine, T> {
        self.tlb.this_cpu(&())
    }

    /// The hardware.
    pub fn hardware(&self) -> &'static Hardware {
        &self.tlb.platform().hardware
    }

    /// This CPU runs a space from here on.
    pub fn switch(&self, space: usize) {
        let _ = self.this_cpu().switch(&self.spaces[space]);
    }

    /// User code of this CPU reads its page.
    pub fn touch(&self) {
        self.hardware().touch();
    }

    /// Takes the page of a space away and flushes it: the frame goes to another owner.
    pub fn revoke(&self, space: usize) {
        let gather = self.unmap(space);
        let _ = self.this_cpu().flush(gather);
        self.hardware().reuse(space);
    }

    /// As [`Self::revoke`], but others answer before they flush.
    pub fn revoke_early(&self, space: usize) {
        let gather = self.unmap(space);
        let _ = self.this_cpu().flush_early(gather);
        self.hardware().reuse(space);
    }

    fn unmap(&self, space: usize) -> Gather<'_, Machine> {
        let mut gather = Gather::new(&self.spaces[space]);
        self.hardware().unmap(space);
        gather.revoke(page());
        gather
    }

    /// Flushes the page of a space, which stays where it is.
    pub fn flush(&self, space: usize) {
        let mut gather = Gather::new(&self.spaces[space]);
        gather.revoke(page());
        let _ = self.this_cpu().flush(gather);
    }

    /// Has a thread be the CPU with this number: it does `work`, and answers until nobody asks any more.
    pub fn start(
        &'static self,
        cpu: u32,
        work: impl FnOnce(&'static Self) + 'static,
    ) -> thread::JoinHandle<()> {
        fork();
        thread::spawn(move || {
            on(cpu, || {
                work(self);
                while self.acknowledge() {
                    thread::yield_now();
                }
            });
        })
    }

    /// Takes an interrupt if there is one, and says whether more may come.
    pub fn acknowledge(&self) -> bool {
        let bell = &self.tlb.platform().bells[this_cpu().index()];
        let rung = bell.fetch_and(!RUNG, Ordering::Acquire);
        if rung & RUNG != 0 {
            self.this_cpu().handle_ipi();
        }
        rung & OVER == 0
    }

    /// Has the CPU with this number stop when it has answered what it was asked, and waits for that.
    pub fn stop(&self, cpu: u32, thread: thread::JoinHandle<()>) {
        // Relaxed: nothing is to be learned from it.
        self.tlb.platform().bells[cpu as usize].fetch_or(OVER, Ordering::Relaxed);
        thread.join().expect("its failure is reported where it happened");
    }
}

fn words(count: usize) -> &'static mut [Word] {
    keep_mut((0..count).map(|_| Word::default()).collect::<Vec<_>>())
}

fn page() -> VaRange {
    VaRange::new(0x5000, 0x1000, 12).expect("a page")
}
