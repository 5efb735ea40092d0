//! What others find of a CPU in the middle of a switch.

mod support;

use core::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering},
};
use std::{panic::catch_unwind, sync::Arc};

use lookaside::{AddressSpace, Cpu, CpuId, Error, PerCpuAsids, Tlb, arch::Root};
use support::{
    Fake, Moment,
    machine::{ByRecent, recent, space, switch, this_cpu},
    on, words,
};

/// CPU 1 enters `space`, and CPU 0 does `act` before the root is loaded.
fn midway(tlb: ByRecent, space: &AddressSpace<'_, Fake>, act: impl FnOnce() + Send + 'static) {
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
fn a_space_is_not_released_while_a_cpu_may_be_on_its_way_out_of_it() {
    let tlb = recent(2, Fake::new(2, 12));
    let a: &'static mut AddressSpace<'_, _> = Box::leak(Box::new(space(tlb, 1)));
    let _ = switch(tlb, 1, a);
    midway(tlb, &space(tlb, 2), move || {
        assert_eq!(this_cpu(tlb).release(a), Err(Error::StillRunning { cpu: CpuId(1) }));
    });
}

#[test]
fn storage_of_a_cpu_that_is_on_its_way_into_its_first_space_is_refused() {
    let mut cpus = [Cpu::new(), Cpu::new()];
    let fake = || Fake::new(2, 12).without_broadcast();
    let stops = catch_unwind(AssertUnwindSafe(|| {
        let tlb = Tlb::new(fake(), PerCpuAsids::<6>::new(), &mut cpus).unwrap();
        // SAFETY: no real hardware walks this root.
        let a = unsafe { tlb.space(Root::new(4096), words(1)) }.unwrap();
        on(1, || tlb.online(&(), &12).unwrap());
        tlb.platform().meanwhile(Moment::Published, || panic!("it stops here"));
        on(1, || tlb.this_cpu(&()).switch(&a))
    }));
    assert!(stops.is_err());
    let again = Tlb::new(fake(), PerCpuAsids::new(), &mut cpus).map(drop);
    assert_eq!(again, Err(Error::UsedStorage { cpu: CpuId(1) }));
}
