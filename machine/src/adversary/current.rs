//! How operations reach the machine: through a pointer that belongs to the thread.
//!
//! A program that executes an operation announces it, suspends itself, and finds the result when
//! it is resumed. Outside of an execution, operations act directly.

use core::{cell::Cell, panic::Location, ptr};

use lookaside::platform::Ordering;

use super::{
    machine::{Machine, Phase},
    memory,
    op::{Address, Op},
};

thread_local! {
    static CURRENT: Cell<*mut Machine> = const { Cell::new(ptr::null_mut()) };
}

/// Makes a machine the one that operations of this thread reach, until it is dropped.
pub(crate) struct Current(*mut Machine);

impl Current {
    /// `machine` must stay where it is for as long as the value lives.
    pub(crate) fn enter(machine: *mut Machine) -> Self {
        Self(CURRENT.replace(machine))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Whether a machine runs a program on this thread.
pub(crate) fn is_running() -> bool {
    let machine = CURRENT.get();
    // SAFETY: `Current` keeps the pointer valid; nothing else holds a reference to the machine
    // while a program or a scenario runs.
    !machine.is_null() && unsafe { (*machine).phase == Phase::Running }
}

/// Calls `f` with the machine of this thread.
pub(crate) fn with<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    let machine = CURRENT.get();
    assert!(!machine.is_null(), "no machine on this thread: call this from within a scenario");
    // SAFETY: `Current` keeps the pointer valid. Programs and the hub run on one thread and hand
    // it to each other; neither holds a reference across that, and `f` cannot get here again, as
    // it receives only the machine's own methods.
    f(unsafe { &mut *machine })
}

/// Calls `f` with the machine of this thread, which must be building a world.
pub(crate) fn building<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    with(|machine| {
        assert!(machine.phase == Phase::Building, "this is for building a world");
        f(machine)
    })
}

/// Executes an operation on a word, which may be outside of any machine.
#[track_caller]
#[inline]
pub(crate) fn word_step(op: Op) -> u64 {
    if CURRENT.get().is_null() {
        return match op {
            Op::Load(word, _) => memory::read(word),
            Op::Store(word, value, _) => {
                // SAFETY: the word is alive, as the caller holds it, and no other thread can
                // reach it.
                unsafe { *word = value };
                0
            }
            Op::Rmw(word, rmw, _) => {
                let old = memory::read(word);
                if let Some(new) = rmw.apply(old) {
                    // SAFETY: as above.
                    unsafe { *word = new };
                }
                old
            }
            _ => 0,
        };
    }
    step(op)
}

/// Executes an operation of the CPU that runs: waits until the explorer chooses it.
///
/// # Panics
///
/// If there is no machine on this thread.
#[track_caller]
pub(crate) fn step(op: Op) -> u64 {
    let machine = CURRENT.get();
    assert!(!machine.is_null(), "no machine on this thread: call this from within a scenario");
    let location = Location::caller();
    // SAFETY: `Current` keeps the pointer valid. No reference to the machine lives across the
    // suspension or the interrupt handler.
    unsafe {
        if (*machine).phase != Phase::Running {
            let cpu = (*machine).running;
            return (*machine).execute(cpu, op);
        }
        let cpu = (*machine).running;
        loop {
            let yielder = (*machine).announce(cpu, op, location);
            (*yielder).suspend(());
            let handler = match (*machine).resumed(cpu) {
                Ok(result) => return result,
                Err(handler) => handler,
            };
            // The handler leaves nothing behind in the program's own variables, so its results
            // are dropped when it returns.
            let before = (*machine).enter_handler(cpu, handler);
            super::callback::call_handler(handler, lookaside::platform::CpuId(cpu as u32));
            (*machine).leave_handler(cpu, handler, before);
        }
    }
}

/// Before a word of the CPU's own is read or written an NMI can come, and nothing else that matters.
#[inline]
fn may_take_nmi(machine: *mut Machine) {
    // SAFETY: as in `step`.
    let takes = unsafe {
        let machine = &*machine;
        machine.phase == Phase::Running && machine.takes_nmi(machine.running)
    };
    if takes {
        step(Op::Own);
    }
}

/// Reads a word of the CPU's own. This is not a step, but where an NMI can come before it.
#[inline]
pub(crate) fn private_get(word: Address) -> u64 {
    let machine = CURRENT.get();
    if !machine.is_null() {
        may_take_nmi(machine);
    }
    let value = memory::read(word);
    if !machine.is_null() {
        // SAFETY: as in `step`.
        let machine = unsafe { &mut *machine };
        if machine.phase == Phase::Running {
            let cpu = machine.running;
            // A word that was stored to by `store` may be in the buffer still.
            machine.footprint.read(word);
            let value = machine.view(cpu, word);
            machine.cpus[cpu].observed(value);
            machine.touch(cpu, word, true);
            return value;
        }
    }
    value
}

/// Writes a word of the CPU's own. This is not a step, but where an NMI can come before it.
#[inline]
pub(crate) fn private_set(word: Address, value: u64) {
    let machine = CURRENT.get();
    if machine.is_null() {
        // SAFETY: the word is alive, as the caller holds it, and no other thread can reach it.
        unsafe { *word = value };
        return;
    }
    may_take_nmi(machine);
    // SAFETY: as in `step`.
    let machine = unsafe { &mut *machine };
    if machine.phase == Phase::Running {
        let cpu = machine.running;
        machine.footprint.write(word);
        machine.touch(cpu, word, true);
        if machine.cpus[cpu].buffer.iter().any(|entry| entry.word == word) {
            machine.store(cpu, word, value, Ordering::Relaxed);
        } else if machine.memory.write(word, value, true) != value {
            machine.changed |= 1 << cpu;
        }
    } else {
        machine.land_direct(word, value);
    }
}
