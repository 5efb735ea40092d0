//! Leaving the emulator: Arm's semihosting (2.0), `SYS_EXIT`. PSCI's `SYSTEM_OFF` knows no exit code.

use core::arch::asm;

use super::halt;

const SYS_EXIT: u64 = 0x18;
const APPLICATION_EXIT: u64 = 0x20026;

/// Leaves the emulator with this exit code.
pub(crate) fn exit(code: u8) -> ! {
    let block = [APPLICATION_EXIT, code.into()];
    // SAFETY: the emulator reads the block, and does not come back. Where nobody serves semihosting
    // this is an undefined instruction, and its panic comes back here: without end, but harmless.
    unsafe { asm!("hlt #0xf000", in("x0") SYS_EXIT, in("x1") &raw const block) };
    halt()
}
