//! The adversary.
pub mod arm;
mod config;
mod cpu;
pub(crate) mod execution;
mod format;
pub(crate) mod hash;
mod invalidate;
pub(crate) mod machine;
mod memory;
mod op;
pub mod oracle;
mod platform;
mod private;
pub mod riscv;
mod scenario;
pub mod tables;
mod tlb;
mod trace;
mod violation;
mod walker;
mod word;
pub mod x86;

pub use config::{Arch, Buffers, Config};
pub use format::{Access, Frame};
pub use platform::{Platform, interrupt, relax};
pub use scenario::{
    Scenario, access, access_store, as_cpu, irq_off, irq_on, leak, milestone, outcome,
};
pub use trace::{Line, name};
pub use violation::{Rule, Violation};
pub use word::Word;
