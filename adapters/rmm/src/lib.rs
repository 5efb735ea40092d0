#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_debug_implementations)]

/// What [`adapt!`] refers to.
#[doc(hidden)]
pub mod private {
    pub use lookaside::VaRange;
    pub use lookaside_changes::Changes;
}

/// Declares `Recorder` and `Holding` where it is called, for the `rmm` at this path: `lookaside_rmm::adapt!(rmm);`
///
/// It relies on this of `rmm`:
///
/// ```
/// pub trait Flusher<A> {
///     fn consume(&mut self, flush: PageFlush<A>);
/// }
/// pub unsafe trait FrameAllocator {
///     fn allocate(&mut self, count: FrameCount) -> Option<PhysicalAddress>;
///     unsafe fn free(&mut self, address: PhysicalAddress, count: FrameCount);
///     fn usage(&self) -> FrameUsage;
/// }
/// # pub struct PageFlush<A>(A);
/// # pub struct FrameCount(usize);
/// # pub struct PhysicalAddress(usize);
/// # pub struct FrameUsage;
/// ```
///
/// and that there are a trait `Arch` and `unsafe fn PageFlush::ignore`.
#[macro_export]
macro_rules! adapt {
    ($rmm:path) => {
        use $rmm as adapted_rmm;

        /// Records tokens in a gather, of the space whose tables were changed or of kernel addresses.
        #[derive(Debug)]
        pub struct Recorder<'c, C>(pub &'c mut C);

        impl<C: $crate::private::Changes> Recorder<'_, C> {
            /// The token of a page of 4096 bytes at this address.
            #[allow(dead_code, reason = "a kernel may consume tokens by the trait alone")]
            pub fn consume_at<A: adapted_rmm::Arch>(
                &mut self,
                address: usize,
                flush: adapted_rmm::PageFlush<A>,
            ) {
                match $crate::private::VaRange::new(address as u64 & !0xfff, 4096, 12) {
                    Ok(page) => self.0.revoke(page),
                    Err(_) => self.0.revoke_everything(),
                }
                // SAFETY: it is recorded, and flushed with the gather.
                unsafe { flush.ignore() };
            }
        }

        impl<A: adapted_rmm::Arch, C: $crate::private::Changes> adapted_rmm::Flusher<A>
            for Recorder<'_, C>
        {
            /// The token does not say its address: everything is flushed.
            fn consume(&mut self, flush: adapted_rmm::PageFlush<A>) {
                self.0.revoke_everything();
                // SAFETY: it is recorded, and flushed with the gather.
                unsafe { flush.ignore() };
            }
        }

        /// Frames that were freed, and how many.
        #[derive(Debug)]
        pub struct FreedFrames {
            /// The address of the first.
            pub address: adapted_rmm::PhysicalAddress,
            /// How many there are.
            pub count: adapted_rmm::FrameCount,
        }

        /// The frame allocator of a `PageMapper`, which frees nothing: what is freed is put aside in `D`, until
        /// `hold_tables`. What is never taken from there stays allocated.
        #[derive(Debug)]
        pub struct Holding<F, D> {
            allocator: F,
            aside: D,
        }

        impl<F, D> Holding<F, D> {
            /// Over this allocator, with an empty container.
            pub const fn new(allocator: F, aside: D) -> Self {
                Self { allocator, aside }
            }

            /// Holds the tables that were freed since the last call until the flush. They mapped addresses in
            /// `range`, which is in pages.
            pub fn hold_tables<C: $crate::private::Changes>(
                &mut self,
                range: $crate::private::VaRange,
                changes: &mut C,
            ) where
                D: Default + IntoIterator<Item = FreedFrames>,
                C::Frames: Extend<FreedFrames>,
            {
                for table in ::core::mem::take(&mut self.aside) {
                    changes.hold_table(range, table);
                }
            }

            /// The allocator, for frames that came out of a flush.
            pub fn allocator(&mut self) -> &mut F {
                &mut self.allocator
            }
        }

        // SAFETY: frames come from the allocator, and are given away once.
        unsafe impl<F: adapted_rmm::FrameAllocator, D: Extend<FreedFrames>>
            adapted_rmm::FrameAllocator for Holding<F, D>
        {
            fn allocate(
                &mut self,
                count: adapted_rmm::FrameCount,
            ) -> Option<adapted_rmm::PhysicalAddress> {
                self.allocator.allocate(count)
            }

            unsafe fn free(
                &mut self,
                address: adapted_rmm::PhysicalAddress,
                count: adapted_rmm::FrameCount,
            ) {
                self.aside.extend(Some(FreedFrames { address, count }));
            }

            fn usage(&self) -> adapted_rmm::FrameUsage {
                self.allocator.usage()
            }
        }
    };
}
