//! What an NMI is told about user memory, on either strategy.

use crate::support::{
    Fake,
    machine::{self, Machine, Strategy, flush, pages, space, this_cpu},
    on,
};
use lookaside::{AddressSpace, Gather, arch::Root};

type Spaces<'s> = [&'s AddressSpace<Fake>; 2];

/// In which of the two an NMI may touch user memory now.
fn okay<T: Strategy>(tlb: Machine<T>, spaces: Spaces<'_>) -> [bool; 2] {
    spaces.map(|space| tlb.nmi_uaccess_okay(space))
}

const NONE: [bool; 2] = [false, false];
const FIRST: [bool; 2] = [true, false];
const SECOND: [bool; 2] = [false, true];

fn is_told_what_the_cpu_runs<T: Strategy>(tlb: Machine<T>) {
    let spaces = [space(tlb, 1), space(tlb, 2)];
    let spaces = spaces.each_ref();
    assert_eq!(okay(tlb, spaces), NONE, "they never ran");
    let _ = this_cpu(tlb).switch(spaces[0]);
    assert_eq!(okay(tlb, spaces), FIRST);
    let _ = this_cpu(tlb).switch(spaces[1]);
    assert_eq!(okay(tlb, spaces), SECOND);
    this_cpu(tlb).lazy();
    assert_eq!(okay(tlb, spaces), NONE, "the CPU is lazy");
    let _ = flush(tlb, 0, spaces[1], |gather| gather.revoke(pages(0x5000, 1)));
    let _ = this_cpu(tlb).switch(spaces[1]);
    assert_eq!(okay(tlb, spaces), SECOND, "it has caught up");
    this_cpu(tlb).lazy();
    let _ = this_cpu(tlb).switch(spaces[0]);
    assert_eq!(okay(tlb, spaces), FIRST);
    let _ = this_cpu(tlb).park();
    assert_eq!(okay(tlb, spaces), NONE, "the CPU is parked");
}

fn leaves_a_foreign_root_alone<T: Strategy>(tlb: Machine<T>) {
    let spaces = [space(tlb, 1), space(tlb, 2)];
    let spaces = spaces.each_ref();
    let _ = this_cpu(tlb).switch(spaces[0]);
    let mut cpu = this_cpu(tlb);
    let foreign = cpu.with_root(&Root::new(0xffff_0000), || okay(tlb, spaces));
    assert_eq!(foreign, Ok(NONE));
    assert_eq!(okay(tlb, spaces), FIRST);
}

fn goes_on_after_an_early_answer<T: Strategy>(tlb: Machine<T>) {
    let space = space(tlb, 1);
    for cpu in [0, 1] {
        let _ = on(cpu, || this_cpu(tlb).switch(&space));
    }
    let mut gather = Gather::new(&space);
    gather.revoke(pages(0x5000, 1));
    let _ = on(0, || this_cpu(tlb).flush_early(gather));
    assert!(on(1, || tlb.nmi_uaccess_okay(&space)));
}

#[test]
fn nmi_uaccess_is_okay_after_an_early_acknowledgement() {
    goes_on_after_an_early_answer(machine::recent(2, Fake::new(2, 12)));
    goes_on_after_an_early_answer(machine::epochs(2, Fake::new(2, 12).without_broadcast()));
}

#[test]
fn nmi_uaccess_is_okay_only_in_the_space_that_the_cpu_runs() {
    is_told_what_the_cpu_runs(machine::recent(1, Fake::new(1, 12)));
    is_told_what_the_cpu_runs(machine::epochs(1, Fake::new(1, 12)));
}

#[test]
fn nmi_uaccess_is_refused_on_a_temporary_root() {
    leaves_a_foreign_root_alone(machine::recent(1, Fake::new(1, 12)));
    leaves_a_foreign_root_alone(machine::epochs(1, Fake::new(1, 12)));
}

#[test]
fn an_nmi_is_kept_from_user_memory_where_the_kernel_has_a_root_of_its_own() {
    for own in [false, true] {
        let mut fake = Fake::new(1, 16);
        fake.mmu.properties.kernel_has_own_root = own;
        let tlb = machine::epochs(1, fake);
        let a = space(tlb, 1);
        let _ = this_cpu(tlb).switch(&a);
        assert_eq!(tlb.nmi_uaccess_okay(&a), !own);
    }
}

#[test]
fn an_nmi_is_kept_from_a_space_of_another_tlb() {
    fn check<T: Strategy>(tlb: Machine<T>, other: Machine<T>) {
        let (a, stranger) = (space(tlb, 1), space(other, 1));
        for (tlb, space) in [(tlb, &a), (other, &stranger)] {
            let _ = this_cpu(tlb).switch(space);
        }
        // The other one has the same root, tag and number.
        assert_eq!(okay(tlb, [&a, &stranger]), FIRST);
        assert_eq!(okay(other, [&a, &stranger]), SECOND);
    }
    let fake = || Fake::new(1, 12);
    check(machine::recent(1, fake()), machine::recent(1, fake()));
    check(machine::epochs(1, fake()), machine::epochs(1, fake()));
}
