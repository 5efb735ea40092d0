//! What each architecture provides: one module of the same shape for each, chosen by the target.
//!
//! All of it is below the kernel proper and above the instructions. The library's hardware is apart, in each
//! architecture's `tlb.rs`: an integrator writes that file.
//!
//! # What a module exports
//!
//! *The machine.*
//!
//! * Its boot code brings the boot CPU into the kernel's address space, on a stack of [`STACK`]
//!   bytes, interrupts off, and calls [`crate::start`] with a [`Machine`].
//! * `start_others(count)` starts the CPUs `1..count`; each calls [`crate::start_other`] in the same
//!   state. It returns when all have been started, or says on the console which have not.
//! * `cpu() -> usize`: the number of this CPU.
//! * `write_byte(u8)`: to the serial console.
//! * `exit(code: u8) -> !`: leaves the emulator with this exit code.
//! * `halt() -> !`: stops this CPU for good, interrupts off.
//! * `start_ticks()`: the timer of this CPU interrupts 100 times a second from here on.
//! * `now() -> u64`: nanoseconds since some moment, the same on all CPUs to a few microseconds.
//! * `interrupt_cpu(cpu: usize)`: the one interrupt between CPUs. What this CPU has stored before is
//!   visible to the handler.
//! * `idle()`: waits for an interrupt with interrupts on, and returns with interrupts off.
//! * `relax()`: once around a waiting loop.
//!
//! *Traps.* Interrupts are off in all kernel code but `idle`.
//!
//! * `TrapFrame`: the registers of a thread in user mode. `TrapFrame::user(entry, stack, arguments: [usize;
//!   2])`, `syscall() -> (usize, [usize; 4])`, `set_result(usize)`, and `Clone`.
//! * `Context`: the registers of a thread in the kernel. `Context::new(stack_top, entry)` with
//!   `entry: extern "C" fn() -> !`, `Context::NEW`, and
//!   `unsafe fn switch(from: *mut Context, to: *const Context)`.
//! * `unsafe fn return_to_user(frame: *const TrapFrame) -> !`.
//! * `set_kernel_stack(top: usize)`: where this CPU's next trap from user mode begins. The trap frame
//!   is written just below it.
//! * Calls [`crate::trap`]: `syscall(frame)`, `page_fault(frame, address, access)`,
//!   `bad_program(frame, what)`, `tick(from_user)`, `message(from_user)`. What happens in the kernel
//!   and is no interrupt is a panic that names registers.
//!
//! *Page tables.*
//!
//! * `OFFSET: usize`: physical address `p` is at virtual address `OFFSET + p`, for all memory and
//!   devices that the kernel touches.
//! * `USER: Range<usize>`: where user mode may have pages. `LEVELS: u32`: of tables under a root.
//! * `reserved_root() -> u64`: the physical address of a root that maps the kernel and no user page.
//! * `fill_root(root: &Table)`: puts the kernel's own entries into a new root, where it shares one.
//! * `vmap_window() -> usize`: start of an area of 2 MiB of kernel addresses whose last-level table,
//!   given by `vmap_table() -> &'static Table`, all CPUs share.
//! * Entries, as plain `u64`: `page(address, level, Protection) -> u64` (level 0 is 4 KiB, level 1 is
//!   2 MiB), `kernel_page(address) -> u64`, `table(address) -> u64`, `is_present(u64) -> bool`,
//!   `is_page(u64, level) -> bool`, `address_of(u64) -> u64`, `protection(u64) -> Protection`,
//!   `flags(u64) -> Flags`, `with(u64, Flags) -> u64`, `without(u64, Flags) -> u64`, and
//!   `HARDWARE_FLAGS: bool`-like `hardware_sets_flags() -> bool`: whether walks set accessed and dirty.
//!   A fresh page is neither accessed nor dirty; a walker that cannot set a flag faults.
//! * `type Blocks: contig::Format` and `blocks() -> Option<Blocks>`: entries that hardware may hold as
//!   one, if this machine has any; `size_change() -> contig::SizeChange`.
//!
//! * `probe(address: usize) -> Option<u64>`: a load from a page of user mode, or none if it faults. Interrupts are off.
//! * `sync_code(address: usize, bytes: usize)`: makes what was written there, by kernel address, fit to
//!   be executed on all CPUs.
//!
//! *The library's part*, in `tlb.rs`: `type Mmu`, `mmu() -> Result<Mmu, Error>`, `features()`.

use core::{ops::Range, sync::atomic::AtomicU64};

#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
mod imp;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64/mod.rs"]
mod imp;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod imp;

pub(crate) use imp::*;

/// As the architecture's. In builds that test the tests no IPI is sent.
pub(crate) fn interrupt_cpu(cpu: usize) {
    if !cfg!(feature = "no-ipi") {
        imp::interrupt_cpu(cpu);
    }
}

/// The size of every kernel stack, in bytes.
pub(crate) const STACK: usize = 32 << 10;

/// The most CPUs that the kernel uses.
pub(crate) const MAX_CPUS: usize = 8;

/// The size of a page, and of a frame.
pub(crate) const PAGE: usize = 4096;

/// A page table, at any level.
pub(crate) type Table = [AtomicU64; 512];

/// The results of boot code.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Physical addresses of unused memory, whole pages.
    pub(crate) memory: Range<u64>,
    /// How many CPUs there are.
    pub(crate) cpus: usize,
    /// The command line: words with `=`, between spaces.
    pub(crate) command_line: &'static str,
}

/// The permissions of user mode for a page, which it may always read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Protection {
    pub(crate) write: bool,
    pub(crate) execute: bool,
}

/// The access of a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Execute,
}
