//! What the firmware says of the machine: the device tree.

use core::ops::Range;

use fdt::{
    Fdt,
    node::FdtNode,
    standard_nodes::{Cpu, MemoryRegion},
};
use lookaside::arch::riscv64::{Extensions, Mode, mode_from_mmu_type};

use super::paging;
use crate::arch::PAGE;

unsafe extern "C" {
    /// Where the linker has put the end of the kernel.
    #[link_name = "kernel_end"]
    static KERNEL_END: u8;
}

/// A hart, as the tree has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hart {
    /// Its number, for the firmware.
    pub(super) id: u64,
    /// The widest mode of translation.
    pub(super) mode: Mode,
    pub(super) extensions: Extensions,
}

pub(super) struct Tree {
    tree: Fdt<'static>,
    at: u64,
}

impl Tree {
    /// # Safety
    ///
    /// What is at this address stays there.
    ///
    /// # Panics
    ///
    /// If it is no device tree.
    pub(super) unsafe fn new(at: *const u8) -> Self {
        // SAFETY: it looks for itself whether this is a tree; that it stays is the caller's word.
        let tree = unsafe { Fdt::from_ptr(at) }.expect("the firmware passes a device tree");
        Self { tree, at: at.addr() as u64 }
    }

    /// How often the counter of time counts, a second.
    pub(super) fn timebase(&self) -> u64 {
        let cpu = self.tree.cpus().next().expect("there is a CPU");
        cpu.timebase_frequency() as u64
    }

    pub(super) fn command_line(&self) -> &'static str {
        let chosen = self.tree.find_node("/chosen");
        chosen.and_then(|node| node.property("bootargs")?.as_str()).unwrap_or("")
    }

    /// The harts that can run a kernel.
    pub(super) fn harts(&self) -> impl Iterator<Item = Hart> {
        self.tree.cpus().filter_map(hart)
    }

    /// The largest unused piece of the memory that the kernel is in, or nearly so: the used parts are cut out
    /// one after the other, and each time the larger side is kept.
    pub(super) fn memory(&self) -> Range<u64> {
        let kernel = (&raw const KERNEL_END).addr() as u64;
        let memory = self.tree.memory();
        let bank = memory.regions().filter_map(range).find(|bank| bank.contains(&kernel));
        let Range { start, end } = bank.expect("the kernel is in memory");
        // The firmware lies below the kernel, whether it says so or not.
        let rest = start.max(kernel)..end.min(paging::MAPPED);
        let tree = self.at..self.at + self.tree.total_size() as u64;
        let noted = self.tree.memory_reservations().map(|piece| {
            let start = piece.address().addr() as u64;
            start..start + piece.size() as u64
        });
        let nodes = self.tree.find_node("/reserved-memory");
        let nodes = nodes.iter().flat_map(|node| node.children());
        let named = nodes.filter_map(FdtNode::reg).flatten().filter_map(range);
        let Range { start, end } = noted.chain(named).chain([tree]).fold(rest, without);
        let page = PAGE as u64;
        start.next_multiple_of(page)..end / page * page
    }
}

/// The larger part of `memory` that is not in `used`.
fn without(memory: Range<u64>, used: Range<u64>) -> Range<u64> {
    let below = memory.start..memory.end.min(used.start);
    let above = memory.start.max(used.end)..memory.end;
    let size = |piece: &Range<u64>| piece.end.saturating_sub(piece.start);
    if size(&below) > size(&above) { below } else { above }
}

fn range(region: MemoryRegion) -> Option<Range<u64>> {
    let start = region.starting_address.addr() as u64;
    Some(start..start + region.size? as u64)
}

/// What a node says of a hart that is in use and translates.
fn hart(cpu: Cpu<'_, '_>) -> Option<Hart> {
    if cpu.property("status").is_some_and(|status| status.as_str() != Some("okay")) {
        return None;
    }
    let mode = mode_from_mmu_type(cpu.property("mmu-type")?.value)?;
    let extensions = match cpu.property("riscv,isa-extensions") {
        Some(list) => Extensions::from_list(list.value),
        None => Extensions::from_isa_string(cpu.property("riscv,isa")?.value).ok()?,
    };
    Some(Hart { id: cpu.ids().first() as u64, mode, extensions })
}
