//! The interrupt controller: Arm's GICv2 (IHI 0048), which has eight CPUs at most.

use core::{
    arch::asm,
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};

use super::{OFFSET, cpu, timer};
use crate::{arch::MAX_CPUS, trap};

const DISTRIBUTOR: usize = OFFSET + 0x0800_0000;
const ENABLE: usize = DISTRIBUTOR;
const SET_ENABLE: usize = DISTRIBUTOR + 0x100;
const PRIORITIES: usize = DISTRIBUTOR + 0x400;
const TARGETS: usize = DISTRIBUTOR + 0x800;
const SEND: usize = DISTRIBUTOR + 0xf00;

const CPU_INTERFACE: usize = OFFSET + 0x0801_0000;
const CPU_ENABLE: usize = CPU_INTERFACE;
const PRIORITY_MASK: usize = CPU_INTERFACE + 0x4;
const ACKNOWLEDGE: usize = CPU_INTERFACE + 0xc;
const END: usize = CPU_INTERFACE + 0x10;

/// The interrupt between CPUs.
const MESSAGE: u32 = 0;
/// The virtual timer of each CPU.
const TIMER: u32 = 27;
/// From here on numbers mean that there is no interrupt.
const SPECIAL: u32 = 1020;

/// How the controller calls each CPU: a bit.
static TARGET_OF: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

fn read(register: usize) -> u32 {
    // SAFETY: a register of the controller, which the kernel's map has.
    unsafe { ptr::read_volatile(register as *const u32) }
}

fn write(register: usize, value: u32) {
    // SAFETY: as above, and none of them gives a device access to memory.
    unsafe { ptr::write_volatile(register as *mut u32, value) };
}

/// Opens the distributor, once.
pub(super) fn open() {
    write(ENABLE, 1);
}

/// Opens the interface of this CPU.
pub(super) fn open_cpu() {
    // The first registers are each CPU's own. A CPU finds its own bit in all bytes that matter.
    TARGET_OF[cpu()].store(read(TARGETS) & 0xff, Ordering::Relaxed); // Relaxed: before it is up.
    for interrupt in [MESSAGE, TIMER] {
        let register = PRIORITIES + (interrupt & !3) as usize;
        let shift = interrupt % 4 * 8;
        write(register, read(register) & !(0xff << shift) | 0x80 << shift);
    }
    write(SET_ENABLE, 1 << MESSAGE | 1 << TIMER);
    write(PRIORITY_MASK, 0xff);
    write(CPU_ENABLE, 1);
}

/// Interrupts a CPU.
pub(crate) fn interrupt_cpu(cpu: usize) {
    // What was stored is visible before the interrupt is there.
    // SAFETY: a barrier.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
    // Relaxed: the CPU was up before anybody knew that it should be interrupted.
    write(SEND, TARGET_OF[cpu].load(Ordering::Relaxed) << 16 | MESSAGE);
}

/// Handles an interrupt, if there is one. It is ended at the controller before its handler runs, because the
/// handler may switch to another thread.
pub(super) fn handle(from_user: bool) {
    let acknowledged = read(ACKNOWLEDGE);
    match acknowledged & 0x3ff {
        MESSAGE => {
            write(END, acknowledged);
            // Pairs with the barrier in `interrupt_cpu`: loads that follow come after the
            // acknowledgement.
            // SAFETY: a barrier.
            unsafe { asm!("dmb ishld", options(nostack, preserves_flags)) };
            trap::message(from_user);
        }
        TIMER => {
            timer::set();
            write(END, acknowledged);
            trap::tick(from_user);
        }
        SPECIAL.. => {}
        other => panic!("interrupt {other}, which was not enabled"),
    }
}
