//! Panics end in the kernel's own.

use core::{
    ffi::c_char,
    fmt::{self, Write as _},
    panic::PanicInfo,
};

use super::platform::lookaside_platform_panic;

/// The beginning of a message, with a zero byte after it.
struct Message {
    text: [u8; 256],
    length: usize,
}

impl fmt::Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = self.text.len() - 1 - self.length;
        for (to, from) in self.text[self.length..].iter_mut().zip(text.bytes().take(left)) {
            *to = from;
            self.length += 1;
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut message = Message { text: [0; 256], length: 0 };
    let _ = write!(message, "lookaside: {}", info.message());
    if let Some(place) = info.location() {
        let _ = write!(message, " ({}:{})", place.file(), place.line());
    }
    // SAFETY: the message ends with a zero byte, as the header says.
    unsafe { lookaside_platform_panic(message.text.as_ptr().cast::<c_char>()) }
}
