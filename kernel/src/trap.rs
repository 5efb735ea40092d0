//! What user mode asks, what it does wrong, and what interrupts it.

use crate::{
    arch::{Access, TrapFrame},
    tlb,
};

/// A system call.
pub(crate) fn syscall(frame: &mut TrapFrame) {
    let _ = frame;
}

/// A page fault of user mode.
pub(crate) fn page_fault(frame: &mut TrapFrame, address: usize, access: Access) {
    let _ = (frame, address, access);
}

/// Anything else that user mode must not do.
pub(crate) fn bad_program(frame: &mut TrapFrame, what: &str) {
    let _ = (frame, what);
}

/// The timer.
pub(crate) fn tick(from_user: bool) {
    let _ = from_user;
}

/// Another CPU's interrupt.
pub(crate) fn message(from_user: bool) {
    let _ = from_user;
    tlb::serve();
}
