//! What each change tells the TLBs.

#[path = "../examples/multiarch_munmap.rs"]
mod example;

use core::sync::atomic::{AtomicUsize, Ordering};

use example::{Entry, Memory, MetaData, Table};
use lookaside::{AddressSpace, Gather, KernelGather, Tlb};
use lookaside_adapters_machine::{Forget, Machine, machine, pages, space_on, this_cpu, told};
use lookaside_page_table_multiarch::{Cursor, Inner, PageTable, Unmapped};
use memory_addr::{PhysAddr, VirtAddr};
use page_table_multiarch::{
    MappingFlags, PageSize, PageTable64, PagingError, PagingMetaData, PagingResult,
};

type Recording<'c, 'g> = Cursor<'c, MetaData, Entry, Memory, Gather<'g, Machine, Vec<Unmapped>>>;

const AT: usize = 0x7f12_3440_0000;
const FRAME: usize = 0x4000_0000;
const BLOCK: usize = 1 << 21;

fn user() -> MappingFlags {
    MappingFlags::READ | MappingFlags::WRITE | MappingFlags::USER
}

fn at(page: usize) -> VirtAddr {
    VirtAddr::from(AT + page * 4096)
}

fn one_space() -> (&'static Tlb<'static, Machine>, &'static AddressSpace<Machine>) {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let Ok(space) = space_on(tlb, 0x1000, &[0, 1]) else { panic!("no space") };
    (tlb, space)
}

/// Two pages at [`AT`], and a block after the next boundary.
fn mapped() -> Table {
    let Ok(mut table) = Inner::try_new() else { panic!("no table") };
    let mut cursor = table.cursor();
    for page in 0..2 {
        let frame = PhysAddr::from(FRAME + page * 4096);
        assert_eq!(cursor.map(at(page), frame, PageSize::Size4K, user()), Ok(()));
    }
    let block = VirtAddr::from(AT + BLOCK);
    assert_eq!(cursor.map(block, PhysAddr::from(FRAME), PageSize::Size2M, user()), Ok(()));
    drop(cursor);
    PageTable::before_first_use(table)
}

/// Changes something, and returns what CPU 1, which runs the space, was told, and the frames that became free.
fn told_by<R>(
    change: impl FnOnce(&mut Recording<'_, '_>) -> PagingResult<R>,
) -> (PagingResult<R>, Vec<Forget>, Vec<Unmapped>) {
    let ((tlb, space), mut table) = (one_space(), mapped());
    let mut gather = Gather::holding(space, Vec::new());
    let result = change(&mut table.cursor(&mut gather));
    let frames = this_cpu(tlb).flush(gather).frames;
    let told = told(tlb).into_iter().filter(|&(cpu, _)| cpu == 1).map(|(_, forget)| forget);
    (result, told.collect(), frames)
}

fn page(page: usize) -> Vec<Forget> {
    vec![Forget::Pages(vec![pages((AT + page * 4096) as u64, 1, 12)])]
}

#[test]
fn the_example_runs() {
    assert!(example::main().is_ok());
}

#[test]
fn an_unmapped_page_is_forgotten_and_its_frame_held() {
    let (result, told, frames) = told_by(|cursor| cursor.unmap(at(1)));
    assert!(result.is_ok());
    assert_eq!(told, page(1));
    let frame = PhysAddr::from(FRAME + 4096);
    assert_eq!(frames, [Unmapped { frame, size: PageSize::Size4K }]);
}

#[test]
fn an_unmapped_block_is_forgotten_in_its_size() {
    let inside = VirtAddr::from(AT + BLOCK + 0x5000);
    let (result, told, frames) = told_by(|cursor| cursor.unmap(inside));
    assert!(result.is_ok());
    assert_eq!(told, [Forget::Pages(vec![pages((AT + BLOCK) as u64, 1, 21)])]);
    assert_eq!(frames, [Unmapped { frame: PhysAddr::from(FRAME), size: PageSize::Size2M }]);
}

#[test]
fn a_borrowed_frame_is_not_held() {
    let (result, told, frames) = told_by(|cursor| cursor.unmap_borrowed_region(at(0), 4096));
    assert_eq!((result, frames.as_slice()), (Ok(()), [].as_slice()));
    assert_eq!(told, page(0));
}

#[test]
fn fewer_permissions_are_flushed() {
    let (result, told, _) = told_by(|cursor| cursor.protect(at(0), MappingFlags::READ));
    assert_eq!(result, Ok(PageSize::Size4K));
    assert_eq!(told, page(0));
    let region =
        |cursor: &mut Recording<'_, '_>| cursor.protect_region(at(0), 8192, MappingFlags::READ);
    let (result, told, _) = told_by(region);
    assert_eq!(result, Ok(()));
    assert_eq!(told, [Forget::Pages(vec![pages(AT as u64, 2, 12).mixed()])]);
}

#[test]
fn what_was_unmapped_before_a_hole_is_flushed() {
    let (result, told, frames) = told_by(|cursor| cursor.unmap_region(at(1), 2 * 4096));
    assert_eq!(result, Err(PagingError::NotMapped));
    assert_eq!(told, page(1));
    assert_eq!(frames.len(), 1);
}

#[test]
fn a_block_is_not_unmapped_for_a_part_of_it() {
    let block = VirtAddr::from(AT + BLOCK);
    let (result, told, frames) = told_by(|cursor| cursor.unmap_region(block, 4096));
    assert_eq!(result, Err(PagingError::MappedToHugePage));
    assert_eq!((told.len(), frames.len()), (0, 0));
}

#[test]
fn a_new_mapping_flushes_nothing() {
    let map = |cursor: &mut Recording<'_, '_>| {
        cursor.map(at(2), PhysAddr::from(FRAME), PageSize::Size4K, user())
    };
    let (result, told, _) = told_by(map);
    assert_eq!((result, told.len()), (Ok(()), 0));
}

#[test]
fn a_region_that_is_not_aligned_is_refused_and_changes_nothing() {
    let address = VirtAddr::from(AT + 1);
    let (result, told, _) = told_by(|cursor| cursor.protect_region(address, 4096, user()));
    assert_eq!((result, told.len()), (Err(PagingError::NotAligned), 0));
}

#[test]
fn kernel_pages_are_forgotten_by_every_cpu() {
    let ((tlb, _), mut table) = (one_space(), mapped());
    let mut gather = KernelGather::holding(tlb, Vec::<Unmapped>::new());
    assert!(table.cursor(&mut gather).unmap(at(0)).is_ok());
    assert_eq!(this_cpu(tlb).flush_kernel(gather).frames.len(), 1);
    let forget = Forget::Kernel(vec![pages(AT as u64, 1, 12)]);
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, forget.clone())));
}

/// Counts the calls of `flush_tlb`.
struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl PagingMetaData for Counting {
    const LEVELS: usize = MetaData::LEVELS;
    const PA_MAX_BITS: usize = MetaData::PA_MAX_BITS;
    const VA_MAX_BITS: usize = MetaData::VA_MAX_BITS;

    type VirtAddr = VirtAddr;

    fn flush_tlb(_: Option<VirtAddr>) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Version 0.6.2: neither when the cursor is asked to flush nor when it is dropped, as long as the target names an operating
/// system, as this host's does.
#[test]
fn the_crates_cursor_flushes_nothing_where_the_target_names_an_operating_system() {
    let Ok(mut table) = PageTable64::<Counting, Entry, Memory>::try_new() else {
        panic!("no table")
    };
    let mut cursor = table.cursor();
    assert_eq!(cursor.map(at(0), PhysAddr::from(FRAME), PageSize::Size4K, user()), Ok(()));
    assert!(cursor.unmap(at(0)).is_ok());
    cursor.flush();
    assert_eq!(cursor.map(at(0), PhysAddr::from(FRAME), PageSize::Size4K, user()), Ok(()));
    assert!(cursor.unmap(at(0)).is_ok());
    drop(cursor);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
}
