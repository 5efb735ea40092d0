//! What each change tells the TLBs, and what is refused.

#[path = "../examples/aarch64_replace.rs"]
mod example;

use core::{cell::Cell, ptr::NonNull};
use std::rc::Rc;

use aarch64_paging::{
    MapError, Mapping,
    descriptor::{El1Attributes, PhysicalAddress},
    idmap::IdTranslation,
    paging::{Constraints, El1And0, MemoryRegion, PageTable, Translation, VaRange as Half},
};
use example::{Tables, USER, free};
use lookaside::{Gather, KernelGather};
use lookaside_aarch64_paging::{Freed, LiveMapping};
use lookaside_adapters_machine::{Forget, Machine, machine, pages, space_on, this_cpu, told};

type Recording<'g> = Gather<'g, Machine, Vec<Freed<El1Attributes>>>;

const START: usize = 0x4000_0000;
const BLOCK: usize = 0x20_0000;
const FRAMES: PhysicalAddress = PhysicalAddress(0x8000_0000);

fn region(first: usize, bytes: usize) -> MemoryRegion {
    MemoryRegion::new(START + first, START + first + bytes)
}

/// Two pages, and after the next boundary a block.
fn mapped() -> Tables {
    let mut tables = Tables::new(IdTranslation::new(), 1, El1And0, Half::Lower);
    let Ok(tlb) = machine(1) else { panic!("no machine") };
    let mut gather = KernelGather::new(tlb);
    for (first, bytes) in [(0, 8192), (BLOCK, BLOCK)] {
        let none = Constraints::empty();
        assert_eq!(
            tables.map_range(&region(first, bytes), FRAMES, USER, none, &mut gather),
            Ok(())
        );
    }
    tables
}

/// Changes something, and returns what CPU 1, which runs the space, was told, and how much became free.
fn told_by<R>(
    change: impl FnOnce(&mut Tables, &mut Recording<'_>) -> Result<R, MapError>,
) -> (Result<R, MapError>, Vec<Forget>, usize) {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let Ok(space) = space_on(tlb, 0x1000, &[0, 1]) else { panic!("no space") };
    let mut tables = mapped();
    let mut gather = Gather::holding(space, Vec::new());
    let result = change(&mut tables, &mut gather);
    let freed = this_cpu(tlb).flush(gather).frames;
    let count = freed.len();
    free(freed);
    let told = told(tlb).into_iter().filter(|&(cpu, _)| cpu == 1).map(|(_, forget)| forget);
    (result, told.collect(), count)
}

fn mixed(first: usize, count: u64) -> lookaside::VaRange {
    pages((START + first) as u64, count, 12).mixed()
}

#[test]
fn the_example_runs() {
    assert!(example::main().is_ok());
}

#[test]
fn an_unmapped_page_is_forgotten_and_held() {
    let (result, told, freed) =
        told_by(|tables, gather| tables.unmap_range(&region(0, 4096), gather));
    assert_eq!((result, told, freed), (Ok(()), vec![Forget::Pages(vec![mixed(0, 1)])], 1));
}

#[test]
fn an_unmapped_block_is_held_with_its_size() {
    let Ok(tlb) = machine(1) else { panic!("no machine") };
    let mut gather = KernelGather::holding(tlb, Vec::new());
    assert_eq!(mapped().unmap_range(&region(BLOCK, BLOCK), &mut gather), Ok(()));
    let freed = this_cpu(tlb).flush_kernel(gather).frames;
    assert_eq!(freed, [Freed::Page { address: FRAMES, bytes: BLOCK }]);
}

#[test]
fn a_hole_tells_nothing() {
    let hole = region(0x8000, 4096);
    let (result, told, freed) = told_by(|tables, gather| tables.unmap_range(&hole, gather));
    assert_eq!((result, told.len(), freed), (Ok(()), 0, 0));
}

#[test]
fn a_table_is_held_until_the_flush_of_walk_caches() {
    let (result, told, freed) = told_by(|tables, gather| {
        tables.unmap_range(&region(0, 8192), gather)?;
        tables.compact_subtables(gather);
        Ok(())
    });
    assert_eq!((result, freed), (Ok(()), 3));
    assert_eq!(told, [Forget::Everything]);
}

#[test]
fn tables_in_use_are_not_compacted() {
    let (_, told, freed) = told_by(|tables, gather| {
        tables.compact_subtables(gather);
        Ok(())
    });
    assert_eq!((told.len(), freed), (0, 0));
}

#[test]
fn fewer_permissions_are_flushed_even_if_the_updater_fails() {
    for fails in [false, true] {
        let (result, told, _) = told_by(|tables, gather| {
            tables.modify_range(
                &region(0, 8192),
                &|region, descriptor| {
                    if fails && region.start().0 != START {
                        return Err(());
                    }
                    descriptor.modify_flags(El1Attributes::READ_ONLY, El1Attributes::empty())
                },
                gather,
            )
        });
        assert_eq!(result.is_err(), fails);
        assert_eq!(told, [Forget::Pages(vec![mixed(0, 2)])]);
    }
}

#[test]
fn mapping_again_with_fewer_permissions_is_flushed() {
    let (result, told, _) = told_by(|tables, gather| {
        let flags = USER | El1Attributes::READ_ONLY;
        tables.map_range(&region(0, 4096), FRAMES, flags, Constraints::empty(), gather)
    });
    assert_eq!((result, told), (Ok(()), vec![Forget::Pages(vec![mixed(0, 1)])]));
}

#[test]
fn an_empty_table_is_flushed_with_the_addresses_that_it_mapped() {
    let Ok(tlb) = machine(1) else { panic!("no machine") };
    let mut tables = mapped();
    let mut unmap = |bytes: usize| {
        let mut gather = KernelGather::holding(tlb, Vec::new());
        assert_eq!(tables.unmap_range(&region(0, bytes), &mut gather), Ok(()));
        free(this_cpu(tlb).flush_kernel(gather).frames);
        told(tlb)
    };
    assert_eq!(unmap(8192), [(0, Forget::Kernel(vec![mixed(0, 2)]))]);
    assert_eq!(unmap(BLOCK), [(0, Forget::KernelAndTables(vec![mixed(0, 512)]))]);
}

/// Counts the tables that there are.
struct Counted(IdTranslation<El1Attributes>, Rc<Cell<usize>>);

impl Translation<El1Attributes> for Counted {
    fn allocate_table(&mut self) -> (NonNull<PageTable<El1Attributes>>, PhysicalAddress) {
        self.1.set(self.1.get() + 1);
        self.0.allocate_table()
    }

    unsafe fn deallocate_table(&mut self, table: NonNull<PageTable<El1Attributes>>) {
        self.1.set(self.1.get() - 1);
        // SAFETY: the caller promises it.
        unsafe { self.0.deallocate_table(table) };
    }

    fn physical_to_virtual(&self, pa: PhysicalAddress) -> NonNull<PageTable<El1Attributes>> {
        self.0.physical_to_virtual(pa)
    }
}

#[test]
fn a_dropped_mapping_frees_its_tables_itself() {
    let Ok(tlb) = machine(1) else { panic!("no machine") };
    let count = Rc::new(Cell::new(0));
    let translation = Counted(IdTranslation::new(), Rc::clone(&count));
    let mut tables = LiveMapping::new(translation, 1, El1And0, Half::Lower);
    let mut gather = KernelGather::new(tlb);
    let none = Constraints::empty();
    assert_eq!(tables.map_range(&region(0, 8192), FRAMES, USER, none, &mut gather), Ok(()));
    assert_eq!(count.get(), 3);
    drop(tables);
    assert_eq!(count.get(), 0);
}

#[test]
fn other_frames_need_a_break() {
    let map = |tables: &mut Tables, gather: &mut Recording<'_>| {
        let other = PhysicalAddress(0x9000_0000);
        tables.map_range(&region(0, 4096), other, USER, Constraints::empty(), gather)
    };
    let (result, told, _) = told_by(map);
    assert_eq!(result, Err(MapError::BreakBeforeMakeViolation(region(0, 4096))));
    assert_eq!(told, []);
}

#[test]
fn flags_that_unmap_are_refused() {
    let map = |tables: &mut Tables, gather: &mut Recording<'_>| {
        let nothing = El1Attributes::empty();
        tables.map_range(&region(0, 4096), FRAMES, nothing, Constraints::empty(), gather)
    };
    assert_eq!(told_by(map).0, Err(MapError::InvalidFlags(0)));
}

/// `Mapping::modify_range` of the crate writes a table where a live block is, without a break, if its updater leaves the
/// block as it is.
#[test]
fn the_crate_splits_a_live_block_and_this_one_refuses() {
    let none = Constraints::empty();
    let part = region(BLOCK, 4096);
    let level = |mapping: &Mapping<IdTranslation<El1Attributes>, El1And0>| {
        let mut found = None;
        let walked = mapping.walk_range(&part, &mut |_, _, level| {
            found = Some(level);
            Ok(())
        });
        assert_eq!(walked, Ok(()));
        found
    };
    let mut mapping =
        Mapping::with_asid_and_va_range(IdTranslation::new(), 1, 1, El1And0, Half::Lower);
    assert_eq!(mapping.map_range(&region(BLOCK, BLOCK), FRAMES, USER, none), Ok(()));
    mapping.mark_active();
    assert_eq!(level(&mapping), Some(2));
    assert_eq!(mapping.modify_range(&part, &|_, _| Ok(())), Ok(()));
    assert_eq!(level(&mapping), Some(3), "0.12.3 splits it");
    mapping.mark_inactive();

    let (result, told, _) =
        told_by(|tables, gather| tables.modify_range(&part, &|_, _| Ok(()), gather));
    assert_eq!(result, Err(MapError::BreakBeforeMakeViolation(part.clone())));
    assert_eq!(told, []);
    let (result, told, freed) = told_by(|tables, gather| tables.unmap_range(&part, gather));
    assert_eq!(result, Err(MapError::BreakBeforeMakeViolation(part.clone())));
    assert_eq!((told.len(), freed), (0, 0));
}

#[test]
fn kernel_addresses_are_forgotten_by_every_cpu() {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let top = MemoryRegion::new(usize::MAX - 0x1f_ffff, usize::MAX - 0x1f_ffff + 4096);
    let mut tables = LiveMapping::new(IdTranslation::new(), 1, El1And0, Half::Upper);
    let mut gather = KernelGather::holding(tlb, Vec::<Freed<El1Attributes>>::new());
    let kernel = El1Attributes::VALID | El1Attributes::ACCESSED;
    let none = Constraints::empty();
    assert_eq!(tables.map_range(&top, FRAMES, kernel, none, &mut gather), Ok(()));
    assert_eq!(tables.unmap_range(&top, &mut gather), Ok(()));
    free(this_cpu(tlb).flush_kernel(gather).frames);
    let forget = Forget::Kernel(vec![pages(!0x1f_ffff, 1, 12).mixed()]);
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, forget.clone())));
}
