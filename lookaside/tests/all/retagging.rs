//! Retagging: a fresh tag instead of a flush.

use crate::support::{
    Fake, Moment,
    machine::{ByEpochs, What, epochs, epochs_with, flush, park, space, switch, this_cpu},
};
use lookaside::{counts::Outcome, tags::GlobalAsidsConfig};

const OTHER: u32 = 1;
const CPUS: usize = 2;

fn cheap_tags(tlb: ByEpochs) {
    tlb.platform().set_costs(|costs| (costs.retag, costs.useful_entries) = (0, 0));
}

#[test]
fn retagging_another_space_keeps_the_cpus_own_tag() {
    let tlb = epochs(CPUS, Fake::new(CPUS, 16).shared());
    let (a, b) = (space(tlb, 1), space(tlb, 2));
    let _ = switch(tlb, OTHER, &a);
    park(tlb, OTHER);
    let _ = switch(tlb, 0, &b);
    let before = a.cookie();
    cheap_tags(tlb);
    tlb.platform().forget_logs();
    let _ = flush(tlb, 0, &a, |gather| What::Range.tell(gather));
    assert_eq!(tlb.platform().outcome(), (Outcome::Retagged, 0));
    assert_ne!(a.cookie(), before);
    assert_eq!(tlb.platform().acts(), []);
    assert_eq!(this_cpu(tlb).tag(), b.cookie().tag());
}

#[test]
fn a_tag_that_was_kept_for_the_next_epoch_meanwhile_is_not_left() {
    let tlb =
        epochs_with(CPUS, Fake::new(CPUS, 8), GlobalAsidsConfig { tags: 64, ..Default::default() });
    let a: &'static _ = Box::leak(Box::new(space(tlb, 1)));
    let _ = switch(tlb, 0, a);
    let tag = a.cookie().tag();
    cheap_tags(tlb);
    tlb.platform().meanwhile(Moment::CostsAsked(1), || {
        while tlb.tags().epoch() == 1 {
            let _ = switch(tlb, OTHER, &space(tlb, 2));
        }
        let _ = switch(tlb, OTHER, a);
        park(tlb, OTHER);
    });
    let _ = flush(tlb, 0, a, |gather| What::Range.tell(gather));
    assert_eq!(tlb.platform().outcome(), (Outcome::Local, 0));
    assert_eq!((a.cookie().epoch(), a.cookie().tag()), (2, tag));
}
