//! A space that CPUs 0 and 2 of three run. Two pages are unmapped with the tables above them, and a block takes their
//! place: break, flush, make.

use aarch64_paging::{
    descriptor::{El1Attributes, PhysicalAddress},
    idmap::IdTranslation,
    paging::{Constraints, El1And0, MemoryRegion, Translation as _, VaRange as Half},
};
use lookaside::Gather;
use lookaside_aarch64_paging::{Freed, LiveMapping};
use lookaside_adapters_machine::{Forget, machine, pages, space_on, this_cpu, told};

pub(crate) type Tables = LiveMapping<IdTranslation<El1Attributes>, El1And0>;

pub(crate) const USER: El1Attributes = El1Attributes::VALID
    .union(El1Attributes::ACCESSED)
    .union(El1Attributes::NON_GLOBAL)
    .union(El1Attributes::USER);

/// Frees tables as the translation of the mapping does: this one has no state.
pub(crate) fn free(freed: Vec<Freed<El1Attributes>>) {
    for freed in freed {
        if let Freed::Table(table) = freed {
            // SAFETY: every `IdTranslation` allocates tables with the global allocator, and the flush is complete.
            unsafe { IdTranslation::new().deallocate_table(table.into_raw()) };
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn core::error::Error>> {
    let (start, size, none) = (0x4000_0000, 0x20_0000, Constraints::empty());
    let mut tables = Tables::new(IdTranslation::new(), 1, El1And0, Half::Lower);
    let tlb = machine(3)?;
    let space = space_on(tlb, tables.root_address().0 as u64, &[0, 2])?;

    // mmap.
    let two = MemoryRegion::new(start, start + 8192);
    let mut gather = Gather::new(space);
    tables.map_range(&two, PhysicalAddress(0x8000_0000), USER, none, &mut gather)?;
    this_cpu(tlb).map(space, pages(start as u64, 2, 12));
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(told(tlb), [], "entries that were absent are in no TLB");

    // A block in their place is refused while they are there.
    let block = MemoryRegion::new(start, start + size);
    let mut gather = Gather::holding(space, Vec::new());
    assert!(
        tables.map_range(&block, PhysicalAddress(0x4000_0000), USER, none, &mut gather).is_err()
    );

    // Break, flush ...
    tables.unmap_range(&block, &mut gather)?;
    let freed: Vec<Freed<_>> = this_cpu(tlb).flush(gather).frames;
    let told_by_break = told(tlb);
    println!("{told_by_break:x?}");
    let forget = Forget::PagesAndTables(vec![pages(start as u64, 512, 12).mixed()]);
    assert_eq!(told_by_break, [(0, forget.clone()), (2, forget)], "CPU 1 does not run the space");
    assert_eq!(freed.len(), 3, "two pages and a table");
    free(freed);

    // ... and make.
    let mut gather = Gather::new(space);
    tables.map_range(&block, PhysicalAddress(0x4000_0000), USER, none, &mut gather)?;
    this_cpu(tlb).map(space, pages(start as u64, 1, 21));
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(told(tlb), []);
    Ok(())
}
