//! What frames and tables are released against.

mod support;

use lookaside::{Acknowledged, Batch, Error, Gather, KernelGather};
use support::{
    Fake,
    machine::{Machine, Strategy, epochs, flush, here, pages, recent, space, why},
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
    let (page, error) = page.release(&here(tlb).flush_kernel(kernel)).unwrap_err();
    assert_eq!(Some(error), other(0));
    let storage = words(CPUS.div_ceil(64));
    let batch = Batch::new(tlb, storage).unwrap();
    let (page, _) = page.release(&here(tlb).flush_batch(batch)).unwrap_err();
    // The page was held all the while, and comes back against the right one.
    let proof = here(tlb).flush(gather);
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
        let wrong = here(tlb).flush_batch(second);
        let (page, _) = page.release(&wrong).unwrap_err();
        let right = here(tlb).flush_batch(first);
        assert_eq!(page.release(&right).ok(), Some("page"));
        assert_eq!(table.release(&right).ok(), Some("table"));

        let (first, second) = (KernelGather::new(tlb), KernelGather::new(tlb));
        let (page, table) = (first.hold_page("page"), first.hold_table("table"));
        let wrong = here(tlb).flush_kernel(second);
        assert_eq!(why(table.release(&wrong)), Some(Error::OtherProof { held: 0, proved: 0 }));
        let right = here(tlb).flush_kernel(first);
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
    let early = Acknowledged::from(here(tlb).flush(gather));
    assert_eq!(page.release(&early).ok(), Some("page"));
}

#[test]
fn an_error_names_both_gathers() {
    let error = Error::OtherProof { held: 7, proved: 0 };
    assert_eq!(error.to_string(), "held by a gather of space 7, proof of another one, of space 0");
}
