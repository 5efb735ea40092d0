//! Ways of x86 kernels.

mod call;
mod concurrent;
mod freebsd;
mod invlpgb;

use super::Entry;

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Entry> {
    [freebsd::STRATEGIES, concurrent::STRATEGIES, invlpgb::STRATEGIES].into_iter().flatten()
}
