//! Threads. Their stacks stay until the program ends.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::{
    memory::{Area, PAGE},
    system::{self, Kind},
};

/// The size of a stack, in pages. They come when they are touched.
const STACK: usize = 16;

/// Where a C function finds the stack pointer when it begins, below a multiple of 16: there is a
/// return address on x86-64.
const SKEW: usize = if cfg!(target_arch = "x86_64") { 8 } else { 0 };

/// A thread of this program.
#[derive(Debug)]
pub(crate) struct Thread {
    done: &'static AtomicBool,
}

/// What lies at the top of a thread's stack.
struct Start<F> {
    done: AtomicBool,
    cpu: usize,
    work: Option<F>,
}

impl Thread {
    /// Starts a thread that does `work` on a CPU, and stays there.
    pub(crate) fn start<F: FnOnce() + Send + 'static>(cpu: usize, work: F) -> Self {
        let stack = Area::map(STACK, Kind::Pages).expect("memory for a stack");
        let at = (stack.start + STACK * PAGE - size_of::<Start<F>>()) & !63;
        assert!(at > stack.start + PAGE, "a thread's work must leave room for its stack");
        let start = at as *mut Start<F>;
        // SAFETY: these are fresh pages that nobody else uses, aligned to 64 bytes; they stay for good.
        let done = unsafe {
            start.write(Start { done: AtomicBool::new(false), cpu, work: Some(work) });
            &(*start).done
        };
        system::thread(run::<F> as *const () as usize, at - SKEW, at).expect("a thread");
        Self { done }
    }

    /// Waits until the work is done. What it did is visible then.
    pub(crate) fn join(self) {
        system::wait_until(|| self.done.load(Ordering::Acquire)); // Acquire: pairs with `run`.
    }
}

/// Where a thread begins.
extern "C" fn run<F: FnOnce() + Send + 'static>(start: usize) -> ! {
    let start = start as *mut Start<F>;
    // SAFETY: `Thread::start` put it there, and leaves all of it but `done` to this thread.
    let (done, cpu, work) = unsafe { (&(*start).done, (*start).cpu, (*start).work.take()) };
    system::run_on(cpu);
    if let Some(work) = work {
        work();
    }
    done.store(true, Ordering::Release); // Release: pairs with the Acquire in `join`.
    system::end_thread()
}
