//! Traps out of user mode: calls, faults, the timer and other CPUs. A process that is to end does so before
//! it returns to user mode.

use crate::{
    arch::{Access, TrapFrame},
    syscall,
    thread::{self, current},
    tlb,
};

/// A system call.
pub(crate) fn syscall(frame: &mut TrapFrame) {
    syscall::dispatch(frame);
    leave();
}

/// A page fault of user mode.
pub(crate) fn page_fault(_: &mut TrapFrame, address: usize, access: Access) {
    handle(address, access);
    leave();
}

fn handle(address: usize, access: Access) {
    let process = &current().process;
    let done = process.memory.lock().fault(&process.space, address, access);
    if let Err(fatal) = done {
        process.kill_for(fatal, address);
    }
}

/// Anything else that user mode must not do.
pub(crate) fn bad_program(_: &mut TrapFrame, what: &str) {
    current().process.kill(format_args!("{what}"));
    leave();
}

/// The timer.
pub(crate) fn tick(from_user: bool) {
    thread::wake_late();
    if from_user {
        thread::give_way();
        leave();
    }
}

/// Another CPU has sent a flush request, or has made a thread ready.
pub(crate) fn message(from_user: bool) {
    tlb::handle_ipi();
    if from_user {
        leave();
    }
}

/// On the way back to user mode.
fn leave() {
    if current().is_ending() {
        thread::end();
    }
}
