//! CPUs that go on under a former tag when the last epoch begins.

use std::rc::Rc;

use super::*;
use crate::{Gather, tests::meanwhile};

/// Three CPUs without broadcasts, and four tags until the last epoch.
fn short() -> Machine {
    let config = GlobalAsidsConfig { tags: 6, pins: 0, last_epoch: 2 };
    machine_of(Paper { sharing: Sharing::Private, broadcasts: false }, 3, config)
}

#[test]
fn a_cpu_that_came_back_under_its_tag_is_flushed_if_the_last_epoch_begins_meanwhile() {
    let mut kept = 0;
    // Before each access of the flush to a word in turn.
    for access in 1..100 {
        let tlb = short();
        let (a, b) = (lasting(tlb), lasting(tlb));
        let _ = (switch(tlb, 1, a), switch(tlb, 1, b));
        let keeps = Rc::new(Cell::new(false));
        let answer = Rc::clone(&keeps);
        let wake_from_lazy = move || {
            let _ = switch(tlb, 1, a);
            answer.set(HELD.get() == Held::Keep);
            while tlb.tags().epoch() == 1 {
                let _ = switch(tlb, 2, lasting(tlb));
            }
        };
        let mut gather = Gather::new(a);
        gather.revoke(VaRange::new(0x5000, 4096, 12).unwrap());
        let flush = || on(0, || this_cpu(tlb).flush(gather));
        let asked = waits(|| meanwhile(access, wake_from_lazy, flush));
        if keeps.get() {
            kept += 1;
            assert!(asked, "before access {access}: CPU 1 kept what the flush was to remove");
        }
    }
    assert!(kept > 3, "{kept}");
}
