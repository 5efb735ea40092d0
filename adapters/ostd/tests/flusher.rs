//! What each request tells the TLBs.

#[path = "../examples/asterinas_munmap.rs"]
mod example;

use lookaside::{AddressSpace, Tlb};
use lookaside_adapters_machine::{Forget, Machine, irqs_off, machine, pages, space_on, told};
use lookaside_ostd::{TlbFlushOp, TlbFlusher};

fn one_space() -> (&'static Tlb<'static, Machine>, &'static AddressSpace<Machine>) {
    let Ok(tlb) = machine(2) else { panic!("no machine") };
    let Ok(space) = space_on(tlb, 0x1000, &[0, 1]) else { panic!("no space") };
    (tlb, space)
}

/// What CPU 1, which runs the space, was told.
fn told_by(op: TlbFlushOp) -> Vec<Forget> {
    let (tlb, space) = one_space();
    let mut flusher = TlbFlusher::new(space, ());
    flusher.issue_tlb_flush(op);
    let _ = flusher.dispatch_tlb_flush(tlb, &irqs_off()).sync_tlb_flush();
    told(tlb).into_iter().filter(|&(cpu, _)| cpu == 1).map(|(_, forget)| forget).collect()
}

fn mixed(start: u64, count: u64) -> Vec<Forget> {
    vec![Forget::Pages(vec![pages(start, count, 12).mixed()])]
}

#[test]
fn the_example_runs() {
    assert!(example::main().is_ok());
}

#[test]
fn a_single_address_is_its_page_wherever_it_is_inside() {
    assert_eq!(told_by(TlbFlushOp::for_single(0x40_0000)), mixed(0x40_0000, 1));
    assert_eq!(told_by(TlbFlushOp::for_single(0x40_0fff)), mixed(0x40_0000, 1));
}

#[test]
fn ranges_are_pages_and_all_is_everything() {
    assert_eq!(told_by(TlbFlushOp::for_range(0x40_0000..0x46_4000)), mixed(0x40_0000, 100));
    assert_eq!(told_by(TlbFlushOp::for_all()), [Forget::Everything]);
}

#[test]
#[should_panic(expected = "page-aligned")]
fn a_range_that_is_not_aligned_is_refused() {
    let _ = TlbFlushOp::for_range(0x40_0001..0x40_1000);
}

#[test]
#[should_panic(expected = "not be empty")]
fn an_empty_range_is_refused() {
    let _ = TlbFlushOp::for_range(0x40_0000..0x40_0000);
}

/// Of `ostd`'s own nothing would be flushed, ever, and the frame would be freed.
#[test]
fn a_flusher_that_is_dropped_is_made_up_for() {
    let (tlb, space) = one_space();
    let frame = std::rc::Rc::new(());
    let mut flusher = TlbFlusher::new(space, Vec::new());
    flusher.issue_tlb_flush_with(TlbFlushOp::for_single(0x40_0000), frame.clone());
    drop(flusher);
    assert_eq!(std::rc::Rc::strong_count(&frame), 2, "it is leaked, not freed");
    let mut flusher = TlbFlusher::new(space, ());
    flusher.issue_tlb_flush(TlbFlushOp::for_single(0x50_0000));
    let _ = flusher.dispatch_tlb_flush(tlb, &irqs_off()).sync_tlb_flush();
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, Forget::Everything)));
}

#[test]
fn a_table_of_everything_is_held() {
    let (tlb, space) = one_space();
    let mut flusher = TlbFlusher::new(space, Vec::new());
    flusher.issue_tlb_flush_with_table(TlbFlushOp::for_all(), 7);
    assert_eq!(flusher.dispatch_tlb_flush(tlb, &irqs_off()).sync_tlb_flush().frames, [7]);
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, Forget::Everything)));
}

#[test]
fn kernel_addresses_are_forgotten_by_every_cpu() {
    let (tlb, _) = one_space();
    let mut flusher = TlbFlusher::for_kernel(tlb, Vec::new());
    flusher.issue_tlb_flush_with(TlbFlushOp::for_single(usize::MAX), 7);
    let freed = flusher.dispatch_tlb_flush(tlb, &irqs_off()).sync_tlb_flush().frames;
    assert_eq!(freed, [7]);
    let forget = Forget::Kernel(vec![pages(!0xfff, 1, 12).mixed()]);
    assert_eq!(told(tlb), [0, 1].map(|cpu| (cpu, forget.clone())));
}
