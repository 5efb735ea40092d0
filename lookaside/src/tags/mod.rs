//! ASID allocation: which tag a space has, and what must be flushed before a tag is used again.
//!
//! There are two allocators. Each serves some hardware better, and each runs on all architectures:
//!
//! * [`crate::GlobalAsids`] (Arm, RISC-V, x86-64 with `INVLPGB`): a space has the same tag on all CPUs for as long as an epoch lasts.
//!   Broadcast invalidation by tag needs that.
//! * [`crate::PerCpuAsids`] (x86-64 without `INVLPGB`): each CPU numbers the few spaces that it ran last. Where every remote flush is
//!   an IPI anyway, agreeing on numbers gains nothing.
//!
//! [`Asids`] is one of the two, chosen when the kernel boots. A kernel that names no allocator has it.
//!
//! [`Tags`] is the interface between them and [`crate::CurrentCpu`]. The historical strategies with which
//! measurements are compared implement it elsewhere. Only the library calls it: its methods take a
//! [`AllocatorCpu`], which only the library makes.

mod asids;
mod global;
mod per_cpu;

pub use self::{
    asids::{Asids, AsidsConfig, AsidsCpu},
    global::{Cookie, GlobalAsids, GlobalAsidsConfig, GlobalAsidsCpu},
    per_cpu::{PerCpuAsids, PerCpuAsidsCpu, Replacement, RoundRobin},
};
pub use crate::{
    request::{FlushRanges, FlushRequest, FlushScope},
    residency::{Residency, Residents},
    tlb::{AllocatorCpu, AsidScope, Released, RootState, Switched, Tags},
};
