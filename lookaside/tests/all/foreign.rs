//! Each `Tlb` refuses what another one has made.
//!
//! Each numbers its spaces from 1, and each space its gathers. So all numbers are the same here, and only
//! the `Tlb` is another.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use crate::support::{
    Fake,
    machine::{Machine, Strategy, epochs, pages, park, recent, space, switch, this_cpu},
    words,
};
use lookaside::{
    AddressSpace, Cpu, Error, Gather, GlobalAsids, KernelGather, PerCpuAsids, Tlb,
    arch::Root,
    flush::{Batch, Permissions},
    tags::GlobalAsidsConfig,
};

const CPUS: usize = 2;

/// Two machines under each strategy, for each check.
macro_rules! on_two_machines {
    ($($check:expr),* $(,)?) => {$(
        let fake = || Fake::new(CPUS, 12);
        $check(recent(CPUS, fake()), recent(CPUS, fake()));
        $check(epochs(CPUS, fake()), epochs(CPUS, fake()));
    )*};
}

/// Whether `f` is refused with the reason that something belongs to another `Tlb`.
fn is_refused<R>(f: impl FnOnce() -> R) -> bool {
    let result = catch_unwind(AssertUnwindSafe(f));
    let message = result.err().and_then(|payload| payload.downcast::<String>().ok());
    message.is_some_and(|message| *message == Error::OtherTlb.to_string())
}

#[test]
fn gathers_and_batches_of_another_tlb_are_refused() {
    fn check<T: Strategy>(one: Machine<T>, other: Machine<T>) {
        let a = space(one, 1);
        let _ = switch(one, 1, &a);
        let gather = || {
            let mut gather = Gather::new(&a);
            gather.revoke(pages(0x5000, 1));
            gather
        };
        let foreign = this_cpu(other);
        assert!(is_refused(|| foreign.flush(gather())));
        assert!(is_refused(|| foreign.flush_early(gather())));
        assert!(is_refused(|| foreign.flush_kernel(KernelGather::new(one))));
        assert!(is_refused(|| foreign.flush_batch(Batch::new(one, words(1)).unwrap())));
        let mut batch = Batch::new(other, words(1)).unwrap();
        assert!(is_refused(|| foreign.defer(gather(), &mut batch)), "a gather of another one");
        let mut batch = Batch::new(one, words(1)).unwrap();
        let b = space(other, 1);
        assert!(
            is_refused(|| foreign.defer(Gather::new(&b), &mut batch)),
            "a batch of another one"
        );
        // The next flush makes up for what was gathered, as for any gather that is dropped.
        assert_eq!(a.generation(), 3);
    }
    on_two_machines!(check);
}

#[test]
fn no_cpu_runs_a_space_of_another_tlb() {
    fn check<T: Strategy>(one: Machine<T>, other: Machine<T>) {
        let (mut a, b) = (space(one, 1), space(other, 2));
        assert_eq!(a.id(), b.id());
        let _ = switch(other, 0, &b);
        other.platform().forget_logs();
        assert!(is_refused(|| this_cpu(other).switch(&a)));
        let all = Permissions { read: true, write: true, execute: true };
        assert!(is_refused(|| this_cpu(other).spurious_fault(&a, pages(0x5000, 1), all, all)));
        assert!(!other.nmi_uaccess_okay(&a) && other.nmi_uaccess_okay(&b));
        assert!(is_refused(|| this_cpu(other).release(&mut a)));
        assert_eq!(other.platform().log(0), [], "nothing was done");
        assert_eq!(a.residents().iter().count(), 0);
        park(other, 0);
    }
    on_two_machines!(check);
}

#[test]
fn a_space_of_a_larger_machine_is_refused_and_so_is_one_of_a_smaller() {
    let (small, large) = (recent(1, Fake::new(1, 12)), recent(100, Fake::new(100, 12)));
    let (a, b) = (space(small, 1), space(large, 1));
    assert!(is_refused(|| switch(large, 99, &a)));
    assert!(is_refused(|| switch(small, 0, &b)));
    let _ = (switch(large, 99, &b), switch(small, 0, &a));
}

#[test]
fn no_tag_is_pinned_for_a_space_of_another_tlb() {
    let (one, other) = (epochs(CPUS, Fake::new(CPUS, 12)), epochs(CPUS, Fake::new(CPUS, 12)));
    let a = space(one, 1);
    assert_eq!(this_cpu(other).pin(&a), Err(Error::OtherTlb));
    assert!(this_cpu(one).pin(&a).is_ok());
    assert_eq!(this_cpu(other).unpin(&a), Err(Error::OtherTlb));
    assert_eq!(this_cpu(one).unpin(&a), Ok(()));
}

#[test]
fn a_leftover_space_is_refused_by_a_new_tlb_in_the_same_place() {
    fn begin(
        cpus: &mut [Cpu<Fake, PerCpuAsids>],
        older: Option<AddressSpace<Fake>>,
    ) -> AddressSpace<Fake> {
        let tlb =
            Tlb::new(Fake::new(1, 12).without_broadcast(), <PerCpuAsids>::new(), cpus).unwrap();
        tlb.online(&(), &12).unwrap();
        if let Some(older) = older {
            assert!(is_refused(|| tlb.this_cpu(&()).flush(Gather::new(&older))));
        }
        tlb.space(Root::new(4096), words(1)).unwrap()
    }
    let mut cpus = [Cpu::new()];
    let older = begin(&mut cpus, None);
    let newer = begin(&mut cpus, Some(older));
    assert_eq!(newer.id(), 1, "the number is the same");
}

#[test]
fn tags_that_were_counted_on_other_hardware_are_refused() {
    let (wide, narrow) = (Fake::new(1, 16), Fake::new(1, 8));
    let config = GlobalAsidsConfig { tags: 1 << 10, ..Default::default() };
    let tags = |fake| {
        GlobalAsids::new(fake, config, words(GlobalAsids::<Fake>::words_for(1 << 10))).unwrap()
    };
    let (many, few) = (tags(&wide), tags(&narrow));
    let begin = |fake, tags| Tlb::new(fake, tags, &mut [Cpu::new()]).map(drop);
    assert_eq!(begin(narrow, many), Err(Error::TagOutOfRange { tag: 1023, tags: 256 }));
    assert_eq!(begin(wide, few), Ok(()));
}

#[test]
fn pins_that_nothing_can_satisfy_are_refused() {
    let fake = Fake::new(1, 8);
    let config = GlobalAsidsConfig { pins: u32::MAX, ..Default::default() };
    let tags = GlobalAsids::new(&fake, config, words(GlobalAsids::<Fake>::words_for(256))).unwrap();
    let refused = Tlb::new(fake, tags, &mut [Cpu::new()]).map(drop);
    assert_eq!(refused, Err(Error::TooFewTags { usable: 254, needed: u32::MAX }));
}
