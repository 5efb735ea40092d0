//! TLB coherence for kernels.
#![no_std]

pub mod arch;
mod cpu;
mod cpuset;
mod error;
mod here;
mod platform;
mod range;
mod space;
mod tags;
mod tlb;

pub use cpu::Cpu;
pub use cpuset::{CpuSet, MAX_CPUS};
pub use error::Error;
pub use here::{Borrowed, Here};
pub use platform::{CpuId, Ordering, Platform, Word};
pub use range::VaRange;
pub use space::{Debt, Space};
pub use tags::{
    Cookie, Epochs, EpochsConfig, EpochsCpu, Recent, RecentCpu, Released, Replacement, RoundRobin,
    Switched, Tags,
};
pub use tlb::Tlb;

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail/misuse.md")]
mod misuse {}
