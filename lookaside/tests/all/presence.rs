//! Which CPUs are online, and what debug builds refuse to a CPU.

use core::{panic::AssertUnwindSafe, sync::atomic::Ordering};
use std::panic::catch_unwind;

use crate::support::{
    Fake, IRQS_ON, Op,
    machine::{recent, space, switch, this_cpu},
    on,
};
use lookaside::{Error, platform::CpuId};

#[test]
fn a_cpu_is_online_from_online_to_offline_or_halted() {
    let tlb = recent(3, Fake::new(3, 12));
    let online = || {
        [0, 1, 2, u32::MAX].map(|cpu| {
            let online = tlb.is_online(CpuId(cpu));
            assert_eq!(on(cpu, || tlb.this_cpu_if_online(&()).is_some()), online, "{cpu}");
            online
        })
    };
    assert_eq!(online(), [true, true, true, false], "there is no such CPU as the last");
    on(1, || this_cpu(tlb).offline());
    tlb.stopped(&(), CpuId(2)).unwrap();
    assert_eq!(online(), [true, false, false, false]);
    on(1, || tlb.online(&(), &12).unwrap());
    assert_eq!(online(), [true, true, false, false]);
}

#[test]
fn no_cpu_reports_that_it_has_stopped_itself() {
    let tlb = recent(2, Fake::new(2, 12));
    let stopped = on(1, || tlb.stopped(&(), CpuId(1)));
    assert_eq!(stopped, Err(Error::NotStopped { cpu: CpuId(1) }));
    assert!(tlb.is_online(CpuId(1)));
}

#[test]
fn a_cpu_that_goes_on_is_not_reported_to_have_stopped() {
    let tlb = recent(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    tlb.platform().goes_on.store(true, Ordering::Relaxed);
    let refused = Err(Error::NotStopped { cpu: CpuId(1) });
    assert_eq!(on(0, || tlb.stopped(&(), CpuId(1))), refused);
    assert!(
        tlb.is_online(CpuId(1)) && on(1, || tlb.nmi_uaccess_okay(&a)),
        "it still runs the space"
    );
}

#[test]
fn a_cpu_that_goes_offline_keeps_nothing() {
    let tlb = recent(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let _ = switch(tlb, 1, &a);
    tlb.platform().forget_logs();
    on(1, || this_cpu(tlb).offline());
    // Once before other CPUs stop waiting for it, and once after: see `CurrentCpu::offline`.
    assert_eq!(tlb.platform().acts(), [(1, Op::Park), (1, Op::FlushAll), (1, Op::FlushAll)]);
}

#[test]
#[cfg(debug_assertions)]
fn debug_builds_refuse_a_cpu_that_is_offline_or_has_interrupts_on() {
    let tlb = recent(2, Fake::new(2, 12));
    let refused = || catch_unwind(AssertUnwindSafe(|| this_cpu(tlb).tag())).is_err();
    assert!(!refused());
    IRQS_ON.set(true);
    assert!(refused(), "interrupts are on");
    IRQS_ON.set(false);
    on(1, || this_cpu(tlb).offline());
    assert!(on(1, refused), "the CPU is offline");
    assert!(!refused(), "the other one is not");
}

#[test]
#[cfg(debug_assertions)]
fn debug_builds_refuse_what_was_made_on_another_cpu() {
    let tlb = recent(2, Fake::new(2, 12));
    let a = space(tlb, 1);
    let kept = this_cpu(tlb);
    let refused = || catch_unwind(AssertUnwindSafe(|| kept.switch(&a))).is_err();
    assert!(on(1, refused), "the thread has moved");
    assert!(!refused(), "and is back");
}
