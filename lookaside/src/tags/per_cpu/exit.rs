//! The return to user mode, for x86 kernels with separate user tables (KPTI).

use super::PerCpuAsids;
use crate::{
    arch::{
        Held,
        x86_64::{Instructions, X86},
    },
    platform::Platform,
    space::AddressSpace,
    tags::Replacement,
    tlb::CurrentCpu,
    word::Word,
};

impl<P, I, const SLOTS: usize, R> CurrentCpu<'_, P, PerCpuAsids<SLOTS, R>>
where
    P: Platform<Mmu = X86<I>>,
    I: Instructions,
    R: Replacement,
{
    /// The value of `CR3` with which this CPU leaves the kernel for user mode in `space`, which it
    /// runs. Its load keeps the entries under the user's tag, unless a flush of them is pending
    /// ([`crate::arch::x86_64::UserFlush::AtExit`]): then its load is that flush.
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`].
    ///
    /// The pending flush counts as done: the value is loaded before interrupts come on again, before this is called
    /// again on this CPU, and before anything else is loaded that walks the user's table. The implementer of
    /// [`Platform`] promises it.
    #[must_use = "the flush that it stands for counts as done"]
    #[track_caller]
    pub fn user_cr3(&self, space: &AddressSpace<P>) -> u64 {
        self.must_own(space.tlb());
        let slots = &*self.cpu().slots;
        let (pending, slot) = (slots.user_needs_flush.get(), 1 << slots.current());
        let held = if pending & slot == 0 { Held::Keep } else { Held::Drop };
        slots.user_needs_flush.set(pending & !slot);
        self.mmu().user_cr3(space.root(), self.tag(), held)
    }

    /// The value of `CR3` with which this CPU comes back from user mode to the kernel's table of
    /// `space`, which it runs. Its load keeps all entries.
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`].
    #[must_use]
    #[track_caller]
    pub fn kernel_cr3(&self, space: &AddressSpace<P>) -> u64 {
        self.must_own(space.tlb());
        self.mmu().kernel_cr3(space.root(), self.tag())
    }
}
