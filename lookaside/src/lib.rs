//! TLB coherence for kernels: address-space tags, context switches, TLB flushes and shootdowns.
//!
//! A kernel gives each address space a *tag* (Arm and RISC-V call it ASID, x86 PCID), so that
//! translations of many spaces stay in a TLB together and a context switch flushes nothing. There are
//! fewer tags than spaces, and CPUs switch, idle, come and go while tags are reused. Whenever a page table
//! changes, every CPU that may have cached the old entry must drop it. This crate keeps track of it: which space
//! has which tag, which CPU has loaded which root, and which CPU has missed which flush.
//!
//! It allocates nothing, depends on nothing and has no global state but one counter, by which it tells
//! several [`Tlb`]s apart. All of it is generic over a [`Platform`], so that the very same source runs in a
//! kernel and on a machine in software that does whatever hardware may do.
//!
//! # Which CPUs a flush concerns
//!
//! For one space, a CPU is in one of three states ([`tags::Residency`]):
//!
//! * *Absent*: it does not run the space, and will flush before it runs it again. A flush skips it.
//! * *Stale*: it was lazy in the space, or did not run it, at a flush that it has missed, and flushes before it uses the root again. If it
//!   runs the space by now, the next flush interrupts it as if it were present; if not, that skips it.
//! * *Present*: it may hold any translation of the space. If it runs the space, it must flush now, and the initiator
//!   waits for it. A lazy CPU must do so only if a page table is freed, or on hardware that requires break-before-make.
//!   Otherwise the initiator makes it stale, and it flushes when it stops being lazy or switches to the space. Where the
//!   flush is a broadcast, that removes what it holds, and it stays present.
//!
//! # The tour
//!
//! An Arm64 kernel. Other architectures differ in the type of the hardware, its features and `Config`, and in how an IPI is sent;
//! the rest is the same, and `kernel/src/arch` of the repository has all three. The ASID allocator is chosen when the kernel
//! boots, from what the hardware has ([`tags::AsidsConfig::choose`]). Most kernels keep it all in a [`StaticTlb`].
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use lookaside::{
//!     Cpu, Gather, Platform, Tlb, VaRange,
//!     arch::{Root, Sharing, aarch64::*},
//!     platform::{CpuId, Targets},
//!     tags::{AsidScope, Asids, AsidsConfig, Released, Switched},
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
//! #     fn ic_iallu(&self) {}
//! # }
//! # fn cpu_number() -> u32 { 0 }
//! # fn read_tcr_el1() -> u64 { registers::tcr(16, &Features::decode(id_registers())) }
//! # fn send_sgi(_: CpuId) {}
//! # fn id_registers() -> IdRegisters {
//! #     IdRegisters { mmfr0: 5 | 2 << 4, ..IdRegisters::default() }
//! # }
//! # fn main() -> Result<(), lookaside::Error> {
//!
//! // What a kernel provides: its CPU-local and interrupt code.
//! struct IrqsOff(core::marker::PhantomData<*const ()>); // Its `Drop` restores what was before.
//! struct Hw {
//!     mmu: Aarch64<Native>,
//! }
//! struct RootTable(u64); // The frame of a top page table, which a process owns.
//!
//! // SAFETY: CPU numbers are unique and stable with interrupts off; `send_sgi` begins with a
//! // `DSB ISHST`.
//! unsafe impl Platform for Hw {
//!     type Word = AtomicU64;
//!     type Mmu = Aarch64<Native>;
//!     type IrqsOff = IrqsOff;
//!     type Tables = RootTable;
//!     type ResidentWords = [AtomicU64; 1]; // up to 32 CPUs
//!     fn root(table: &RootTable) -> Root {
//!         Root::new(table.0)
//!     }
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
//! // Once, at boot: the hardware, and storage for CPUs and tags.
//! let features = Features::decode(id_registers());
//! let config = Config {
//!     features,
//!     // Boot code has written `registers::tcr(16, &features)`: T0SZ 16, 4 KiB pages; AS and IPS are filled in.
//!     tcr: read_tcr_el1(),
//!     reserved_root: 0x4000_1000,
//!     sharing: Sharing::Private,
//!     pairing: Pairing::Single,
//!     asid_in: AsidIn::Ttbr0,
//! };
//! // SAFETY: this is a kernel, and nobody else writes the root register.
//! let hw = Hw { mmu: Aarch64::new(unsafe { Native::new() }, config)? };
//! let mut words = [const { AtomicU64::new(0) }; Asids::<Hw>::words_for(1 << 16)];
//! let asids = Asids::new(AsidsConfig::default(), &mut words);
//! let mut cpus = [const { Cpu::new() }; 4];
//! let tlb = Tlb::new(hw, asids, &mut cpus)?; // in a static: `Tlb<'static, Hw>`
//! assert_eq!(tlb.asid_scope(), AsidScope::Global); // Arm64 broadcasts invalidations by tag
//!
//! // The guard that keeps interrupts off while it exists: what the kernel's `local_irq_save` returns.
//! # fn local_irq_save() -> IrqsOff { IrqsOff(core::marker::PhantomData) }
//! let irqs_off = local_irq_save();
//!
//! // The handler of the interrupt that `send_sgi` sends calls `tlb.this_cpu(&irqs_off).handle_ipi()`.
//!
//! // On each CPU that comes up. A CPU that lacks what the others have is refused.
//! tlb.online(&irqs_off, &features)?;
//!
//! // For each process: its root table, and two bits for each CPU.
//! let mut init = tlb.space(RootTable(0x4010_0000), [AtomicU64::new(0)])?;
//!
//! // The context switch: no flush, one write to the root register.
//! let this_cpu = tlb.this_cpu(&irqs_off);
//! let switched = this_cpu.switch(&init);
//! assert_eq!(switched, Switched::Fresh);
//! if switched.root_changed() {
//!     // The kernel's hardening of the branch predictor goes here.
//! }
//! assert_eq!(this_cpu.switch(&init), Switched::Unchanged);
//!
//! // Idle. The root stays loaded, and coming back is free.
//! this_cpu.lazy();
//! assert_eq!(this_cpu.switch(&init), Switched::Unchanged);
//!
//! // munmap. The kernel clears the entry, and puts the frame into its own container ...
//! # let entry = AtomicU64::new(0x8000_0703);
//! # let mut allocator: Vec<u64> = Vec::new();
//! let mut gather = Gather::holding(&init, Vec::new());
//! let old = entry.swap(0, lookaside::platform::Ordering::AcqRel);
//! gather.revoke(VaRange::new(0x40_0000, 4096, 12)?);
//! gather.hold_page(old & 0xffff_ffff_f000);
//! // ... out of which it comes when no CPU can use it any more. No other CPU runs the space, so this costs no
//! // broadcast, no IPI and no wait.
//! allocator.extend(this_cpu.flush(gather).frames);
//!
//! // Exit: every CPU leaves the space, its tag is free, and the tables come back.
//! assert_eq!(this_cpu.release(&mut init), Released::AtOnce);
//! let table: RootTable = init.into_tables();
//! # allocator.push(table.0);
//! # Ok(())
//! # }
//! ```
//!
//! `cargo lab explore tour` runs this kernel's switches, on two CPUs, through every interleaving that
//! an adversarial machine can produce.
//!
//! # Where to read on
//!
//! * `docs/integrating.md`, in the repository: what to call at each event of a kernel's life.
//! * `docs/linux-freebsd-zircon.md`: the names of Linux, FreeBSD and Zircon, and ours.
//! * [`Platform`]: what a kernel provides and promises, with the types of [`platform`]. [`conformance`] tests it.
//! * [`Tlb`]: the state of one machine. [`CurrentCpu`]: what a CPU can do. [`AddressSpace`]: the state of a space.
//! * [`Gather`]: what changed in the page tables. [`CurrentCpu::flush`] flushes it, and hands back the
//!   frames that it held ([`flush::Flushed`]).
//! * [`tags`]: the ASID allocators, how one is chosen, what switches return, and the interface to further allocators.
//!   [`GlobalAsids`] and [`PerCpuAsids`] have their invariants in their source.
//! * [`counts`]: events for tracing and counters.
//! * [`contig`]: contiguous page-table entries (Arm's contiguous bit, RISC-V's Svnapot).
//! * [`arch`]: the translation hardware ([`arch::Mmu`]) of three architectures.
#![no_std]
#![warn(missing_debug_implementations)]

pub mod arch;
pub mod conformance;
pub mod contig;
mod costs;
pub mod counts;
mod cpuset;
mod error;
mod flags;
pub mod flush;
mod hotplug;
mod ids;
pub mod platform;
mod range;
mod release;
mod request;
mod residency;
mod space;
mod static_tlb;
pub mod tags;
#[cfg(test)]
mod tests;
mod tlb;
mod trampoline;
mod word;

pub use error::Error;
pub use flush::{gather::Gather, kernel::KernelGather};
pub use platform::Platform;
pub use range::VaRange;
pub use space::AddressSpace;
pub use static_tlb::StaticTlb;
pub use tags::{GlobalAsids, PerCpuAsids};
pub use tlb::{Cpu, CurrentCpu, Tlb};

#[cfg(doctest)]
#[doc = include_str!("../tests/compile_fail/misuse.md")]
mod misuse {}
