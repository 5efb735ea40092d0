//! CPUs are numbered by the kernel; harts have the numbers that hardware gave them. CPU 0 is the hart
//! that booted, whichever it was.

use core::{
    arch::asm,
    cell::UnsafeCell,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
};

use super::{SOFTWARE, boot, relax, sbi, time, tree::Hart};
use crate::{
    arch::{MAX_CPUS, STACK},
    lock::Once,
    println,
};

/// No hart has this number.
const NO_HART: u64 = u64::MAX;
/// How long a hart may take to come up.
const PATIENCE_NS: u64 = 1_000_000_000;

/// What is one CPU's own. In the kernel its `tp` points here; code in assembler uses the first three.
#[repr(C, align(64))]
pub(super) struct Local {
    /// Where a trap puts a register, to have one to work with.
    pub(super) scratch: AtomicU64,
    /// Where the stack of the next trap begins.
    pub(super) stack: AtomicPtr<u8>,
    /// The hart's number, or [`NO_HART`]: for a hart that looks for what is its own.
    pub(super) hart_id: AtomicU64,
    number: usize,
    hart: Once<Hart>,
    /// Whether it takes interrupts.
    up: AtomicBool,
}

/// One for each CPU.
pub(super) static LOCALS: [Local; MAX_CPUS] = {
    let mut locals = [const { Local::new() }; MAX_CPUS];
    let mut number = 0;
    while number < MAX_CPUS {
        let top = (&raw const STACKS).cast::<u8>().cast_mut().wrapping_add((number + 1) * STACK);
        locals[number].number = number;
        locals[number].stack = AtomicPtr::new(top);
        number += 1;
    }
    locals
};

#[repr(C, align(16))]
struct Stacks(UnsafeCell<[[u8; STACK]; MAX_CPUS]>);

// SAFETY: each CPU uses its own, through `sp`.
unsafe impl Sync for Stacks {}

static STACKS: Stacks = Stacks(UnsafeCell::new([[0; STACK]; MAX_CPUS]));

impl Local {
    const fn new() -> Self {
        Self {
            scratch: AtomicU64::new(0),
            stack: AtomicPtr::new(ptr::null_mut()),
            hart_id: AtomicU64::new(NO_HART),
            number: 0,
            hart: Once::new(),
            up: AtomicBool::new(false),
        }
    }

    /// This CPU's.
    #[inline]
    fn this_cpu() -> &'static Self {
        let local: *const Self;
        // SAFETY: it reads a register, in this place: a thread may be elsewhere the next time.
        unsafe { asm!("mv {}, tp", out(reg) local, options(nomem, nostack, preserves_flags)) };
        // SAFETY: boot code points it at one of `LOCALS`, and traps keep it so.
        unsafe { &*local }
    }
}

/// Numbers the harts, and returns how many there are; those beyond [`MAX_CPUS`] are not used.
pub(super) fn open(boot: u64, harts: impl Iterator<Item = Hart>) -> usize {
    let mut count = 1;
    for hart in harts {
        let mut cpu = 0;
        if hart.id != boot {
            cpu = count;
            count += 1;
        }
        if let Some(local) = LOCALS.get(cpu) {
            // Relaxed: the firmware, which starts the others later, stands in between.
            local.hart_id.store(hart.id, Ordering::Relaxed);
            local.hart.set(hart);
        }
    }
    count
}

#[inline]
pub(crate) fn cpu() -> usize {
    Local::this_cpu().number
}

/// The hart that executes this.
pub(super) fn this_cpu() -> &'static Hart {
    Local::this_cpu().hart.get()
}

/// All harts that are used.
pub(super) fn all() -> impl Iterator<Item = &'static Hart> {
    LOCALS.iter().filter_map(|local| local.hart.try_get())
}

pub(crate) fn set_kernel_stack(top: usize) {
    // Relaxed: for this CPU.
    Local::this_cpu().stack.store(ptr::with_exposed_provenance_mut(top), Ordering::Relaxed);
}

/// Lets other CPUs interrupt this one, and says so.
pub(super) fn take_interrupts() {
    // SAFETY: the kernel is ready for it.
    unsafe { asm!("csrs sie, {}", in(reg) SOFTWARE, options(nostack)) };
    Local::this_cpu().up.store(true, Ordering::Release); // Release: pairs with the Acquire below.
}

/// The firmware returns before a hart runs, so each says for itself when it does.
pub(crate) fn start_others(count: usize) {
    let others = &LOCALS[1..count.clamp(1, MAX_CPUS)];
    for local in others {
        let hart = local.hart.get().id;
        let entry = boot::_start as *const () as usize;
        if let Err(code) = sbi::start_hart(hart, entry) {
            println!("CPU {}: the firmware does not start hart {hart}: {code}", local.number);
        }
    }
    let end = time::now() + PATIENCE_NS;
    for local in others {
        // Acquire: it takes interrupts.
        while !local.up.load(Ordering::Acquire) {
            if time::now() > end {
                println!("CPU {}: it does not come up", local.number);
                break;
            }
            relax();
        }
    }
}

pub(crate) fn interrupt_cpu(cpu: usize) {
    let hart = LOCALS[cpu].hart.get().id;
    if let Err(code) = sbi::interrupt(hart) {
        panic!("the firmware does not interrupt hart {hart}: {code}");
    }
}
