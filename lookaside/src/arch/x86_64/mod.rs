//! x86-64.
//!
//! # What the hardware does
//!
//! Each CPU has translations of its own and nobody else uses them. Nothing is broadcast, but for
//! `INVLPGB` on newer AMD CPUs: the initiator of a flush must reach the other CPUs by
//! interrupt. A CPU may cache any translation that it can walk from the root and under the PCID
//! that `CR3` names now, whether or not a program asks for the address, and keeps it as long as it
//! likes. An entry whose `G` bit is set is cached as *global* and used under every PCID.
//!
//! # Instructions used
//!
//! | instruction | what it removes on this CPU |
//! | --- | --- |
//! | `MOV CR3`, `PCIDE` clear | everything but global entries |
//! | `MOV CR3`, bit 63 clear | everything but global entries of the PCID that it *loads* |
//! | `MOV CR3`, bit 63 set | nothing |
//! | `MOV CR4` that changes `PGE` | everything of every PCID, global entries too |
//! | `INVLPG` | one address: entries of the current PCID, and global ones under any |
//! | `INVPCID` 0 | one address of one PCID, no global entries |
//! | `INVPCID` 1 | one PCID, no global entries |
//! | `INVPCID` 2 | everything of every PCID, global entries too |
//! | `INVPCID` 3 | everything of every PCID, no global entries |
//! | `INVLPGB` | on **every** CPU: addresses, a PCID, or all; global entries only if asked |
//! | `TLBSYNC` | nothing: waits for the `INVLPGB`s that this CPU issued |
//!
//! A table may be freed once the cached upper levels of walks through it are gone, too. `INVLPG`
//! removes all of the current PCID, whatever their address (with AMD's `EFER.TCE` those *of the
//! address*, which is what a freed table needs), `INVPCID` 1 all of its PCID, and `INVLPGB` those of
//! what it names, unless it is told to remove the *final* level only. Of `INVPCID` 0 the manual says
//! less, so nothing is built on it. All may remove more than they say.
//!
//! # Which one is chosen
//!
//! | to do | PCIDs and `INVPCID` | PCIDs alone | no PCIDs |
//! | --- | --- | --- | --- |
//! | load, keep | `CR3`, bit 63 set | the same | `CR3`, which flushes |
//! | load, drop | `CR3`, bit 63 clear | the same | the same |
//! | one tag | reload `CR3` if current, else type 1 | reload `CR3` if current, else toggle `PGE` | as for all tags |
//! | all tags | type 3 | toggle `PGE` | type 3, or reload `CR3` |
//! | address of the current tag | `INVLPG` | `INVLPG` | `INVLPG` |
//! | address of another tag | type 0; type 1 if a table was unlinked | toggle `PGE` | `INVLPG` |
//! | address of the kernel | type 2 | toggle `PGE` | `INVLPG` |
//! | the same, [mapped globally](X86::with_global_kernel) | `INVLPG`; type 2 if a table was unlinked | `INVLPG`; else toggle `PGE` | `INVLPG` |
//! | the same, with [`INVLPG_KEEPS_GLOBALS`](super::errata::INVLPG_KEEPS_GLOBALS) | type 2 | toggle `PGE` | `INVLPG` |
//! | address of the kernel, [under the current tag](super::Mmu::flush_kernel_under), not global or a table was unlinked | `INVLPG` | `INVLPG`; with user tables flushed on load toggle `PGE` | `INVLPG` |
//! | and its user half | type 0; if a table was unlinked at the exit, or type 1 | at the exit | |
//! | park, and drop what is held | `CR3`, bit 63 clear | the same | the same |
//!
//! By the last three rows a flush of a kernel address leaves entries under PCIDs that `CR3` does not name. The ASID allocator of
//! x86-64, [`crate::PerCpuAsids`], knows them all and drops each at its next load; other allocators flush as in the rows above.
//! With the erratum everything goes in either case, since also a kernel with separate user tables may have global entries for its
//! trampoline.
//!
//! With separate user tables a tag is a pair of PCIDs, and whatever is done to a tag is done to
//! both; without `INVPCID` that is always a toggle of `PGE`, because the half that is not current
//! can only be flushed by loading it. By address, the kernel's half of the current tag takes `INVLPG`
//! and the user's type 0.
//!
//! # PCIDs
//!
//! Tag *t* is PCID *t*; with separate user tables the user half is PCID *t* + 2048, which leaves 11
//! bits. PCID 0 is [`crate::arch::Tag::RESERVED`]: parked CPUs run under it, and before
//! [`crate::Tlb::online`] early boot and firmware did, whose entries that call drops. A space that is
//! given it must be loaded with [`crate::arch::Held::Drop`]. Where PCIDs are missing or switched
//! off there are no tag bits, tag 0 is the only one, and every load flushes.
//!
//! # Order
//!
//! Page walks read memory, not the store buffer, and no Rust ordering orders them. What does:
//!
//! * `MOV CR3`, `MOV CR4` and `INVLPG` are serialising: stores before them are in memory, and walks
//!   after them see those stores (SDM vol. 3, "Serializing Instructions"; APM vol. 2, 7.6.4).
//! * `INVPCID` is serialising on AMD but not on Intel's list; an `MFENCE` goes before it.
//! * `INVLPGB` is weakly ordered; an `MFENCE` goes before it, a `TLBSYNC` after, on the same CPU
//!   and before anything can move the thread to another one (APM vol. 3, INVLPGB, TLBSYNC).
//! * x86 lets a load overtake an earlier store. The two sides of a switch and a flush each store
//!   one word and read the other's, so each needs a full barrier in between: locked operations on
//!   those words are that barrier, and the ASID allocator's task.
//!
//! A comment `FENCE` names each place where an order is relied on, and its partner.
//!
//! # Deviations honoured
//!
//! The table of [`errata`](super::errata) lists them: Intel CPUs on which `INVLPG` leaves global entries,
//! unless their microcode is known to be mended, and AMD's Zen 2, of which some say that they have `INVLPGB`.
//!
//! # What is deliberately not used
//!
//! * *Nested* of `INVLPGB`, and `INVLPGA`, `INVEPT`, `INVVPID`: they concern guests.
//! * Linear-address masking. `X86` loads `CR3` with both bits clear.
//! * Flushing first and loading after: between the two the old root makes new entries (XSA-292).
//!
//! # References
//!
//! * *SDM*: Intel 64 and IA-32 Architectures Software Developer's Manual. Vol. 3, 4.5, 4.10 (all of
//!   it), "Serializing Instructions"; vol. 2, CPUID, INVLPG, INVPCID, MOV to and from control
//!   registers. Since chapter 4 became "Linear-Address Pre-Processing" (2025), paging is chapter 5:
//!   4.10 of older editions, cited here, is 5.10 there.
//! * *APM*: AMD64 Architecture Programmer's Manual. Vol. 2, 5.5, 7.6.4; vol. 3, INVLPG, INVLPGB,
//!   INVPCID, TLBSYNC, appendix E.
//! * sandpile.org, "x86 architecture: coherency": serialising instructions by vendor, side by side.
//! * XSA-279 (CVE-2018-19965), XSA-292.
//! * Intel specification updates, ADL063 and RPL042.

mod canonical;
mod config;
mod costs;
pub mod cr3;
mod features;
#[cfg(all(target_arch = "x86_64", target_os = "none"))]
mod insn;
pub mod invlpgb;
pub mod invpcid;
mod mmu;
mod ranges;
mod sequence;
#[cfg(test)]
mod tests;

pub use canonical::Levels;
pub use config::{Config, Tables, Use, UserFlush};
pub use cr3::{Cr3, Pcid};
pub use features::{Features, Vendor};
#[cfg(all(target_arch = "x86_64", target_os = "none"))]
pub use insn::Native;
pub use mmu::X86;

/// The instructions that the library uses on x86-64, one method each.
///
/// `Native` executes them, on the word of its maker; a machine in software implements the
/// same trait.
pub trait Instructions {
    /// `MOV CR3, r64`.
    #[track_caller]
    fn write_cr3(&self, value: u64);
    /// `MOV r64, CR3`.
    #[track_caller]
    fn read_cr3(&self) -> u64;
    /// `MOV CR4, r64`.
    #[track_caller]
    fn write_cr4(&self, value: u64);
    /// `MOV r64, CR4`.
    #[track_caller]
    fn read_cr4(&self) -> u64;
    /// `INVLPG`.
    #[track_caller]
    fn invlpg(&self, address: u64);
    /// `INVPCID`.
    #[track_caller]
    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]);
    /// `INVLPGB` with its three register operands.
    #[track_caller]
    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32);
    /// `TLBSYNC`.
    #[track_caller]
    fn tlbsync(&self);
    /// `MFENCE`: every access before it is performed before any access after it, stores to tables
    /// before the walks of what follows included.
    #[track_caller]
    fn mfence(&self);
}

/// The types of `INVPCID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Invpcid {
    /// One address of one PCID; global entries stay.
    Address = 0,
    /// One PCID; global entries stay.
    Context = 1,
    /// Everything, global entries too.
    All = 2,
    /// Everything but global entries.
    AllButGlobal = 3,
}
