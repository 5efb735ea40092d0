//! The calls into the kernel.
//!
//! They are safe as far as the kernel goes: it answers nonsense with [`Refused`], or kills the
//! program. Taking away memory that the program itself still uses is the caller's affair, here as
//! with an index out of range: it ends the program.

use core::{arch::asm, hint};

pub(crate) use lookaside_kernel_abi::{
    Call, Counter, KILLED, Kind, Noted, Parameter, Refused, WRITE,
};

use crate::Program;

/// What a call returns.
pub(crate) type Result<T = usize> = core::result::Result<T, Refused>;

/// A call as the kernel sees it: any number, any arguments.
#[cfg(target_arch = "x86_64")]
pub(crate) fn raw(number: usize, [a, b, c, d]: [usize; 4]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but that of the result.
    unsafe {
        asm!("int 0x80", inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, options(nostack));
    }
    result
}

/// A call as the kernel sees it: any number, any arguments.
#[cfg(target_arch = "aarch64")]
pub(crate) fn raw(number: usize, [a, b, c, d]: [usize; 4]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but that of the result.
    unsafe {
        asm!("svc #0", in("x8") number,
            inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, options(nostack));
    }
    result
}

/// A call as the kernel sees it: any number, any arguments.
#[cfg(target_arch = "riscv64")]
pub(crate) fn raw(number: usize, [a, b, c, d]: [usize; 4]) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but that of the result.
    unsafe {
        asm!("ecall", in("a7") number,
            inlateout("a0") a => result, in("a1") b, in("a2") c, in("a3") d, options(nostack));
    }
    result
}

fn call(call: Call, arguments: [usize; 4]) -> Result {
    let result = raw(call as usize, arguments);
    if result >= 0 {
        return Ok(result as usize);
    }
    Err(match -result {
        1 => Refused::Invalid,
        2 => Refused::Full,
        3 => Refused::Missing,
        4 => Refused::Closed,
        5 => Refused::Unsupported,
        _ => panic!("{call:?} returned {result}"),
    })
}

pub(crate) fn exit(code: u8) -> ! {
    let _ = call(Call::Exit, [code.into(), 0, 0, 0]);
    unreachable!("a program went on after its end")
}

pub(crate) fn end_thread() -> ! {
    let _ = call(Call::EndThread, [0; 4]);
    unreachable!("a thread went on after its end")
}

pub(crate) fn yield_now() {
    let _ = call(Call::Yield, [0; 4]);
}

pub(crate) fn sleep(milliseconds: usize) {
    let _ = call(Call::Sleep, [milliseconds, 0, 0, 0]);
}

pub(crate) fn spawn(program: Program, argument: usize) -> Result {
    call(Call::Spawn, [program as usize, argument, 0, 0])
}

pub(crate) fn thread(entry: usize, stack: usize, argument: usize) -> Result {
    call(Call::Thread, [entry, stack, argument, 0])
}

/// The child's number, or 0 in the child.
pub(crate) fn fork() -> Result {
    call(Call::Fork, [0; 4])
}

/// The exit code, or [`KILLED`].
pub(crate) fn wait(process: usize) -> Result<isize> {
    call(Call::Wait, [process, 0, 0, 0]).map(|code| code as isize)
}

pub(crate) fn pipe() -> Result {
    call(Call::Pipe, [0; 4])
}

pub(crate) fn close(pipe: usize) -> Result {
    call(Call::Close, [pipe, 0, 0, 0])
}

/// Sends a number through a pipe.
pub(crate) fn send(pipe: usize, value: u64) -> Result<()> {
    let bytes = value.to_ne_bytes();
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &bytes[sent..];
        sent += call(Call::Write, [pipe, rest.as_ptr() as usize, rest.len(), 0])?;
    }
    Ok(())
}

/// Waits for a number that comes through a pipe.
pub(crate) fn receive(pipe: usize) -> Result<u64> {
    let mut bytes = [0; 8];
    let mut received = 0;
    while received < bytes.len() {
        let rest = &mut bytes[received..];
        received += call(Call::Read, [pipe, rest.as_mut_ptr() as usize, rest.len(), 0])?;
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// New memory that may be written to, somewhere if `address` is 0.
pub(crate) fn map(address: usize, bytes: usize, kind: Kind) -> Result {
    call(Call::Map, [address, bytes, WRITE, kind as usize])
}

pub(crate) fn unmap(address: usize, bytes: usize) -> Result {
    call(Call::Unmap, [address, bytes, 0, 0])
}

pub(crate) fn protect(address: usize, bytes: usize, protection: usize) -> Result {
    call(Call::Protect, [address, bytes, protection, 0])
}

pub(crate) fn move_pages(from: usize, bytes: usize, to: usize) -> Result {
    call(Call::Move, [from, bytes, to, 0])
}

pub(crate) fn discard(address: usize, bytes: usize) -> Result {
    call(Call::Discard, [address, bytes, 0, 0])
}

/// Which pages were written to: a bit for each. Less than 64 pages, or the last would look like a
/// failure.
pub(crate) fn harvest(address: usize, bytes: usize) -> Result<u64> {
    harvest_noted(address, bytes, Noted::Dirty)
}

/// Which pages were used, as [`harvest`].
pub(crate) fn harvest_used(address: usize, bytes: usize) -> Result<u64> {
    harvest_noted(address, bytes, Noted::Accessed)
}

fn harvest_noted(address: usize, bytes: usize, noted: Noted) -> Result<u64> {
    call(Call::Harvest, [address, bytes, noted as usize, 0]).map(|bits| bits as u64)
}

/// Moves this thread to a CPU.
pub(crate) fn run_on(cpu: usize) {
    call(Call::RunOn, [cpu, 0, 0, 0]).expect("there is such a CPU");
    let this_cpu = call(Call::Cpu, [0; 4]);
    assert!(this_cpu == Ok(cpu), "a thread that belongs on CPU {cpu} runs on {this_cpu:?}");
}

/// Nanoseconds.
pub(crate) fn clock() -> u64 {
    raw(Call::Clock as usize, [0; 4]) as u64
}

pub(crate) fn parameter(parameter: Parameter) -> usize {
    raw(Call::Parameter as usize, [parameter as usize, 0, 0, 0]) as usize
}

pub(crate) fn cpus() -> usize {
    parameter(Parameter::Cpus)
}

pub(crate) fn counter(counter: Counter) -> usize {
    raw(Call::Counter as usize, [counter as usize, 0, 0, 0]) as usize
}

pub(crate) fn print(text: &[u8]) {
    let _ = call(Call::Print, [text.as_ptr() as usize, text.len(), 0, 0]);
}

pub(crate) fn shutdown(code: u8) -> ! {
    let _ = call(Call::Shutdown, [code.into(), 0, 0, 0]);
    unreachable!("the machine went on after its end")
}

/// How often a waiting thread looks again before it lets others run.
const LOOKS: u64 = 200;

/// Waits until `done`.
pub(crate) fn wait_until(mut done: impl FnMut() -> bool) {
    let mut looks = 0_u64;
    while !done() {
        looks += 1;
        if looks.is_multiple_of(LOOKS) {
            yield_now();
        } else {
            hint::spin_loop();
        }
    }
}

/// Waits until `done`, but not for ever. Returns whether it was.
pub(crate) fn wait_at_most(milliseconds: u64, mut done: impl FnMut() -> bool) -> bool {
    let end = clock() + milliseconds * 1_000_000;
    for looks in 1_u64.. {
        if done() {
            return true;
        }
        if looks.is_multiple_of(LOOKS) {
            if clock() > end {
                break;
            }
            yield_now();
        }
        hint::spin_loop();
    }
    false
}
