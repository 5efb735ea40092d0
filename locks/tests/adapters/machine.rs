//! A machine of two CPUs, each of which is a thread, and a kernel on it. No IPI ever arrives as an
//! interrupt: the CPUs keep interrupts off.

use core::{
    cell::Cell,
    marker::PhantomData,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};
use std::thread;

use lookaside::{
    AddressSpace, Cpu, Gather, PerCpuAsids, Platform, Tlb, VaRange,
    arch::Root,
    platform::{CpuId, Stuck, Targets},
};
use lookaside_locks::Kernel;
use lookaside_testkit::TestMmu;
use spin::RelaxStrategy;

/// After so many rounds of a waiting CPU that has handled no request, it never will.
const MANY: u64 = 1000;

pub(crate) type Machine = Tlb<'static, Threads, PerCpuAsids>;

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static IRQS_OFF: Cell<bool> = const { Cell::new(false) };
    static TLB: Cell<Option<&'static Machine>> = const { Cell::new(None) };
    /// How often this thread has called `relax`, and how often its platform has.
    static ROUNDS: Cell<u64> = const { Cell::new(0) };
    static WAITS: Cell<u64> = const { Cell::new(0) };
}

/// Interrupts are off on the CPU that this thread is.
pub(crate) struct IrqsOff(PhantomData<*const ()>);

pub(crate) struct Threads {
    /// How often CPU 1 has waited for a lock.
    rounds: AtomicU64,
    /// What `rounds` was when CPU 1 was last sent an IPI, and when CPU 0 last reported that it is stuck.
    at_ipi: AtomicU64,
    at_report: AtomicU64,
    /// CPU 1 has waited [`MANY`] times since the IPI, and CPU 0 has looked for the acknowledgement after
    /// that.
    deadlocked: AtomicBool,
}

/// The thread is a CPU with interrupts off from here on.
pub(crate) fn become_cpu(cpu: u32, tlb: Option<&'static Machine>) {
    CPU.set(cpu);
    IRQS_OFF.set(true);
    TLB.set(tlb);
}

/// The CPU that this thread is takes interrupts from here on.
pub(crate) fn irqs_on() {
    IRQS_OFF.set(false);
}

/// How often this thread has called `relax`.
pub(crate) fn rounds() -> u64 {
    ROUNDS.get()
}

/// A machine of which no CPU is online.
pub(crate) fn machine() -> &'static Machine {
    let threads = Threads {
        rounds: AtomicU64::new(0),
        at_ipi: AtomicU64::new(0),
        at_report: AtomicU64::new(0),
        deadlocked: AtomicBool::new(false),
    };
    let cpus = Vec::leak((0..2).map(|_| Cpu::new()).collect());
    Box::leak(Box::new(Tlb::new(threads, PerCpuAsids::new(), cpus).unwrap()))
}

/// CPU 0 flushes a space under a lock for which CPU 1 spins, while it runs the same space. Returns whether
/// the two came to wait for each other; they are then helped out.
///
/// `hold` calls its argument with the lock held, and `wait` takes the lock and releases it.
pub(crate) fn flush_under_lock(
    hold: impl FnOnce(&dyn Fn()) + Send,
    wait: impl FnOnce() + Send,
) -> bool {
    let tlb = machine();
    let space = tlb.space(Root::new(0x1000), [AtomicU64::new(0)]).unwrap();
    let (runs, held) = (AtomicBool::new(false), AtomicBool::new(false));
    let until = |done: &dyn Fn() -> bool| {
        while !done() {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            start(0, tlb, &space);
            until(&|| runs.load(SeqCst));
            hold(&|| {
                held.store(true, SeqCst);
                until(&|| tlb.platform().rounds.load(SeqCst) > 0);
                let mut gather = Gather::new(&space);
                gather.revoke(VaRange::new(0x5000, 4096, 12).unwrap());
                let _ = tlb.this_cpu(&IrqsOff(PhantomData)).flush(gather);
            });
        });
        scope.spawn(|| {
            start(1, tlb, &space);
            runs.store(true, SeqCst);
            until(&|| held.load(SeqCst));
            wait();
        });
    });
    tlb.platform().deadlocked.load(SeqCst)
}

fn start(cpu: u32, tlb: &'static Machine, space: &AddressSpace<Threads>) {
    become_cpu(cpu, Some(tlb));
    let irqs_off = IrqsOff(PhantomData);
    tlb.online(&irqs_off, &()).unwrap();
    let _ = tlb.this_cpu(&irqs_off).switch(space);
}

/// A wait that is no concern of the library, as locks have it that were not made for it.
pub(crate) struct Deaf;

impl RelaxStrategy for Deaf {
    fn relax() {
        let Some(tlb) = TLB.get() else { return thread::yield_now() };
        count_round(tlb);
        tlb.platform().relax();
    }
}

/// The kernel.
pub(crate) enum Test {}

impl Kernel for Test {
    type Tlb = Machine;

    fn tlb() -> Option<&'static Machine> {
        ROUNDS.set(ROUNDS.get() + 1);
        TLB.get()
    }

    fn irqs_off() -> Option<IrqsOff> {
        if let Some(tlb) = TLB.get() {
            count_round(tlb);
        }
        IRQS_OFF.get().then_some(IrqsOff(PhantomData))
    }
}

/// A CPU waits for a lock. If that is a deadlock, which is noted by now, it is resolved.
fn count_round(tlb: &'static Machine) {
    if CPU.get() == 1 {
        tlb.platform().rounds.fetch_add(1, SeqCst);
        if tlb.platform().deadlocked.load(SeqCst) {
            tlb.this_cpu(&IrqsOff(PhantomData)).handle_ipi();
        }
    }
}

// SAFETY: each thread is a CPU with a number of its own.
unsafe impl Platform for Threads {
    type Word = AtomicU64;
    type Mmu = TestMmu<()>;
    type IrqsOff = IrqsOff;
    type Tables = Root;
    type ResidentWords = [AtomicU64; 1];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &TestMmu<()> {
        &TestMmu(())
    }

    fn cpu(&self) -> CpuId {
        assert!(IRQS_OFF.get(), "the thread may move to another CPU");
        CpuId(CPU.get())
    }

    fn irqs_are_off(&self) -> bool {
        IRQS_OFF.get()
    }

    fn send_ipi(&self, _: Targets) {
        self.at_ipi.store(self.rounds.load(SeqCst), SeqCst);
    }

    fn relax(&self) {
        // A CPU that is stuck waits for millions of rounds. On a busy host each yield can take milliseconds.
        let waits = WAITS.get();
        WAITS.set(waits + 1);
        if waits.is_multiple_of(256) {
            thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }

    fn stuck(&self, wait: &Stuck) {
        assert_eq!((wait.waiting, wait.target), (CpuId(0), CpuId(1)));
        // Since the last report CPU 0 has looked for the acknowledgement again.
        let before = self.at_report.swap(self.rounds.load(SeqCst), SeqCst);
        if before >= self.at_ipi.load(SeqCst) + MANY {
            self.deadlocked.store(true, SeqCst);
        }
    }
}
