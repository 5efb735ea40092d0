//! Programs that do what they must not. Each is killed, or its call is refused; nobody else suffers,
//! and what it had comes back.

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

/// What a deed comes to if the program lives: the kernel has refused, or has not.
pub(super) const REFUSED: u8 = 0;
pub(super) const GOT_AWAY: u8 = 1;

/// What is done with a pipe that holds a number, and whether the program must be killed for it.
type Deed = (&'static str, fn(usize) -> u8, bool);

const DEEDS: [Deed; 23] = [
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
    for deed in 0..DEEDS.len() + NONSENSE.len() {
        canary.store(deed as u64, Ordering::Relaxed);
        if let Err(what) = try_out(deed) {
            println!("bad: a program that {}: {what}", name(deed));
            failures += 1;
        }
        assert!(canary.load(Ordering::Relaxed) == deed as u64, "{} changed others", name(deed));
    }
    let deeds = DEEDS.len() + NONSENSE.len();
    report.end("bad", format_args!("{deeds} bad programs, {failures} not as it should be"));
    u8::from(failures > 0)
}

fn name(deed: usize) -> &'static str {
    DEEDS.get(deed).map_or("asks for nonsense", |deed| deed.0)
}

/// Lets a program do it, and looks what came of it.
fn try_out(deed: usize) -> Result<(), &'static str> {
    let frames = memory::free_frames();
    let pipe = system::pipe().map_err(|_| "no pipe is left")?;
    system::send(pipe, 0).map_err(|_| "the pipe is closed")?;
    let sinner = system::spawn(Program::Sinner, pipe << 8 | deed).map_err(|_| "it is not born")?;
    let end = system::wait(sinner).map_err(|_| "it has no end")?;
    // The program may have closed it, for its children.
    let _ = system::close(pipe);
    let must_die = DEEDS.get(deed).is_some_and(|deed| deed.2);
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

/// The program that does it.
pub(crate) fn sin(argument: usize) -> u8 {
    let (pipe, deed) = (argument >> 8, argument & 0xff);
    match DEEDS.get(deed) {
        Some((_, act, _)) => act(pipe),
        None => {
            let (number, arguments) = NONSENSE[deed - DEEDS.len()];
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
