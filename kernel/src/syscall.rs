//! System calls.

use lookaside::{counts::Outcome, flush::Flags};
use lookaside_kernel_abi::{Call, Counter, Kind, Noted, Parameter, Refused};

use crate::{
    arch::{self, Access, TrapFrame},
    command_line, count,
    fault::Fatal,
    frame, memory, pipe, print_counts, process,
    thread::{self, Thread, current},
    up,
};

/// A result, or the end of the program.
type Answer = Result<Result<usize, Refused>, (Fatal, usize)>;

/// Answers the call in `frame`.
pub(crate) fn dispatch(frame: &mut TrapFrame) {
    let (number, arguments) = frame.syscall();
    let thread = current();
    let answer = match Call::ALL.get(number) {
        Some(&call) => answer(&thread, call, arguments, frame),
        None => Ok(Err(Refused::Invalid)),
    };
    match answer {
        Ok(Ok(value)) => frame.set_result(value),
        Ok(Err(refused)) => frame.set_result((refused as isize).wrapping_neg() as usize),
        Err((fatal, address)) => thread.process.kill_for(fatal, address),
    }
}

fn answer(thread: &Thread, call: Call, arguments: [usize; 4], frame: &TrapFrame) -> Answer {
    let [a, b, c, d] = arguments;
    let process = &thread.process;
    let space = &process.space;
    Ok(match call {
        Call::Exit => {
            process.end((a & 0xff) as isize);
            Ok(0)
        }
        Call::EndThread => {
            thread.end_soon();
            Ok(0)
        }
        Call::Yield => {
            thread::give_way();
            Ok(0)
        }
        Call::Sleep => {
            let until = arch::now().saturating_add(a as u64 * 1_000_000);
            let _: Option<()> = thread::wait_for(0, until, || None);
            Ok(0)
        }
        Call::Spawn => process::spawn(a, b),
        Call::Thread => process.start_thread(&TrapFrame::user(a, b, [c, 0])).map(|()| 0),
        Call::Fork => process::fork(process, frame),
        Call::Wait => process::wait(a).map(|code| code as usize),
        Call::Pipe => pipe::open(),
        Call::Close => pipe::close(a).map(|()| 0),
        Call::Read => return transfer(thread, a, b, c, Access::Write),
        Call::Write => return transfer(thread, a, b, c, Access::Read),
        Call::Map => kind(d)
            .and_then(|kind| process.memory.lock().map(space, a, b, memory::protection(c)?, kind)),
        Call::Unmap => process.memory.lock().unmap(space, a, b).map(|()| 0),
        Call::Protect => memory::protection(c)
            .and_then(|to| process.memory.lock().protect(space, a, b, to).map(|()| 0)),
        Call::Move => process.memory.lock().move_to(space, a, b, c),
        Call::Discard => process.memory.lock().discard(space, a, b).map(|()| 0),
        Call::Harvest => noted(c).and_then(|flag| {
            process.memory.lock().harvest(space, a, b, flag).map(|set| set as usize)
        }),
        Call::RunOn => thread.run_on(a, up()),
        Call::Cpu => Ok(arch::cpu()),
        Call::Clock => Ok(arch::now() as usize),
        Call::Parameter => parameter(a).ok_or(Refused::Invalid),
        Call::Counter => counter(a).map(|value| value as usize).ok_or(Refused::Invalid),
        Call::Print => return print(thread, a, b),
        Call::Shutdown => {
            print_counts();
            arch::exit(a as u8)
        }
    })
}

fn kind(number: usize) -> Result<Kind, Refused> {
    [Kind::Pages, Kind::Large, Kind::Blocks].get(number).copied().ok_or(Refused::Invalid)
}

fn noted(number: usize) -> Result<Flags, Refused> {
    match number {
        n if n == Noted::Dirty as usize => Ok(Flags::DIRTY),
        n if n == Noted::Accessed as usize => Ok(Flags::ACCESSED),
        _ => Err(Refused::Invalid),
    }
}

fn transfer(thread: &Thread, pipe: usize, address: usize, bytes: usize, access: Access) -> Answer {
    pipe::transfer(&thread.process, pipe, address, bytes, access).map_err(|fatal| (fatal, address))
}

/// The most that is printed at once.
const LINE: usize = 512;

fn print(thread: &Thread, address: usize, bytes: usize) -> Answer {
    let mut line = [0; LINE];
    let bytes = bytes.min(LINE);
    let mut place = 0;
    let mut memory = thread.process.memory.lock();
    let copy = |from: *mut u8, count: usize| {
        for byte in 0..count {
            // SAFETY: `count` bytes of a frame of the process, through the map of all memory.
            line[place + byte] = unsafe { from.add(byte).read_volatile() };
        }
        place += count;
    };
    let done = memory.touch(&thread.process.space, address, bytes, Access::Read, copy);
    done.map_err(|fatal| (fatal, address))?;
    drop(memory);
    let text =
        core::str::from_utf8(&line[..bytes]).unwrap_or("(what a program printed is no text)\n");
    crate::console::print(format_args!("{text}"));
    Ok(Ok(bytes))
}

fn parameter(number: usize) -> Option<usize> {
    let told = |name, otherwise| command_line::number(name).map_or(otherwise, |n| n as usize);
    Some(match number {
        n if n == Parameter::Cpus as usize => up(),
        n if n == Parameter::Seed as usize => told("seed", 1),
        n if n == Parameter::Soak as usize => told("soak", 0),
        n if n == Parameter::Blocks as usize => usize::from(arch::blocks().is_some()),
        n if n == Parameter::FreeFrames as usize => frame::count_free(),
        n if n == Parameter::Only as usize => told("only", usize::MAX >> 1),
        _ => return None,
    })
}

fn counter(number: usize) -> Option<u64> {
    COUNTERS.iter().find(|(counter, ..)| *counter as usize == number).map(|(_, _, read)| read())
}

/// A counter, its name, and how it is read.
type Row = (Counter, &'static str, fn() -> u64);

/// All counters, with their names.
pub(crate) static COUNTERS: [Row; 13] = [
    (Counter::Switches, "switches", || count::switches()[1..].iter().sum()),
    (Counter::FreshTags, "fresh tags", || count::switches()[2] + count::switches()[3]),
    (Counter::Rollovers, "rollovers", || count::switches()[3]),
    (Counter::CaughtUp, "switches that flushed", || count::switches()[4]),
    (Counter::FlushesNoCpu, "flushes, no CPU", || count::flushes(Outcome::NoCpu)),
    (Counter::FlushesLocal, "flushes, local", || count::flushes(Outcome::Local)),
    (Counter::FlushesRetagged, "flushes, fresh tag", || count::flushes(Outcome::Retagged)),
    (Counter::FlushesBroadcast, "flushes, broadcast", || count::flushes(Outcome::Broadcast)),
    (Counter::FlushesIpis, "flushes, interrupts", || count::flushes(Outcome::Ipis)),
    (Counter::Interrupted, "CPUs interrupted", count::interrupted),
    (Counter::Pages, "pages", || count::PAGES.get()),
    (Counter::Faults, "faults", || count::FAULTS.get()),
    (Counter::Spurious, "spurious faults", || count::SPURIOUS.get()),
];
