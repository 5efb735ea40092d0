//! Spin locks whose waiters handle TLB shootdown requests, for kernels that use [`lookaside`].
//!
//! A CPU that flushes waits until other CPUs have acknowledged. If it holds a spin lock meanwhile, and one
//! of those CPUs spins for this lock with interrupts off, neither goes on: the IPI does not arrive, and the
//! lock is not released. So a CPU that spins with interrupts off handles requests in its loop. This crate
//! does that for locks of the crates `spin` and `lock_api`, and for a kernel's own:
//!
//! | the kernel's locks | what it writes |
//! | --- | --- |
//! | `spin` 0.12 | [`HandleIpi`] as the relax strategy: `spin::mutex::SpinMutex<T, HandleIpi<K>>` |
//! | `lock_api` 0.4 | [`Spinning`] around the raw lock: `lock_api::Mutex<Spinning<R, K>, T>` |
//! | another version of `spin` | a relax strategy of its own: `impl spin::RelaxStrategy for Relax { fn relax() { lookaside_locks::relax::<K>() } }` |
//! | its own | [`relax`] in the loop that waits |
//!
//! `K` is a type of the kernel that implements [`Kernel`]: how its [`Tlb`] is reached, and when interrupts
//! are off.
//!
//! # Which locks need it
//!
//! Every spin lock that a CPU may wait for with interrupts off, and whose holder may wait for another CPU
//! meanwhile: in a flush ([`CurrentCpu::flush`](lookaside::CurrentCpu::flush), `flush_kernel`,
//! `flush_batch`, `release`), or for a lock of this kind. The last makes it a property of the order of
//! locks: if the locks that are taken inside such a lock are not of this kind, their holders must never
//! wait for another CPU.
//!
//! A CPU that spins with interrupts on needs nothing: the IPI arrives. The adapters do nothing then, so
//! that one type of lock serves both.
//!
//! # Before there is a TLB
//!
//! Locks work from the first instruction on: as long as [`Kernel::tlb`] returns none, or the CPU is not
//! online, they only spin. No flush waits for a CPU that is not online.
//!
//! # Flushes in two steps
//!
//! [`PendingFlush::wait`](lookaside::flush::PendingFlush::wait) waits with interrupts on, so it is not
//! called under a lock that keeps interrupts off. Under one that does not, CPUs with interrupts off may
//! spin for that lock, and need the adapter as with any other flush. A loop around
//! [`PendingFlush::is_complete`](lookaside::flush::PendingFlush::is_complete) with interrupts off calls
//! [`relax`].
//!
//! # Where the adapters must not be used
//!
//! * In NMI handlers, which may call nothing of the library but
//!   [`Tlb::nmi_uaccess_okay`](lookaside::Tlb::nmi_uaccess_okay).
//! * In the kernel's implementation of [`Platform`], which runs in the middle of the
//!   library's work. [`Platform::stuck`] is the exception: it is called where
//!   the library waits, and handles requests itself.
//!
//! # Example
//!
//! ```
//! use core::sync::atomic::AtomicU64;
//! use lookaside::{Platform, Tlb};
//! use lookaside_locks::{HandleIpi, Kernel, Spinning};
//! # use lookaside::arch::{Root, aarch64::*};
//! # use lookaside::platform::{CpuId, Targets};
//! # struct Native;
//! # impl Instructions for Native {
//! #     fn tlbi(&self, _: Tlbi) {}
//! #     fn dsb(&self, _: Dsb) {}
//! #     fn isb(&self) {}
//! #     fn write_ttbr0(&self, _: u64) {}
//! #     fn read_ttbr1(&self) -> u64 { 0 }
//! #     fn write_ttbr1(&self, _: u64) {}
//! #     fn ic_iallu(&self) {}
//! # }
//! # struct Hw { mmu: Aarch64<Native> }
//! # struct IrqsOff(core::marker::PhantomData<*const ()>);
//! # fn irqs_are_on() -> bool { false }
//! # fn local_irq_save() -> IrqsOff { IrqsOff(core::marker::PhantomData) }
//! # // SAFETY: nothing is executed.
//! # unsafe impl Platform for Hw {
//! #     type Word = AtomicU64;
//! #     type Mmu = Aarch64<Native>;
//! #     type IrqsOff = IrqsOff;
//! #     type Tables = Root;
//! #     type ResidentWords = [AtomicU64; 1];
//! #     fn root(table: &Root) -> Root { *table }
//! #     fn mmu(&self) -> &Self::Mmu { &self.mmu }
//! #     fn cpu(&self) -> CpuId { CpuId(0) }
//! #     fn send_ipi(&self, _: Targets) {}
//! #     fn relax(&self) {}
//! # }
//! // `Hw` is the kernel's `Platform`. The boot CPU sets this when the library is initialised.
//! static TLB: spin::Once<Tlb<'static, Hw>> = spin::Once::new();
//!
//! enum MyKernel {}
//!
//! impl Kernel for MyKernel {
//!     type Tlb = Tlb<'static, Hw>;
//!
//!     fn tlb() -> Option<&'static Self::Tlb> {
//!         TLB.get()
//!     }
//!
//!     fn irqs_off() -> Option<IrqsOff> {
//!         // Saved and restored, they stay off.
//!         (!irqs_are_on()).then(local_irq_save)
//!     }
//! }
//!
//! // Locks of `spin`: the type alone changes.
//! type Mutex<T> = spin::mutex::SpinMutex<T, HandleIpi<MyKernel>>;
//! static RUN_QUEUE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
//! RUN_QUEUE.lock().push(7);
//!
//! // Locks of `lock_api`, around any raw lock, here one of `spin`.
//! type RwLock<T> = lock_api::RwLock<Spinning<spin::rwlock::RwLock<()>, MyKernel>, T>;
//! static AREAS: RwLock<Vec<u64>> = RwLock::new(Vec::new());
//! AREAS.write().push(0x40_0000);
//! assert_eq!(AREAS.read().len(), RUN_QUEUE.lock().len());
//! ```
#![no_std]
#![warn(missing_debug_implementations)]

#[cfg(feature = "lock_api")]
mod lock_api;
#[cfg(feature = "spin")]
mod spin;

use core::hint;

use lookaside::{Platform, Tlb, tags::Tags};

#[cfg(feature = "lock_api")]
pub use self::lock_api::Spinning;
#[cfg(feature = "spin")]
pub use self::spin::HandleIpi;

/// How a CPU that waits for a lock reaches the kernel's [`Tlb`]. A kernel implements it once, for an empty
/// type.
pub trait Kernel: 'static {
    /// The type of its [`Tlb`].
    type Tlb: AnyTlb;

    /// The state of the machine, or none before there is one.
    fn tlb() -> Option<&'static Self::Tlb>;

    /// The guard that keeps interrupts off, if they are off on this CPU already; otherwise none, and
    /// interrupts stay on. Dropping the guard leaves them off.
    ///
    /// If it returns none with interrupts off, waiters handle no requests, and the deadlock is back.
    fn irqs_off() -> Option<IrqsOff<Self::Tlb>>;
}

/// A [`Tlb`], whatever its platform and its ASID allocator.
pub trait AnyTlb: 'static {
    /// Its platform.
    type Platform: Platform;
    /// Its ASID allocator.
    type Tags: Tags<Self::Platform>;

    /// The `Tlb` itself.
    fn tlb(&'static self) -> &'static Tlb<'static, Self::Platform, Self::Tags>;
}

impl<P: Platform + 'static, T: Tags<P> + 'static> AnyTlb for Tlb<'static, P, T> {
    type Platform = P;
    type Tags = T;

    #[inline]
    fn tlb(&'static self) -> &'static Self {
        self
    }
}

/// The guard that keeps interrupts off ([`Platform::IrqsOff`]) of the platform of a [`Tlb`].
pub type IrqsOff<T> = <<T as AnyTlb>::Platform as Platform>::IrqsOff;

/// One round of a loop that waits for another CPU. If interrupts are off and this CPU is online, it handles
/// the requests of other CPUs ([`CurrentCpu::handle_ipi`](lookaside::CurrentCpu::handle_ipi)). Then it lets
/// time pass ([`Platform::relax`]).
///
/// It may be called at any time but for the [exceptions](crate#where-the-adapters-must-not-be-used), with
/// whatever locks held.
pub fn relax<K: Kernel>() {
    let Some(tlb) = K::tlb().map(AnyTlb::tlb) else { return hint::spin_loop() };
    // Off before the question which CPU this is: with interrupts on, the thread may move.
    if let Some(irqs_off) = K::irqs_off()
        && tlb.is_online(tlb.platform().cpu())
    {
        tlb.this_cpu(&irqs_off).handle_ipi();
    }
    tlb.platform().relax();
}
