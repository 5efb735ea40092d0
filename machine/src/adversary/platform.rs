//! The machine as the library's platform.

use lookaside::{
    arch::{Mmu, Root},
    counts::Event,
    platform::{Costs, CpuId, OperationCosts, Targets},
};

use super::{
    current::{self, step},
    format::Frame,
    op::Op,
    tables,
    violation::Rule,
    word::Word,
};

/// The platform of a simulated kernel, over any of the library's architectures: for Arm, `M` is
/// the library's own `Aarch64` over [`crate::adversary::arm::Insn`].
#[derive(Clone, Copy, Debug)]
pub struct Platform<M> {
    mmu: M,
    costs: Costs,
    observer: fn(Event),
}

/// Costs that make every way of flushing the best one somewhere: two pages by address, more by tag;
/// a broadcast rather than an interrupt; and the three entries that a CPU holds cost as much as one
/// broadcast.
pub const COSTS: Costs = Costs {
    local: OperationCosts { address: 1, tag: 2, wait: 1, ceiling: u64::MAX },
    broadcast: OperationCosts { address: 1, tag: 1, wait: 3, ceiling: u64::MAX },
    refill: 1,
    useful_entries: 3,
    ipi: 100,
    ipi_more: 10,
    retag: 4,
};

impl<M> Platform<M> {
    /// A platform with the given translation hardware.
    pub const fn new(mmu: M) -> Self {
        Self { mmu, costs: COSTS, observer: |_| () }
    }

    /// The same with an observer of the library's events.
    #[must_use]
    pub const fn with_observer(mut self, observer: fn(Event)) -> Self {
        self.observer = observer;
        self
    }

    /// The same with other costs.
    #[must_use]
    pub const fn with_costs(mut self, costs: Costs) -> Self {
        self.costs = costs;
        self
    }
}

// SAFETY: `cpu` is the CPU whose program runs, and a program never moves. A `Word` behaves as an
// atomic on a machine with store buffers: each of its operations is one step, an RMW acts on
// memory, and orderings and fences hold buffered stores back as they must. The instructions act on
// the CPU that runs. `Interrupt` empties the store buffer before it reaches any CPU.
unsafe impl<M: Mmu> lookaside::Platform for Platform<M> {
    type Word = Word;
    type Mmu = M;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = Box<[Word]>;

    fn root(root: &Root) -> Root {
        *root
    }

    fn root_on(root: &Root, cpu: CpuId) -> Root {
        let top = |table: u64| match table {
            0 => 0,
            table => tables::top(Frame(table >> 12), cpu).0 << 12,
        };
        Root { table: top(root.table), user_table: top(root.user_table) }
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &M {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        current::with(|machine| {
            let cpu = machine.running;
            if machine.takes_interrupts(cpu) {
                let text = format!("CPU {cpu} asks which CPU it is, with interrupts on");
                machine.fail(Rule::Misuse, text);
            }
            CpuId(cpu as u32)
        })
    }

    /// On a machine without interrupts they are off at all times.
    fn irqs_are_off(&self) -> bool {
        current::with(|machine| !machine.takes_interrupts(machine.running))
    }

    fn has_stopped(&self, _: CpuId) -> bool {
        true // A scenario reports only a CPU that executes nothing.
    }

    fn costs(&self) -> &Costs {
        &self.costs
    }

    fn observe(&self, _: CpuId, event: Event) {
        (self.observer)(event);
    }

    #[track_caller]
    fn send_ipi(&self, targets: Targets) {
        let mask = targets.mask.checked_shl(targets.first.0).unwrap_or(0);
        current::with(|machine| {
            let cpu = machine.running;
            if mask & 1 << cpu != 0 {
                machine.fail(Rule::Misuse, format!("CPU {cpu} interrupts itself"));
            }
        });
        interrupt(mask);
    }

    #[track_caller]
    fn relax(&self) {
        relax();
    }
}

/// Interrupts the CPUs of a mask, except the one that runs.
#[track_caller]
pub fn interrupt(mask: u64) {
    step(Op::Interrupt(mask));
}

/// Waits until memory has changed since this CPU last waited, or an interrupt has been handled.
///
/// A program that read the same words and got the same results in two rounds, between one call and the
/// next, is taken to be in the same state: it must not count rounds. A program that does hides executions
/// from [`Explorer::exhaust`](crate::explore::Explorer::exhaust).
#[track_caller]
pub fn relax() {
    step(Op::Relax);
}
