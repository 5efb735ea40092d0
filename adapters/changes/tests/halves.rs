//! What is recorded through the trait reaches the TLBs, of the CPUs that run the space or of all.

use lookaside::{Error, Gather, KernelGather};
use lookaside_adapters_machine::{Forget, machine, pages, space_on, this_cpu, told};
use lookaside_changes::Changes;

/// Two pages, one of them behind a table that is freed.
fn change(changes: &mut impl Changes<Frames = Vec<u64>>) {
    changes.revoke(pages(0x40_0000, 1, 12));
    changes.hold_page(0x8000);
    changes.hold_table(pages(0x80_0000, 1, 12), 0x9000);
}

fn expected() -> Vec<lookaside::VaRange> {
    vec![pages(0x40_0000, 1, 12), pages(0x80_0000, 1, 12).mixed()]
}

#[test]
fn cpus_that_run_the_space_forget_its_pages_and_tables() -> Result<(), Error> {
    let tlb = machine(3)?;
    let space = space_on(tlb, 0x1000, &[0, 2])?;
    let mut gather = Gather::holding(space, Vec::new());
    change(&mut gather);
    assert_eq!(told(tlb), []);
    assert_eq!(this_cpu(tlb).flush(gather).frames, [0x8000, 0x9000]);
    let forget = Forget::PagesAndTables(expected());
    assert_eq!(told(tlb), [(0, forget.clone()), (2, forget)]);
    Ok(())
}

#[test]
fn every_cpu_forgets_kernel_pages_and_tables() -> Result<(), Error> {
    let tlb = machine(3)?;
    let mut gather = KernelGather::holding(tlb, Vec::new());
    change(&mut gather);
    assert_eq!(this_cpu(tlb).flush_kernel(gather).frames, [0x8000, 0x9000]);
    let forget = Forget::KernelAndTables(expected());
    assert_eq!(told(tlb), [(0, forget.clone()), (1, forget.clone()), (2, forget)]);
    Ok(())
}

#[test]
fn everything_and_several_sizes_are_passed_on() -> Result<(), Error> {
    let tlb = machine(1)?;
    let space = space_on(tlb, 0x1000, &[0])?;
    let mut gather = Gather::new(space);
    Changes::revoke_mixed(&mut gather, pages(0x40_0000, 2, 12));
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(told(tlb), [(0, Forget::Pages(vec![pages(0x40_0000, 2, 12).mixed()]))]);
    let mut gather = Gather::new(space);
    Changes::revoke_everything(&mut gather);
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(told(tlb), [(0, Forget::Everything)]);
    Ok(())
}
