//! Drops the invalidations that a CPU should execute for others, which the hunters must notice. For tests of
//! the tests.

use core::sync::atomic::{AtomicBool, Ordering};

use lookaside::arch::x86_64::{Instructions, Invpcid, Native};

use super::cpu;
use crate::arch::MAX_CPUS;

/// The CPUs that are handling requests.
static SERVING: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// Does `serve`, during which this CPU removes nothing.
pub(crate) fn deaf(serve: impl FnOnce()) {
    let serving = &SERVING[cpu()];
    serving.store(true, Ordering::Relaxed); // Relaxed: for this CPU.
    serve();
    serving.store(false, Ordering::Relaxed); // Relaxed: for this CPU.
}

fn is_serving() -> bool {
    SERVING[cpu()].load(Ordering::Relaxed) // Relaxed: this CPU's own.
}

/// The instructions of this CPU, without invalidations while it handles requests.
pub(crate) struct Deaf(Native);

impl Deaf {
    /// # Safety
    ///
    /// As for [`Native::new`], and nobody trusts this kernel.
    pub(super) unsafe fn new() -> Self {
        // SAFETY: the caller has promised it.
        Self(unsafe { Native::new() })
    }
}

impl Instructions for Deaf {
    fn write_cr3(&self, value: u64) {
        // Loading the present root again is a flush.
        if !is_serving() || value != self.0.read_cr3() {
            self.0.write_cr3(value);
        }
    }

    fn read_cr3(&self) -> u64 {
        self.0.read_cr3()
    }

    fn write_cr4(&self, value: u64) {
        if !is_serving() {
            self.0.write_cr4(value);
        }
    }

    fn read_cr4(&self) -> u64 {
        self.0.read_cr4()
    }

    fn invlpg(&self, address: u64) {
        if !is_serving() {
            self.0.invlpg(address);
        }
    }

    fn invpcid(&self, kind: Invpcid, descriptor: [u64; 2]) {
        if !is_serving() {
            self.0.invpcid(kind, descriptor);
        }
    }

    fn invlpgb(&self, rax: u64, ecx: u32, edx: u32) {
        self.0.invlpgb(rax, ecx, edx);
    }

    fn tlbsync(&self) {
        self.0.tlbsync();
    }

    fn mfence(&self) {
        self.0.mfence();
    }
}
