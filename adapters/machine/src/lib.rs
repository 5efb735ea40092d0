//! The machine on which the examples and tests of the adapters run: some CPUs, all of them played by the thread that
//! calls, and a record of what each CPU's TLB was told to forget.
//!
//! Nothing is broadcast here, as on x86-64: a CPU forgets what it was told itself, in its IPI handler or by its own
//! flush.

use core::{cell::Cell, marker::PhantomData, sync::atomic::AtomicU64};
use std::sync::{Mutex, OnceLock};

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, Platform, Tlb, VaRange,
    arch::{Invalidation, Root, Scope, TableChange},
    platform::{Costs, CpuId, Targets},
    tags::{Asids, AsidsConfig},
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` as the CPU with this number.
pub fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = f();
    CPU.set(before);
    result
}

/// What a TLB was told to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Pages and blocks of the space that it runs.
    Pages(Vec<VaRange>),
    /// The same, and what walks have cached of tables.
    PagesAndTables(Vec<VaRange>),
    /// Kernel addresses.
    Kernel(Vec<VaRange>),
    /// Kernel addresses, and what walks have cached of tables.
    KernelAndTables(Vec<VaRange>),
    /// All that it holds of one space, or of all.
    Everything,
}

/// Records what the TLBs are told.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<(u32, Forget)>>);

/// Addresses are cheap here, so that they are flushed one by one.
static CHEAP_ADDRESSES: Costs = Costs { useful_entries: 1 << 20, ..COSTS };

impl Hardware for Recorder {
    fn properties(&self) -> lookaside::arch::Properties {
        lookaside::arch::Properties::plain(12, &CHEAP_ADDRESSES)
    }

    fn flush(&self, entries: Invalidation<'_>, scope: Scope) {
        assert_eq!(scope, Scope::Local, "nothing is broadcast on this machine");
        let forget = match entries {
            Invalidation::All | Invalidation::Tag(_) => Forget::Everything,
            Invalidation::Ranges { ranges, change: TableChange::LastLevel, .. } => {
                Forget::Pages(ranges.to_vec())
            }
            Invalidation::Ranges { ranges, .. } => Forget::PagesAndTables(ranges.to_vec()),
            Invalidation::Kernel { ranges: [], .. } => Forget::Everything,
            Invalidation::Kernel { ranges, change: TableChange::LastLevel } => {
                Forget::Kernel(ranges.to_vec())
            }
            Invalidation::Kernel { ranges, .. } => Forget::KernelAndTables(ranges.to_vec()),
        };
        let mut told = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        told.push((CPU.get(), forget));
    }

    fn operations(&self, range: &VaRange, _: TableChange, _: Scope) -> Option<u64> {
        Some(range.pages())
    }
}

/// The guard of a kernel that keeps interrupts off.
#[derive(Debug)]
pub struct IrqsOff(PhantomData<*const ()>);

/// Interrupts are off from here on.
#[must_use]
pub const fn irqs_off() -> IrqsOff {
    IrqsOff(PhantomData)
}

/// The platform. CPUs handle their requests as soon as they are interrupted.
#[derive(Debug, Default)]
pub struct Machine {
    mmu: TestMmu<Recorder>,
    tlb: OnceLock<&'static Tlb<'static, Machine>>,
}

// SAFETY: nothing is translated on this machine.
unsafe impl Platform for Machine {
    type Word = AtomicU64;
    type Mmu = TestMmu<Recorder>;
    type IrqsOff = IrqsOff;
    type Tables = Root;
    type ResidentWords = [AtomicU64; 1];

    fn root(tables: &Root) -> Root {
        *tables
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &Self::Mmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, targets: Targets) {
        if let Some(tlb) = self.tlb.get() {
            for cpu in targets.iter() {
                on(cpu.0, || tlb.this_cpu(&irqs_off()).handle_ipi());
            }
        }
    }

    fn relax(&self) {}
}

/// A machine whose CPUs are online.
///
/// # Errors
///
/// None, as long as `cpus` is not zero and below 33.
pub fn machine(cpus: u32) -> Result<&'static Tlb<'static, Machine>, Error> {
    let words = (0..Asids::<Machine>::words_for(1 << 12)).map(|_| AtomicU64::new(0));
    let asids = Asids::new(AsidsConfig::default(), Box::leak(words.collect()));
    let storage: Vec<Cpu<Machine>> = (0..cpus).map(|_| Cpu::new()).collect();
    let tlb = Tlb::new(Machine::default(), asids, storage.leak())?;
    let tlb: &'static _ = Box::leak(Box::new(tlb));
    let _ = tlb.platform().tlb.set(tlb);
    for cpu in 0..cpus {
        on(cpu, || tlb.online(&irqs_off(), &()))?;
    }
    let _ = told(tlb);
    Ok(tlb)
}

/// A space with this root table, which each of `cpus` runs.
///
/// # Errors
///
/// None on this machine.
pub fn space_on(
    tlb: &'static Tlb<'static, Machine>,
    root: u64,
    cpus: &[u32],
) -> Result<&'static AddressSpace<Machine>, Error> {
    let space = tlb.space(Root::new(root), [AtomicU64::new(0)])?;
    let space: &'static _ = Box::leak(Box::new(space));
    for &cpu in cpus {
        let _ = on(cpu, || this_cpu(tlb).switch(space));
    }
    let _ = told(tlb);
    Ok(space)
}

/// The CPU that the thread plays now.
#[must_use]
pub fn this_cpu(tlb: &'static Tlb<'static, Machine>) -> CurrentCpu<'static, Machine> {
    const IRQS_OFF: IrqsOff = irqs_off();
    tlb.this_cpu(&IRQS_OFF)
}

/// What the TLBs were told since the last question, by CPU.
#[must_use]
pub fn told(tlb: &Tlb<'static, Machine>) -> Vec<(u32, Forget)> {
    let told = &tlb.platform().mmu.0.0;
    let mut told =
        core::mem::take(&mut *told.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    told.sort_by_key(|&(cpu, _)| cpu);
    told
}

/// `pages` pages of `1 << shift` bytes from `start`.
///
/// # Panics
///
/// If there is no such range.
#[must_use]
pub fn pages(start: u64, pages: u64, shift: u32) -> VaRange {
    match VaRange::new(start, pages << shift, shift) {
        Ok(range) => range,
        Err(error) => panic!("{error}"),
    }
}
