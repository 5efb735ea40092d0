//! What a kernel provides: words of shared memory, the translation hardware, the number of this CPU, IPIs and
//! a way to wait.
//!
//! The library reaches the machine through these traits and through nothing else. A kernel
//! implements them with [`core::sync::atomic::AtomicU64`] and real instructions; the adversarial
//! machine and the timed machine implement them in software, so that the very same source runs on
//! all of them and none of its logic is switched by `cfg`.

use crate::{
    arch::{Mmu, Root},
    counts::Event,
};
pub use crate::{
    costs::{Costs, OperationCosts},
    cpuset::CpuSet,
    ids::{CpuId, MAX_CPUS, Targets},
    word::{Ordering, Word},
};

/// A machine, as one kernel sees it.
///
/// # Safety
///
/// An implementer promises what every proof in this crate starts from:
///
/// * [`Self::cpu`] names the CPU that executes the call, differs between any two CPUs that run at
///   the same time, and does not change while the caller keeps interrupts off.
/// * A value of [`Self::IrqsOff`] exists only while interrupts are off on the CPU that holds it. It does not
///   leave that CPU, so it is neither `Send` nor `Sync` where a thread can move.
/// * Each CPU succeeds in [`crate::Tlb::online`] of a [`crate::Tlb`] when it comes up, before it makes a
///   [`crate::CurrentCpu`] of that one or begins a flush, and what it says of its features is true. Before that it may call
///   [`crate::StaticTlb`]'s `init`, `get` and `handle_ipi`, [`crate::Tlb::space`], [`crate::AddressSpace::new`], [`crate::Tlb::is_online`],
///   [`crate::Tlb::this_cpu_if_online`] and [`crate::Tlb::stopped`]. If `online` fails, the CPU calls nothing else and runs no
///   space. The same holds after [`crate::CurrentCpu::offline`]; in between the
///   CPU touches no kernel address that may be unmapped.
/// * No method of this trait, nor of its [`Mmu`], calls this library: they run in the middle of switches and flushes. Only
///   [`Self::stuck`] may, while interrupts are off: [`crate::CurrentCpu::handle_ipi`], and [`crate::Tlb::stopped`] of the CPU that it
///   names, on one CPU alone.
/// * From [`crate::CurrentCpu::lazy`] or [`crate::CurrentCpu::park`] to its next [`crate::CurrentCpu::switch`] the CPU runs no user
///   code and touches no user address: flushes of pages leave it out. Handlers of NMIs touch one only where
///   [`crate::Tlb::nmi_uaccess_okay`] says that they may.
/// * [`Self::has_stopped`] is true only of a CPU that has.
/// * [`Self::Word`] behaves as [`core::sync::atomic::AtomicU64`] does.
/// * [`Self::mmu`] acts on the CPU that executes the call, and orders page walks as the
///   documentation of [`Mmu`] says.
/// * No other [`crate::Tlb`] manages the same tags of the same hardware: each would give them out anew. Stages 1
///   and 2 of Arm's translation have tags of their own.
/// * If [`Self::ONLY_TLB`], no other [`crate::Tlb`] of this platform makes a space, a gather or a batch.
/// * Until a value of [`Self::Tables`] is dropped, or the space that owns it is released, [`Self::root`] says the
///   physical address of a page table in the format of the machine, always the same; so does [`Self::root_on`] for
///   each CPU. Whatever the kernel executes and touches on a CPU while that root is loaded is mapped by it, or by a
///   root register of the kernel's own. Entries for
///   user addresses, pages and blocks alike, are not global.
/// * From the first switch to an [`crate::AddressSpace`] until [`crate::CurrentCpu::release`] of it, the space is
///   neither moved nor dropped. [`Self::unreleased`] returns only on a machine of a test, which ends with its spaces.
/// * `as_ref` of a value of [`Self::ResidentWords`] always returns the same words, which nothing else uses.
/// * While a foreign root is loaded ([`crate::CurrentCpu::with_root`]), the CPU calls nothing of this library but
///   [`crate::CurrentCpu::handle_ipi`], also by [`crate::StaticTlb::handle_ipi`], and [`crate::Tlb::nmi_uaccess_okay`], and what the kernel executes and touches
///   meanwhile is mapped. Nothing under that root is revoked, and none of its tables is freed, before it is left.
/// * [`crate::CurrentCpu::unpin`] is called only when no device uses the tag that the pin gave to it.
/// * Where the kernel has another root or tag than user mode: before each exit to user mode, with interrupts off, it calls
///   [`crate::CurrentCpu::kernel_root`], then [`crate::CurrentCpu::user_root`], then nothing else of the library. Its
///   trampoline writes the second value at that exit, and the first at the next trap before interrupts come on or the
///   library is called. It executes the fences that those functions name. Nothing else loads a root of user mode, but the return
///   of a handler of NMIs, whose entry has found it in the register. Neither root maps anything as global but what both map alike.
/// * When [`Self::send_ipi`] is called, every store that the caller made before is visible to the
///   handlers that it causes to run. On x86 with an x2APIC this takes `MFENCE; LFENCE` before the `WRMSR` of
///   the command register, which is not serialising (a `SeqCst` fence alone gives no `LFENCE`); on Arm a `DSB ISHST`
///   before the write of `ICC_SGI1R_EL1`; an SBI call must be preceded by `fence w, o`. What acknowledges the IPI in the handler is ordered before
///   [`crate::CurrentCpu::handle_ipi`]: by `DMB ISHLD` with GICv2, `ISB` with GICv3, `fence io, rw` on RISC-V.
pub unsafe trait Platform {
    /// A 64-bit word in memory that all CPUs share.
    type Word: Word;
    /// The translation hardware.
    type Mmu: Mmu;
    /// The guard of the kernel that keeps interrupts off on this CPU: what its `local_irq_save` returns and
    /// restores when it is dropped. A kernel that calls this library with interrupts off only, and keeps no
    /// [`crate::CurrentCpu`] when it switches them on or goes on on another stack, may use `()`: then this is its own promise.
    #[doc(alias = "local_irq_save")]
    #[doc(alias = "critical_enter")]
    type IrqsOff;

    /// The top page tables of one address space, as the kernel owns them: a table of its own, or the address of one.
    /// An [`crate::AddressSpace`] owns them, and gives them back when no CPU can walk them any more.
    type Tables;

    /// The storage for two bits a CPU in each space ([`crate::tags::Residents::words_for`]): `[AtomicU64; N]` for up to
    /// 32 `N` CPUs, or a slice that is the space's alone.
    #[doc(alias = "mm_cpumask")]
    type ResidentWords: AsRef<[Self::Word]>;

    /// Whether only one [`crate::Tlb`] of this platform ever makes spaces, gathers and batches. Then no switch and no flush asks
    /// whether what it is given is of another one, for which it would panic.
    const ONLY_TLB: bool = false;

    /// The value of the root register for these tables. Every switch to the space asks for it, and so does
    /// [`crate::Tlb::nmi_uaccess_okay`] in the handler of an NMI: it takes no lock.
    fn root(tables: &Self::Tables) -> Root;

    /// The value of the root register of `cpu`, where each CPU has a top table of its own: for a per-CPU area of the
    /// kernel at one address, for a window of temporary mappings, or as a replica on its NUMA node. By default all
    /// CPUs have [`Self::root`].
    ///
    /// Whatever the root of one CPU maps at an address of user mode, that of every CPU maps. A change of an entry is
    /// made in all of them before it is flushed. CPUs that use each other's translations
    /// ([`crate::arch::Sharing::Shared`], CnP on Arm64) must not have such tables: [`crate::Tlb::space`] refuses.
    ///
    /// A CPU parks under the reserved root of its [`Self::mmu`], also in its IPI handler and in a flush. If kernel code uses a
    /// per-CPU area at one address, [`Self::mmu`] returns a value of the CPU that calls, with a reserved root that maps
    /// this CPU's.
    #[inline]
    fn root_on(tables: &Self::Tables, cpu: CpuId) -> Root {
        let _ = cpu;
        Self::root(tables)
    }

    /// The translation hardware of the CPU that executes the call. Also called with interrupts on ([`crate::Tlb::space`]),
    /// where a CPU's own value may be that of any CPU, and in handlers of NMIs: it takes no lock.
    fn mmu(&self) -> &Self::Mmu;

    /// The CPU that executes the call. Called with interrupts off, and in handlers of NMIs: it takes no lock.
    fn cpu(&self) -> CpuId;

    /// Whether interrupts are off on the CPU that executes the call. Debug builds ask whenever the library is
    /// entered ([`crate::Tlb::this_cpu`]); a platform that cannot tell says yes.
    fn irqs_are_off(&self) -> bool {
        true
    }

    /// A space with this identifier is dropped that a CPU has run and nobody has [released](crate::CurrentCpu::release). Its
    /// tables are leaked; but CPUs that still have its root loaded may read its memory, which goes. By default it panics, as a kernel
    /// must; a test whose machine ends with its spaces does nothing.
    #[track_caller]
    fn unreleased(id: u64) {
        panic!("address space {id} is dropped and was not released");
    }

    /// Whether `cpu` has stopped: it executes nothing, and its hardware walks no tables, before it calls
    /// [`crate::Tlb::online`], and it calls that only after [`crate::Tlb::stopped`] of it has returned. `Tlb::stopped` asks this. A
    /// kernel that never reports a stopped CPU says no.
    fn has_stopped(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Sends an IPI to every CPU in `targets`, which does not contain the caller, and does not wait. The handler
    /// calls [`crate::CurrentCpu::handle_ipi`]. A target may be offline, and then needs none; the others must get theirs
    /// all the same.
    fn send_ipi(&self, targets: Targets);

    /// Lets time pass in a loop that waits for another CPU: [`core::hint::spin_loop`], unless a hypervisor can do better.
    /// It handles no IPI: the library does that where it may, and this is called in the middle of switches too. Called with
    /// interrupts on, and preemptible, by [`crate::flush::PendingFlush::wait`].
    #[inline]
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// What flushes cost on this machine.
    #[inline]
    fn costs(&self) -> &Costs {
        self.mmu().properties().typical_costs
    }

    /// Called at growing intervals by a CPU that waits for another one to acknowledge a flush. The place to print
    /// a warning, to dump the state of the target, or to panic. If it returns, the wait goes on. It is not called in
    /// waits for the library's own locks. In [`crate::flush::PendingFlush::wait`] it is called with interrupts on, and
    /// preemptible; it calls [`crate::CurrentCpu::handle_ipi`] only while they are off.
    fn stuck(&self, wait: &Stuck) {
        let _ = wait;
    }

    /// Called with each event of `cpu`, which executes the call, for tracing and counters. Does nothing by default;
    /// [`crate::counts::Counts`] counts.
    #[inline]
    fn observe(&self, cpu: CpuId, event: Event) {
        let _ = (cpu, event);
    }
}

/// A wait for the acknowledgement of another CPU that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The CPU that waits. In [`crate::flush::PendingFlush::wait`] the one that began the flush: the thread may have moved.
    pub waiting: CpuId,
    /// The CPU that has not acknowledged.
    pub target: CpuId,
    /// What the target must reach, and in [`Self::acknowledged`] what it has reached: numbers of its queue, numbers of
    /// requests to all CPUs, or generations of the space, where 0 says that the CPU is switching. A range that was written beside
    /// the target's own pending word has no number: then they are `u64::MAX` and 0.
    pub posted: u64,
    /// See `posted`.
    pub acknowledged: u64,
    /// How often [`Platform::relax`] was called in the wait for this target.
    pub rounds: u64,
}
