//! A space that CPUs 0 and 2 of three run. Its only page is unmapped, and the table above it is freed by the mapper.

#[allow(dead_code, missing_docs, unreachable_pub, reason = "as the crate has it")]
pub(crate) mod rmm;

/// What the kernel writes.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "a kernel has it in a module of its own"
)]
pub(crate) mod adapted {
    lookaside_rmm::adapt!(super::rmm);
}

use adapted::{FreedFrames, Holding, Recorder};
use lookaside::Gather;
use lookaside_adapters_machine::{Forget, machine, pages, space_on, this_cpu, told};
use rmm::{FrameAllocator, FrameCount, FrameUsage, Host, PageMapper, PhysicalAddress};

/// Frames by their numbers.
#[derive(Default)]
pub(crate) struct Frames {
    next: usize,
    pub(crate) free: Vec<usize>,
}

// SAFETY: each frame is given away once.
unsafe impl FrameAllocator for Frames {
    fn allocate(&mut self, count: FrameCount) -> Option<PhysicalAddress> {
        let first = self.next;
        self.next += count.0;
        Some(PhysicalAddress(first * 4096))
    }

    unsafe fn free(&mut self, address: PhysicalAddress, count: FrameCount) {
        self.free.extend((0..count.0).map(|frame| address.0 / 4096 + frame));
    }

    fn usage(&self) -> FrameUsage {
        FrameUsage { used: self.next - self.free.len() }
    }
}

pub(crate) type Tables = PageMapper<Host, Holding<Frames, Vec<FreedFrames>>>;

pub(crate) fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut tables = Tables::new(Holding::new(Frames::default(), Vec::new()));
    let tlb = machine(3)?;
    let space = space_on(tlb, 0x1000, &[0, 2])?;
    let (address, page) = (0x40_0000, pages(0x40_0000, 1, 12));

    // mmap. The entry was absent: nobody has to flush.
    let frame = tables.allocator_mut().allocate(FrameCount(1)).ok_or("no frame")?;
    let flush = tables.map_phys(address, frame).ok_or("not mapped")?;
    // SAFETY: `map` says what is to be done.
    unsafe { flush.ignore() };
    this_cpu(tlb).map(space, page);
    assert_eq!(tables.allocator_mut().usage().used, 2, "a page and a table");

    // munmap.
    let mut gather = Gather::holding(space, Vec::new());
    let (frame, flush) = tables.unmap_phys(address).ok_or("not mapped")?;
    Recorder(&mut gather).consume_at(address, flush);
    gather.hold_page(FreedFrames { address: frame, count: FrameCount(1) });
    tables.allocator_mut().hold_tables(page, &mut gather);
    assert_eq!(tables.allocator_mut().usage().used, 2, "nothing is free before the flush");

    for freed in this_cpu(tlb).flush(gather).frames {
        let FreedFrames { address, count } = freed;
        // SAFETY: the flush is complete.
        unsafe { tables.allocator_mut().allocator().free(address, count) };
    }
    let told = told(tlb);
    println!("{told:x?}");
    assert_eq!(told.len(), 2, "CPU 1 does not run the space");
    for (cpu, (told, forget)) in [0, 2].into_iter().zip(told) {
        assert_eq!(told, cpu);
        assert!(matches!(forget, Forget::PagesAndTables(_)), "the table is in walk caches");
    }
    assert_eq!(tables.allocator_mut().usage().used, 0);
    Ok(())
}
