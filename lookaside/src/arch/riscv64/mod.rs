//! RISC-V.
//!
//! Manual means *The RISC-V Instruction Set Manual, Volume II: Privileged Architecture*; names like `norm:asidlen` are
//! its normative anchors.
//!
//! # Instructions used
//!
//! | instruction | for |
//! | --- | --- |
//! | `SFENCE.VMA`, four forms | removes cached translations of this hart, orders stores before its walks |
//! | `SFENCE.W.INVAL`, `SINVAL.VMA`, `SFENCE.INVAL.IR` (Svinval) | the same for many addresses, overlapped |
//! | `CSRR`/`CSRW satp` | which root and ASID this hart walks |
//! | `FENCE rw, rw` | orders loads and stores; *not* walks |
//! | `ECALL`, SBI RFENCE | has the firmware execute `SFENCE.VMA` on other harts |
//!
//! # What hardware may do
//!
//! * It may use any translation of an address that was valid at any time since this hart last
//!   executed an `SFENCE.VMA` that covers the address (`norm:sfence_vma_ordering_semantics`), and
//!   may walk any address that `satp` reaches at any time ("Virtual Address Translation Process").
//! * It may cache entries whose V bit is *clear* (note in "Supervisor Memory-Management Fence
//!   Instruction"). A store that makes an entry valid is not flushed, so an access may fault although
//!   the table allows it; and it faults again, for ever, until this hart fences the address. So a
//!   kernel's fault handler that finds the table in order calls
//!   [`CurrentCpu::spurious_fault`](crate::CurrentCpu::spurious_fault), which does. Svvptc bounds how long a hart may
//!   go on faulting; it says nothing of entries that came to allow more, so the fence is executed there
//!   too. Whether a fence of one address reaches an invalid entry *above* the last level the manual does
//!   not say: we read it as reaching whatever makes the address fault.
//! * `SFENCE.VMA` acts on this hart alone (`norm:sfence_vma_ordering`). It orders stores *already
//!   visible to this hart* before later walks; a walk that began before it may not install what it
//!   would have removed.
//! * It does not put accesses before it ahead of accesses after it in the global order. So
//!   "flushed" needs a `FENCE` too, before anybody is told (F-RV-DONE).
//! * A write of `satp` changes root, ASID and mode at once, takes effect immediately
//!   (`norm:sfence_vma_asid_effect`), orders nothing and invalidates nothing
//!   (`norm:satp_op_sfence_vma`).
//! * ASIDs are local to a hart and caches appear private (`norm:asid_hart_private`): the same number
//!   may name different spaces on different harts, and nothing is broadcast.
//!
//! # The previous root, after a switch
//!
//! [`Mmu::load`](super::Mmu::load) promises that no walk from the previous root starts after it
//! returns. That rests on `norm:sfence_vma_implicit_access`: hardware walks only what the *current*
//! contents of `satp` point to. A later store of this hart, say one that announces the switch, comes
//! after the write of `satp`: each hart performs a write to a CSR before any later instruction whose
//! behaviour the CSR modifies (unprivileged manual, "CSR Access Ordering"), and `satp` modifies
//! every access to memory. A note in the manual's section on `satp` lets walks that began earlier
//! run on when `satp` is no longer *active*, as in machine mode; we read it as not contradicting the
//! rule, because it speaks of the same contents of the register. No instruction exists that would
//! end such walks and keep the tag's entries.
//!
//! # Keeping and dropping entries
//!
//! Loading with [`Held::Keep`](super::Held::Keep) is one write of `satp` and no fence: if some CPU
//! revoked an entry meanwhile, either it saw this hart as running and waits for its flush, or this
//! hart saw the newer generation and loads with [`Held::Drop`](super::Held::Drop) (F-RV-SETTLE).
//! Strictly, the manual orders the stores that *built* a table before this hart's walks only by an
//! `SFENCE.VMA` that comes after them: an ASID allocator that loads a tag for the first time on a hart
//! should say `Drop`, even if the hart was flushed before the space existed.
//!
//! With `Drop`, the fence comes *before* the write of `satp`, while another ASID is named. The
//! manual also allows the other order. But then the new root is walked, for an instant, through
//! whatever the tag's previous owner left, tables that may have been freed and hold anything
//! included; and where hardware sets accessed bits, a walk through a freed page can write to it.
//!
//! # The trampoline
//!
//! A kernel with a root of its own ([`Tables::Separate`]) enters and leaves user mode through a page that
//! is mapped at the same address in every root, and writes `satp` there: to the value of
//! [`CurrentCpu::user_root`](crate::CurrentCpu::user_root) at the exit, to that of
//! [`CurrentCpu::kernel_root`](crate::CurrentCpu::kernel_root) at a trap.
//!
//! With ASIDs no fence belongs there. The kernel's root has ASID 0 to itself, and a space's entries are
//! removed by its ASID while the kernel's root is loaded, where nothing can refill them (F-RV-DROP-USER).
//! So a full `SFENCE.VMA` at each crossing, which kernels of this shape execute, only costs. Without ASIDs
//! ([`Riscv::trampoline_fences`]) it is needed after *both* writes: at the exit, or user code translates
//! by the kernel's entries; at a trap, or the kernel translates by the user's, which may be revoked by
//! the time that the same root is loaded again.
//!
//! No root maps anything as global but what is the same in all roots, as the trampoline is: entries with
//! the G bit serve every ASID, and a fence by ASID spares them.
//!
//! # What the firmware is relied on for
//!
//! When a remote fence returns, what its targets did through the old translations has been done: their
//! stores too. The SBI specification (version 3.0, "RFENCE Extension") does not say so: its success means
//! that the request was sent to all harts. Firmware that is a program, and tells its caller of completion
//! with a release, has no other way to behave; OpenSBI does it with an atomic that acquires and releases
//! (`lib/sbi/sbi_tlb.c`, `tlb_entry_process`, and `lib/sbi/riscv_atomic.c`). The adversary has firmware of
//! either kind; where it does not wait for stores, a frame that was given back is written to. On a machine
//! with such firmware use [`Remote::Interrupts`].
//!
//! # What is not used
//!
//! * `SFENCE.VMA` with an address for tables: it leaves walk caches alone.
//! * An operand register that holds zero where `x0` is meant: the one is address or ASID zero, the
//!   other is all of them. [`Instructions`] takes an `Option`.
//! * Global mappings spared by a flush of all ASIDs: no form of the instruction does that.
//! * Bare mode; Sv32; two-stage translation (`HFENCE`, `HINVAL`, `hgatp`).
//! * `FENCE iorw, iorw` at completion: a user access to *device* memory through a revoked mapping
//!   may still be on its way. A kernel that revokes those must fence them itself.
//!
//! # References
//!
//! * Manual: "Supervisor Address Translation and Protection (`satp`) Register", "Supervisor
//!   Memory-Management Fence Instruction", "Virtual Address Translation Process", and the chapters
//!   on Svinval, Svnapot, Svvptc, Svade and Svadu.
//! * RISC-V Supervisor Binary Interface Specification: "Binary Encoding", "RFENCE Extension".
//! * Device tree bindings `riscv/cpus.yaml` and `riscv/extensions.yaml`.

pub mod clint;
mod costs;
mod features;
pub mod fence;
#[cfg(all(target_arch = "riscv64", target_os = "none"))]
mod insn;
mod mmu;
pub mod opcode;
mod satp;
pub mod sbi;
pub mod svnapot;
#[cfg(test)]
mod testing;

pub use features::{Extensions, Features, Identity, mode_from_mmu_type};
#[cfg(all(target_arch = "riscv64", target_os = "none"))]
pub use insn::Native;
pub use mmu::{Config, Remote, Riscv, Tables};
pub use satp::{Mode, Satp, probe_asid_bits};

use crate::error::Error;

/// The instructions that the library uses on RISC-V, one method each.
///
/// `Native` executes them, on the word of its maker; a machine in software implements the
/// same trait.
///
/// `None` as an address or ASID means register `x0`, which is not the same as a register that
/// holds zero: the one says *all*, the other *number zero*.
pub trait Instructions {
    /// `SFENCE.VMA rs1, rs2`.
    #[track_caller]
    fn sfence_vma(&self, address: Option<u64>, asid: Option<u16>);
    /// `SFENCE.W.INVAL` (Svinval).
    #[track_caller]
    fn sfence_w_inval(&self);
    /// `SINVAL.VMA rs1, rs2` (Svinval).
    #[track_caller]
    fn sinval_vma(&self, address: Option<u64>, asid: Option<u16>);
    /// `SFENCE.INVAL.IR` (Svinval).
    #[track_caller]
    fn sfence_inval_ir(&self);
    /// `FENCE rw, rw`.
    #[track_caller]
    fn fence(&self);
    /// `CSRR satp`.
    #[track_caller]
    fn read_satp(&self) -> u64;
    /// `CSRW satp`.
    #[track_caller]
    fn write_satp(&self, value: u64);
    /// The SBI calls `sbi_remote_sfence_vma` and, with an ASID, `sbi_remote_sfence_vma_asid`:
    /// `harts` is a mask of hart numbers from `base`; a base of `u64::MAX` means every hart. A
    /// `size` of `u64::MAX`, or `start` and `size` both zero, means every address.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the firmware lacks the extension or refuses the call.
    #[track_caller]
    fn remote_sfence_vma(
        &self,
        harts: u64,
        base: u64,
        start: u64,
        size: u64,
        asid: Option<u16>,
    ) -> Result<(), Error>;
}
