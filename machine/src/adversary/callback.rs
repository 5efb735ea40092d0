//! What programs need while they are executed besides the machine: the scenario's handlers of interrupts
//! and NMIs, and silence when they panic.

use core::cell::Cell;
use std::panic;

use lookaside::platform::CpuId;

use super::{cpu::Handler, current, scenario::Scenario};

/// The handlers of the scenario that is being executed, with their types erased.
type Handlers =
    Cell<Option<(*const (), *const (), unsafe fn(*const (), *const (), Handler, CpuId))>>;

thread_local! {
    static HANDLERS: Handlers = const { Cell::new(None) };
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

unsafe fn handle<S: Scenario>(scenario: *const (), world: *const (), handler: Handler, cpu: CpuId) {
    // SAFETY: the caller passes what `set_handlers` stored: a scenario that its executor
    // owns and a world that is 'static, both of the types that `handle` was instantiated with.
    let (scenario, world) = unsafe { (&*scenario.cast::<S>(), &*world.cast::<S::World>()) };
    match handler {
        Handler::Interrupt => scenario.interrupt(world, cpu),
        Handler::Nmi => scenario.nmi(world, cpu),
    }
}

/// Runs a handler of the scenario on the coroutine of the CPU.
pub(crate) fn call_handler(handler: Handler, cpu: CpuId) {
    if let Some((scenario, world, handle)) = HANDLERS.get() {
        // SAFETY: `set_handlers` stored the three together; they are cleared with the execution.
        unsafe { handle(scenario, world, handler, cpu) };
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

/// Installs a scenario's handlers.
pub(crate) fn set_handlers<S: Scenario>(scenario: *const S, world: &'static S::World) {
    HANDLERS.set(Some((scenario.cast(), (&raw const *world).cast(), handle::<S>)));
}

/// Leaves interrupts without a handler.
pub(crate) fn clear_handlers() {
    HANDLERS.set(None);
}

/// What the last panic of a program said.
pub(crate) fn take_panic() -> String {
    PANIC.take().unwrap_or_else(|| "a panic".to_owned())
}
