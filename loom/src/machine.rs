//! A machine whose CPUs are loom's threads.

use core::{cell::Cell, mem::ManuallyDrop};
use std::sync::Mutex;

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Gather, GlobalAsids, PerCpuAsids, Platform, Tlb, VaRange,
    counts::{Event, Outcome},
    platform::{CpuId, Ordering, Targets},
    tags::{GlobalAsidsConfig, Residents, Tags},
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

/// A bit of a CPU's pending word: an IPI was sent to it.
const IPI: u64 = 1;
/// A bit of a CPU's pending word: no CPU will send it another IPI.
const OVER: u64 = 2;

/// The platform.
pub struct Machine {
    hardware: Hardware,
    pending: Vec<AtomicU64>,
    /// How flushes ended. Not a part of the execution: it outlives it.
    seen: &'static Mutex<Vec<Outcome>>,
}

// SAFETY: a thread is a CPU, which has no interrupts but those that it takes; words are loom's atomics;
// the hardware is that of the calling thread; an IPI is sent with Release and taken with Acquire.
unsafe impl Platform for Machine {
    type Word = Word;
    type Mmu = Hardware;
    type IrqsOff = ();
    type Tables = lookaside::arch::Root;
    type ResidentWords = &'static mut [Word];

    fn root(root: &lookaside::arch::Root) -> lookaside::arch::Root {
        *root
    }

    fn mmu(&self) -> &Hardware {
        &self.hardware
    }

    fn cpu(&self) -> CpuId {
        this_cpu()
    }

    fn send_ipi(&self, targets: Targets) {
        for cpu in targets.iter() {
            // As weak as the contract allows: earlier stores are visible to the handler.
            self.pending[cpu.index()].fetch_or(IPI, Ordering::Release);
        }
    }

    fn relax(&self) {
        thread::yield_now();
    }

    fn observe(&self, _: CpuId, event: Event) {
        if let Event::Flushed { outcome, .. } = event {
            let mut seen = self.seen.lock().expect("nobody panics with it");
            if !seen.contains(&outcome) {
                seen.push(outcome);
            }
        }
    }
}

/// A machine, its `Tlb` and its spaces, for one execution.
///
/// Every CPU is online and parked. Operations [`on`] other CPUs before [`Self::start`] come before all
/// operations of their threads.
pub struct World<T: Tags<Machine> + 'static> {
    /// The library's state.
    pub tlb: &'static Tlb<'static, Machine, T>,
    /// The spaces, each with one page. Their words are not read after the execution.
    pub spaces: Vec<ManuallyDrop<AddressSpace<Machine>>>,
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
        // The reserved tag and that of `with_root`; one for each CPU and one more.
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
        let pending = (0..cpus).map(|_| AtomicU64::new(0)).collect();
        let machine = Machine { hardware, pending, seen };
        let tags = tags(&machine);
        let storage = keep_mut((0..cpus).map(|_| Cpu::new()).collect::<Vec<_>>());
        let tlb = keep(Tlb::new(machine, tags, storage).expect("the tags suffice"));
        let space = |number| {
            let residents = words(Residents::<Word>::words_for(cpus));
            ManuallyDrop::new(
                tlb.space(Hardware::root(number), residents).expect("any root will do"),
            )
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

    /// Switches this CPU to a space.
    pub fn switch(&self, space: usize) {
        let _ = self.this_cpu().switch(&self.spaces[space]);
    }

    /// User code of this CPU reads its page.
    pub fn touch(&self) {
        self.hardware().touch();
    }

    /// Unmaps the page of a space and flushes it, then gives the frame to another owner.
    pub fn revoke(&self, space: usize) {
        let gather = self.unmap(space);
        let _ = self.this_cpu().flush(gather);
        self.hardware().reuse(space);
    }

    /// As [`Self::revoke`], but targets acknowledge before they flush.
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

    /// Flushes the page of a space, which stays mapped.
    pub fn flush(&self, space: usize) {
        let mut gather = Gather::new(&self.spaces[space]);
        gather.revoke(page());
        let _ = self.this_cpu().flush(gather);
    }

    /// Starts the thread of the CPU with this number: it does `work`, and then takes IPIs until
    /// [`Self::stop`].
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

    /// Takes a pending IPI, and returns whether more may come.
    pub fn acknowledge(&self) -> bool {
        let word = &self.tlb.platform().pending[this_cpu().index()];
        let pending = word.fetch_and(!IPI, Ordering::Acquire);
        if pending & IPI != 0 {
            self.this_cpu().handle_ipi();
        }
        pending & OVER == 0
    }

    /// Makes the thread of the CPU with this number end after its pending IPI, and waits for that.
    pub fn stop(&self, cpu: u32, thread: thread::JoinHandle<()>) {
        // Relaxed: the bit orders nothing.
        self.tlb.platform().pending[cpu as usize].fetch_or(OVER, Ordering::Relaxed);
        thread.join().expect("its failure is reported where it happened");
    }
}

fn words(count: usize) -> &'static mut [Word] {
    keep_mut((0..count).map(|_| Word::default()).collect::<Vec<_>>())
}

fn page() -> VaRange {
    VaRange::new(0x5000, 0x1000, 12).expect("a page")
}
