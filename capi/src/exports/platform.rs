//! The kernel's own functions, which the linker finds, as the library's platform.

#[cfg(panic = "abort")]
use core::ffi::c_char;
use core::sync::atomic::AtomicU64;

use lookaside::{
    Platform,
    arch::{Mmu as _, Root},
    counts::{Counts, Event},
    platform::{Costs, CpuId, Stuck, Targets},
};

use super::{
    hardware,
    mmu::{self, Mmu},
};
use crate::MAX_CPUS;

unsafe extern "C" {
    pub(super) safe fn lookaside_platform_cpu() -> u32;
    pub(super) safe fn lookaside_platform_irqs_are_off() -> bool;
    safe fn lookaside_platform_send_ipi(first: u32, mask: u64);
    safe fn lookaside_platform_relax();
    safe fn lookaside_platform_stuck(waiting: u32, target: u32, rounds: u64);
    #[cfg(panic = "abort")]
    pub(super) fn lookaside_platform_panic(message: *const c_char) -> !;
}

/// The counters of each CPU.
pub(super) static COUNTS: [Counts<AtomicU64>; MAX_CPUS] = [const { Counts::new() }; MAX_CPUS];

/// The machine.
#[derive(Debug)]
pub(crate) struct Hw {
    mmu: Mmu,
    costs: Costs,
}

impl Hw {
    /// The machine with this hardware; with `broadcasts`, IPIs are taken to be dearer than any broadcast.
    pub(super) fn new(mmu: hardware::Mmu, broadcasts: bool) -> Self {
        let typical = *mmu.properties().typical_costs;
        let costs = if broadcasts { Costs { ipi: u64::MAX, ..typical } } else { typical };
        Self { mmu: mmu::new(mmu), costs }
    }
}

// SAFETY: the kernel promises it, in the header: what it says of the functions above and of those that the library
// exports is what the trait demands. `Machine` asks whether interrupts are off before it uses the guard, which is nothing.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = Mmu;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = [AtomicU64; MAX_CPUS.div_ceil(32)];

    // `init` makes one machine.
    const ONLY_TLB: bool = true;

    #[inline]
    fn root(root: &Root) -> Root {
        *root
    }

    #[inline]
    fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(lookaside_platform_cpu())
    }

    #[inline]
    fn irqs_are_off(&self) -> bool {
        hardware::are_masked() || lookaside_platform_irqs_are_off()
    }

    fn has_stopped(&self, _: CpuId) -> bool {
        true // The caller of `lookaside_stopped` says so.
    }

    fn send_ipi(&self, targets: Targets) {
        lookaside_platform_send_ipi(targets.first.0, targets.mask);
    }

    #[inline]
    fn relax(&self) {
        lookaside_platform_relax();
    }

    #[inline]
    fn costs(&self) -> &Costs {
        &self.costs
    }

    #[cold]
    fn stuck(&self, wait: &Stuck) {
        lookaside_platform_stuck(wait.waiting.0, wait.target.0, wait.rounds);
    }

    fn observe(&self, cpu: CpuId, event: Event) {
        // SAFETY: the library has a CPU's number from its place among the CPUs, of which there are `MAX_CPUS`.
        unsafe { COUNTS.get_unchecked(cpu.0 as usize) }.count(event);
    }
}
