//! CPUs that hold something of a space and do not run it: where that matters, and where it does not.

use crate::support::{
    Fake, Op,
    machine::{
        Machine, Strategy, What, epochs, flush, pages, park, recent, space, switch, this_cpu,
    },
    on,
};
use lookaside::{counts::Outcome, flush::Permissions};

const CPUS: usize = 200;
const OTHER: u32 = 70;

// ---- Flushes

#[test]
fn where_walks_outlive_per_cpu_tags_a_cpu_that_left_is_told_of_a_freed_table() {
    let tlb = recent(CPUS, Fake::new(CPUS, 12).with_walks_that_outlive_tags());
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, OTHER, &a);
    let tag = on(OTHER, || this_cpu(tlb).tag().0);
    let _ = switch(tlb, OTHER, &b);
    let _ = switch(tlb, 0, &a);
    tlb.platform().forget_logs();
    let _ = flush(tlb, 0, &a, |gather| What::Page.tell(gather));
    assert_eq!(tlb.platform().log(OTHER), [], "no program uses what it holds of pages");
    let _ = flush(tlb, 0, &a, |gather| What::Table.tell(gather));
    let log = tlb.platform().log(OTHER);
    assert!(log.contains(&Op::FlushTag(tag)), "{log:?}");
}

#[test]
fn where_entries_are_shared_a_fresh_tag_is_taken_if_no_other_cpu_runs_the_space() {
    for company in [false, true] {
        let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared());
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        // This CPU has tags in its ASID cache.
        let _ = switch(tlb, 0, &b);
        let _ = switch(tlb, 0, &a);
        if company {
            let _ = switch(tlb, OTHER, &a);
            park(tlb, OTHER);
        }
        tlb.platform().set_costs(|costs| costs.retag = 0);
        let before = on(0, || this_cpu(tlb).tag());
        tlb.platform().forget_logs();
        let _ = flush(tlb, 0, &a, |gather| What::AddressSpace.tell(gather));
        assert_eq!(tlb.platform().outcome(), (Outcome::Retagged, 0), "company: {company}");
        assert_ne!(on(0, || this_cpu(tlb).tag()), before);
        // Who runs it would go on under the old tag.
        let _ = switch(tlb, OTHER, &a);
        let _ = flush(tlb, 0, &a, |gather| What::AddressSpace.tell(gather));
        assert_eq!(tlb.platform().outcome(), (Outcome::Broadcast, 0));
    }
}

// ---- Faults

#[test]
fn a_fault_that_the_tables_allow_is_spurious_and_its_page_is_flushed_where_the_space_runs() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let (a, b) = (space(tlb, 1), space(tlb, 2));
        let _ = switch(tlb, 0, &a);
        tlb.platform().forget_logs();
        let read = Permissions { read: true, ..Default::default() };
        let write = Permissions { write: true, ..read };
        let fault = |space, wanted, allowed| {
            let spurious = this_cpu(tlb).spurious_fault(space, pages(0x5000, 1), wanted, allowed);
            (spurious, tlb.platform().log(0))
        };
        let tag = this_cpu(tlb).tag().0;
        let forgets = tlb.platform().mmu.properties.faults_forget;
        let page = if forgets { vec![] } else { vec![Op::FlushRange(tag, 0x5000, 1)] };
        assert_eq!(fault(&a, write, read), (false, vec![]), "the kernel's business");
        assert_eq!(fault(&a, write, write), (true, page.clone()));
        assert_eq!(fault(&a, read, write), (true, page));
        // Neither a space that has run nowhere, nor one that this CPU has left.
        assert_eq!(fault(&b, read, write), (true, vec![]));
        let _ = switch(tlb, 0, &b);
        tlb.platform().forget_logs();
        assert_eq!(fault(&a, read, write), (true, vec![]), "it pays when it comes back");
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(recent(CPUS, Fake::new(CPUS, 12).with_faults_that_forget()));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
    check(epochs(CPUS, Fake::new(CPUS, 16).with_faults_that_forget()));
}

#[test]
fn a_page_fault_of_riscv_is_read_from_its_registers_and_the_entry() {
    const LOAD: u64 = 13;
    const STORE: u64 = 15;
    const USER_READ: u64 = 0b1_0011;
    fn check<T: Strategy>(tlb: Machine<T>) {
        let a = space(tlb, 1);
        let _ = switch(tlb, 0, &a);
        tlb.platform().forget_logs();
        let tag = this_cpu(tlb).tag().0;
        let fault = |scause, entry| {
            let spurious = this_cpu(tlb).spurious_riscv_fault(&a, scause, 0x5678, entry);
            (spurious, tlb.platform().log(0))
        };
        assert_eq!(fault(LOAD, 0), (false, vec![]), "nothing is mapped");
        assert_eq!(fault(STORE, USER_READ), (false, vec![]), "the entry does not allow it");
        assert_eq!(fault(8, USER_READ), (false, vec![]), "a system call");
        assert_eq!(fault(LOAD, USER_READ), (true, vec![Op::FlushRange(tag, 0x5000, 1)]));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}
