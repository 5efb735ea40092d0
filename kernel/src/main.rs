//! A small kernel that leaves all TLB coherence to Lookaside, and hunts for stale translations.
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod command_line;
mod console;
mod frame;
mod heap;
mod lock;
mod tlb;
mod trap;

use core::{
    panic::PanicInfo,
    sync::atomic::{AtomicUsize, Ordering},
};

use arch::{MAX_CPUS, Machine};

/// How many CPUs are up.
static UP: AtomicUsize = AtomicUsize::new(0);

/// Where the boot CPU begins.
pub(crate) fn start(machine: Machine) -> ! {
    command_line::set(machine.command_line);
    let memory = heap::open(machine.memory.clone());
    println!("memory {memory:#x?}, {} CPUs, `{}`", machine.cpus, machine.command_line);
    frame::open(memory);
    let cpus = machine.cpus.min(MAX_CPUS);
    let tags = command_line::number("tags").map(|tags| tags as u32);
    if let Err(error) = tlb::open(cpus, tags) {
        println!("the machine is not fit: {error}");
        arch::exit(1);
    }
    come_up();
    arch::start_others(cpus);
    while UP.load(Ordering::Acquire) < cpus {
        arch::relax();
    }
    println!("{:?}", lookaside::conformance::check(&tlb::here(), 100_000_000));
    arch::start_ticks();
    arch::idle();
    println!("a tick");
    arch::exit(0)
}

/// Where the others begin.
pub(crate) fn start_other() -> ! {
    come_up();
    loop {
        arch::idle();
    }
}

fn come_up() {
    if let Err(error) = tlb::online() {
        println!("CPU {} is not fit: {error}", arch::cpu());
        arch::halt();
    }
    UP.fetch_add(1, Ordering::Release); // Release: pairs with the Acquire in `start`.
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    console::print_anyway(format_args!("\nCPU {}: {info}\n", arch::cpu()));
    arch::exit(101)
}
