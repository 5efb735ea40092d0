//! Faults of an integration, which the tests must notice; they are built in by features of this crate. For tests of the
//! tests only. Others are where the fault is: `no-flush`, `no-spurious`, `no-ipi`, and the instructions in
//! `arch/*/no_remote.rs`.

use crate::{arch, tlb};

/// Handles requests by `handle`. On x86-64 without remote flushes, invalidations are dropped meanwhile.
pub(crate) fn around_requests(handle: impl FnOnce()) {
    #[cfg(all(feature = "no-remote", target_arch = "x86_64"))]
    return arch::deaf(handle);
    #[cfg(not(all(feature = "no-remote", target_arch = "x86_64")))]
    handle();
}

/// Whether this CPU goes on without having come online, so that no flush reaches it.
pub(crate) fn stays_offline() -> bool {
    cfg!(feature = "one-offline") && arch::cpu() == 1
}

/// This CPU is online. Without remote flushes it goes down, runs on, and gets no requests.
pub(crate) fn online() {
    if cfg!(all(feature = "no-remote", not(target_arch = "x86_64"))) {
        tlb::this_cpu().offline();
    }
}
