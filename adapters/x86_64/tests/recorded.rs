//! What each change tells the TLBs.

#[path = "../examples/x86_64_munmap.rs"]
mod example;

use example::{Identity, Memory};
use lookaside::{AddressSpace, Gather, KernelGather, Tlb, VaRange};
use lookaside_adapters_machine::{Forget, Machine, machine, pages, space_on, this_cpu, told};
use lookaside_x86_64::{Recorded, revoke, revoke_all};
use x86_64::{
    PhysAddr, VirtAddr,
    structures::paging::{
        MappedPageTable, Page, PageSize, PageTable, PageTableFlags, PhysFrame, Size2MiB, Size4KiB,
        mapper::{MapperFlush, MapperFlushAll},
    },
};

const USER: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::USER_ACCESSIBLE);
const AT: u64 = 0x7f12_3460_0000;

type Mapped<'t> = Recorded<MappedPageTable<'t, Identity>>;

fn page<S: PageSize>() -> Page<S> {
    Page::containing_address(VirtAddr::new(AT))
}

/// Maps a page, changes something, and returns what CPU 1, which runs the space, was told.
fn told_by<S: PageSize>(
    change: impl FnOnce(&mut Mapped<'_>, &mut Memory, &mut Gather<'_, Machine, Frames>),
) -> Vec<Forget>
where
    for<'t> MappedPageTable<'t, Identity>: x86_64::structures::paging::Mapper<S>,
{
    let (tlb, space) = one_space();
    let (mut memory, mut top) = (Memory::default(), PageTable::new());
    // SAFETY: the tables are at their own addresses.
    let mut tables = Recorded::new(unsafe { MappedPageTable::new(&mut top, Identity) });
    let frame = PhysFrame::<S>::containing_address(PhysAddr::new(0x4000_0000));
    // SAFETY: nothing executes in this space.
    let mapped = unsafe { tables.map_to(page::<S>(), frame, USER, &mut memory) };
    assert!(mapped.is_ok());
    let mut gather = Gather::holding(space, Frames::default());
    change(&mut tables, &mut memory, &mut gather);
    let _ = this_cpu(tlb).flush(gather);
    told(tlb).into_iter().filter(|&(cpu, _)| cpu == 1).map(|(_, forget)| forget).collect()
}

fn one_space() -> (&'static Tlb<'static, Machine>, &'static AddressSpace<Machine>) {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let Ok(space) = space_on(tlb, 0x1000, &[0, 1]) else { panic!("no space") };
    (tlb, space)
}

/// A kernel's container for frames of all sizes.
#[derive(Default)]
struct Frames(Vec<u64>);

impl<S: PageSize> Extend<PhysFrame<S>> for Frames {
    fn extend<I: IntoIterator<Item = PhysFrame<S>>>(&mut self, frames: I) {
        self.0.extend(frames.into_iter().map(|frame| frame.start_address().as_u64()));
    }
}

/// All that an entry of this size maps, around [`AT`].
fn below(shift: u32) -> Vec<Forget> {
    let all = pages(AT >> shift << shift, 1 << (shift - 12), 12);
    // So many pages are flushed by tag.
    assert!(all.pages() >= 512);
    vec![Forget::PagesAndTables(vec![all.mixed()])]
}

#[test]
fn the_example_runs() {
    assert!(example::main().is_ok());
}

#[test]
fn an_unmapped_block_is_forgotten_in_its_size() {
    let told = told_by::<Size2MiB>(|tables, _, gather| {
        assert!(tables.unmap(page::<Size2MiB>(), gather).is_ok());
    });
    assert_eq!(told, [Forget::Pages(vec![pages(AT, 1, 21)])]);
}

#[test]
fn a_page_that_was_not_mapped_tells_nothing() {
    let told = told_by::<Size4KiB>(|tables, _, gather| {
        assert!(tables.unmap(page::<Size4KiB>() + 1, gather).is_err());
    });
    assert_eq!(told, []);
}

#[test]
fn fewer_permissions_are_flushed() {
    let told = told_by::<Size4KiB>(|tables, _, gather| {
        // SAFETY: nothing executes in this space.
        let updated =
            unsafe { tables.update_flags(page::<Size4KiB>(), PageTableFlags::PRESENT, gather) };
        assert!(updated.is_ok());
    });
    assert_eq!(told, [Forget::Pages(vec![pages(AT, 1, 12)])]);
}

#[test]
fn an_entry_of_a_table_concerns_all_that_it_maps() {
    let told = told_by::<Size4KiB>(|tables, _, gather| {
        // SAFETY: nothing executes in this space.
        let set = unsafe { tables.set_flags_p2_entry(page::<Size4KiB>(), USER, gather) };
        assert!(set.is_ok());
    });
    assert_eq!(told, below(21));
}

#[test]
fn entries_of_higher_tables_concern_more() {
    for level in [3, 4] {
        let told = told_by::<Size4KiB>(|tables, _, gather| {
            // SAFETY: nothing executes in this space.
            let set = unsafe {
                match level {
                    3 => tables.set_flags_p3_entry(page::<Size4KiB>(), USER, gather),
                    _ => tables.set_flags_p4_entry(page::<Size4KiB>(), USER, gather),
                }
            };
            assert!(set.is_ok());
        });
        assert_eq!(told.len(), 1, "{level}: {told:?}");
    }
}

#[test]
fn a_parent_that_takes_away_concerns_all_its_pages() {
    let map = |more: PageTableFlags| {
        told_by::<Size4KiB>(|tables, memory, gather| {
            let (next, frame) = (page::<Size4KiB>() + 1, PhysAddr::new(0x9000_0000));
            let frame = PhysFrame::containing_address(frame);
            // SAFETY: nothing executes in this space.
            let mapped = unsafe {
                tables.map_to_with_table_flags(next, frame, USER, USER | more, memory, gather)
            };
            assert!(mapped.is_ok());
        })
    };
    assert_eq!(map(PageTableFlags::empty()), []);
    assert_eq!(map(PageTableFlags::NO_EXECUTE).len(), 1);
}

#[test]
fn tables_that_are_not_freed_tell_nothing() {
    let told = told_by::<Size4KiB>(|tables, _, gather| {
        let all = Page::range_inclusive(page(), page());
        // SAFETY: the page is mapped still.
        unsafe { tables.clean_up_addr_range(all, gather) };
    });
    assert_eq!(told, []);
}

#[test]
fn tokens_of_other_code_are_taken() {
    let token =
        told_by::<Size4KiB>(|_, _, gather| revoke(MapperFlush::new(page::<Size2MiB>()), gather));
    assert_eq!(token, [Forget::Pages(vec![pages(AT, 1, 21)])]);
    let token = told_by::<Size4KiB>(|_, _, gather| revoke_all(MapperFlushAll::new(), gather));
    assert_eq!(token, [Forget::Everything]);
}

#[test]
fn a_kernel_page_is_forgotten_by_every_cpu() {
    let (tlb, _) = one_space();
    let mut gather = KernelGather::new(tlb);
    let top = Page::<Size4KiB>::containing_address(VirtAddr::new(u64::MAX));
    revoke(MapperFlush::new(top), &mut gather);
    let _ = this_cpu(tlb).flush_kernel(gather);
    let Ok(last) = VaRange::new(!0xfff, 4096, 12) else { panic!("the last page") };
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, Forget::Kernel(vec![last]))));
}

/// Its frame is leaked, and the next flush of the space flushes everything.
#[test]
fn a_dropped_gather_is_made_up_for() {
    let (tlb, space) = one_space();
    let mut gather = Gather::new(space);
    revoke(MapperFlush::new(page::<Size4KiB>()), &mut gather);
    drop(gather);
    assert_eq!(told(tlb), []);
    let mut gather = Gather::new(space);
    revoke(MapperFlush::new(page::<Size4KiB>() + 1), &mut gather);
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, Forget::Everything)));
}
