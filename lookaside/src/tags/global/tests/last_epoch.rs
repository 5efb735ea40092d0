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

#[test]
fn a_cpu_that_leaves_a_former_tag_for_a_pinned_space_is_seen() {
    let config = GlobalAsidsConfig { tags: 8, pins: 1, last_epoch: 2 };
    let tlb = machine_of(Paper { sharing: Sharing::Private, broadcasts: false }, 3, config);
    let (a, pinned) = (lasting(tlb), lasting(tlb));
    let _ = on(0, || this_cpu(tlb).pin(pinned)).unwrap();
    let _ = (switch(tlb, 1, a), turn(tlb));
    let _ = switch(tlb, 0, pinned);
    stop_on_the_way(tlb, 1, pinned);
    let context = Asids::context_id(tlb, a).unwrap();
    assert_eq!(Asids::root_state(tlb, CpuId(1), context), RootState::Loaded);
    assert_eq!(Asids::root_state(tlb, CpuId(0), context), RootState::NotLoaded, "it has loaded it");
}

#[test]
fn no_nmi_uses_a_space_of_the_last_epoch_whose_former_tag_the_register_has() {
    let mut asked = 0;
    for access in 1..40 {
        let config = GlobalAsidsConfig { tags: 8, pins: 1, last_epoch: 3 };
        let tlb = machine_of(Paper { sharing: Sharing::Private, broadcasts: true }, 2, config);
        let a = keep(tlb.space(Root::new(8192), residents(tlb)).unwrap());
        let _ = (switch(tlb, 0, a), on(0, || this_cpu(tlb).park()));
        turn(tlb);
        let pinned = lasting(tlb);
        let tag = on(0, || this_cpu(tlb).pin(pinned)).unwrap();
        turn(tlb);
        assert_eq!((a.cookie().tag(), tlb.tags().epoch()), (tag, 3), "one tag of two epochs");
        let _ = switch(tlb, 0, pinned);
        let okay = Rc::new(Cell::new(None));
        let answer = Rc::clone(&okay);
        let nmi = move || answer.set(Some(on(0, || tlb.nmi_uaccess_okay(a))));
        let _ = on(0, || meanwhile(access, nmi, || this_cpu(tlb).switch(a)));
        assert_ne!(okay.get(), Some(true), "before access {access}");
        asked += u32::from(okay.get().is_some());
    }
    assert!(asked > 3, "{asked}");
}
