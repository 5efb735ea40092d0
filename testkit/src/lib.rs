//! Translation hardware for tests of kernels that use Lookaside: it does nothing but what a test says.
//!
//! A test that runs on the host has a [`Platform`](lookaside::Platform) of its own, whose CPUs are threads or one
//! thread that pretends. Its `Mmu` is a [`TestMmu`] over the few operations that matter to the test:
//!
//! ```
//! use core::cell::Cell;
//! use lookaside::arch::{Errata, Invalidation, Mmu as _, Scope, Tag};
//! use lookaside_testkit::{Hardware, TestMmu};
//!
//! /// Counts the flushes of this CPU.
//! #[derive(Default)]
//! struct Counting(Cell<u32>);
//!
//! impl Hardware for Counting {
//!     fn flush(&self, _: Invalidation<'_>, scope: Scope) {
//!         assert_eq!(scope, Scope::Local, "nothing broadcasts unless `properties` says so");
//!         self.0.set(self.0.get() + 1);
//!     }
//! }
//!
//! let mmu = TestMmu(Counting::default());
//! mmu.flush(Errata::NONE, Invalidation::Tag(Tag(2)), Scope::Local);
//! assert_eq!(mmu.0.0.get(), 1);
//! ```
//!
//! Whether a kernel's use of the library is right under every order of memory accesses is not tested with this: the
//! crate `lookaside-machine` is for that.
#![no_std]

use core::ops::Deref;

use lookaside::{
    Error, VaRange,
    arch::{Errata, Held, Invalidation, Mmu, Properties, Root, Scope, Sharing, TableChange, Tag},
    platform::{Costs, OperationCosts},
};

/// Costs by which everything costs the same, a picosecond, and a new tag more than a flush by tag.
pub const COSTS: Costs = {
    let each = OperationCosts { address: 1, tag: 1, wait: 1, ceiling: u64::MAX };
    Costs {
        local: each,
        broadcast: each,
        refill: 1,
        useful_entries: 1,
        ipi: 1,
        ipi_more: 1,
        retag: 3,
    }
};

/// What the translation hardware of a test does. By default that is nothing: it has tags of 12 bits, holds no
/// translations, and takes every root and every CPU.
///
/// Each method acts on the CPU that executes it, or on all where [`Scope::Broadcast`] says so, as that of the same name
/// of [`Mmu`].
pub trait Hardware {
    /// What the library may ask. By default [`Properties::plain`], with tags of 12 bits and [`COSTS`].
    #[inline]
    fn properties(&self) -> Properties {
        Properties::plain(12, &COSTS)
    }

    /// See [`Mmu::check_root`]. By default every root is taken.
    ///
    /// # Errors
    ///
    /// [`Error::BadRoot`], where the test says so.
    fn check_root(&self, root: Root) -> Result<(), Error> {
        let _ = root;
        Ok(())
    }

    /// See [`Mmu::settle`].
    #[inline]
    fn settle(&self) {}

    /// The root register names `root` under `tag` from now on. With [`Held::Drop`], entries under `tag` are gone.
    #[inline]
    fn load(&self, root: Root, tag: Tag, held: Held) {
        let _ = (root, tag, held);
    }

    /// The root register names no space from now on.
    #[inline]
    fn park(&self) {}

    /// Removes entries.
    #[inline]
    fn flush(&self, entries: Invalidation<'_>, scope: Scope) {
        let _ = (entries, scope);
    }

    /// See [`Mmu::operations`]. By default flushes go by tag.
    #[inline]
    fn operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        let _ = (range, change, scope);
        None
    }
}

/// Hardware that does nothing at all.
impl Hardware for () {}

/// The [`Mmu`] of a test: no errata, no features, and otherwise what `H` does.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestMmu<H>(pub H);

impl<H> Deref for TestMmu<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.0
    }
}

impl<H: Hardware> Mmu for TestMmu<H> {
    type Features = ();

    #[inline]
    fn properties(&self) -> Properties {
        self.0.properties()
    }

    fn admit(&self, (): &()) -> Result<Errata, Error> {
        Ok(Errata::NONE)
    }

    fn check_root(&self, root: Root) -> Result<(), Error> {
        self.0.check_root(root)
    }

    #[inline]
    fn settle(&self) {
        self.0.settle();
    }

    #[inline]
    unsafe fn load(&self, _: Errata, root: Root, tag: Tag, held: Held, _: Sharing) {
        self.0.load(root, tag, held);
    }

    fn park(&self, _: Errata) {
        self.0.park();
    }

    #[inline]
    fn flush(&self, _: Errata, entries: Invalidation<'_>, scope: Scope) {
        self.0.flush(entries, scope);
    }

    #[inline]
    fn operations(&self, range: &VaRange, change: TableChange, scope: Scope) -> Option<u64> {
        self.0.operations(range, change, scope)
    }
}
