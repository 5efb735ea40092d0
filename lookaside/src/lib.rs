//! TLB coherence for kernels: who may still hold an old translation, and how to make them let go.
//!
//! A kernel gives each address space a *tag* (Arm and RISC-V call it ASID, x86 PCID), so that
//! translations of many spaces can stay in a TLB together and a context switch flushes nothing. Tags
//! are few; spaces are many; CPUs switch, idle and come and go while tags are handed on. And whenever
//! a page table changes, somebody has to make every CPU forget what it said before. This crate keeps
//! the books: which space has which tag, which CPU runs what, and which flush each CPU still owes.
//!
//! It allocates nothing, depends on nothing and has no global state but one counter, by which it tells
//! several [`Tlb`]s apart. All of it is generic over a [`Platform`], so that the very same source runs in a kernel and on a machine in software that does
//! whatever hardware may do.
//!
//! # The one idea: a flush is a debt
//!
//! Seen from one space, a CPU is *absent* (it can hold nothing under the space's tag), *resident* (it
//! may hold translations, but its root register names another space) or *running* (its root register
//! names the space; a lazy CPU counts, for its hardware may walk at any time). When a translation is
//! revoked, an absent CPU owes nothing, a resident one owes a flush and pays before it loads this root
//! again, and a running one must pay before the revoker goes on.
//!
//! # The tour
//!
//! An Arm64 kernel. Other architectures differ in the type of the hardware and in the strategy:
//! [`GlobalAsids`] for Arm64 and RISC-V, [`PerCpuAsids`] for x86-64.
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use lookaside::{
//!     Cpu, CpuId, GlobalAsids, GlobalAsidsConfig, Gather, Platform, Released, Switched, Targets, Tlb, VaRange,
//!     arch::{Root, Sharing, aarch64::*},
//! };
//! # // On bare metal `lookaside::arch::aarch64::Native` executes the instructions.
//! # struct Native;
//! # impl Native { const unsafe fn new() -> Self { Self } }
//! # impl Instructions for Native {
//! #     fn tlbi(&self, _: Tlbi) {}
//! #     fn dsb(&self, _: Dsb) {}
//! #     fn isb(&self) {}
//! #     fn write_ttbr0(&self, _: u64) {}
//! #     fn read_ttbr1(&self) -> u64 { 0 }
//! #     fn write_ttbr1(&self, _: u64) {}
//! #     fn read_tcr(&self) -> u64 { 0 }
//! #     fn write_tcr(&self, _: u64) {}
//! #     fn ic_iallu(&self) {}
//! # }
//! # fn cpu_number() -> u32 { 0 }
//! # fn send_sgi(_: CpuId) {}
//! # fn id_registers() -> IdRegisters {
//! #     IdRegisters { mmfr0: 5 | 2 << 4, ..IdRegisters::default() }
//! # }
//! # fn main() -> Result<(), lookaside::Error> {
//!
//! // What a kernel provides: its CPU-local and interrupt code.
//! struct Hw {
//!     mmu: Aarch64<Native>,
//! }
//!
//! // SAFETY: CPU numbers are unique and stable with interrupts off; `send_sgi` begins with a
//! // `DSB ISHST`.
//! unsafe impl Platform for Hw {
//!     type Word = AtomicU64;
//!     type Mmu = Aarch64<Native>;
//!     fn mmu(&self) -> &Self::Mmu {
//!         &self.mmu
//!     }
//!     fn cpu(&self) -> CpuId {
//!         CpuId(cpu_number())
//!     }
//!     fn send_ipi(&self, targets: Targets) {
//!         targets.iter().for_each(send_sgi);
//!     }
//!     fn relax(&self) {
//!         core::hint::spin_loop();
//!     }
//! }
//!
//! // Once: the hardware, as the boot CPU found it and set it up. Storage is the kernel's.
//! let features = Features::decode(id_registers());
//! let config = Config {
//!     features,
//!     tcr: registers::tcr(16, &features), // T0SZ 16, 4 KiB pages; AS and IPS are filled in
//!     park: Park::ReservedRoot(0x4000_1000),
//!     sharing: Sharing::Private,
//!     pairing: Pairing::Single,
//!     asid_in: AsidIn::Ttbr0,
//! };
//! // SAFETY: this is a kernel, and nobody else writes the root register.
//! let hw = Hw { mmu: Aarch64::new(unsafe { Native::new() }, config)? };
//! let mut words = [const { AtomicU64::new(0) }; GlobalAsids::<Hw>::words_for(1 << 16)];
//! let tags = GlobalAsids::new(&hw, GlobalAsidsConfig::default(), &mut words)?;
//! let mut cpus = [const { Cpu::new() }; 4];
//! let tlb = Tlb::new(hw, tags, &mut cpus)?;
//!
//! // The handler of the interrupt that `send_sgi` sends calls `tlb.this_cpu()?.handle_ipi()`.
//!
//! // On each CPU that comes up, with interrupts off. One that does not fit is refused.
//! // SAFETY: interrupts are off this_cpu and below.
//! unsafe { tlb.this_cpu() }?.online(&features)?;
//!
//! // For each process: its root table, and two bits for each CPU.
//! let mut residents = [const { AtomicU64::new(0) }; 1];
//! // SAFETY: the table is one, stays one, and its user entries are not global.
//! let mut init = unsafe { tlb.space(Root::new(0x4010_0000), &mut residents) }?;
//!
//! // The context switch: no flush, one write to the root register.
//! // SAFETY: as above.
//! let this_cpu = unsafe { tlb.this_cpu() }?;
//! let switched = this_cpu.switch(&init);
//! assert_eq!(switched, Switched::Fresh);
//! if switched.root_changed() {
//!     // The kernel's hardening of the branch predictor goes this_cpu.
//! }
//! assert_eq!(this_cpu.switch(&init), Switched::Unchanged);
//!
//! // Idle. The root stays loaded, and coming back is free.
//! this_cpu.lazy();
//! assert_eq!(this_cpu.switch(&init), Switched::Unchanged);
//!
//! // munmap. The kernel clears the entry, and keeps the frame from being used again ...
//! # let entry = AtomicU64::new(0x8000_0703);
//! # let mut allocator: Vec<u64> = Vec::new();
//! let mut gather = Gather::new(&init);
//! let old = entry.swap(0, lookaside::Ordering::AcqRel);
//! gather.revoke(VaRange::new(0x40_0000, 4096, 12)?);
//! let frame = gather.hold_page(old & 0xffff_ffff_f000);
//! // ... until no CPU can reach it. Nobody else runs the space, so this costs no broadcast, no
//! // interrupt and no wait for another CPU.
//! let flushed = this_cpu.flush(gather);
//! // There is no other channel to the frame than the proof.
//! allocator.push(frame.release(&flushed).map_err(|(_, error)| error)?);
//!
//! // Exit: leave the space, and give its tag to the next one.
//! let _ = this_cpu.park();
//! assert_eq!(this_cpu.release(&mut init)?, Released::AtOnce);
//! # Ok(())
//! # }
//! ```
//!
//! `cargo lab explore tour` runs this kernel's switches, on two CPUs, through every interleaving that
//! a hostile machine can produce.
//!
//! # Where to read on
//!
//! * [`CurrentCpu`]: what a CPU can do. [`AddressSpace`]: what is kept for an address space. [`Tlb`]: the books.
//! * [`GlobalAsids`] and [`PerCpuAsids`]: the two strategies, with their invariants in their source.
//! * [`arch`]: what is asked of the hardware ([`arch::Mmu`]) and how three architectures answer.
//! * [`contig`]: entries that hardware may hold as one block.
//! * [`Gather`]: what a flush is told. [`CurrentCpu::flush`]: how it goes. [`Flushed`]: what it is worth.
//! * [`Platform`]: what a kernel must promise. [`conformance`] tries out whether it does.
//! * `docs/linux-freebsd-zircon.md`, in the repository: the names of Linux, FreeBSD and Zircon, and ours.
#![no_std]

pub mod arch;
pub mod conformance;
pub mod contig;
mod costs;
mod counts;
mod cpu;
mod cpuset;
mod current_cpu;
mod error;
mod flags;
mod flush;
mod platform;
mod range;
mod residency;
mod space;
mod tags;
#[cfg(test)]
mod tests;
mod tlb;

pub use costs::{Costs, OperationCosts};
pub use counts::{Counts, Event, Outcome};
pub use cpu::Cpu;
pub use cpuset::{CpuSet, MAX_CPUS};
pub use current_cpu::{CurrentCpu, StrategyCpu};
pub use error::Error;
pub use flags::Flags;
pub use flush::{
    Acknowledged, Batch, FlushRanges, FlushRequest, FlushScope, Flushed, Gather, HeldPage,
    HeldTable, KernelGather, Permissions, Proof,
};
pub use platform::{CpuId, Ordering, Platform, Stuck, Targets, Word};
pub use range::{FlushRange, VaRange};
pub use residency::{Residency, Residents};
pub use space::AddressSpace;
pub use tags::{
    Cookie, GlobalAsids, GlobalAsidsConfig, GlobalAsidsCpu, PerCpuAsids, PerCpuAsidsCpu, Released,
    Replacement, RootState, RoundRobin, Switched, Tags,
};
pub use tlb::Tlb;

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail/misuse.md")]
mod misuse {}
