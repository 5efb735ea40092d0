//! Standard output and standard error whose reader may have gone.

use std::io::{self, ErrorKind, Write};

/// Standard output. A reader that has closed the pipe, as `head` does, has read what it wanted: that is no error, what
/// is written afterwards is dropped, and what the program has to do besides goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::stdout().write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match io::stdout().flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}

/// Prints text to [`Stdout`].
///
/// # Errors
///
/// If the text cannot be written for another reason than that nobody reads it, such as a full disk.
pub fn print(text: &str) -> io::Result<()> {
    Stdout.write_all(text.as_bytes())?;
    Stdout.flush()
}

/// [`print()`], with the arguments of [`format!`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::print(&::std::format!($($text)*))
    };
}

/// Prints text to standard error. What nobody reads, or cannot be written, is dropped: there is no place left to say so.
pub fn print_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// [`print_error`] of a line, with the arguments of [`format!`]: [`eprintln!`] panics where the reader has gone.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::print_error(&(::std::format!($($text)*) + "\n"))
    };
}
