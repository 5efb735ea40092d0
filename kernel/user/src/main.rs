//! The user programs: workloads that switch and revoke much, hunters that look for translations that
//! should be gone, and programs that misbehave. They are one file; a process begins with the number
//! of its program.
#![no_std]
#![no_main]

mod gate;
mod memory;
mod print;
mod programs;
mod random;
mod report;
mod system;
mod threads;

use core::{arch::naked_asm, panic::PanicInfo};

use programs::*;

/// A program, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Program {
    /// Runs the tests, and ends the machine.
    Init,
    // The tests. `only=` names one by its number.
    LatCtx,
    PingPong,
    Protect,
    Churn,
    Storm,
    Blocks,
    Fork,
    Moves,
    Dirty,
    Used,
    Discard,
    Doomed,
    Bad,
    // What they start.
    Node,
    Pong,
    Sorter,
    Holder,
    Taker,
    Victim,
    Sinner,
    Sleeper,
}

/// What a program does with its argument. The result is its exit code.
type Main = fn(usize) -> u8;

/// Every program, by its name.
static PROGRAMS: [(Program, &str, Main); 22] = [
    (Program::Init, "init", init::main),
    (Program::LatCtx, "lat_ctx", lat_ctx::main),
    (Program::PingPong, "ping_pong", ping_pong::main),
    (Program::Protect, "protect", protect::main),
    (Program::Churn, "churn", churn::main),
    (Program::Storm, "storm", storm::main),
    (Program::Blocks, "blocks", blocks::main),
    (Program::Fork, "fork", fork::main),
    (Program::Moves, "moves", moves::main),
    (Program::Dirty, "dirty", dirty::main),
    (Program::Used, "used", used::main),
    (Program::Discard, "discard", discard::main),
    (Program::Doomed, "doomed", doomed::main),
    (Program::Bad, "bad", bad::main),
    (Program::Node, "node", lat_ctx::node),
    (Program::Pong, "pong", ping_pong::pong),
    (Program::Sorter, "sorter", churn::sort),
    (Program::Holder, "holder", blocks::hold),
    (Program::Taker, "taker", discard::take),
    (Program::Victim, "victim", doomed::victim),
    (Program::Sinner, "sinner", bad::sin),
    (Program::Sleeper, "sleeper", endless::sleep),
];

/// The exit code of a program that found a mistake, of its own or the kernel's.
const PANIC: u8 = 101;

impl Program {
    pub(crate) fn name(self) -> &'static str {
        PROGRAMS.iter().find(|program| program.0 == self).map_or("?", |program| program.1)
    }
}

/// Where every process begins: with the number of its program, an argument, and a stack.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _start(program: usize, argument: usize) -> ! {
    // Aligns the stack pointer for the C calling convention. `begin` never returns.
    #[cfg(target_arch = "x86_64")]
    naked_asm!("xor ebp, ebp", "and rsp, -16", "call {}", "ud2", sym begin);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x29, xzr", "mov x30, xzr", "b {}", sym begin);
    #[cfg(target_arch = "riscv64")]
    naked_asm!("mv ra, zero", "andi sp, sp, -16", "tail {}", sym begin);
}

extern "C" fn begin(program: usize, argument: usize) -> ! {
    match PROGRAMS.iter().find(|(known, ..)| *known as usize == program) {
        Some((_, _, main)) => system::exit(main(argument)),
        None => panic!("there is no program {program}"),
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => println!("{} (line {} of {})", info.message(), at.line(), at.file()),
        None => println!("{}", info.message()),
    }
    system::exit(PANIC)
}
