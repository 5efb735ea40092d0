//! The adversary: a machine that does the worst that its architecture permits.
//!
//! # The TLB is a set, not a cache
//!
//! For each CPU the machine keeps the set of all walks, whole and partial, that its hardware could
//! be holding now: tag, address prefix, level, descriptor, and, as ghost state, the space it is
//! of. A descriptor that reaches memory and a root that is loaded *add* every walk that has become
//! derivable, also from partial walks that are stale; only an invalidation *removes*. Fills and
//! evictions are never scheduled. So the oracle is an invariant and not a sample: a stale entry is
//! found even if no program touches the page.
//!
//! # The rules
//!
//! Arm (A), x86 (X) and RISC-V (R), as far as the machine has them:
//!
//! | rule | what the machine does |
//! | --- | --- |
//! | A1 | An invalid descriptor and a leaf without AF are never cached; table descriptors are. |
//! | A2, A16 | Walks start from every root and ASID that `TTBR0`, `TTBR1` and `TCR` have named since the last `ISB` or exception, in every combination. |
//! | A4 | A `TLBI` names what the Arm ARM says: by address also globals, by ASID not; `L` forms leave partial walks; without `IS` only the issuer's entries; level hints and ranges are decoded; `VMALLS12E1` is about the current VMID. |
//! | A5 | A `TLBI` waits for a `DSB` before it, and neither for stores nor for `DMB`s, acquires, releases or atomic operations: what could be walked at any time since that `DSB` stays. Of a `DSB ISHST` that is what could be walked since the CPU's last store before it. |
//! | A6 | What a `TLBI` names stays usable until a full `DSB` *of the same CPU*; `NSH` completes local ones only. |
//! | A7 | That `DSB` waits for other CPUs' stores through the translation. |
//! | A8 | The issuer's own accesses need an `ISB` or an exception, too, unless [`Config::ets2`]. With it, a walk that faults comes after earlier stores of its CPU. |
//! | A10 | Two leaves that one CPU may hold together for one address and tag may not differ in size (with [`Bbm::L0`]), memory type, shareability, nG, or output where either permits stores: [`Rule::BreakBeforeMake`]. |
//! | A11 | They may differ in permissions; a store may meet either. |
//! | A12 | Above [`Bbm::L0`] sizes may differ; an access uses either, or takes a conflict abort unless [`Bbm::L2NoAbort`]. |
//! | A13 | A walk through one entry of a contiguous block may cache a translation for any page of it, made from that entry alone. |
//! | A14, A15 | With [`Updates`], hardware sets AF at any moment and AP\[2\] on a store, atomically and after another look at the descriptor that it writes; in a block, in any entry that permits stores. |
//! | A17 | With [`Config::cnp`], entries made while `TTBR0.CnP` is set serve every CPU whose `TTBR0.CnP` is set, which may keep copies of what it uses. A local invalidation removes the issuer's copies only. |
//! | X1 to X3 | Only present descriptors are cached; partial walks are, and combine with fresh descriptors. |
//! | X4 | Pages and blocks for one address may both be used. |
//! | X5 to X8 | `INVLPG`, `INVPCID`, `CR3` and `CR4` remove exactly what they must: of other PCIDs and of globals nothing, where it may stay, and no partial walk by `INVPCID` of an address. What raises `#GP` is a violation: [`Rule::ProtectionFault`]. |
//! | X1, X10, X11 | Of a descriptor that [`tables::hardware_writes`] names, hardware sets A before it caches and D when a store uses an entry without it; an entry that has a bit does not set it again, whatever memory says. With [`Config::late_dirty`], D may be set after W is cleared. |
//! | X12, X13 | Stores reach walks when they leave the store buffer. Invalidations and writes of control registers are local and immediate; all but `INVPCID` empty the buffer first. |
//! | X14 | `INVLPGB` does not wait for the store buffer, and is completed by `TLBSYNC` of the same CPU. With the stride of large pages it names one address in each. |
//! | R2, A9 | With [`Config::with_invalid_entries`], an access may fault because nothing was mapped before: on RISC-V until a fence names the address, on Arm until the context is synchronised. |
//! | R3, R4 | `SFENCE.VMA` is local, orders stores to page tables before walks, and removes exactly what its operands name. |
//! | R6, R7 | A write of `satp` takes effect at once, orders nothing and removes nothing. |
//! | R8 | `SINVAL.VMA` takes effect at `SFENCE.INVAL.IR`; `SFENCE.W.INVAL` orders stores before it, and nothing else does, as of A5. |
//! | R9 | With [`Updates::Nothing`] what is not accessed, or not dirty when it is stored through, faults (Svade); with [`Updates::Dirty`] hardware sets both (Svadu). |
//! | R10 | Any entry of a NAPOT block may serve any page of it. Entries that disagree are one of them; a reserved size maps nothing. |
//! | R11 | As X4. |
//! | R12 | The firmware's remote fence acts on all the harts it names at the end of the call. |
//!
//! What an instruction names, removes, orders and faults on is decided by [`lookaside_hardware`], and is the same
//! for the [litmus engine](crate::litmus); this machine decides when it happens.
//!
//! # Claims, and tags that no root register names
//!
//! A CPU may hold entries under tags that its root register does not name. A claim that a page is revoked
//! ([`oracle::revoked`], [`oracle::frame_freed`]) is not violated by them, since no access can use them.
//! They are recorded, and violate it when a root is loaded under which they can be used, unless they were
//! invalidated before or have become derivable again. A partial walk to
//! a table that is given back ([`oracle::table_freed`]) is a violation at once under
//! [`Config::walks_outlive_tags`], under any tag; elsewhere it is treated as a page is. An entry
//! that holds under every tag can be used as soon as any root is loaded, and by the kernel
//! ([`oracle::kernel_revoked`]) even without one.
//!
//! # Memory
//!
//! Each CPU has a store buffer: none, one queue, or one queue for each word ([`Buffers`]). A load
//! sees the youngest store of its own CPU, or memory. An atomic read-modify-write acts on memory.
//! Under [`Buffers::Pso`], a `Release` store waits for all earlier stores, a store after a
//! `Release` fence waits for all before it, a `SeqCst` load waits for the earlier `SeqCst` stores of
//! its CPU, and a `SeqCst` fence waits for everything. A page walk is not a load: it reads memory,
//! at any moment.
//!
//! With [`Loads::Early`] a load may be *satisfied* before it is executed: it returns what memory held at any
//! time since the last operation of its CPU that holds loads back, but nothing older than what the CPU has read
//! or written there. An acquiring load may be early itself; what follows it is not earlier than the value that
//! it returned. A locked operation reads the newest value, and a load after it may be satisfied between its
//! read and its write: as a barrier, an acquiring one is an acquiring load and no more. Dependencies hold
//! nothing back. A word that a program waits for by [`relax`] is not read old for ever: after the wait it is as
//! it was then, or newer. An interrupt holds back what follows it. All CPUs see stores in one order.
//!
//! # Not modelled
//!
//! Possible false alarms:
//!
//! * Early loads know no dependencies: a load whose address is that of an earlier one may be satisfied before
//!   it, which Arm and RISC-V forbid. A program that relies on that, and not on an `Acquire`, is reported.
//! * A loop that looks again without [`relax`] may read what is old until the execution counts as endless.
//! * A claim that follows a plain store may be made when that store has reached memory, and others
//!   have gone on. A claim about what is in memory now follows a fence, or an atomic.
//! * [`relax`] waits until a word has changed. A loop that gives up after a number of rounds, or
//!   that waits for something that is not in a word, is reported as stuck.
//! * The firmware's remote fence on RISC-V does not order the caller's earlier stores, nor does it wait
//!   for stores that its targets have translated and not performed. (Firmware that tells its caller of
//!   completion as a program would, with a release, makes them wait.)
//! * A `TLBI` that depends on a load, by its operand or because a branch does, is not held back by that load, as
//!   it is on hardware.
//! * Two CPUs that invalidate the same entry at the same time, while it is walked anew from a
//!   partial walk that both have doomed, may keep it for longer than they could.
//!
//! Violations that may be missed:
//!
//! * No store is seen before an earlier load of its CPU is satisfied: load buffering is not shown, and an
//!   `Acquire` that only stores depend on is never missed. Without [`Loads::Early`], which is not the default,
//!   loads execute in program order, and no missing `Acquire` is seen.
//! * A compare-exchange that fails has read the newest value.
//! * Accessed and dirty bits of descriptors that the scenario does not name, of blocks above the last
//!   level, and of descriptors that name tables. The accessed bit is set unasked once for each
//!   descriptor and execution; the dirty bit never is. A store sets it in the step in which it is
//!   translated. What a CPU does when the table itself has been unhooked meanwhile is not followed.
//!   That x86 may set D where P was cleared is not done, even with [`Config::late_dirty`].
//! * A walk from a root that is loaded now reads what memory holds now. On hardware the write of the register
//!   may come before loads and atomic operations that stand before it, with no `DSB` in between, and the walk with it.
//! * Stores in flight through a translation which a `TLBI` that came early has missed: its completion waits for them.
//! * `INVLPGB` is not earlier than the locked operations before it.
//! * How A14 and FEAT_ETS2 order hardware updates with other accesses of their CPU.
//! * Contiguous entries above the last level. A block has as many pages as [`Config::block_bits`]
//!   says, not 16.
//! * Break-before-make: read-only pages that lead to frames of different contents, a table in place
//!   of a block and the other way round while nothing is cached below the table, and the nT bit that
//!   level 1 asks for. Amalgamated entries do not happen: what could make them is reported.
//! * Errata other than those of [`Deviations`], which a scenario asks for: without it hardware does here what
//!   its architecture says.
//! * Without [`Config::with_invalid_entries`], which is not the default, an access faults only if memory holds
//!   no translation at that moment. With it, what RISC-V remembers of a descriptor that was invalid while a
//!   `SINVAL.VMA` was under way goes with it.
//! * AMD's `EFER.TCE`, and `INVLPGB` by ASID of virtual machines; stage 2, which no
//!   scenario runs. `TTBR1` names no tables: kernel mappings are put into a table that
//!   the spaces share, and are walked to from `TTBR0`.
//! * Arm's walk caches under a tag that nobody names are held against a table that is given back, but
//!   nothing is walked from them.
//! * Permissions, other than that a store needs one: privilege, execution and protection keys.
//! * Accesses in flight are stores in the store buffer ([`access_store`]); a load has happened when
//!   it is translated.
//! * Interrupts come between two steps. They do not come between two `get`s or `set`s with no step
//!   between, and not while a handler runs. NMIs ([`Config::with_nmis`]) come before every `get` and `set`, too, but
//!   not while one of theirs runs.
//! * Interrupts of one CPU by several others are one while it is pending; none is lost but by
//!   a CPU that initialises its interrupt controller ([`reset`]) or goes off ([`power_off`]).
//! * Instruction fetch and the instruction cache.

mod absent;
mod access;
pub mod arm;
mod block;
mod callback;
mod choice;
pub(crate) mod clash;
pub(crate) mod config;
mod cpu;
mod current;
mod descriptors;
pub(crate) mod deviations;
pub(crate) mod execution;
pub(crate) mod flags;
pub(crate) mod footprint;
pub(crate) mod format;
pub(crate) mod hash;
pub(crate) mod invalidate;
pub(crate) mod machine;
mod memory;
pub(crate) mod op;
pub mod oracle;
mod platform;
mod power;
mod private;
mod progress;
mod replaced;
pub mod riscv;
mod scenario;
mod sharers;
mod sites;
pub mod tables;
pub(crate) mod tape;
pub(crate) mod tlb;
mod trace;
mod updates;
mod view;
mod violation;
mod walker;
mod window;
mod word;
pub mod x86;

pub use access::{access, access_store};
pub use config::{Arch, Bbm, Buffers, Config, Loads, Updates};
pub use deviations::Deviations;
pub use flags::Flags;
pub use format::{Access, Frame};
pub use platform::{COSTS, Platform, interrupt, relax};
pub use power::{power_off, power_on, stop};
pub use scenario::{Scenario, as_cpu, irq_off, irq_on, leak, milestone, outcome, reset, saw};
pub use trace::{Line, name};
pub use view::{CpuView, EntryView, View};
pub use violation::{Rule, Violation};
pub use word::Word;
