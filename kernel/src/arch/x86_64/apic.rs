//! The local APIC of each CPU, by its registers in memory (SDM vol. 3, chapter 10).

use core::{
    arch::asm,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use super::{
    others, port,
    time::{self, MILLISECOND},
    trap::{MESSAGE, SPURIOUS, TICK},
};

/// Where firmware leaves the registers: each CPU sees its own there.
const BASE: usize = 0xfee0_0000;

const ID: usize = 0x20;
const END: usize = 0xb0;
const SPURIOUS_VECTOR: usize = 0xf0;
const COMMAND: usize = 0x300;
const COMMAND_TARGET: usize = 0x310;
const TIMER: usize = 0x320;
const OLD_CONTROLLERS: usize = 0x350;
const TIMER_START: usize = 0x380;
const TIMER_NOW: usize = 0x390;
const TIMER_DIVISOR: usize = 0x3e0;

const ENABLED: u32 = 1 << 8;
const MASKED: u32 = 1 << 16;
const PERIODIC: u32 = 1 << 17;
const BY_16: u32 = 3;

const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
/// The last command has not left yet.
const PENDING: u32 = 1 << 12;

/// How often a timer counts in a hundredth of a second.
static TICK_LENGTH: AtomicU32 = AtomicU32::new(0);

/// Silences the old interrupt controllers, whose vectors are exceptions'.
pub(super) fn silence_others() {
    for mask in [0x21, 0xa1] {
        // SAFETY: nobody wants their interrupts.
        unsafe { port::write(mask, 0xff) }
    }
}

/// Turns the APIC of this CPU on, with nothing to come but what other CPUs send.
pub(super) fn open() {
    write(SPURIOUS_VECTOR, ENABLED | SPURIOUS as u32);
    write(TIMER, MASKED);
    // Firmware lets the old controllers through on the boot CPU.
    write(OLD_CONTROLLERS, MASKED);
    write(TIMER_DIVISOR, BY_16);
}

/// What hardware calls this CPU.
pub(super) fn id() -> u32 {
    read(ID) >> 24
}

/// Finds out how fast timers are, with something that takes so many milliseconds.
pub(super) fn calibrate(milliseconds: u64, wait: impl FnOnce()) {
    write(TIMER_START, u32::MAX);
    wait();
    let counted = u64::from(u32::MAX - read(TIMER_NOW));
    write(TIMER_START, 0);
    // Relaxed: other CPUs are started later.
    TICK_LENGTH.store((counted * 10 / milliseconds) as u32, Relaxed);
}

/// The timer of this CPU interrupts 100 times a second from here on.
pub(crate) fn start_ticks() {
    write(TIMER, PERIODIC | TICK as u32);
    write(TIMER_START, TICK_LENGTH.load(Relaxed)); // Relaxed: the boot CPU stored it at boot.
}

/// The interrupt between CPUs.
///
/// The registers are not cached, and x86 does not let stores overtake each other: the one that sends
/// the interrupt is performed after all that this CPU has stored before, and so is its handler. (It
/// would take a fence with an x2APIC, whose registers are no memory.)
pub(crate) fn interrupt_cpu(cpu: usize) {
    send(others::apic_of(cpu), ASSERT | MESSAGE as u32);
}

/// Resets a CPU. It then waits to be [started](start).
pub(super) fn reset(id: u32) {
    send(id, ASSERT | INIT);
    time::wait(10 * MILLISECOND);
}

/// Has a CPU that was reset execute what is at `address`, a page below 1 MiB.
pub(super) fn start(id: u32, address: u32) {
    send(id, ASSERT | STARTUP | address >> 12);
}

/// The interrupt that is being handled is over, so that the next can come.
pub(super) fn end_of_interrupt() {
    write(END, 0);
}

fn send(id: u32, command: u32) {
    while read(COMMAND) & PENDING != 0 {
        super::relax();
    }
    write(COMMAND_TARGET, id << 24);
    write(COMMAND, command);
}

fn read(register: usize) -> u32 {
    let at = BASE + register;
    let value;
    // SAFETY: the registers are mapped there, one to one, and reading them changes nothing.
    unsafe { asm!("mov {:e}, [{}]", out(reg) value, in(reg) at, options(nostack, preserves_flags)) }
    value
}

/// Without `nomem`: the compiler keeps stores before it, too.
fn write(register: usize, value: u32) {
    let at = BASE + register;
    // SAFETY: as above. What is written, here in this file, stops no CPU that does not expect it.
    unsafe { asm!("mov [{}], {:e}", in(reg) at, in(reg) value, options(nostack, preserves_flags)) }
}
