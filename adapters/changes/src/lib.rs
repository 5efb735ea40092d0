//! What a [`Gather`] and a [`KernelGather`] have in common, for code that changes page tables of either half.
//!
//! A kernel's page-table code is the same for user and for kernel addresses; who must flush is not. So that code
//! records what it has changed in an `impl` [`Changes`], and whoever knows which half it is makes the gather before and
//! flushes it afterwards.
//!
//! ```
//! use lookaside::VaRange;
//! use lookaside_changes::Changes;
//!
//! /// Clears an entry. Its frame comes back when no CPU can use it any more.
//! fn unmap<F: Extend<u64>>(entry: &mut u64, page: VaRange, changes: &mut impl Changes<Frames = F>) {
//!     let frame = core::mem::take(entry) & !0xfff;
//!     changes.revoke(page);
//!     changes.hold_page(frame);
//! }
//! ```
#![no_std]
#![warn(missing_debug_implementations)]

use lookaside::{Gather, KernelGather, Platform, VaRange};

/// Collects changes to page tables that are not flushed yet, and the frames that become free by them: a [`Gather`] or a
/// [`KernelGather`], whose methods of the same names say more.
pub trait Changes {
    /// The container of the frames that are held back.
    type Frames;

    /// Entries of the page size of `range` were removed, or allow less than before.
    fn revoke(&mut self, range: VaRange);

    /// As [`Self::revoke`], where the entries had several sizes. `range` is in the smallest of them.
    fn revoke_mixed(&mut self, range: VaRange);

    /// A page table was unlinked that mapped `range`, or an entry that refers to one allows less than before.
    fn unlink_table(&mut self, range: VaRange);

    /// All that the page tables map was revoked, and tables may have been unlinked.
    fn revoke_everything(&mut self);

    /// Holds a page back until the flush.
    fn hold_page<T>(&mut self, page: T)
    where
        Self::Frames: Extend<T>;

    /// A page table was unlinked that mapped `range`, or where that is not known, anything; and is held back until the flush.
    fn hold_table<T>(&mut self, range: impl Into<Option<VaRange>>, table: T)
    where
        Self::Frames: Extend<T>;
}

macro_rules! changes {
    () => {
        #[inline]
        fn revoke(&mut self, range: VaRange) {
            Self::revoke(self, range);
        }

        #[inline]
        fn revoke_mixed(&mut self, range: VaRange) {
            Self::revoke_mixed(self, range);
        }

        #[inline]
        fn unlink_table(&mut self, range: VaRange) {
            Self::unlink_table(self, range);
        }

        #[inline]
        fn revoke_everything(&mut self) {
            Self::revoke_everything(self);
        }

        #[inline]
        fn hold_page<T>(&mut self, page: T)
        where
            F: Extend<T>,
        {
            Self::hold_page(self, page);
        }

        #[inline]
        fn hold_table<T>(&mut self, range: impl Into<Option<VaRange>>, table: T)
        where
            F: Extend<T>,
        {
            Self::hold_table(self, range, table);
        }
    };
}

impl<P: Platform, F> Changes for Gather<'_, P, F> {
    type Frames = F;

    changes!();
}

impl<F> Changes for KernelGather<F> {
    type Frames = F;

    changes!();
}
