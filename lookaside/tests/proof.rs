//! What frames and tables are released against.

mod support;

use core::cell::Cell;

use lookaside::{Acknowledged, Batch, Error, Gather, KernelGather};
use support::{
    Fake,
    machine::{Machine, Strategy, epochs, flush, pages, recent, space, this_cpu, why},
    words,
};

const CPUS: usize = 130;

fn a_page_is_released_against_its_own_proof_only<T: Strategy>(tlb: Machine<T>) {
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let mut gather = Gather::new(&a);
    gather.revoke(pages(0x1000, 1));
    let (page, table) = (gather.hold_page(1), gather.hold_table(2));
    // Of another gather of the same space, of another space, of the kernel, and of a batch.
    let other = |held| Some(Error::OtherProof { held: a.id(), proved: held });
    let earlier = flush(tlb, 0, &a, |gather| gather.revoke_everything());
    let (page, error) = page.release(&earlier).unwrap_err();
    assert_eq!(Some(error), other(a.id()));
    let (table, error) = table.release(&earlier).unwrap_err();
    assert_eq!(Some(error), other(a.id()));
    let elsewhere = flush(tlb, 0, &b, |gather| gather.revoke_everything());
    let (page, error) = page.release(&elsewhere).unwrap_err();
    assert_eq!(Some(error), other(b.id()));
    let mut kernel = KernelGather::new(tlb);
    kernel.revoke_everything();
    let (page, error) = page.release(&this_cpu(tlb).flush_kernel(kernel)).unwrap_err();
    assert_eq!(Some(error), other(0));
    let storage = words(CPUS.div_ceil(64));
    let batch = Batch::new(tlb, storage).unwrap();
    let (page, _) = page.release(&this_cpu(tlb).flush_batch(batch)).unwrap_err();
    // The page was held all the while, and comes back against the right one.
    let proof = this_cpu(tlb).flush(gather);
    assert_eq!(why(page.release(&proof)), None);
    assert_eq!(table.release(&proof).ok(), Some(2));
}

#[test]
fn a_page_is_not_released_against_the_proof_of_another_flush() {
    a_page_is_released_against_its_own_proof_only(recent(CPUS, Fake::new(CPUS, 12)));
    a_page_is_released_against_its_own_proof_only(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn what_a_batch_and_the_kernel_hold_is_released_against_their_own_proofs_only() {
    fn check<T: Strategy>(tlb: Machine<T>) {
        let batch = || Batch::new(tlb, words(CPUS.div_ceil(64))).unwrap();
        let (first, second) = (batch(), batch());
        let (page, table) = (first.hold_page("page"), first.hold_table("table"));
        let wrong = this_cpu(tlb).flush_batch(second);
        let (page, _) = page.release(&wrong).unwrap_err();
        let right = this_cpu(tlb).flush_batch(first);
        assert_eq!(page.release(&right).ok(), Some("page"));
        assert_eq!(table.release(&right).ok(), Some("table"));

        let (first, second) = (KernelGather::new(tlb), KernelGather::new(tlb));
        let (page, table) = (first.hold_page("page"), first.hold_table("table"));
        let wrong = this_cpu(tlb).flush_kernel(second);
        assert_eq!(why(table.release(&wrong)), Some(Error::OtherProof { held: 0, proved: 0 }));
        let right = this_cpu(tlb).flush_kernel(first);
        assert_eq!(page.release(&right).ok(), Some("page"));
    }
    check(recent(CPUS, Fake::new(CPUS, 12)));
    check(epochs(CPUS, Fake::new(CPUS, 16)));
}

#[test]
fn a_full_proof_is_an_early_one_too() {
    let tlb = recent(1, Fake::new(1, 12));
    let a = space(tlb, 1);
    let mut gather = Gather::new(&a);
    gather.revoke(pages(0x1000, 1));
    let page = gather.hold_page("page");
    let early = Acknowledged::from(this_cpu(tlb).flush(gather));
    assert_eq!(page.release(&early).ok(), Some("page"));
}

#[test]
fn an_error_names_both_gathers() {
    let error = Error::OtherProof { held: 7, proved: 0 };
    assert_eq!(error.to_string(), "held by a gather of space 7, proof of another one, of space 0");
}

/// A frame that goes back to its allocator when it is dropped.
struct Tracked<'a>(&'a Cell<u32>);

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn what_is_held_is_leaked_and_not_freed_if_it_is_dropped() {
    let tlb = recent(1, Fake::new(1, 12));
    let (a, freed) = (space(tlb, 1), Cell::new(0));
    let gather = Gather::new(&a);
    drop(gather.hold_page(Tracked(&freed)));
    drop(gather.hold_table(Tracked(&freed)));
    drop(KernelGather::new(tlb).hold_page(Box::new(Tracked(&freed))));
    drop(Batch::new(tlb, words(CPUS.div_ceil(64))).unwrap().hold_table(vec![Tracked(&freed)]));
    drop(gather);
    assert_eq!(freed.get(), 0);
}

#[test]
fn what_is_held_is_leaked_if_the_function_is_left_before_the_flush() {
    let tlb = recent(1, Fake::new(1, 12));
    let (a, freed) = (space(tlb, 1), Cell::new(0));
    let unmap = |second: Result<(), Error>| {
        let mut gather = Gather::new(&a);
        gather.revoke(pages(0x1000, 1));
        let (page, table) = (gather.hold_page(Tracked(&freed)), gather.hold_table(Tracked(&freed)));
        second?;
        let flushed = this_cpu(tlb).flush(gather);
        drop(page.release(&flushed).map_err(|(_, error)| error)?);
        drop(table.release(&flushed).map_err(|(_, error)| error)?);
        Ok(())
    };
    assert_eq!(unmap(Err(Error::EmptyRange)), Err(Error::EmptyRange));
    assert_eq!(freed.get(), 0);
    assert_eq!(unmap(Ok(())), Ok(()));
    assert_eq!(freed.get(), 2, "and once, if it is released");
}

#[test]
fn what_is_held_is_leaked_if_a_refusal_is_ignored() {
    let tlb = recent(1, Fake::new(1, 12));
    let (a, freed) = (space(tlb, 1), Cell::new(0));
    let gather = Gather::new(&a);
    let (page, table) = (gather.hold_page(Tracked(&freed)), gather.hold_table(Tracked(&freed)));
    let wrong = flush(tlb, 0, &a, |gather| gather.revoke_everything());
    drop(page.release(&wrong));
    drop(table.release(&wrong).map_err(|(_, error)| error));
    assert_eq!(freed.get(), 0);
    let _ = this_cpu(tlb).flush(gather);
    assert_eq!(freed.get(), 0);
}

#[test]
fn what_is_held_does_not_show_itself() {
    let tlb = recent(1, Fake::new(1, 12));
    let gather = KernelGather::new(tlb);
    let held = format!("{:?} {:?}", gather.hold_page("frame 9"), gather.hold_table("frame 9"));
    assert!(held.contains("HeldPage") && held.contains("HeldTable"), "{held}");
    assert!(!held.contains("frame 9"), "{held}");
}
