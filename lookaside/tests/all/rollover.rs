//! Rollovers: which tags an epoch can give.

use std::collections::BTreeSet;

use crate::support::{
    Fake,
    machine::{epochs_with, space, switch, this_cpu},
};
use lookaside::tags::GlobalAsidsConfig;

#[test]
fn a_rollover_frees_every_tag_but_the_one_that_the_register_names() {
    let config = GlobalAsidsConfig { tags: 256, ..Default::default() };
    let tlb = epochs_with(1, Fake::new(1, 8), config);
    for _ in 0..tlb.tags().usable() {
        let _ = switch(tlb, 0, &space(tlb, 1));
    }
    let kept = this_cpu(tlb).tag().0;
    let mut given = BTreeSet::new();
    loop {
        let space = space(tlb, 2);
        let _ = switch(tlb, 0, &space);
        if tlb.tags().epoch() > 2 {
            break;
        }
        given.insert(space.cookie().tag().0);
    }
    let all: BTreeSet<_> = (2..256).filter(|tag| *tag != kept).collect();
    assert_eq!(given, all);
}
