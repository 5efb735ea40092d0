//! TLB coherence for kernels.
#![no_std]

pub mod arch;
mod cpuset;
mod error;
mod platform;
mod range;

pub use cpuset::{CpuSet, MAX_CPUS};
pub use error::Error;
pub use platform::{CpuId, Ordering, Platform, Word};
pub use range::VaRange;
