//! The serial console: a PL011 (DDI 0183).

use core::ptr;

use super::OFFSET;

const UART: usize = OFFSET + 0x0900_0000;
const DATA: usize = UART;
const FLAGS: usize = UART + 0x18;
const CONTROL: usize = UART + 0x30;

const TRANSMIT_FULL: u32 = 1 << 5;
/// Enabled, transmits, receives.
const ENABLED: u32 = 1 << 0 | 1 << 8 | 1 << 9;

fn write(register: usize, value: u32) {
    // SAFETY: a register of the UART, which the kernel's map has; none gives it access to memory.
    unsafe { ptr::write_volatile(register as *mut u32, value) };
}

/// Lets it transmit, at the speed that it has.
pub(super) fn open() {
    write(CONTROL, ENABLED);
}

/// Sends a byte to the console.
pub(crate) fn write_byte(byte: u8) {
    // SAFETY: as above.
    while unsafe { ptr::read_volatile(FLAGS as *const u32) } & TRANSMIT_FULL != 0 {
        core::hint::spin_loop();
    }
    write(DATA, byte.into());
}
