//! The timed machine as the library's platform.

use lookaside::{Costs, CpuId, Event, Targets, arch::Mmu};

use super::{current::step, program, word::Word};

/// The platform of a simulated kernel, over any of the library's architectures: for Arm, `M` is the
/// library's own `Aarch64` over [`crate::timed::arm::Insn`].
#[derive(Clone, Copy, Debug)]
pub struct Platform<M> {
    mmu: M,
    costs: Costs,
    observer: fn(Event),
}

impl<M: Mmu> Platform<M> {
    /// A platform with the given translation hardware and what the kernel thinks that things cost.
    pub const fn new(mmu: M, costs: Costs) -> Self {
        Self { mmu, costs, observer: |_| () }
    }

    /// The same with an observer of the library's events.
    #[must_use]
    pub const fn with_observer(mut self, observer: fn(Event)) -> Self {
        self.observer = observer;
        self
    }
}

// SAFETY: `cpu` is the CPU whose program runs, and a program never moves. A `Word` behaves as an
// atomic on a machine where every operation takes effect at once and in one order. The instructions
// act on the CPU that runs. An interrupt waits for the stores of its sender.
unsafe impl<M: Mmu> lookaside::Platform for Platform<M> {
    type Word = Word;
    type Mmu = M;
    type IrqsOff = ();

    #[inline]
    fn mmu(&self) -> &M {
        &self.mmu
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        program::cpu()
    }

    #[inline]
    fn costs(&self) -> Costs {
        self.costs
    }

    fn observe(&self, event: Event) {
        (self.observer)(event);
    }

    fn send_ipi(&self, targets: Targets) {
        step(|machine| machine.interrupt(targets.first.0, targets.mask));
    }

    fn relax(&self) {
        program::relax();
    }
}
