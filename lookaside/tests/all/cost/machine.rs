//! A machine whose words count how often they are accessed.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::AtomicU64,
};
use std::rc::Rc;

use lookaside::{
    Cpu, GlobalAsids, PerCpuAsids, Platform, Tlb,
    arch::{Held, Invalidation, Properties, Root, Scope, Tag},
    platform::{Costs, CpuId, Ordering, Targets, Word},
    tags::{GlobalAsidsConfig, Tags},
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

use super::on;

// ---- Words that count

/// What was done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Load,
    Store,
    /// Read, modified and written in one.
    Rmw,
}

/// What a CPU does that is interrupted.
pub(super) type Serve = Rc<dyn Fn(u32)>;

thread_local! {
    pub(super) static ACCESSES: RefCell<Vec<(usize, Kind)>> = const { RefCell::new(Vec::new()) };
    /// How often a TLB was told to forget something.
    pub(super) static FLUSHES: Cell<usize> = const { Cell::new(0) };
    pub(super) static CPU: Cell<u32> = const { Cell::new(0) };
    /// Who was interrupted and has not served.
    pub(super) static PENDING: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// How many accesses there had been at each invalidation.
    pub(super) static FLUSHED_AT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// Serves as a CPU.
    pub(super) static SERVE: RefCell<Option<Serve>> = const { RefCell::new(None) };
}

pub(super) struct Counted(AtomicU64);

impl Counted {
    fn note(&self, kind: Kind) -> &AtomicU64 {
        let accesses = ACCESSES.with_borrow_mut(|all| {
            all.push((core::ptr::from_ref(self).addr(), kind));
            all.len()
        });
        assert!(accesses < 1 << 20, "this does not end");
        &self.0
    }
}

impl Word for Counted {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the constant is a template: each use makes a word of its own"
    )]
    const ZERO: Self = Self(AtomicU64::new(0));

    fn load(&self, order: Ordering) -> u64 {
        self.note(Kind::Load).load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.note(Kind::Store).store(value, order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).swap(value, order)
    }

    fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.note(Kind::Rmw).compare_exchange(current, new, success, failure)
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).fetch_add(value, order)
    }

    fn fetch_or(&self, bits: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).fetch_or(bits, order)
    }

    fn fetch_and(&self, bits: u64, order: Ordering) -> u64 {
        self.note(Kind::Rmw).fetch_and(bits, order)
    }

    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }
}

// ---- The machine

pub(super) struct Host {
    pub(super) mmu: TestMmu<HostMmu>,
}

#[derive(Clone, Copy)]
pub(super) struct HostMmu {
    pub(super) broadcasts: bool,
    /// Whether a freed table concerns CPUs that hold entries of the space, too, and a broadcast is cheaper than any IPI.
    pub(super) arm: bool,
}

impl HostMmu {
    pub(super) const fn plain(broadcasts: bool) -> Self {
        Self { broadcasts, arm: false }
    }
}

// SAFETY: there is one thread, which is one CPU at a time.
unsafe impl Platform for Host {
    type Word = Counted;
    type Mmu = TestMmu<HostMmu>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [Counted];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &TestMmu<HostMmu> {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, targets: Targets) {
        PENDING.with_borrow_mut(|pending| pending.extend(targets.iter().map(|cpu| cpu.0)));
    }

    fn relax(&self) {
        let before = CPU.get();
        let serve = SERVE.with_borrow(Clone::clone).expect("somebody serves");
        for cpu in PENDING.take() {
            serve(cpu);
        }
        CPU.set(before);
    }
}

pub(super) fn flushed() {
    FLUSHES.set(FLUSHES.get() + 1);
    let accesses = ACCESSES.with_borrow(Vec::len);
    FLUSHED_AT.with_borrow_mut(|all| all.push(accesses));
}

impl Hardware for HostMmu {
    fn properties(&self) -> Properties {
        // A fresh tag never pays.
        const COSTLY_TAGS: Costs = Costs { retag: 1000, ..COSTS };
        const COSTLY_IPIS: Costs = Costs { ipi: 1000, ..COSTLY_TAGS };
        let &Self { broadcasts, arm: walks_outlive_tags } = self;
        let costs = if walks_outlive_tags { &COSTLY_IPIS } else { &COSTLY_TAGS };
        Properties { broadcasts, walks_outlive_tags, ..Properties::plain(16, costs) }
    }

    fn load(&self, _: Root, _: Tag, held: Held) {
        if held == Held::Drop {
            flushed();
        }
    }

    fn flush(&self, entries: Invalidation<'_>, _: Scope) {
        if !matches!(entries, Invalidation::Kernel { .. }) {
            flushed();
        }
    }
}

pub(super) fn words(count: usize) -> &'static mut [Counted] {
    Vec::leak((0..count).map(|_| Counted::ZERO).collect())
}

pub(super) type Machine<T> = Tlb<'static, Host, T>;

pub(super) const CPUS: usize = 2;
/// As many as the largest machines have that one kernel runs on.
pub(super) const MANY: usize = 4096;

pub(super) fn machine<T: Tags<Host> + 'static>(
    tags: T,
    cpus: usize,
    mmu: HostMmu,
) -> &'static Machine<T> {
    let storage = Vec::leak((0..cpus).map(|_| Cpu::new()).collect());
    let tlb = Tlb::new(Host { mmu: TestMmu(mmu) }, tags, storage).unwrap();
    let tlb: &'static _ = Box::leak(Box::new(tlb));
    for cpu in 0..cpus as u32 {
        CPU.set(cpu);
        tlb.online(&(), &()).unwrap();
    }
    SERVE.set(Some(Rc::new(move |cpu| on(cpu, tlb, |this_cpu| this_cpu.handle_ipi()))));
    tlb
}

pub(super) fn recent(cpus: usize) -> &'static Machine<PerCpuAsids<6>> {
    machine(PerCpuAsids::new(), cpus, HostMmu::plain(false))
}

pub(super) fn epochs_of(
    cpus: usize,
    broadcasts: bool,
) -> &'static Machine<GlobalAsids<'static, Host>> {
    epochs_on(cpus, HostMmu::plain(broadcasts))
}

pub(super) fn epochs_on(cpus: usize, mmu: HostMmu) -> &'static Machine<GlobalAsids<'static, Host>> {
    let (host, config) = (Host { mmu: TestMmu(mmu) }, GlobalAsidsConfig::default());
    let storage = words(GlobalAsids::<Host>::words_for(config.tags));
    machine(GlobalAsids::new(&host, config, storage).unwrap(), cpus, mmu)
}

pub(super) fn epochs() -> &'static Machine<GlobalAsids<'static, Host>> {
    epochs_of(CPUS, true)
}
