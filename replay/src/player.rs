//! What the programs of the modelled CPUs share, and what is counted of them.

use core::{
    cell::{Cell, RefCell},
    iter,
};

use hdrhistogram::Histogram;
use lookaside::platform::CpuId;
use lookaside_machine::timed::{self, AccountId, Price, Ps, World};
use lookaside_simulation::kernel::{Kernel, Process};
use lookaside_terminal::Refused;
use lookaside_traces::reconstruct::Script;

use super::{
    Setup,
    accesses::Pages,
    accounts::Accounts,
    plan::Plan,
    program::{Duty, Program},
};

/// A nanosecond, in picoseconds.
pub(super) const NS: Ps = 1000;
pub(super) const US: Ps = 1000 * NS;
const MS: Ps = 1000 * US;

/// When the trace begins: by then every CPU is up.
pub(super) const START: Ps = 50 * MS;
/// Copies begin at most so long after the recorded CPUs, at random, so that they do not run in lockstep.
const SHIFT: Ps = MS;

/// One modelled space: a recorded one, or a copy of it.
#[derive(Default)]
pub(super) struct Space {
    pub(super) process: Cell<Option<Process>>,
    /// How many recorded CPUs run it here.
    pub(super) runners: Cell<u32>,
    /// How many copies of its end have come.
    pub(super) ends: Cell<u32>,
    pub(super) ended: Cell<bool>,
    pub(super) pages: RefCell<Pages>,
}

/// How long operations took, by kind.
pub(super) type Latencies = [Histogram<u64>; 3];
/// The names of the kinds.
pub(super) const KINDS: [&str; 3] = ["flush", "switch", "handler"];

/// The state that all programs share.
pub(super) struct Player<'a> {
    pub(super) script: &'a Script,
    pub(super) setup: &'a Setup<'a>,
    pub(super) plan: &'a Plan,
    pub(super) accounts: &'a Accounts,
    pub(super) kernel: Result<Kernel<'a>, Refused>,
    pub(super) spaces: Vec<Space>,
    /// How many steps each duty has done; all of them for duties that nobody has.
    pub(super) done: Vec<Cell<u32>>,
    /// How much later each copy begins.
    pub(super) shifts: Vec<Ps>,
    /// For each CPU the account that refills are charged to, and until when.
    pub(super) refills: Vec<Cell<(AccountId, Ps)>>,
    pub(super) latencies: RefCell<Latencies>,
    /// The number of operations of each account.
    pub(super) counts: Vec<Cell<u64>>,
    pub(super) switches: Cell<u64>,
    pub(super) flushes: Cell<u64>,
    pub(super) steps: Cell<u64>,
}

impl<'a> Player<'a> {
    /// Called while a world is being built.
    pub(super) fn new(
        script: &'a Script,
        setup: &'a Setup<'a>,
        plan: &'a Plan,
        accounts: &'a Accounts,
        kernel: Result<Kernel<'a>, Refused>,
    ) -> Self {
        let recorded = script.cpus.len();
        let mut done = vec![Cell::new(u32::MAX); recorded * plan.copies];
        for cpu in 0..plan.cpus {
            let (duties, copy) = plan.duties(cpu);
            duties.for_each(|duty| done[copy * recorded + duty] = Cell::new(0));
        }
        timed::keep_bills(accounts.count());
        let shift = |copy| if copy == 0 { 0 } else { timed::random_below(SHIFT) };
        let histogram = || Histogram::new(3).expect("three digits are possible");
        Self {
            script,
            setup,
            plan,
            accounts,
            kernel,
            spaces: iter::repeat_with(Space::default)
                .take(script.spaces.len() * plan.copies)
                .collect(),
            done,
            shifts: (0..plan.copies).map(shift).collect(),
            refills: vec![Cell::default(); plan.cpus],
            latencies: RefCell::new([histogram(), histogram(), histogram()]),
            counts: vec![Cell::new(0); accounts.count() as usize],
            switches: Cell::new(0),
            flushes: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    /// Executes an operation, records how long it took, and returns its result.
    pub(super) fn timed<R>(&self, kind: usize, besides: Ps, f: impl FnOnce() -> R) -> R {
        let begin = timed::now();
        let result = f();
        let time = timed::now() - begin + besides;
        let recorded = self.latencies.borrow_mut()[kind].record(time);
        recorded.expect("a histogram grows as it must");
        result
    }

    pub(super) fn count(&self, account: AccountId) {
        let count = &self.counts[account.0 as usize];
        count.set(count.get() + 1);
    }

    /// Charges refills on this CPU to an account from now on, until the hot pages have been used once.
    pub(super) fn refills_for(&self, account: AccountId) {
        let until = timed::now() + self.setup.working_set.window * NS;
        self.refills[timed::cpu().index()].set((account, until));
    }
}

impl World for Player<'_> {
    fn run(&self, cpu: CpuId) {
        let Ok(kernel) = &self.kernel else { return };
        // One after the other, as kernels bring CPUs up.
        timed::idle_until(u64::from(cpu.0) * US);
        kernel.online();
        assert!(timed::now() < START, "a CPU takes too long to come up");
        let (duties, copy) = self.plan.duties(cpu.index());
        let recorded = self.script.cpus.len();
        let duty = |number: usize| {
            let (steps, waits) = (&self.script.cpus[number], &self.plan.waits[number]);
            Duty::new(steps, waits, copy * recorded + number)
        };
        Program::new(self, kernel, copy, duties.map(duty).collect()).run();
    }

    fn interrupt(&self) {
        let Ok(kernel) = &self.kernel else { return };
        let prices = &self.setup.machine.model.prices;
        let besides = prices.charge(Price::InterruptEntry) + prices.charge(Price::InterruptExit);
        self.timed(2, besides, || kernel.handle_ipi());
        self.refills_for(timed::initiator());
    }
}
