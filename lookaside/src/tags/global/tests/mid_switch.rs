//! Which CPUs wait for a CPU that a rollover meets in mid-switch, and which search for one.

use super::*;

/// Loads and writes of a CPU's `active` word.
fn looked_at(tlb: Machine, cpu: u32) -> (u64, u64) {
    tlb.cpus()[cpu as usize].tags.active.cookie.work()
}

#[test]
fn only_a_space_that_is_retagged_waits_for_cpus_mid_switch() {
    let tlb = private();
    let (a, b) = (lasting(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = switch(tlb, 1, a);
    stop_on_the_way(tlb, 1, b);
    turn(tlb);
    assert_eq!(switch(tlb, 0, &space(tlb)), Switched::Fresh, "it has no tag to leave");
    assert_eq!(switch(tlb, 0, b), Switched::Kept, "it does not leave its tag");
    assert!(waits(|| switch(tlb, 0, a)), "the register names it under the tag that it leaves");
}

#[test]
fn nobody_waits_for_a_cpu_that_was_stopped_before_it_has_loaded() {
    let tlb = private();
    let (a, b) = (lasting(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = switch(tlb, 1, a);
    stop_on_the_way(tlb, 1, b);
    tlb.stopped(&(), CpuId(1)).unwrap();
    turn(tlb);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
}

#[test]
fn nobody_waits_for_a_cpu_that_was_stopped_after_an_epoch_has_passed_it() {
    let tlb = private();
    let (a, b) = (lasting(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = switch(tlb, 1, a);
    stop_on_the_way(tlb, 1, b);
    turn(tlb);
    assert!(waits(|| switch(tlb, 0, a)), "the register names it");
    tlb.stopped(&(), CpuId(1)).unwrap();
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
}

#[test]
fn nobody_waits_for_a_cpu_whose_register_names_nothing() {
    let tlb = private();
    let (a, b) = (left(tlb), lasting(tlb));
    let _ = switch(tlb, 1, b);
    let _ = on(1, || this_cpu(tlb).park());
    stop_on_the_way(tlb, 1, b);
    turn(tlb);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
}

#[test]
fn nobody_is_looked_for_after_a_rollover_that_has_passed_nobody_on_the_way() {
    let tlb = private();
    let a = left(tlb);
    turn(tlb);
    looked_at(tlb, 2);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
    assert_eq!(looked_at(tlb, 2), (0, 0));
}

#[test]
fn whoever_comes_after_the_last_has_loaded_looks_at_nobody() {
    let tlb = private();
    let (a, b, c) = (lasting(tlb), lasting(tlb), left(tlb));
    let _ = switch(tlb, 1, b);
    let _ = switch(tlb, 1, a);
    stop_on_the_way(tlb, 1, b);
    turn(tlb);
    assert!(waits(|| switch(tlb, 0, c)), "CPU 1 has not loaded");
    let _ = switch(tlb, 1, b);
    assert_eq!(switch(tlb, 0, c), Switched::Fresh);
    looked_at(tlb, 2);
    assert_eq!(switch(tlb, 0, a), Switched::Fresh);
    assert_eq!(looked_at(tlb, 2), (0, 0));
}

#[test]
fn a_rollover_looks_for_cpus_mid_switch_unless_registers_are_parked_before_adoption() {
    for (sharing, loads) in [(Sharing::Private, 1), (Sharing::Shared, 0)] {
        let tlb = machine(sharing, 3, FEW);
        let _ = switch(tlb, 2, lasting(tlb));
        looked_at(tlb, 2);
        turn(tlb);
        assert_eq!(looked_at(tlb, 2), (loads, 1), "{sharing:?}");
    }
}
