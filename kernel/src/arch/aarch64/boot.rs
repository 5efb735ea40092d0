//! From the first instruction to the kernel proper.
//!
//! QEMU enters `boot` at its physical address, translation and interrupts off, in EL1 or, with
//! `virtualization=on`, in EL2; PSCI enters `boot_other` in the same state with the number of the CPU
//! in `x0`. Until translation is on, code is position independent and stores nothing: without it
//! memory is like a device, and exclusives have no effect that one could rely on.

use core::{arch::global_asm, cell::UnsafeCell};

use super::{
    OFFSET, device_tree, gic,
    register::write_register,
    tables::{self, IDENTITY, KERNEL, TCR},
    trap, uart,
};
use crate::arch::{MAX_CPUS, STACK};

/// `MAIR_EL1`: index 0 is normal memory, write-back; index 1 is a device, nGnRE.
const MAIR: u64 = 0x04ff;

/// `SCTLR_EL1`: the bits that are one where they mean nothing, and no alignment checks.
const SCTLR_OFF: u64 = 0x30d0_0800;
/// Translation (0), caches (2, 12), and checks of the stack pointer's alignment (3, 4).
const SCTLR_ON: u64 = SCTLR_OFF | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 12;

/// `CPTR_EL2`: traps nothing; the bits that are one.
const CPTR: u64 = 0x33ff;
/// `SPSR`: EL1 on its own stack, everything masked.
const EL1: u64 = 0x3c5;

/// The stacks on which the CPUs boot, and on which they idle.
#[repr(C, align(16))]
struct Stacks(UnsafeCell<[[u8; STACK]; MAX_CPUS]>);

// SAFETY: each CPU uses its own.
unsafe impl Sync for Stacks {}

static STACKS: Stacks = Stacks(UnsafeCell::new([[0; STACK]; MAX_CPUS]));

unsafe extern "C" {
    /// Where a CPU that PSCI starts begins.
    static boot_other: u8;
}

global_asm!(
    ".pushsection .text.boot, \"ax\"",
    ".global boot, boot_other",
    "boot:",
    "    mov x0, #0",
    "boot_other:",
    "    msr daifset, #0xf",
    "    msr spsel, #1",
    // A hypervisor leaves: EL1 is 64 bits wide, has the counter and the timers, sees its real
    // identity, and nothing traps.
    "    mrs x1, CurrentEL",
    "    cmp x1, #(2 << 2)",
    "    b.ne 2f",
    "    mov x1, #(1 << 31)",
    "    msr hcr_el2, x1",
    "    mov x1, #3",
    "    msr cnthctl_el2, x1",
    "    msr cntvoff_el2, xzr",
    "    mov x1, #{cptr}",
    "    msr cptr_el2, x1",
    "    msr hstr_el2, xzr",
    "    msr vttbr_el2, xzr",
    "    mrs x1, midr_el1",
    "    msr vpidr_el2, x1",
    "    mrs x1, mpidr_el1",
    "    msr vmpidr_el2, x1",
    "    ldr x1, ={sctlr_off}",
    "    msr sctlr_el1, x1",
    "    mov x1, #{el1}",
    "    msr spsr_el2, x1",
    "    adr x1, 2f",
    "    msr elr_el2, x1",
    "    eret",
    // Translation on. What caches of translations hold after a reset is not known.
    "2:  mov x1, #{mair}",
    "    msr mair_el1, x1",
    "    ldr x1, ={tcr}",
    "    msr tcr_el1, x1",
    "    adrp x1, {identity}",
    "    msr ttbr0_el1, x1",
    "    adrp x1, {kernel}",
    "    msr ttbr1_el1, x1",
    "    isb",
    "    tlbi vmalle1",
    "    dsb nsh",
    "    ldr x1, ={sctlr_on}",
    "    msr sctlr_el1, x1",
    "    isb",
    // From here on where it was linked. The stack of this CPU ends where the next one's begins.
    "    ldr x1, ={stacks}",
    "    mov x2, #{stack}",
    "    madd x1, x0, x2, x1",
    "    add sp, x1, x2",
    "    mov x29, #0",
    "    ldr x1, ={enter}",
    "    blr x1",
    "    .ltorg",
    ".popsection",
    cptr = const CPTR,
    sctlr_off = const SCTLR_OFF,
    sctlr_on = const SCTLR_ON,
    el1 = const EL1,
    mair = const MAIR,
    tcr = const TCR,
    identity = sym IDENTITY,
    kernel = sym KERNEL,
    stacks = sym STACKS,
    stack = const STACK,
    enter = sym enter,
);

/// Where the CPUs that PSCI starts begin: a physical address.
pub(super) fn address_of_others() -> u64 {
    (&raw const boot_other as usize - OFFSET) as u64
}

/// The first Rust code on each CPU.
extern "C" fn enter(cpu: usize) -> ! {
    // SAFETY: the register is the kernel's own and means the number of this CPU.
    unsafe { write_register!("tpidr_el1", cpu as u64) };
    trap::open();
    if cpu == 0 {
        tables::open(&super::features());
        uart::open();
        gic::open();
        gic::open_cpu();
        let machine = device_tree::machine();
        tables::map_memory(machine.memory.end);
        crate::start(machine);
    }
    tables::open_cpu();
    gic::open_cpu();
    crate::start_other();
}
