//! A space that CPUs 0 and 2 of three run. A page and a table are taken out; the wait is on another CPU.

use lookaside_adapters_machine::{Forget, irqs_off, machine, on, pages, space_on, told};
use lookaside_ostd::{TlbFlushOp, TlbFlusher};

pub(crate) fn main() -> Result<(), Box<dyn core::error::Error>> {
    let tlb = machine(3)?;
    let space = space_on(tlb, 0x1000, &[0, 2])?;

    let mut flusher = TlbFlusher::new(space, Vec::new());
    // Here the entries of the page tables are cleared.
    flusher.issue_tlb_flush_with(TlbFlushOp::for_single(0x40_0000), "the frame");
    flusher.issue_tlb_flush_with_table(TlbFlushOp::for_range(0x60_0000..0x80_0000), "the table");
    assert_eq!(told(tlb), [], "issued, not dispatched");

    let dispatched = flusher.dispatch_tlb_flush(tlb, &irqs_off());
    // The thread is moved to another CPU meanwhile.
    let freed = on(1, || dispatched.sync_tlb_flush()).frames;

    let told = told(tlb);
    println!("{told:x?}");
    let (page, below) = (pages(0x40_0000, 1, 12).mixed(), pages(0x60_0000, 512, 12).mixed());
    let forget = Forget::PagesAndTables(vec![page, below]);
    assert_eq!(told, [(0, forget.clone()), (2, forget)], "CPU 1 does not run the space");
    assert_eq!(freed, ["the frame", "the table"]);
    Ok(())
}
