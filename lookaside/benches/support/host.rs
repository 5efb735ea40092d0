//! The host as a machine whose translation instructions cost nothing.

#[macro_use]
#[path = "../../tests/support/idle.rs"]
mod idle;

use core::{cell::Cell, hint::black_box, sync::atomic::AtomicU64};

use lookaside::{
    Platform,
    arch::{Errata, Held, Mmu, Root, Sharing, Tag},
    platform::CpuId,
};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Makes this thread a CPU.
pub(crate) fn become_cpu(cpu: u32) {
    CPU.set(cpu);
}

pub(crate) struct Host {
    mmu: HostMmu,
}

pub(crate) struct HostMmu {
    tag_bits: u32,
}

impl Host {
    pub(crate) fn new(tag_bits: u32) -> Self {
        Self { mmu: HostMmu { tag_bits } }
    }
}

// SAFETY: every benchmark thread has a CPU number of its own.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = HostMmu;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [AtomicU64];

    fn root(root: &Root) -> Root {
        *root
    }

    fn mmu(&self) -> &HostMmu {
        &self.mmu
    }

    #[inline]
    fn cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }

    fn send_ipi(&self, _: lookaside::platform::Targets) {}

    fn relax(&self) {
        core::hint::spin_loop();
    }
}

impl Mmu for HostMmu {
    idle_admission!();
    idle_kernel!();

    fn tag_bits(&self) -> u32 {
        self.tag_bits
    }

    fn broadcasts(&self) -> bool {
        true
    }

    #[inline]
    unsafe fn load(&self, _: Errata, root: Root, tag: Tag, _: Held, _: Sharing) {
        black_box((root.table, tag));
    }

    fn park(&self, _: Errata) {}

    fn flush_all(&self, _: Errata) {}

    fn flush_tag(&self, _: Errata, _: Tag) {}

    fn flush_all_broadcast(&self, _: Errata) {}

    fn flush_tag_broadcast(&self, _: Errata, _: Tag) {}
}
