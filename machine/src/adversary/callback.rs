//! What programs need while they are executed besides the machine: the scenario's handlers of interrupts
//! and NMIs, and silence when they panic.

use core::cell::Cell;
use std::panic;

use lookaside::platform::CpuId;

use super::{cpu::Handler, current, scenario::Programs};

thread_local! {
    /// The programs that are being executed, which have the handlers.
    static HANDLERS: Cell<Option<*const dyn Programs>> = const { Cell::new(None) };
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs a handler of the scenario on the coroutine of the CPU.
pub(crate) fn call_handler(handler: Handler, cpu: CpuId) {
    if let Some(programs) = HANDLERS.get() {
        // SAFETY: their executor owns them, and clears the handlers at the end of an execution.
        unsafe { (*programs).handle(handler, cpu) };
    }
}

/// Keeps panics of programs quiet: they are violations, and reported as such.
pub(crate) fn install_panic_hook() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if current::is_running() {
                PANIC.set(Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
}

/// Installs the handlers of programs that are about to be executed.
pub(crate) fn set_handlers(programs: *const dyn Programs) {
    HANDLERS.set(Some(programs));
}

/// Leaves interrupts without a handler.
pub(crate) fn clear_handlers() {
    HANDLERS.set(None);
}

/// What the last panic of a program said.
pub(crate) fn take_panic() -> String {
    PANIC.take().unwrap_or_else(|| "a panic".to_owned())
}
