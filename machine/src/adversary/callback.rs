//! What programs need while they are executed besides the machine: the scenario's interrupt handler,
//! and silence when they panic.

use core::cell::Cell;
use std::panic;

use lookaside::CpuId;

use super::{current, scenario::Scenario};

/// The interrupt handler of the scenario that is being executed, with its types erased.
type Handler = Cell<Option<(*const (), *const (), unsafe fn(*const (), *const (), CpuId))>>;

thread_local! {
    static HANDLER: Handler = const { Cell::new(None) };
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

unsafe fn handle<S: Scenario>(scenario: *const (), world: *const (), cpu: CpuId) {
    // SAFETY: the caller passes what `set_handler` stored: a scenario that its executor
    // owns and a world that is 'static, both of the types that `handle` was instantiated with.
    let (scenario, world) = unsafe { (&*scenario.cast::<S>(), &*world.cast::<S::World>()) };
    scenario.interrupt(world, cpu);
}

/// Runs the scenario's interrupt handler on the coroutine of the CPU.
pub(crate) fn call_interrupt(cpu: CpuId) {
    if let Some((scenario, world, handler)) = HANDLER.get() {
        // SAFETY: `set_handler` stored the three together; they are cleared with the execution.
        unsafe { handler(scenario, world, cpu) };
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

/// Makes a scenario's handler the one that interrupts call.
pub(crate) fn set_handler<S: Scenario>(scenario: *const S, world: &'static S::World) {
    HANDLER.set(Some((scenario.cast(), (&raw const *world).cast(), handle::<S>)));
}

/// Leaves interrupts without a handler.
pub(crate) fn clear_handler() {
    HANDLER.set(None);
}

/// What the last panic of a program said.
pub(crate) fn take_panic() -> String {
    PANIC.take().unwrap_or_else(|| "a panic".to_owned())
}
