//! The relax strategy for locks of the crate `spin`.

use core::{fmt, marker::PhantomData};

use spin::RelaxStrategy;

use crate::Kernel;

/// A relax strategy that handles the requests of other CPUs: [`relax`](crate::relax) for the kernel `K`.
///
/// It is for every lock of `spin` that has a strategy: `SpinMutex`, `TicketMutex`, `FairMutex`, `RwLock`,
/// `Once`, `Barrier`. Ticket locks stay fair with it.
///
/// With another version of `spin`, a kernel implements that version's trait for a type of its own by calling
/// [`relax`](crate::relax).
pub struct HandleIpi<K>(PhantomData<fn() -> K>);

impl<K: Kernel> RelaxStrategy for HandleIpi<K> {
    #[inline]
    fn relax() {
        crate::relax::<K>();
    }
}

impl<K> fmt::Debug for HandleIpi<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleIpi")
    }
}
