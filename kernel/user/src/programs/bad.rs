//! Programs with forbidden operations. Each is killed, or its call is refused; no other program is affected,
//! and its resources are freed.

use core::sync::atomic::Ordering;

use super::{endless, wild};
use crate::{
    Program,
    memory::{self, Area, PAGE},
    println,
    report::Report,
    system::{self, Call, KILLED, Kind, WRITE},
};

/// An address of the kernel.
const KERNEL: usize = match cfg!(target_arch = "riscv64") {
    true => 0xffff_ffc0_8020_0000,
    false => 0xffff_ffff_8010_0000,
};
/// No address at all, on most machines.
const NOWHERE: usize = 1 << 62;

/// The result of an operation that the program survives: the kernel has refused it, or has not.
pub(super) const REFUSED: u8 = 0;
pub(super) const GOT_AWAY: u8 = 1;

/// A name, an operation on a pipe that holds a number, and whether the program must be killed for it.
type Operation = (&'static str, fn(usize) -> u8, bool);

const OPERATIONS: [Operation; 23] = [
    ("jumps to the kernel", |_| wild::jump(KERNEL), true),
    ("reads the kernel", |_| wild::read(KERNEL), true),
    ("writes to the kernel", |_| wild::write(KERNEL), true),
    ("jumps nowhere", |_| wild::jump(NOWHERE), true),
    ("reads from nowhere", |_| wild::read(NOWHERE), true),
    ("reads address 0", |_| wild::read(0), true),
    ("jumps to address 0", |_| wild::jump(0), true),
    ("writes to its text", |_| wild::write(text()), true),
    ("executes data", |_| wild::execute_data(), true),
    ("executes nonsense", |_| wild::execute_nonsense(), true),
    ("executes a kernel's instruction", |_| wild::execute_privileged(), true),
    ("unmaps its stack", |_| wild::unmap_stack(), true),
    ("overflows its stack", |_| wild::overflow_stack(), true),
    ("prints the kernel", |_| raw(Call::Print, [KERNEL, 8, 0, 0]), true),
    ("prints from nowhere", |_| raw(Call::Print, [NOWHERE, 8, 0, 0]), true),
    ("sends the kernel", |pipe| raw(Call::Write, [pipe, KERNEL, 8, 0]), true),
    ("receives into the kernel", |pipe| raw(Call::Read, [pipe, KERNEL, 8, 0]), true),
    ("receives into its text", |pipe| raw(Call::Read, [pipe, text(), 8, 0]), true),
    ("uses up memory", |_| endless::memory(), false),
    ("maps without end", |_| endless::maps(), false),
    ("spawns without end", endless::processes, false),
    ("starts threads without end", endless::threads, false),
    ("makes pipes without end", |_| endless::pipes(), false),
];

/// Calls that make no sense.
const NONSENSE: [(usize, [usize; 4]); 18] = [
    (usize::MAX, [0; 4]),
    (Call::ALL.len(), [0; 4]),
    (Call::Thread as usize, [KERNEL, KERNEL, 0, 0]),
    (Call::Wait as usize, [usize::MAX, 0, 0, 0]),
    (Call::Close as usize, [usize::MAX, 0, 0, 0]),
    (Call::Print as usize, [usize::MAX - 7, 64, 0, 0]),
    (Call::Map as usize, [KERNEL, PAGE, WRITE, 0]),
    (Call::Map as usize, [0, usize::MAX, WRITE, 0]),
    (Call::Map as usize, [0, 1 << 60, WRITE, 0]),
    (Call::Map as usize, [0, PAGE, WRITE, 99]),
    (Call::Map as usize, [0x1234_5678_9abc_def0, PAGE, WRITE, 0]),
    (Call::Unmap as usize, [KERNEL, PAGE, 0, 0]),
    (Call::Protect as usize, [KERNEL, PAGE, WRITE, 0]),
    (Call::Protect as usize, [KERNEL, usize::MAX, WRITE, 0]),
    (Call::Move as usize, [KERNEL, PAGE, NOWHERE, 0]),
    (Call::Discard as usize, [KERNEL, PAGE, 0, 0]),
    (Call::Harvest as usize, [KERNEL, PAGE, 0, 0]),
    (Call::RunOn as usize, [1000, 0, 0, 0]),
];

pub(crate) fn main(_: usize) -> u8 {
    let report = Report::start();
    let canary = Area::map(1, Kind::Pages).expect("memory").word(0, 0);
    let mut failures = 0;
    for operation in 0..OPERATIONS.len() + NONSENSE.len() {
        canary.store(operation as u64, Ordering::Relaxed);
        if let Err(what) = try_out(operation) {
            println!("bad: a program that {}: {what}", name(operation));
            failures += 1;
        }
        assert!(
            canary.load(Ordering::Relaxed) == operation as u64,
            "{} changed others",
            name(operation)
        );
    }
    let operations = OPERATIONS.len() + NONSENSE.len();
    report.end("bad", format_args!("{operations} bad programs, {failures} not as it should be"));
    u8::from(failures > 0)
}

fn name(operation: usize) -> &'static str {
    OPERATIONS.get(operation).map_or("asks for nonsense", |operation| operation.0)
}

/// Runs a program that does the operation, and checks the result.
fn try_out(operation: usize) -> Result<(), &'static str> {
    let frames = memory::free_frames();
    let pipe = system::pipe().map_err(|_| "no pipe is left")?;
    system::send(pipe, 0).map_err(|_| "the pipe is closed")?;
    let sinner =
        system::spawn(Program::Sinner, pipe << 8 | operation).map_err(|_| "it is not born")?;
    let end = system::wait(sinner).map_err(|_| "it has no end")?;
    // The program may have closed it, for its children.
    let _ = system::close(pipe);
    let must_die = OPERATIONS.get(operation).is_some_and(|operation| operation.2);
    match end {
        KILLED => {}
        _ if must_die => return Err("it lived"),
        code if code == REFUSED.into() => {}
        code if code == GOT_AWAY.into() => return Err("it got what it asked for"),
        _ => return Err("it failed in another way"),
    }
    match memory::missing_frames(frames) {
        0 => Ok(()),
        _ => Err("frames are missing"),
    }
}

/// The program that does the operation.
pub(crate) fn sin(argument: usize) -> u8 {
    let (pipe, operation) = (argument >> 8, argument & 0xff);
    match OPERATIONS.get(operation) {
        Some((_, act, _)) => act(pipe),
        None => {
            let (number, arguments) = NONSENSE[operation - OPERATIONS.len()];
            if system::raw(number, arguments) < 0 {
                return REFUSED;
            }
            // A thread may take a moment to be killed for where it was started.
            system::sleep(500);
            GOT_AWAY
        }
    }
}

/// An address of this program's text.
fn text() -> usize {
    main as *const () as usize
}

fn raw(call: Call, arguments: [usize; 4]) -> u8 {
    if system::raw(call as usize, arguments) < 0 { REFUSED } else { GOT_AWAY }
}
