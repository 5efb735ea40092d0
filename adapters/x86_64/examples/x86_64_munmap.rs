//! A space that CPUs 0 and 2 of three run. A page of it is unmapped, and the table above it is freed.

use std::collections::BTreeMap;

use lookaside::Gather;
use lookaside_adapters_machine::{Forget, machine, pages, space_on, this_cpu, told};
use lookaside_x86_64::Recorded;
use x86_64::{
    PhysAddr, VirtAddr,
    structures::paging::{
        FrameAllocator, MappedPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size4KiB,
        mapper::PageTableFrameMapping,
    },
};

type Failure = Box<dyn core::error::Error>;

/// The frames of page tables. Where physical memory lies in this process, so do they: the address is the same.
#[derive(Default)]
pub(crate) struct Memory(BTreeMap<u64, Box<PageTable>>);

// SAFETY: each frame is given away once.
unsafe impl FrameAllocator<Size4KiB> for Memory {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let table = Box::<PageTable>::default();
        let address = &raw const *table as u64;
        self.0.insert(address, table);
        PhysFrame::from_start_address(PhysAddr::new(address)).ok()
    }
}

/// Physical memory as this process sees it.
#[derive(Debug)]
pub(crate) struct Identity;

// SAFETY: frames are allocated by `Memory`, at their own address.
unsafe impl PageTableFrameMapping for Identity {
    fn frame_to_pointer(&self, frame: PhysFrame) -> *mut PageTable {
        frame.start_address().as_u64() as *mut PageTable
    }
}

pub(crate) fn main() -> Result<(), Failure> {
    let (mut memory, mut top) = (Memory::default(), PageTable::new());
    let root = &raw const top as u64;
    // SAFETY: the tables are at their own addresses.
    let mut tables = Recorded::new(unsafe { MappedPageTable::new(&mut top, Identity) });
    let tlb = machine(3)?;
    let space = space_on(tlb, root, &[0, 2])?;

    // mmap.
    let page: Page = Page::containing_address(VirtAddr::new(0x40_0000));
    let frame = PhysFrame::containing_address(PhysAddr::new(0x8000_0000));
    let flags =
        PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::USER_ACCESSIBLE;
    // SAFETY: nothing executes in this space.
    unsafe { tables.map_to(page, frame, flags, &mut memory) }
        .map_err(|error| format!("{error:?}"))?;
    let range = pages(0x40_0000, 1, 12);
    this_cpu(tlb).map(space, range);
    assert_eq!(told(tlb), [], "an entry that was absent is in no TLB");

    // munmap.
    let mut gather = Gather::holding(space, Vec::new());
    tables.unmap(page, &mut gather).map_err(|error| format!("{error:?}"))?;
    let all = Page::range_inclusive(page, page);
    // SAFETY: `memory` frees none of them before the flush.
    unsafe { tables.clean_up_addr_range(all, &mut gather) };
    let freed: Vec<PhysFrame> = this_cpu(tlb).flush(gather).frames;

    let told = told(tlb);
    println!("{told:x?}");
    let forget = Forget::PagesAndTables(vec![range.mixed()]);
    assert_eq!(told, [(0, forget.clone()), (2, forget)], "CPU 1 does not run the space");
    assert_eq!(freed.len(), 4, "the page and three tables");
    assert_eq!(freed[0], frame);
    for table in &freed[1..] {
        assert!(memory.0.remove(&table.start_address().as_u64()).is_some());
    }
    assert!(memory.0.is_empty());
    Ok(())
}
