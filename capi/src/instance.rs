//! What the interface is instantiated with: a platform, an ASID allocator, and what C has no words for.

use lookaside::{
    AddressSpace, CurrentCpu, Error, GlobalAsids, PerCpuAsids, Platform,
    arch::{Root, SeparateRoots, Tag},
    tags::{Asids, Replacement, Tags},
};

/// One instance of the C interface.
pub trait Instance: Sized + 'static {
    /// The machine. The guard of interrupts is nothing: a C caller has none to pass, so the functions ask
    /// [`Platform::irqs_are_off`].
    type Platform: Platform<IrqsOff = (), Tables = Root, Mmu: SeparateRoots> + 'static;
    /// The ASID allocator.
    type Tags: Tags<Self::Platform> + Pins<Self::Platform> + 'static;

    /// Storage for two bits of each CPU in a space.
    fn resident_words() -> <Self::Platform as Platform>::ResidentWords;

    /// Whether interrupts are off for certain on the CPU that executes the call: where a register says so, without a call of the
    /// kernel. If not, [`Platform::irqs_are_off`] is asked.
    fn irqs_are_surely_off(platform: &Self::Platform) -> bool {
        platform.irqs_are_off()
    }

    /// The tables of a space that was released may become another root.
    fn root_freed(mmu: &<Self::Platform as Platform>::Mmu, root: Root) {
        let _ = (mmu, root);
    }

    /// What the root register has for a tag in user mode.
    fn user_asid(mmu: &<Self::Platform as Platform>::Mmu, tag: Tag) -> u16 {
        let _ = mmu;
        tag.0
    }

    /// Whether the trampoline of a kernel with a root of its own fences after each write of the register.
    fn trampoline_fences(mmu: &<Self::Platform as Platform>::Mmu) -> bool {
        let _ = mmu;
        false
    }
}

/// A word that the CPUs of an instance share.
pub(crate) type WordOf<I> = <<I as Instance>::Platform as Platform>::Word;

/// Tags that devices use, where the allocator has any.
pub trait Pins<P: Platform>: Tags<P> {
    /// Pins the tag of a space.
    ///
    /// # Errors
    ///
    /// Those of the allocator.
    fn pin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<Tag, Error>;

    /// Ends that.
    ///
    /// # Errors
    ///
    /// Those of the allocator.
    fn unpin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<(), Error>;
}

impl<P: Platform> Pins<P> for GlobalAsids<'_, P> {
    fn pin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<Tag, Error> {
        this_cpu.pin(space)
    }

    fn unpin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<(), Error> {
        this_cpu.unpin(space)
    }
}

impl<P: Platform, const SLOTS: usize> Pins<P> for Asids<'_, P, SLOTS> {
    fn pin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<Tag, Error> {
        this_cpu.pin(space)
    }

    fn unpin(this_cpu: &CurrentCpu<'_, P, Self>, space: &AddressSpace<P>) -> Result<(), Error> {
        this_cpu.unpin(space)
    }
}

impl<P: Platform, const SLOTS: usize, R: Replacement> Pins<P> for PerCpuAsids<SLOTS, R> {
    fn pin(_: &CurrentCpu<'_, P, Self>, _: &AddressSpace<P>) -> Result<Tag, Error> {
        Err(Error::Unsupported("pins"))
    }

    fn unpin(_: &CurrentCpu<'_, P, Self>, _: &AddressSpace<P>) -> Result<(), Error> {
        Err(Error::Unsupported("pins"))
    }
}
