//! Standard output whose reader may have gone.

use std::io::{self, ErrorKind, Write};

/// Prints text. A reader that has closed the pipe, as `head` does, has read what it wanted: that is no error, and
/// what the program has to do besides goes on.
///
/// # Errors
///
/// If the text cannot be written for another reason, such as a full disk.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// [`print()`], with the arguments of [`format!`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::print(&::std::format!($($text)*))
    };
}
