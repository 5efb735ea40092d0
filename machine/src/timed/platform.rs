//! The timed machine as the library's platform.

use core::marker::PhantomData;

use lookaside::{
    arch::{Mmu, Root},
    counts::Event,
    platform::{Costs, CpuId, Targets},
};

use super::{program, word::Word};

/// The platform of a simulated kernel, over any of the library's architectures: for Arm, `M` is the
/// library's own `Aarch64` over [`crate::timed::arm::Insn`]. The words of its spaces live for `'a`, in an
/// [`Arena`](super::Arena) for example.
#[derive(Clone, Copy, Debug)]
pub struct Platform<'a, M> {
    mmu: M,
    costs: Costs,
    observer: fn(Event),
    words: PhantomData<&'a mut [Word]>,
}

impl<M: Mmu> Platform<'_, M> {
    /// A platform with the given translation hardware and what the kernel thinks that things cost.
    pub const fn new(mmu: M, costs: Costs) -> Self {
        Self { mmu, costs, observer: |_| (), words: PhantomData }
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
unsafe impl<'a, M: Mmu> lookaside::Platform for Platform<'a, M> {
    type Word = Word;
    type Mmu = M;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'a mut [Word];

    #[inline]
    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    #[inline]
    fn mmu(&self) -> &M {
        &self.mmu
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        program::cpu()
    }

    #[inline]
    fn costs(&self) -> &Costs {
        &self.costs
    }

    fn observe(&self, _: CpuId, event: Event) {
        (self.observer)(event);
    }

    fn send_ipi(&self, targets: Targets) {
        program::send_ipi(targets);
    }

    fn relax(&self) {
        program::relax();
    }
}
