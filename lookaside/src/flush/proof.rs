//! What a completed flush is worth: the right to use frames and tables again.

pub(crate) use self::sealed::Ticket;
use core::{fmt, mem::ManuallyDrop};

use super::gather::Gather;
use crate::{error::Error, flags::Flags, platform::Platform};

/// Proof that everything a gather had is flushed: no CPU holds it in a TLB or a walk cache, none
/// walks it any more, and none has an access under way that was translated by it.
///
/// Only [`crate::CurrentCpu::flush`] makes one. A kernel's allocator that wants one for every page and
/// every page table that it takes back cannot be given any too early.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "frames and tables are released against this"]
pub struct Flushed {
    pub(crate) ticket: Ticket,
    pub(crate) bits: Flags,
}

/// Proof that no program can use any more what a gather had, although TLBs may hold it for a moment:
/// every CPU that runs the space has been stopped and drops it before it goes on.
///
/// It is enough to give *pages* to others that are ordinary memory. It is not enough for page
/// tables, which hardware may still walk, nor for frames that become device memory, which it may
/// still read speculatively: those take a [`Flushed`]. So does, on Arm, to map another page at the same
/// address: break-before-make asks for the invalidation to be complete in between.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "pages are released against this"]
pub struct Acknowledged {
    pub(crate) ticket: Ticket,
    pub(crate) bits: Flags,
}

impl Flushed {
    /// What hardware had noted in the entries, all together ([`Gather::found`]). From now on it is
    /// final.
    #[must_use]
    pub const fn bits(&self) -> Flags {
        self.bits
    }
}

impl From<Flushed> for Acknowledged {
    fn from(flushed: Flushed) -> Self {
        Self { ticket: flushed.ticket, bits: flushed.bits }
    }
}

impl Acknowledged {
    /// As [`Flushed::bits`].
    #[must_use]
    pub const fn bits(&self) -> Flags {
        self.bits
    }
}

/// A page, or a list of pages, that CPUs may still reach until the gather is flushed.
///
/// Wrap what [`Gather::hold_page`] is given, and the only way back to it leads over the proof.
///
/// # Dropping
///
/// A held page that is dropped is *leaked*: the destructor of what it holds never runs. A `Box` or a
/// frame tracker would otherwise give the frame back while CPUs still reach it, whenever a function is
/// left by `?` between [`Gather::hold_page`] and [`Self::release`], or the `Err` of [`Self::release`] is
/// ignored. Nothing counts what is leaked: the kernel misses it where it counts its free frames.
#[must_use = "the page is leaked unless it is released"]
pub struct HeldPage<T> {
    page: ManuallyDrop<T>,
    ticket: Ticket,
}

/// A page table, or a list of them, that CPUs may still walk until the gather is flushed.
///
/// One that is dropped is leaked, as a [`HeldPage`] is.
#[must_use = "the table is leaked unless it is released"]
pub struct HeldTable<T> {
    table: ManuallyDrop<T>,
    ticket: Ticket,
}

impl<P: Platform> Gather<'_, P> {
    /// Holds a page back until this gather is flushed.
    pub fn hold_page<T>(&self, page: T) -> HeldPage<T> {
        HeldPage::new(page, self.ticket())
    }

    /// Holds a page table back until this gather is flushed.
    pub fn hold_table<T>(&self, table: T) -> HeldTable<T> {
        HeldTable::new(table, self.ticket())
    }
}

impl<T> HeldPage<T> {
    pub(crate) const fn new(page: T, ticket: Ticket) -> Self {
        Self { page: ManuallyDrop::new(page), ticket }
    }

    /// The page, if `proof` is that of the gather which holds it back.
    ///
    /// # Errors
    ///
    /// With the page still held:
    ///
    /// * [`Error::OtherProof`] if the proof is of another gather or another space.
    /// * [`Error::OtherTlb`] if the proof is of another [`crate::Tlb`].
    pub fn release(self, proof: &impl Proof) -> Result<T, (Self, Error)> {
        match sealed::Proof::check(proof, self.ticket) {
            Ok(()) => Ok(ManuallyDrop::into_inner(self.page)),
            Err(error) => Err((self, error)),
        }
    }
}

/// Without the page: nothing reaches that but [`HeldPage::release`].
impl<T> fmt::Debug for HeldPage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPage").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// Without the table: nothing reaches that but [`HeldTable::release`].
impl<T> fmt::Debug for HeldTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldTable").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

impl<T> HeldTable<T> {
    pub(crate) const fn new(table: T, ticket: Ticket) -> Self {
        Self { table: ManuallyDrop::new(table), ticket }
    }

    /// The table, if `proof` is that of the gather which holds it back.
    ///
    /// # Errors
    ///
    /// As [`HeldPage::release`].
    pub fn release(self, proof: &Flushed) -> Result<T, (Self, Error)> {
        match sealed::Proof::check(proof, self.ticket) {
            Ok(()) => Ok(ManuallyDrop::into_inner(self.table)),
            Err(error) => Err((self, error)),
        }
    }
}

/// [`Flushed`] or [`Acknowledged`].
pub trait Proof: sealed::Proof {}

impl<T: sealed::Proof> Proof for T {}

mod sealed {
    use super::{Acknowledged, Error, Flushed};
    use crate::tlb::TlbId;

    /// Which gather something belongs to. No two gathers have the same.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ticket {
        pub(crate) tlb: TlbId,
        /// The space's identifier, or 0 for the kernel's addresses.
        pub space: u64,
        pub serial: u64,
    }

    pub trait Proof {
        #[doc(hidden)]
        fn ticket(&self) -> Ticket;

        #[doc(hidden)]
        fn check(&self, held: Ticket) -> Result<(), Error> {
            let ticket = self.ticket();
            if ticket == held {
                Ok(())
            } else if ticket.tlb != held.tlb {
                Err(Error::OtherTlb)
            } else {
                Err(Error::OtherProof { held: held.space, proved: ticket.space })
            }
        }
    }

    impl Proof for Flushed {
        fn ticket(&self) -> Ticket {
            self.ticket
        }
    }

    impl Proof for Acknowledged {
        fn ticket(&self) -> Ticket {
            self.ticket
        }
    }
}
