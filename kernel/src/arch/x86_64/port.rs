//! The I/O ports.

use core::arch::asm;

/// Writes a byte to a port.
///
/// # Safety
///
/// What the device behind it does is wanted.
pub(super) unsafe fn write(port: u16, value: u8) {
    // SAFETY: the caller knows the device.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) }
}

/// Reads a byte from a port.
///
/// # Safety
///
/// As for [`write`]: reading may change the device, too.
pub(super) unsafe fn read(port: u16) -> u8 {
    let value;
    // SAFETY: the caller knows the device.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) }
    value
}
