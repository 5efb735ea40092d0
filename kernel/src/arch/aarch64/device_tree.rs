//! What the machine's device tree says. For an ELF file no register tells where the tree is: it is at
//! the start of memory.

use fdt::Fdt;

use super::{OFFSET, tables::mappable};
use crate::{arch::Machine, lock::Once};

const ADDRESS: usize = 0x4000_0000;

static TREE: Once<Fdt<'static>> = Once::new();

unsafe extern "C" {
    /// The end of the kernel's image.
    static image_end: u8;
}

/// Looks at the tree, once, on the boot CPU.
pub(super) fn machine() -> Machine {
    // SAFETY: the boot map has the tree, below the kernel, where nobody ever writes.
    let tree = unsafe { Fdt::from_ptr((OFFSET + ADDRESS) as *const u8) };
    TREE.set(tree.unwrap_or_else(|error| panic!("no device tree: {error}")));
    let tree = TREE.get();
    let memory = tree.memory();
    let region = memory.regions().find(|region| region.starting_address as usize == ADDRESS);
    let bytes =
        region.and_then(|region| region.size).expect("the memory that we are in has a size");
    Machine {
        memory: (&raw const image_end as usize - OFFSET) as u64..mappable((ADDRESS + bytes) as u64),
        cpus: tree.cpus().count(),
        command_line: tree.chosen().bootargs().unwrap_or(""),
    }
}

/// The affinities of all CPUs, as `MPIDR_EL1` has them.
pub(super) fn affinities() -> impl Iterator<Item = u64> {
    TREE.get().cpus().map(|cpu| cpu.ids().first() as u64)
}

/// Whether PSCI is called by `hvc`; otherwise by `smc`.
pub(super) fn psci_by_hvc() -> bool {
    let method = TREE.get().find_node("/psci").and_then(|psci| psci.property("method"));
    method.and_then(|method| method.as_str()) == Some("hvc")
}
