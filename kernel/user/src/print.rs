//! Lines on the console.

use core::fmt::{self, Write};

use crate::system;

/// A line as it is put together. What does not fit is cut off.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte stays free, for the end of the line.
        let room = self.bytes.len() - 1 - self.length;
        let bytes = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

/// Prints a line with one call, so that lines of several programs do not mix.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 512], length: 0 };
    // It takes everything.
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    system::print(&line.bytes[..=line.length]);
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($rest:tt)*) => { $crate::print::line(format_args!($($rest)*)) };
}
