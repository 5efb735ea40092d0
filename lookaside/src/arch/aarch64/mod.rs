//! Arm64: tags in 16 or 8 bits, invalidation that hardware broadcasts, barriers that wait for it.
//!
//! This page is the essay; each file then holds one concept. "The manual" is the Arm Architecture
//! Reference Manual for A-profile, DDI 0487; register fields are in its chapter D24, `TLBI` operands
//! in C5.5, the translation system in D8. Sections are those of issue L.a and move between issues.
//!
//! # Instructions
//!
//! | instruction | used for |
//! |---|---|
//! | `TLBI VMALLE1[IS]` | everything of stage 1 for this VMID: a full flush, a rollover |
//! | `TLBI ASIDE1[IS]` | one tag: the space dies, or too many pages change |
//! | `TLBI V{,A}{,L}E1[IS]` | one address: a page; the `L` forms keep the walk caches |
//! | `TLBI RV{,A}{,L}E1[IS]` | a range (FEAT_TLBIRANGE) |
//! | `TLBI VMALLS12E1[IS]`, `ALLE1[IS]` | one VMID, all VMIDs ([`Stage2`]) |
//! | `DSB NSHST`, `ISHST` | page-table stores before the `TLBI` |
//! | `DSB NSH`, `ISH` | completion of the `TLBI`; `ISH` also before the question which CPUs run the space |
//! | `DSB ISHLD` | with `ISHST`, before that question in a batch: together they complete no `TLBI` |
//! | `ISB` | writes of `TTBRn` and `TCR` take effect; later walks come after the `DSB` |
//! | `MSR TTBR0_EL1`, `TTBR1_EL1`, `TCR_EL1`, `VTTBR_EL2` | a switch |
//! | `IC IALLU` | only on CPUs with Cavium erratum 27456 |
//!
//! # Ordering
//!
//! 1. **Stores before `TLBI`: `DSB ISHST`** (`NSHST` if only this CPU's walks matter). A `DMB` does
//!    not order a `TLBI`. Without the barrier a walk between the `TLBI` and the store's arrival
//!    re-fetches the old descriptor (manual D8.17, TLB maintenance; B2.3, DSB).
//! 2. **`TLBI` before reuse: a `DSB` of all accesses, on the CPU that issued it**, of at least the
//!    shareability of the `TLBI`. `DSB ...ST` and `...LD` complete nothing. Completion includes the
//!    accesses of other CPUs that were already translated (D8.17).
//! 3. **`DSB` before this CPU's next walk: `ISB`** or an exception return. With FEAT_ETS2 the `DSB`
//!    alone would do. The library does not count on it: see [`Aarch64`]'s `settle`.
//! 4. **A write of `TTBRn` acts somewhere between the `MSR` and the next context synchronisation**,
//!    and until then walks may use the old or the new value, field by field when the tag and the
//!    table live in different registers (D8.16, ASIDs and changes of `TTBRn`). So a switch ends with an
//!    `ISB`, and with `TCR_EL1.A1 = 1` it passes through a root that maps nothing.
//! 5. **`TCR_EL1.EPD0` stops no walk at once**: a TLB may cache a bit of `TCR_EL1` that is 0 (the register's description),
//!    so that a walk may start until it is invalidated. So a CPU parks on a table without valid entries.
//! 6. **The tag is loaded after the store barrier** of rule 1, never before: between the two a
//!    rollover may give the space another tag. The CPU that loads the new tag then walks the
//!    new descriptor, and the invalidation of the old tag suffices. [`Aarch64::invalidate`] takes
//!    the tag as a function for that reason.
//!
//! # The trampoline
//!
//! A kernel that hides itself from user mode ([`Pairing::Paired`]) runs under the ASID `2t` and lets user
//! mode run under `2t + 1`. What the library loads is the kernel's; the trampoline, a page at the same
//! address in both tables of the upper half, writes the register that holds the ASID, to the value of
//! [`CurrentCpu::user_root`](crate::CurrentCpu::user_root) at the exit, and to that of
//! [`CurrentCpu::kernel_root`](crate::CurrentCpu::kernel_root) at a trap. No invalidation belongs
//! there: flushes name both ASIDs.
//!
//! * [`AsidIn::Ttbr1`]: the write changes the ASID and the table of the upper half together. At the exit
//!   the `ERET` synchronises; at a trap an `ISB` comes before the first access to what the trampoline
//!   does not map. On a CPU with Falkor erratum 1003, which may mix old table and new ASID, the trampoline
//!   needs the workaround of its own.
//! * [`AsidIn::Ttbr0`]: the table of the lower half stays, the kernel writes `TTBR1_EL1` by itself, and an
//!   `ISB` stands between the two. At the exit `TTBR1_EL1` is first, at a trap it is last: under user
//!   mode's ASID the kernel's table is never in force, and nothing of it is cached there.
//!
//! The kernel maps itself as not global, or its entries serve user mode, too. A CPU with Cavium erratum
//! 27456 needs `IC IALLU` at each change of the ASID, which a trampoline does not execute: run it with
//! [`Pairing::Single`].
//!
//! # Errata
//!
//! The table of [`errata`](super::errata) maps the Main ID Register to bits, and takes features away
//! that do not work; the sequences ask for bits and never for CPUs. Changed are sequences for Cavium
//! 27456, Qualcomm Falkor 1003, and the family that needs a second broadcast `TLBI; DSB`.
//!
//! Cavium ThunderX2 erratum 219 (an access between a write of `TTBRn` and the `ISB` that follows
//! may take a spurious abort) needs no bit: [`Instructions::set_ttbr0`] and its like are both
//! instructions in one piece of assembly, between which the compiler can put nothing.
//!
//! # Not used, on purpose
//!
//! * **`TLBI ...OS`**: the domain of a kernel is the inner-shareable one.
//! * **`TLBI ...nXS`** (FEAT_XS): an invalidation that does not wait for device accesses cannot
//!   prove that a frame is free.
//! * **FEAT_ETS2**: one CPU of a machine may lack it, and the `ISB` it would save is cheap.
//! * **FEAT_D128, FEAT_LVA3** (128-bit descriptors, 56-bit addresses): operands differ.
//! * **Level hints together with walk caches**: a hint is given only for last-level invalidation,
//!   where a caller can know that exactly one level was changed. A wrong hint is legally no
//!   invalidation at all, so one that is not certain is not given.
//! * **`DSB` by a thread that has migrated**: it completes nothing, so a batch that was begun on another CPU
//!   broadcasts everything ([`flush_batch`](crate::CurrentCpu::flush_batch)).
//! * **Software PAN**, by which a kernel takes the user's table out of `TTBR0` whenever it enters: then
//!   the kernel owns the register and not this crate. Every CPU since Armv8.1 has PAN in hardware.
//! * The interrupt that the streaming mode of C1-Pro needs after an invalidation (erratum 4193714):
//!   it takes the list of CPUs that run such threads, which no layer of this crate has.
//!
//! # References
//!
//! DDI 0487, D8 (The AArch64 Virtual Memory System Architecture), C5.5 (TLB maintenance
//! instructions), D24.2 (registers). Errata: the software developers' errata notices of each part.
//!
//! What is not known at first hand: the rules were checked against Arm's public memory model (the
//! `cat` files of herdtools7) and the errata against public kernels' tables, not against the manual
//! and the notices themselves. Section numbers are there to help a reader find the place.

mod barriers;
mod costs;
pub mod descriptor;
mod features;
#[cfg(any(all(target_arch = "aarch64", target_os = "none"), doc))]
mod insn;
mod instructions;
mod mmu;
mod range;
pub mod registers;
mod stage2;
pub mod tlbi;

pub use crate::arch::Scope;
pub use features::{Bbm, Features, Granules, HardwareUpdates, IdRegisters, Support};
#[cfg(any(all(target_arch = "aarch64", target_os = "none"), doc))]
pub use insn::{Native, NativeStage2};
pub use instructions::{Dsb, Instructions, Tlbi, TlbiOp};
pub use mmu::{Aarch64, AsidIn, Config, Pairing, RangeFlush};
pub use range::{Asid, Plan, Planner, Reach};
pub use stage2::{Stage2, Stage2Config};
pub use tlbi::{AddressSize, Geometry, Granule, Level};
