//! Leaving the emulator: Arm's semihosting (2.0), `SYS_EXIT`. PSCI's `SYSTEM_OFF` knows no exit code.

use core::{
    arch::asm,
    sync::atomic::{AtomicBool, Ordering},
};

use super::halt;

const SYS_EXIT: u64 = 0x18;
const APPLICATION_EXIT: u64 = 0x20026;

static LEAVING: AtomicBool = AtomicBool::new(false);

/// Leaves the emulator with this exit code. Where nobody serves semihosting its instruction is not
/// defined, and the panic that follows comes here again: to stop.
pub(crate) fn exit(code: u8) -> ! {
    // Relaxed: one CPU is first.
    if !LEAVING.swap(true, Ordering::Relaxed) {
        let block = [APPLICATION_EXIT, code.into()];
        // SAFETY: the emulator reads the block, and does not come back.
        unsafe { asm!("hlt #0xf000", in("x0") SYS_EXIT, in("x1") &raw const block) };
    }
    halt()
}
