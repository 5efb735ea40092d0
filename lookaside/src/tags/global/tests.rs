//! Interleavings of a CPU with others between two accesses to words: their outcome, and which CPU waits.
//!
//! * `mid_switch`: CPUs that a rollover meets between the write of `active` and the load of the root.
//! * `switching_in`: how a CPU finds the tag of a space.
//! * `leaving`: what is recorded of a tag that a CPU or a space leaves.
//! * `last_epoch`: CPUs that go on under a former tag when the last epoch begins.

extern crate std;
use core::{
    cell::{Cell, RefCell},
    panic::AssertUnwindSafe,
};
use std::{
    boxed::Box,
    panic::{catch_unwind, resume_unwind},
    thread_local,
    vec::Vec,
};

mod last_epoch;
mod leaving;
mod mid_switch;
mod switching_in;

use super::*;
use crate::{
    arch::{Errata, Invalidation, Properties, Root, Scope},
    costs::{Costs, OperationCosts},
    ids::Targets,
    range::VaRange,
    residency::Residents,
    tests::{Busy, keep, keep_mut},
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    /// What the latest load of a root did with entries under its tag.
    static HELD: Cell<Held> = const { Cell::new(Held::Drop) };
    /// What another CPU does as soon as one waits.
    static AWAITED: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A machine of which only the words are used. A CPU that waits while `AWAITED` is empty panics.
struct Paper {
    sharing: Sharing,
    broadcasts: bool,
}

// SAFETY: each test is one thread, which is one CPU at a time, and nothing is translated.
unsafe impl Platform for Paper {
    type Word = Busy;
    type Mmu = Self;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [Busy];

    fn root(root: &Root) -> Root {
        *root
    }

    fn has_stopped(&self, _: CpuId) -> bool {
        true // A pretended CPU executes nothing unless the test says so.
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &Self {
        self
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, _: Targets) {}

    fn relax(&self) {
        let Some(act) = AWAITED.take() else { panic!("CPU {} waits", CPU.get()) };
        act();
    }
}

/// Nothing is flushed.
const COSTS: Costs = {
    let each = OperationCosts { address: 1, tag: 1, wait: 1, ceiling: u64::MAX };
    Costs {
        local: each,
        broadcast: each,
        refill: 1,
        useful_entries: 1,
        ipi: 1,
        ipi_more: 1,
        retag: 1,
    }
};

impl Mmu for Paper {
    type Features = ();

    fn properties(&self) -> Properties {
        let Self { sharing, broadcasts, .. } = *self;
        Properties { sharing, broadcasts, ..Properties::plain(16, &COSTS) }
    }

    fn admit(&self, (): &()) -> Result<Errata, Error> {
        Ok(Errata::NONE)
    }

    fn check_root(&self, _: Root) -> Result<(), Error> {
        Ok(())
    }

    fn settle(&self) {}
    unsafe fn load(&self, _: Errata, _: Root, _: Tag, held: Held, _: Sharing) {
        HELD.set(held);
    }
    fn park(&self, _: Errata) {}
    fn flush(&self, _: Errata, _: Invalidation<'_>, _: Scope) {}
}

type Asids = GlobalAsids<'static, Paper>;
type Machine = &'static Tlb<'static, Paper, Asids>;

/// Five tags that spaces can have, of which one may be pinned.
const FEW: GlobalAsidsConfig =
    GlobalAsidsConfig { tags: 7, pins: 1, last_epoch: Cookie::LAST_EPOCH };

/// A machine whose CPUs are all up.
fn machine(sharing: Sharing, cpus: usize, config: GlobalAsidsConfig) -> Machine {
    machine_of(Paper { sharing, broadcasts: true }, cpus, config)
}

fn machine_of(platform: Paper, cpus: usize, config: GlobalAsidsConfig) -> Machine {
    let words: Vec<_> = (0..Asids::words_for(config.tags)).map(|_| Busy::ZERO).collect();
    let asids = GlobalAsids::new(&platform, config, keep_mut(words)).unwrap();
    let storage: Vec<_> = (0..cpus).map(|_| Cpu::new()).collect();
    let tlb: Machine = keep(Tlb::new(platform, asids, keep_mut(storage)).unwrap());
    for cpu in 0..cpus as u32 {
        on(cpu, || tlb.online(&(), &()).unwrap());
    }
    tlb
}

/// Three CPUs that do not use each other's entries.
fn private() -> Machine {
    machine(Sharing::Private, 3, FEW)
}

/// Runs `f` as the CPU with this number, until it waits.
fn on<R>(cpu: u32, f: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = catch_unwind(AssertUnwindSafe(f));
    CPU.set(before);
    result.unwrap_or_else(|waits| resume_unwind(waits))
}

/// Whether a CPU has to wait if it does this.
fn waits<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn this_cpu(tlb: Machine) -> CurrentCpu<'static, Paper, Asids> {
    tlb.this_cpu(&())
}

fn space(tlb: Machine) -> AddressSpace<Paper> {
    tlb.space(Root::new(4096), residents(tlb)).unwrap()
}

/// The words for the residency of a space.
fn residents(tlb: Machine) -> &'static mut [Busy] {
    let count = Residents::<Busy>::words_for(tlb.cpus().len());
    keep_mut((0..count).map(|_| Busy::ZERO).collect::<Vec<_>>())
}

fn lasting(tlb: Machine) -> &'static AddressSpace<Paper> {
    keep(space(tlb))
}

/// A space that has a tag, and that no CPU runs.
fn left(tlb: Machine) -> &'static AddressSpace<Paper> {
    let a = lasting(tlb);
    let _ = switch(tlb, 0, a);
    let _ = switch(tlb, 0, &space(tlb));
    a
}

fn switch(tlb: Machine, cpu: u32, space: &AddressSpace<Paper>) -> Switched {
    on(cpu, || this_cpu(tlb).switch(space))
}

/// `cpu` publishes that it switches to `space`, which has a tag, and stops before it loads the root.
fn stop_on_the_way(tlb: Machine, cpu: u32, space: &AddressSpace<Paper>) {
    on(cpu, || {
        let active = Cookie(this_cpu(tlb).cpu().active.cookie.get());
        assert!(GlobalAsids::adopt_epoch(&this_cpu(tlb).for_allocator(), active, space.cookie()));
    });
}

/// CPU 0 does a rollover.
fn turn(tlb: Machine) {
    on(0, || {
        let lock = tlb.tags().lock(tlb);
        tlb.tags().rollover(&this_cpu(tlb).for_allocator(), &lock);
    });
}
