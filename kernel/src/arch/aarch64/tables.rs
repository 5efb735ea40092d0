//! The kernel's own map, and `TCR_EL1`.
//!
//! | at | is |
//! | --- | --- |
//! | `OFFSET` | the first GiB of physical addresses: devices |
//! | `OFFSET` + 1 GiB ... | memory: 2 MiB and later 1 GiB at a time |
//! | `OFFSET` + 511 GiB | the window for `vmap`, 2 MiB |
//!
//! Boot code needs the first 32 MiB of memory, where the kernel is. They are in the tables when the
//! kernel is loaded, and so nothing is written before there is translation.

use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicU64, Ordering},
};

use lookaside::arch::aarch64::{
    Features, HardwareUpdates, Level,
    descriptor::{self, Attributes, PRIVILEGED_EXECUTE_NEVER, READ_ONLY, USER_EXECUTE_NEVER},
    registers,
};

use super::{
    OFFSET,
    entry::{DEVICE, GEOMETRY, NORMAL},
    physical,
    register::{synchronise, write_register},
};
use crate::{arch::Table, lock::Once};

const MEMORY: u64 = 1 << 30;
const GIB: u64 = 1 << 30;
const MIB_2: u64 = 2 << 20;

/// The kernel's code is read-only, and all else is no code.
const CODE: Attributes = NORMAL.with(READ_ONLY | USER_EXECUTE_NEVER);
const DATA: Attributes = NORMAL.with(PRIVILEGED_EXECUTE_NEVER | USER_EXECUTE_NEVER);

/// What is added to an address in the image to make the entry for a table there.
const TABLE: u64 = 0b11u64.wrapping_sub(OFFSET as u64);

/// `TCR_EL1` as boot code needs it: both halves have 48 bits and pages of 4 KiB, tables are cached
/// (write-back, inner shareable), physical addresses have 32 bits, and hardware sets no flags.
pub(super) const TCR: u64 = HALF | HALF << 16 | 0b10 << 30;
/// `TnSZ`, `IRGNn`, `ORGNn`, `SHn`.
const HALF: u64 = 16 | 0b01 << 8 | 0b01 << 10 | 0b11 << 12;
/// Hardware sets flags.
const TCR_HARDWARE_FLAGS: u64 = registers::TCR_HA | registers::TCR_HD;

#[repr(C, align(4096))]
pub(super) struct Aligned(Table);

/// The first GiB of memory.
static FIRST: Aligned = Aligned(boot_map());
static VMAP: Aligned = Aligned([const { AtomicU64::new(0) }; 512]);
/// What `TTBR0_EL1` names while no space is loaded: nothing.
static RESERVED: Aligned = Aligned([const { AtomicU64::new(0) }; 512]);

unsafe extern "C" {
    /// The root of the upper half.
    #[link_name = "kernel_root"]
    pub(super) static KERNEL: Aligned;
    /// The table below it.
    #[link_name = "kernel_gibs"]
    static GIBS: Aligned;
    /// The root of the lower half until boot code has jumped up.
    #[link_name = "identity_root"]
    pub(super) static IDENTITY: Aligned;
}

// Tables that name tables, which no Rust constant can express.
global_asm!(
    ".pushsection .data.tables, \"aw\"",
    ".global kernel_root, kernel_gibs, identity_root",
    ".balign 4096",
    "kernel_root:   .quad kernel_gibs + {table}",
    "               .fill 511, 8, 0",
    "kernel_gibs:   .quad {devices}, {first} + {table}",
    "               .fill 509, 8, 0",
    "               .quad kernel_vmap + {table}",
    "kernel_vmap:   .quad {vmap} + {table}",
    "               .fill 511, 8, 0",
    "identity_root: .quad identity_gibs + {table}",
    "               .fill 511, 8, 0",
    "identity_gibs: .quad 0, {identity}",
    "               .fill 510, 8, 0",
    ".popsection",
    table = const TABLE,
    devices = const kernel_leaf(Level::L1, 0, DEVICE),
    first = sym FIRST,
    vmap = sym VMAP,
    // Not global, as nothing in the lower half may be.
    identity = const kernel_leaf(Level::L1, MEMORY, CODE) | descriptor::NOT_GLOBAL,
);

const fn kernel_leaf(level: Level, address: u64, attributes: Attributes) -> u64 {
    match descriptor::kernel_leaf(GEOMETRY, level, address, attributes) {
        Ok(leaf) => leaf,
        Err(_) => panic!("not aligned"),
    }
}

/// As in `link/aarch64.ld`: the device tree, code up to 16 MiB, data up to 32 MiB.
const fn boot_map() -> Table {
    let mut map = [const { AtomicU64::new(0) }; 512];
    let mut i = 0;
    while i < 16 {
        let attributes = if i >= 1 && i < 8 { CODE } else { DATA };
        map[i] = AtomicU64::new(kernel_leaf(Level::L2, MEMORY + i as u64 * MIB_2, attributes));
        i += 1;
    }
    map
}

/// The machine's `TCR_EL1`.
static MACHINE_TCR: Once<u64> = Once::new();

/// On the boot CPU, which has these features: without what its errata withdraw, so that hardware that loses
/// dirty bits is not asked to set them.
pub(super) fn open(features: &Features) {
    let flags = match features.hardware_updates {
        HardwareUpdates::AccessedAndDirty => TCR_HARDWARE_FLAGS,
        // With one flag of hardware's and one of software's nothing is won.
        HardwareUpdates::Accessed | HardwareUpdates::None => 0,
    };
    MACHINE_TCR.set(registers::tcr(TCR | flags, features));
    open_cpu();
}

/// Leaves the boot map, on each CPU.
pub(super) fn open_cpu() {
    // SAFETY: nothing uses the lower half any more, and the upper half is walked as before, with
    // larger addresses.
    unsafe { write_register!("ttbr0_el1", reserved_root()) };
    synchronise();
    // SAFETY: as above.
    unsafe { write_register!("tcr_el1", *MACHINE_TCR.get()) };
    synchronise();
    // The identity map's entry, and fields of TCR that entries were made under.
    // SAFETY: removed entries are walked again.
    unsafe { asm!("tlbi vmalle1", "dsb nsh", "isb", options(nostack, preserves_flags)) };
}

/// Maps memory up to `end`.
pub(super) fn map_memory(end: u64) {
    let mapped = MEMORY + 16 * MIB_2;
    for address in (mapped..end.min(MEMORY + GIB)).step_by(MIB_2 as usize) {
        let leaf = kernel_leaf(Level::L2, address, DATA);
        // Relaxed: the barrier below.
        FIRST.0[((address - MEMORY) / MIB_2) as usize].store(leaf, Ordering::Relaxed);
    }
    for address in (MEMORY + GIB..end).step_by(GIB as usize) {
        let leaf = kernel_leaf(Level::L1, address, DATA);
        // SAFETY: the table is one of atomic words. Relaxed: the barrier below.
        unsafe { &GIBS }.0[(address / GIB) as usize].store(leaf, Ordering::Relaxed);
    }
    // No CPU caches absent entries. The stores are visible to walks, here by the ISB;
    // the other CPUs are not up.
    // SAFETY: barriers.
    unsafe { asm!("dsb ishst", "isb", options(nostack, preserves_flags)) };
}

/// How much of the memory before `end` [`map_memory`] can map: behind the first, whole GiB.
pub(super) fn mappable(end: u64) -> u64 {
    let unit = if end > MEMORY + GIB { GIB } else { MIB_2 };
    end.min(511 * GIB) & !(unit - 1)
}

/// A root that maps no user page.
pub(crate) fn reserved_root() -> u64 {
    physical(&RESERVED)
}

/// Where kernel addresses that [`vmap_table`] maps begin.
pub(crate) fn vmap_window() -> usize {
    OFFSET + 511 * GIB as usize
}

/// The last-level table of [`vmap_window`].
pub(crate) fn vmap_table() -> &'static Table {
    &VMAP.0
}
