//! The first serial port of a PC, a 16550.

use super::port;

const DATA: u16 = 0x3f8;
const INTERRUPTS: u16 = 0x3f9;
const FIFO: u16 = 0x3fa;
const LINE: u16 = 0x3fb;
const STATUS: u16 = 0x3fd;

/// Status: room for a byte.
const ROOM: u8 = 1 << 5;
/// Status: the last bit is on the line.
const SENT: u8 = 1 << 6;

/// Sets the port up: 115200 baud, eight bits, no interrupts.
pub(super) fn open() {
    // While the top bit of LINE is set, the first two ports hold the divisor of 115200 baud.
    for (at, value) in
        [(INTERRUPTS, 0), (LINE, 0x80), (DATA, 1), (INTERRUPTS, 0), (LINE, 3), (FIFO, 7)]
    {
        // SAFETY: the port is this driver's.
        unsafe { port::write(at, value) }
    }
}

/// Writes a byte to the console.
pub(crate) fn write_byte(byte: u8) {
    wait_for(ROOM);
    // SAFETY: the port is this driver's.
    unsafe { port::write(DATA, byte) }
}

/// Waits until everything is sent.
pub(super) fn drain() {
    wait_for(SENT);
}

fn wait_for(status: u8) {
    // SAFETY: the port is this driver's.
    while unsafe { port::read(STATUS) } & status == 0 {
        super::relax();
    }
}
