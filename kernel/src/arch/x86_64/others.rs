//! Finding the other CPUs, and starting them.

use core::{
    ptr,
    sync::atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

use super::{
    acpi, apic, boot, descriptors,
    time::{self, MILLISECOND},
};
use crate::{arch::MAX_CPUS, println};

/// The page that other CPUs start in: below 1 MiB, and unused once the loader is done.
const START: u32 = 0x8000;

/// What hardware calls each CPU.
static APICS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// The number for the CPU that is being started; 0 once it has taken it.
pub(super) static NEXT: AtomicU32 = AtomicU32::new(0);

/// Notes the CPUs that ACPI's tables name, this one first, and returns how many there are.
pub(super) fn find(acpi: Option<u64>) -> usize {
    let this = apic::id();
    APICS[0].store(this, Relaxed); // Relaxed, here and below: before other CPUs are started.
    let mut count = 1;
    // SAFETY: a loader found the tables, and nobody has overwritten them.
    for id in unsafe { acpi::cpus(acpi) }.filter(|&id| id != this).take(MAX_CPUS - 1) {
        APICS[count].store(id, Relaxed);
        count += 1;
    }
    count
}

pub(super) fn apic_of(cpu: usize) -> u32 {
    APICS[cpu].load(Relaxed) // Relaxed: that of a CPU that is up, and has said so.
}

/// Starts the CPUs `1..count`.
pub(crate) fn start_others(count: usize) {
    let code = boot::trampoline_code();
    // SAFETY: the page is unused, and mapped.
    unsafe { ptr::copy_nonoverlapping(code.as_ptr(), START as *mut u8, code.len()) };
    for cpu in 1..count {
        if !start(cpu) {
            println!("CPU {cpu} does not start");
        }
    }
}

/// Starts one CPU, and waits until it runs.
fn start(cpu: usize) -> bool {
    let id = apic_of(cpu);
    NEXT.store(cpu as u32, Release); // Release: all that this CPU has set up.
    apic::reset(id);
    // The second time is for hardware that missed the first; a CPU that runs takes no notice.
    for patience in [10, 1000] {
        apic::start(id, START);
        let begin = time::now();
        while time::now() - begin < patience * MILLISECOND {
            // Acquire: pairs with the exchange in boot code.
            if NEXT.load(Acquire) == 0 {
                return true;
            }
            super::relax();
        }
    }
    // One that comes now finds no number, or the next one's: a number is taken once in any case.
    NEXT.swap(0, AcqRel) == 0
}

/// Where other CPUs begin, each with the number that it took.
pub(super) extern "C" fn other_cpu(cpu: u32) -> ! {
    descriptors::load(cpu as usize);
    apic::open();
    // Relaxed: a CPU that sends an interrupt to this one knows that it is up.
    APICS[cpu as usize].store(apic::id(), Relaxed);
    crate::start_other()
}
