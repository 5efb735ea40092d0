//! Values that live as long as one execution.
//!
//! loom's threads need `'static` values, and a `Tlb` borrows the CPUs' storage. So the values of an execution
//! are leaked, and freed when the next execution begins.

use core::{any::Any, cell::RefCell};

thread_local! {
    /// The values of the present execution. All threads of loom run on one thread of the system.
    static KEPT: RefCell<Vec<*mut dyn Any>> = const { RefCell::new(Vec::new()) };
}

/// Keeps `value` where it is until the execution is over.
pub fn keep<T: 'static>(value: T) -> &'static T {
    keep_mut(value)
}

/// As [`keep`], with exclusive access.
pub(crate) fn keep_mut<T: 'static>(value: T) -> &'static mut T {
    let kept: *mut T = Box::into_raw(Box::new(value));
    KEPT.with_borrow_mut(|all| all.push(kept));
    // SAFETY: just made, never used by this pointer again, and freed only by `clear`, which runs when no
    // thread of the execution that called this is left.
    unsafe { &mut *kept }
}

/// Frees the values of the last execution.
///
/// # Safety
///
/// No thread of the last execution runs any more, and nothing refers to its values.
pub(crate) unsafe fn clear() {
    let kept = KEPT.take();
    // The latest first: it may refer to those before.
    for value in kept.into_iter().rev() {
        // SAFETY: it came from `Box::into_raw`, is taken back once, and the caller promises that
        // nothing refers to it.
        drop(unsafe { Box::from_raw(value) });
    }
}
