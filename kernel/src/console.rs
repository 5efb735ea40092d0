//! The serial console.

use core::fmt::{self, Write};

use crate::{arch, lock::Lock};

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(arch::write_byte);
        Ok(())
    }
}

static SERIAL: Lock<Serial> = Lock::new(Serial);

/// Prints a line, whole.
pub(crate) fn print(line: fmt::Arguments<'_>) {
    // The serial line takes everything.
    let _ = SERIAL.lock().write_fmt(line);
}

/// As [`print`], for a CPU that may hold the lock itself: lines may mix.
pub(crate) fn print_anyway(line: fmt::Arguments<'_>) {
    let _ = Serial.write_fmt(line);
}

/// Prints a line to the console.
#[macro_export]
macro_rules! println {
    ($($rest:tt)*) => {
        $crate::console::print(format_args!("{}\n", format_args!($($rest)*)))
    };
}
