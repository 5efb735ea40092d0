//! The `Debug` output of the library's types.

use crate::support::{
    Fake,
    machine::{epochs_with, pages, recent, space, switch, this_cpu},
};
use lookaside::{Gather, KernelGather, tags::GlobalAsidsConfig};

#[test]
fn a_log_shows_which_cpu_runs_which_space_under_which_tag() {
    let config = GlobalAsidsConfig { tags: 16, ..Default::default() };
    let tlb = epochs_with(2, Fake::new(2, 8), config);
    let a = space(tlb, 1);
    let _ = switch(tlb, 0, &a);
    assert_eq!(format!("{:?}", this_cpu(tlb)), "CurrentCpu { id: CpuId(0), tag: Tag(2), .. }");
    let shown = format!("{a:?}");
    assert!(shown.starts_with("AddressSpace { id: 1, root: Root { table: 4096,"), "{shown}");
    assert!(shown.contains("generation: 0"), "{shown}");
    let mut gather = Gather::new(&a);
    gather.revoke(pages(0x7000, 1));
    let shown = format!("{gather:?}");
    assert!(shown.contains("ranges: FlushRanges"), "{shown}");
    assert!(format!("{tlb:?}").contains("cpus: 2"), "{tlb:?}");
    assert!(format!("{:?}", tlb.tags()).starts_with("GlobalAsids { epoch: 1, tags: 16"));
    assert!(format!("{:?}", tlb.cpus()[0]).starts_with("Cpu { tag: Tag(2), errata: Errata(0)"));
    assert!(format!("{:?}", KernelGather::new(tlb)).starts_with("KernelGather { tlb:"));
}

#[test]
fn a_log_shows_up_to_which_generation_a_cpu_has_flushed() {
    let tlb = recent(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    let shown = format!("{:?}", tlb.cpus()[1].tags());
    assert!(shown.starts_with("PerCpuAsidsCpu { active: 4, slots: [4, 0,"), "{shown}");
    assert_eq!(format!("{:?}", tlb.tags()), "PerCpuAsids { slots: 6, .. }");
}
