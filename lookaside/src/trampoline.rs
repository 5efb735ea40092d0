//! The exit to user mode and the trap from it, where the kernel has another root than user mode, or another tag.

use crate::{
    arch::{FOREIGN_TAG, Mmu as _, Root, SeparateRoots, Sharing},
    platform::Platform,
    space::AddressSpace,
    tlb::{CurrentCpu, RootState, Tags},
};

impl<P: Platform<Mmu: SeparateRoots>, T: Tags<P>> CurrentCpu<'_, P, T> {
    /// The value that the kernel's trampoline writes to the root register at the exit to user mode in
    /// `space`, which this CPU runs: that of `CR3`, of `satp`, or on Arm64 of the register that holds the
    /// ASID. Where the kernel has no root or tag of its own, it is what the register holds already.
    ///
    /// The value is for this exit only: a tag is another space's some day. On x86 its load may be a pending
    /// flush ([`crate::arch::x86_64::UserFlush::AtExit`]), which counts as done: a kernel that does not
    /// leave for user mode after all calls [`Self::cancel_exit`].
    ///
    /// It is loaded before interrupts come on again, before anything else of the library is called on this
    /// CPU, and with the fences that the trampoline needs; the implementer of [`Platform`] promises it. On
    /// RISC-V those are none, but a full `SFENCE.VMA` where
    /// [`crate::arch::riscv64::Riscv::trampoline_fences`]; on Arm64 see
    /// [there](crate::arch::aarch64#the-trampoline); on x86 the write of `CR3` needs none.
    ///
    /// # Panics
    ///
    /// If the space is of another [`crate::Tlb`], or this CPU does not run it.
    #[must_use = "a flush that it stands for counts as done"]
    #[doc(alias = "user_cr3")]
    #[doc(alias = "SWITCH_TO_USER_CR3")]
    #[doc(alias = "user_satp")]
    #[doc(alias = "MAKE_SATP")]
    #[doc(alias = "usertrapret")]
    #[doc(alias = "user_ttbr")]
    #[doc(alias = "tramp_unmap_kernel")]
    #[track_caller]
    pub fn user_root(&self, space: &AddressSpace<P>) -> u64 {
        let root = self.own_root(space);
        let held = T::user_held(&self.for_allocator());
        self.mmu().user_root(root, self.tag(), held, self.loaded_sharing())
    }

    /// Reports that the exit for which [`Self::user_root`] was called last does not take place: the kernel has found a signal or
    /// another thread to run, and the value is not written. It comes before the next switch. Without it, the flush that
    /// the value may stand for never happens, and user mode may use what another space had under the tag.
    pub fn cancel_exit(&self) {
        T::cancel_exit(&self.for_allocator());
    }

    /// The value that the trampoline writes at a trap from user mode in `space`, which this CPU runs.
    /// It keeps all entries. As that of [`Self::user_root`] it is for one exit, with which it is put where
    /// the trampoline finds it; but on RISC-V with a root of the kernel's own it is always the same.
    ///
    /// # Panics
    ///
    /// As [`Self::user_root`].
    #[must_use]
    #[doc(alias = "kernel_cr3")]
    #[doc(alias = "SWITCH_TO_KERNEL_CR3")]
    #[doc(alias = "kernel_satp")]
    #[doc(alias = "uservec")]
    #[doc(alias = "tramp_map_kernel")]
    #[track_caller]
    pub fn kernel_root(&self, space: &AddressSpace<P>) -> u64 {
        let root = self.own_root(space);
        self.mmu().kernel_root(root, self.tag(), self.loaded_sharing())
    }

    #[track_caller]
    fn own_root(&self, space: &AddressSpace<P>) -> Root {
        self.must_own(space.tlb);
        let root = space.root_on(self.id());
        // Else user mode would run on other tables than those of its tag.
        assert!(self.loaded_root().table == root.table, "this CPU does not run the space");
        debug_assert!(!self.is_lazy(space), "lazy: `switch` comes before the exit to user mode");
        root
    }

    /// Whether this CPU is lazy in `space`, whose root it has loaded.
    fn is_lazy(&self, space: &AddressSpace<P>) -> bool {
        T::context_id(self.tlb, space)
            .is_some_and(|context| T::root_state(self.tlb, self.id(), context) == RootState::Lazy)
    }

    /// How the root was loaded: privately where spaces have no tag of their own.
    fn loaded_sharing(&self) -> Sharing {
        if self.tag() <= FOREIGN_TAG { Sharing::Private } else { self.mmu().properties().sharing }
    }
}
