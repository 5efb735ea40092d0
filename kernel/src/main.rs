//! A small kernel that leaves all TLB coherence to Lookaside, and hunts for stale translations.
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod areas;
mod blocks;
mod command_line;
mod conformance;
mod console;
mod count;
mod fault;
mod faults;
mod frame;
mod heap;
mod loader;
mod lock;
mod memory;
mod pipe;
mod process;
mod syscall;
mod tables;
mod thread;
mod tlb;
mod trap;
mod vmap;

use core::{
    panic::PanicInfo,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use arch::{MAX_CPUS, Machine};
use lookaside::conformance::Fault;

/// How many CPUs are up.
static UP: AtomicUsize = AtomicUsize::new(0);
/// Whether the boot CPU has tested what the kernel does with the library.
static CHECKED: AtomicBool = AtomicBool::new(false);
/// With less memory than this, in bytes, the tests would not get far.
const LEAST_MEMORY: u64 = 32 << 20;
/// How long the next CPU may take to come up, in nanoseconds: a host that emulates us may be busy.
const COMING_UP: u64 = 60_000_000_000;
/// How long an answer may take, in rounds of waiting.
const PATIENCE: u64 = 100_000_000;

/// How many CPUs are up.
pub(crate) fn up() -> usize {
    UP.load(Ordering::Relaxed) // Relaxed: a number, from which nothing else follows.
}

/// Prints what was counted.
pub(crate) fn print_counts() {
    for (_, name, read) in &syscall::COUNTERS {
        println!("{name:>20} {}", read());
    }
}

/// Where the boot CPU begins.
pub(crate) fn start(machine: Machine) -> ! {
    command_line::set(machine.command_line);
    if machine.memory.end.saturating_sub(machine.memory.start) < LEAST_MEMORY {
        println!("there is not enough memory, or nobody says where: {:#x?}", machine.memory);
        arch::exit(1);
    }
    let memory = heap::open(machine.memory.clone());
    println!("memory {memory:#x?}, {} CPUs, `{}`", machine.cpus, machine.command_line);
    frame::open(memory);
    let cpus = machine.cpus.min(MAX_CPUS);
    let tags = command_line::number("tags").map(|tags| tags as u32);
    if let Err(error) = tlb::open(cpus, tags) {
        println!("the machine is not fit: {error}");
        arch::exit(1);
    }
    println!("{:?}", tlb::TLB);
    come_up();
    arch::start_others(cpus);
    let (mut seen, mut since) = (up(), arch::now());
    while UP.load(Ordering::Acquire) < cpus {
        if up() != seen {
            (seen, since) = (up(), arch::now());
        } else if arch::now() - since > COMING_UP {
            println!("of {cpus} CPUs only {} have come up", up());
            arch::exit(1);
        }
        tlb::handle_ipi(); // This CPU is online: who flushes while it comes up waits for it.
        arch::relax();
    }
    match lookaside::conformance::check(&tlb::this_cpu(), PATIENCE) {
        Ok(report) => println!("{report:?}"),
        Err(fault) => does_not_conform(fault),
    }
    // Without remote flushes it is the hunters that must notice.
    if !cfg!(feature = "no-remote") {
        match conformance::check(cpus) {
            Ok(report) => println!("translations: {report}"),
            Err(fault) => does_not_conform(fault),
        }
    }
    let init = process::spawn(0, 0);
    CHECKED.store(true, Ordering::Release); // Release: pairs with the Acquire in `start_other`.
    (1..cpus).for_each(arch::interrupt_cpu);
    if init.is_err() {
        println!("there is not enough memory for the first program");
        arch::exit(1);
    }
    arch::start_ticks();
    thread::schedule()
}

fn does_not_conform(fault: Fault) -> ! {
    println!("the kernel does not conform: {fault}");
    arch::exit(1)
}

/// Where the others begin.
pub(crate) fn start_other() -> ! {
    come_up();
    while !CHECKED.load(Ordering::Acquire) {
        conformance::serve();
        // Without a look at requests, so that the tests see whether IPIs arrive. Whoever has something to do sends one.
        arch::idle();
    }
    arch::start_ticks();
    thread::schedule()
}

fn come_up() {
    if !faults::stays_offline() {
        if let Err(error) = tlb::TLB.online(&(), &arch::features()) {
            println!("CPU {} is not fit: {error}", arch::cpu());
            arch::halt();
        }
        faults::online();
    }
    UP.fetch_add(1, Ordering::Release); // Release: pairs with the Acquire in `start`.
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    console::print_anyway(format_args!("\nCPU {}: {info}\n", arch::cpu()));
    arch::exit(101)
}
