//! `lookaside_init`: the one machine, and when it is ready.

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    sync::atomic::{AtomicU32, Ordering},
};

use lookaside::{Cpu, Tlb};

use super::{
    Native,
    allocator::{self, Allocator},
    hardware::{self, Boot},
    platform::Hw,
};
use crate::{MAX_CPUS, Machine, error::Refused};

/// Memory that lasts as long as the kernel, and whose user is decided at run time.
pub(super) struct Static<T>(UnsafeCell<T>);

// SAFETY: whoever takes the pointer says why nobody else uses what it points to.
unsafe impl<T> Sync for Static<T> {}

impl<T> Static<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(super) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

static MACHINE: Static<MaybeUninit<Machine<Native>>> = Static::new(MaybeUninit::uninit());
static CPUS: Static<[Cpu<Hw, Allocator>; MAX_CPUS]> = Static::new([const { Cpu::new() }; MAX_CPUS]);

/// Whether [`MACHINE`] is initialised.
static STATE: AtomicU32 = AtomicU32::new(NEW);
const NEW: u32 = 0;
/// A CPU initialises it.
const BUSY: u32 = 1;
const READY: u32 = 2;

/// The machine.
#[inline]
pub(super) fn machine() -> Result<&'static Machine<Native>, Refused> {
    // Acquire: what `init` wrote.
    if STATE.load(Ordering::Acquire) != READY {
        return Err(Refused::NotReady);
    }
    // SAFETY: it is initialised, and is not written any more.
    Ok(unsafe { made() })
}

/// The machine, which is known to be ready.
///
/// # Safety
///
/// [`machine`] has returned it, on this CPU or on one whose stores before now are visible to this one.
#[inline]
pub(super) unsafe fn made() -> &'static Machine<Native> {
    // SAFETY: the caller says that it is initialised. It is not written any more.
    unsafe { (*MACHINE.get()).assume_init_ref() }
}

/// Makes the machine. After a refusal it may be tried again.
pub(super) fn init(boot: &Boot) -> Result<(), Refused> {
    let begun = STATE.compare_exchange(NEW, BUSY, Ordering::Acquire, Ordering::Relaxed);
    begun.map_err(|_| Refused::Again)?;
    // SAFETY: the state says that this CPU alone is here, and that no machine was made.
    let made = unsafe { make(boot) }.map(|machine| {
        // SAFETY: as above.
        unsafe { (*MACHINE.get()).write(machine) };
    });
    // Release: with the machine, or with the storage as the next attempt finds it.
    STATE.store(if made.is_ok() { READY } else { NEW }, Ordering::Release);
    made
}

/// # Safety
///
/// Nobody else is here, and no machine was made.
unsafe fn make(boot: &Boot) -> Result<Machine<Native>, Refused> {
    let cpus = boot.cpus as usize;
    if cpus == 0 || cpus > MAX_CPUS {
        return Err(Refused::Cpus);
    }
    let hw = Hw::new(hardware::mmu(boot)?, hardware::prefers_broadcasts(boot));
    // SAFETY: no machine was made, so no allocator is in use.
    let tags = unsafe { allocator::make(&hw, boot.tags, boot.pins)? };
    // SAFETY: only a machine uses the storage.
    let cpus = unsafe { &mut (&mut *CPUS.get())[..cpus] };
    Ok(Machine::new(Tlb::new(hw, tags, cpus)?))
}
