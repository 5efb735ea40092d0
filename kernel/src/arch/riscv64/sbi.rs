//! Calls of the firmware (RISC-V Supervisor Binary Interface Specification).

use core::arch::asm;

use lookaside::arch::riscv64::sbi::{Call, HartMask};

/// Extensions, each with the only function of it that is used.
const TIME: (u64, u64) = (0x5449_4d45, 0);
const IPI: (u64, u64) = (0x73_5049, 0);
const HSM_START: (u64, u64) = (0x48_534d, 0);

/// A call of the firmware that answers nothing; what it says if it refuses.
///
/// # Safety
///
/// The call does nothing to memory and to this hart that Rust code could notice.
unsafe fn call(call: Call) -> Result<(), i64> {
    let Call { extension, function, arguments: [a0, a1, a2, a3, a4] } = call;
    let code: i64;
    // FENCE (pairs with `fence io, rw` of `clint::acknowledge`, and with the first loads of a hart that
    // starts): this hart's stores come before the firmware's access to the device that interrupts
    // another hart.
    //
    // SAFETY: the caller's word. The firmware preserves all registers but `a0` and `a1`, and has a
    // stack of its own.
    unsafe {
        asm!(
            "fence w, o",
            "ecall",
            inlateout("a0") a0 => code,
            inlateout("a1") a1 => _,
            in("a2") a2,
            in("a3") a3,
            in("a4") a4,
            in("a6") function,
            in("a7") extension,
            options(nostack)
        );
    }
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Interrupts a hart. What this one has stored before is visible to the handler.
pub(super) fn interrupt(hart: u64) -> Result<(), i64> {
    let (extension, function) = IPI;
    // SAFETY: it makes another hart's interrupt pending.
    unsafe { call(Call { extension, function, arguments: [1, hart, 0, 0, 0] }) }
}

/// Has the timer of this hart interrupt at a time, and not before.
pub(super) fn set_timer(at: u64) -> Result<(), i64> {
    let (extension, function) = TIME;
    // SAFETY: it sets the timer.
    unsafe { call(Call { extension, function, arguments: [at, 0, 0, 0, 0] }) }
}

/// Starts a hart at a physical address, with its number in its first register.
pub(super) fn start_hart(hart: u64, entry: usize) -> Result<(), i64> {
    let (extension, function) = HSM_START;
    let arguments = [hart, entry as u64, 0, 0, 0];
    // SAFETY: `harts` passes code that sets a hart up, and what is that CPU's alone.
    unsafe { call(Call { extension, function, arguments }) }
}

/// Lets every CPU execute the code that this one has written to the physical addresses from `_address`. A
/// hart may fetch old code until its `fence.i`, which names no address; other architectures use the range.
pub(crate) fn sync_code(_address: usize, _bytes: usize) {
    // FENCE (pairs with each hart's `fence.i`): the written code is visible to them before they get the
    // request (unprivileged manual, "Zifencei").
    //
    // SAFETY: fences.
    unsafe { asm!("fence rw, rw", "fence.i", options(nostack)) };
    // SAFETY: fences, elsewhere.
    if let Err(code) = unsafe { call(Call::remote_fence_i(HartMask::ALL)) } {
        panic!("the firmware refuses a remote fence.i: {code}");
    }
}
