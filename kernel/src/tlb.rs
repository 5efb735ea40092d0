//! The library in this kernel: the platform and the library's state. With each architecture's `tlb.rs` this is all
//! that an integrator writes, beside the calls.

use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::AtomicU64;

use lookaside::{
    Cpu, CurrentCpu, Error, Platform, Tlb,
    arch::Root,
    counts::Event,
    platform::{CpuId, Stuck, Targets},
    tags::{AsidScope, Asids, AsidsConfig, GlobalAsidsConfig},
};

use crate::{arch, command_line, count, lock::Once, println};

pub(crate) type AddressSpace = lookaside::AddressSpace<Hw>;
pub(crate) type Gather<'g, F = ()> = lookaside::Gather<'g, Hw, F>;

/// The machine, as the library sees it.
pub(crate) struct Hw {
    mmu: arch::Mmu,
}

/// The address of the root table of a process.
pub(crate) struct RootTable(u64);

// SAFETY: numbers of CPUs are unique and never change; `interrupt_cpu` publishes earlier stores. `fill_root` maps the
// kernel in each root, pages of user mode are not global, and the root and the space of a process stay where they are
// until `Process::drop` has released the space.
unsafe impl Platform for Hw {
    type Word = AtomicU64;
    type Mmu = arch::Mmu;
    // All code of the kernel runs with interrupts off.
    type IrqsOff = ();
    type Tables = RootTable;
    type ResidentWords = [AtomicU64; arch::MAX_CPUS.div_ceil(32)];

    fn root(table: &RootTable) -> Root {
        Root::new(table.0)
    }

    fn mmu(&self) -> &arch::Mmu {
        &self.mmu
    }

    fn cpu(&self) -> CpuId {
        CpuId(arch::cpu() as u32)
    }

    fn has_stopped(&self, _: CpuId) -> bool {
        cfg!(feature = "no-remote") // It has not: see `online`.
    }

    fn send_ipi(&self, targets: Targets) {
        targets.iter().for_each(|cpu| arch::interrupt_cpu(cpu.index()));
    }

    fn relax(&self) {
        arch::relax();
    }

    fn stuck(&self, wait: &Stuck) {
        println!("{wait:?}");
    }

    fn observe(&self, event: Event) {
        count::event(event);
    }
}

static TLB: Once<Tlb<'static, Hw>> = Once::new();

/// Initialises the library, once, on the boot CPU. `tags` replaces the hardware's number of global tags, so that
/// they run out soon. The library chooses the ASID allocator, unless `asids=global` or `asids=per-cpu` on the command
/// line does.
pub(crate) fn open(cpus: usize, tags: Option<u32>) -> Result<(), Error> {
    let hw = Hw { mmu: arch::mmu()? };
    let scope = match command_line::get("asids") {
        Some("global") => Some(AsidScope::Global),
        Some("per-cpu") => Some(AsidScope::PerCpu),
        _ => None,
    };
    let global = GlobalAsidsConfig::default();
    let global = GlobalAsidsConfig { tags: tags.unwrap_or(global.tags), ..global };
    let config = AsidsConfig { scope, global };
    let words: Vec<_> = (0..config.words_needed(&hw, cpus)).map(|_| AtomicU64::new(0)).collect();
    let asids = Asids::new(config, Box::leak(words.into_boxed_slice()));
    let cpus: Vec<_> = (0..cpus).map(|_| Cpu::new()).collect();
    TLB.set(Tlb::new(hw, asids, Box::leak(cpus.into_boxed_slice()))?);
    Ok(())
}

pub(crate) fn tlb() -> &'static Tlb<'static, Hw> {
    TLB.get()
}

/// This CPU. All kernel code runs with interrupts off, and does not keep this across a switch of
/// threads.
pub(crate) fn this_cpu() -> CurrentCpu<'static, Hw> {
    tlb().this_cpu(&())
}

/// Brings this CPU up.
pub(crate) fn online() -> Result<(), Error> {
    tlb().online(&(), &arch::features())?;
    if cfg!(all(feature = "no-remote", not(target_arch = "x86_64"))) {
        // This CPU runs on, but gets no requests: the hunters must notice.
        tlb().halted(CpuId(arch::cpu() as u32))?;
    }
    Ok(())
}

/// Handles requests of other CPUs: in the IPI handler, and while this CPU waits for a lock.
pub(crate) fn handle_ipi() {
    if TLB.try_get().is_some_and(|tlb| tlb.is_online(CpuId(arch::cpu() as u32))) {
        #[cfg(all(feature = "no-remote", target_arch = "x86_64"))]
        return arch::deaf(|| this_cpu().handle_ipi());
        #[cfg(not(all(feature = "no-remote", target_arch = "x86_64")))]
        this_cpu().handle_ipi();
    }
}

/// Makes this CPU run `space`.
pub(crate) fn switch(space: &AddressSpace) {
    count::switch(this_cpu().switch(space));
}

/// A space with this root.
pub(crate) fn space(root: u64) -> Result<AddressSpace, Error> {
    tlb().space(RootTable(root), [const { AtomicU64::new(0) }; arch::MAX_CPUS.div_ceil(32)])
}

/// This CPU has no thread to run: its space stays loaded, and comes back for free.
pub(crate) fn idle() {
    this_cpu().lazy();
}
