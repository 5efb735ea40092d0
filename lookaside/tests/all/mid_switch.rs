//! What others find of a CPU in the middle of a switch.

use core::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering},
};
use std::{panic::catch_unwind, sync::Arc};

use crate::support::{
    Fake, Moment, Op,
    machine::{ByRecent, recent, space, switch, this_cpu},
    on, words,
};
use lookaside::{AddressSpace, Cpu, Error, PerCpuAsids, Tlb, arch::Root, platform::CpuId};

/// CPU 1 enters `space`, and CPU 0 does `act` before the root is loaded.
fn midway(tlb: ByRecent, space: &AddressSpace<Fake>, act: impl FnOnce() + Send + 'static) {
    let acted = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&acted);
    tlb.platform().meanwhile(Moment::Published, move || {
        on(0, act);
        done.store(true, Ordering::Relaxed);
    });
    let _ = switch(tlb, 1, space);
    assert!(acted.load(Ordering::Relaxed));
}

#[test]
fn release_sends_an_ipi_to_a_cpu_that_may_be_switching_away() {
    let tlb = recent(2, Fake::new(2, 12));
    let a: &'static mut AddressSpace<_> = Box::leak(Box::new(space(tlb, 1)));
    let _ = switch(tlb, 1, a);
    midway(tlb, &space(tlb, 2), move || {
        tlb.platform().forget_logs();
        let _ = this_cpu(tlb).release(a);
        assert_eq!(tlb.platform().log(0), [Op::Interrupt(vec![1])]);
    });
}

#[test]
fn storage_of_a_cpu_that_switches_into_its_first_space_is_refused() {
    let mut cpus = [Cpu::new(), Cpu::new()];
    let fake = || Fake::new(2, 12).without_broadcast();
    let stops = catch_unwind(AssertUnwindSafe(|| {
        let tlb = Tlb::new(fake(), PerCpuAsids::<6>::new(), &mut cpus).unwrap();
        let a = tlb.space(Root::new(4096), words(1)).unwrap();
        on(1, || tlb.online(&(), &12).unwrap());
        tlb.platform().meanwhile(Moment::Published, || panic!("it stops here"));
        on(1, || tlb.this_cpu(&()).switch(&a))
    }));
    assert!(stops.is_err());
    let again = Tlb::new(fake(), PerCpuAsids::new(), &mut cpus).map(drop);
    assert_eq!(again, Err(Error::UsedStorage { cpu: CpuId(1) }));
}
