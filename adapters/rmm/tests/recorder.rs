//! What tokens tell the TLBs, and when tables are free.

#[path = "../examples/redox_munmap/main.rs"]
mod example;

use example::{
    Frames, Tables,
    adapted::{FreedFrames, Holding, Recorder},
    rmm::{Flusher, FrameAllocator, FrameCount, Host, PageFlush, PhysicalAddress},
};
use lookaside::{Gather, KernelGather};
use lookaside_adapters_machine::{Forget, Machine, machine, pages, space_on, this_cpu, told};

type Recording<'g> = Gather<'g, Machine, Vec<FreedFrames>>;

/// Changes something, and returns what CPU 1, which runs the space, was told, and how much became free.
fn told_by(change: impl FnOnce(&mut Recording<'_>)) -> (Vec<Forget>, usize) {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let Ok(space) = space_on(tlb, 0x1000, &[0, 1]) else { panic!("no space") };
    let mut gather = Gather::holding(space, Vec::new());
    change(&mut gather);
    let freed = this_cpu(tlb).flush(gather).frames.len();
    let told = told(tlb).into_iter().filter(|&(cpu, _)| cpu == 1).map(|(_, forget)| forget);
    (told.collect(), freed)
}

#[test]
fn the_example_runs() {
    assert!(example::main().is_ok());
}

#[test]
fn a_token_with_its_address_is_a_page() {
    let (told, _) = told_by(|gather| {
        Recorder(gather).consume_at(0x40_0123, PageFlush::<Host>::new(0x40_0123));
    });
    assert_eq!(told, [Forget::Pages(vec![pages(0x40_0000, 1, 12)])]);
}

#[test]
fn a_token_alone_is_everything() {
    let (told, _) = told_by(|gather| Recorder(gather).consume(PageFlush::<Host>::new(0x40_0000)));
    assert_eq!(told, [Forget::Everything]);
}

#[test]
fn a_table_that_is_still_used_is_not_held() {
    let mut tables = Tables::new(Holding::new(Frames::default(), Vec::new()));
    for page in 0..2 {
        let mapped = tables.map_phys(0x40_0000 + page * 4096, PhysicalAddress(0x8000_0000));
        Recorder(&mut kernel()).consume(mapped.unwrap_or_else(|| panic!("no table")));
    }
    let mut unmap = |address: usize| {
        told_by(|gather| {
            let Some((_, flush)) = tables.unmap_phys(address) else { panic!("not mapped") };
            Recorder(gather).consume_at(address, flush);
            tables.allocator_mut().hold_tables(pages(address as u64, 1, 12), gather);
        })
    };
    assert_eq!(unmap(0x40_0000), (vec![Forget::Pages(vec![pages(0x40_0000, 1, 12)])], 0));
    let (told, freed) = unmap(0x40_1000);
    assert_eq!(freed, 1);
    assert!(matches!(told.as_slice(), [Forget::PagesAndTables(_)]), "{told:?}");
    assert_eq!(tables.allocator_mut().usage().used, 1, "the table is the caller's to free");
}

#[test]
fn a_table_is_flushed_with_the_addresses_that_it_mapped() {
    let mut allocator = Holding::new(Frames::default(), Vec::new());
    let Some(table) = allocator.allocate(FrameCount(1)) else { panic!("no frame") };
    // SAFETY: nobody uses it.
    unsafe { allocator.free(table, FrameCount(1)) };
    let (told, freed) = told_by(|gather| allocator.hold_tables(pages(0x40_0000, 1, 12), gather));
    let below = pages(0x40_0000, 1, 12).mixed();
    assert_eq!((told, freed), (vec![Forget::PagesAndTables(vec![below])], 1));
    let (told, freed) = told_by(|gather| allocator.hold_tables(below, gather));
    assert_eq!((told.len(), freed), (0, 0), "it is held once");
}

fn kernel() -> KernelGather {
    let Ok(tlb) = machine(1) else { panic!("no machine") };
    KernelGather::new(tlb)
}

#[test]
fn a_kernel_page_is_forgotten_by_every_cpu() {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let mut gather = KernelGather::new(tlb);
    let address = usize::MAX - 0xfff;
    Recorder(&mut gather).consume_at(address, PageFlush::<Host>::new(address));
    let _ = this_cpu(tlb).flush_kernel(gather);
    let forget = Forget::Kernel(vec![pages(!0xfff, 1, 12)]);
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, forget.clone())));
}
