//! The hardware of a debug build, in which each load of a root is checked.

use core::sync::atomic::AtomicU64;

use lookaside::{arch::Root, conformance::CheckedMmu, platform::CpuId};

use super::{allocator::TAG_BITS, hardware, platform::lookaside_platform_cpu};
use crate::MAX_CPUS;

/// The hardware.
pub(crate) type Mmu = CheckedMmu<'static, hardware::Mmu, AtomicU64>;

static HELD: [AtomicU64; Mmu::words_for(MAX_CPUS, TAG_BITS)] =
    [const { AtomicU64::new(0) }; Mmu::words_for(MAX_CPUS, TAG_BITS)];

pub(super) fn new(mmu: hardware::Mmu) -> Mmu {
    CheckedMmu::new(mmu, &HELD, || CpuId(lookaside_platform_cpu()))
}

pub(super) fn root_freed(mmu: &Mmu, root: Root) {
    mmu.root_freed(root.table);
}

pub(super) fn loads(mmu: &Mmu) -> u64 {
    mmu.checked_loads()
}
