//! The library in this kernel: the platform and the library's state. With each architecture's `tlb.rs` this is all
//! that an integrator writes, beside the calls.

use core::sync::atomic::AtomicU64;

use lookaside::{
    CurrentCpu, Error, Platform, StaticTlb,
    arch::Root,
    counts::Event,
    platform::{CpuId, Stuck, Targets},
    tags::AsidsConfig,
};

use crate::{arch, command_line, count, faults, println};

pub(crate) type AddressSpace = lookaside::AddressSpace<Hw>;
pub(crate) type Gather<'g, F = ()> = lookaside::Gather<'g, Hw, F>;

pub(crate) static TLB: StaticTlb<Hw, { arch::MAX_CPUS }> = StaticTlb::new();

/// The machine, as the library sees it.
pub(crate) struct Hw {
    mmu: arch::Mmu,
}

// SAFETY: numbers of CPUs are unique and never change; `interrupt_cpu` publishes earlier stores. `fill_root` maps the
// kernel in each root, pages of user mode are not global, and the root and the space of a process stay where they are
// until `Process::drop` has released the space.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = arch::Mmu;
    // All code of the kernel runs with interrupts off.
    type IrqsOff = ();
    // Its frame is owned by the memory of the process.
    type Tables = Root;
    type ResidentWords = [AtomicU64; arch::MAX_CPUS.div_ceil(32)];

    fn root(root: &Root) -> Root {
        *root
    }

    fn mmu(&self) -> &arch::Mmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(arch::cpu() as u32)
    }

    fn send_ipi(&self, targets: Targets) {
        targets.iter().for_each(|cpu| arch::interrupt_cpu(cpu.index()));
    }

    fn stuck(&self, wait: &Stuck) {
        println!("{wait:?}");
    }

    fn observe(&self, cpu: CpuId, event: Event) {
        count::event(cpu, event);
    }
}

/// Initialises the library, once, on the boot CPU. `tags` replaces the hardware's number of global tags, so that
/// they run out soon. The library chooses the ASID allocator, unless `asids=global` or `asids=per-cpu` on the command
/// line does.
pub(crate) fn open(cpus: usize, tags: Option<u32>) -> Result<(), Error> {
    let scope = command_line::get("asids").and_then(|name| name.parse().ok());
    let mut config = AsidsConfig { scope, ..AsidsConfig::default() };
    config.global.tags = tags.unwrap_or(config.global.tags);
    TLB.init(Hw { mmu: arch::mmu()? }, cpus, config).map(|_| ())
}

/// This CPU. All kernel code runs with interrupts off, and does not keep this across a switch of
/// threads.
pub(crate) fn this_cpu() -> CurrentCpu<'static, Hw> {
    TLB.this_cpu(&())
}

/// Handles requests of other CPUs: in the IPI handler, and while this CPU waits for a lock.
pub(crate) fn handle_ipi() {
    faults::around_requests(|| TLB.handle_ipi(&()));
}
