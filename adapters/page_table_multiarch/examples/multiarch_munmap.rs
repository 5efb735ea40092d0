//! A space that CPUs 0 and 2 of three run. Forty pages of it are unmapped: more than the crate's own cursor remembers.

use core::alloc::Layout;
use std::alloc::{alloc_zeroed, dealloc};

use lookaside::Gather;
use lookaside_adapters_machine::{Forget, machine, pages, space_on, this_cpu, told};
use lookaside_page_table_multiarch::{PageTable, Unmapped};
use memory_addr::{PhysAddr, VirtAddr};
use page_table_multiarch::{MappingFlags, PageSize, PagingHandler};

#[cfg(target_arch = "aarch64")]
pub(crate) use page_table_entry::aarch64::A64PTE as Entry;
#[cfg(target_arch = "x86_64")]
pub(crate) use page_table_entry::x86_64::X64PTE as Entry;
#[cfg(target_arch = "aarch64")]
pub(crate) use page_table_multiarch::aarch64::A64PagingMetaData as MetaData;
#[cfg(target_arch = "x86_64")]
pub(crate) use page_table_multiarch::x86_64::X64PagingMetaData as MetaData;

/// The frames of page tables, at their own addresses.
pub(crate) struct Memory;

fn layout(frames: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(frames * 4096, align).ok()
}

impl PagingHandler for Memory {
    fn alloc_frames(frames: usize, align: usize) -> Option<PhysAddr> {
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc_zeroed(layout(frames, align)?) };
        (!memory.is_null()).then(|| PhysAddr::from(memory as usize))
    }

    fn dealloc_frames(address: PhysAddr, frames: usize) {
        if let Some(layout) = layout(frames, 4096) {
            // SAFETY: allocated above, for tables by single frames.
            unsafe { dealloc(address.as_usize() as *mut u8, layout) };
        }
    }

    fn phys_to_virt(address: PhysAddr) -> VirtAddr {
        VirtAddr::from(address.as_usize())
    }
}

pub(crate) type Table = PageTable<MetaData, Entry, Memory>;

pub(crate) fn main() -> Result<(), Box<dyn core::error::Error>> {
    let failed = |error| format!("{error:?}");
    let (start, size) = (VirtAddr::from(0x40_0000), 40 * 4096);
    let user = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::USER;
    let mut table = Table::try_new().map_err(failed)?;
    let tlb = machine(3)?;
    let space = space_on(tlb, table.root_paddr().as_usize() as u64, &[0, 2])?;

    // mmap.
    let frame = |page: VirtAddr| PhysAddr::from(page.as_usize() + 0x8000_0000);
    let mut gather = Gather::new(space);
    table.cursor(&mut gather).map_region(start, frame, size, user, false).map_err(failed)?;
    let range = pages(0x40_0000, 40, 12);
    this_cpu(tlb).map(space, range);
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(told(tlb), [], "entries that were absent are in no TLB");

    // munmap.
    let mut gather = Gather::holding(space, Vec::new());
    table.cursor(&mut gather).unmap_region(start, size).map_err(failed)?;
    assert!(table.query(start).is_err());
    let freed: Vec<Unmapped> = this_cpu(tlb).flush(gather).frames;

    let told = told(tlb);
    println!("{told:x?}");
    let forget = Forget::Pages(vec![range]);
    assert_eq!(told, [(0, forget.clone()), (2, forget)], "CPU 1 does not run the space");
    assert_eq!(freed.len(), 40);
    assert_eq!(freed[1], Unmapped { frame: frame(start + 4096), size: PageSize::Size4K });
    Ok(())
}
