//! The host as a machine whose translation instructions cost nothing.

use core::{cell::Cell, hint::black_box, sync::atomic::AtomicU64};

use lookaside::{
    Platform,
    arch::{Held, Properties, Root, Tag},
    platform::CpuId,
};
use lookaside_testkit::{COSTS, Hardware, TestMmu};

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Makes this thread a CPU.
pub(crate) fn become_cpu(cpu: u32) {
    CPU.set(cpu);
}

pub(crate) struct Host {
    mmu: TestMmu<HostMmu>,
}

pub(crate) struct HostMmu {
    tag_bits: u32,
}

impl Host {
    pub(crate) fn new(tag_bits: u32) -> Self {
        Self { mmu: TestMmu(HostMmu { tag_bits }) }
    }
}

// SAFETY: every benchmark thread has a CPU number of its own.
unsafe impl Platform for Host {
    type Word = AtomicU64;
    type Mmu = TestMmu<HostMmu>;
    type IrqsOff = ();
    type Tables = Root;
    type ResidentWords = &'static mut [AtomicU64];

    fn root(root: &Root) -> Root {
        *root
    }

    // The machine of a test ends with its spaces.
    fn unreleased(_: u64) {}

    fn mmu(&self) -> &TestMmu<HostMmu> {
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

impl Hardware for HostMmu {
    #[inline]
    fn properties(&self) -> Properties {
        Properties { broadcasts: true, ..Properties::plain(self.tag_bits, &COSTS) }
    }

    #[inline]
    fn load(&self, root: Root, tag: Tag, _: Held) {
        black_box((root.table, tag));
    }
}
