//! Whether a struct in the caller's memory is one that is in use, and not a copy of one.

use lookaside::platform::{Ordering, Word};

/// The first word of a struct: if it is in use, the complement of its own address. So uninitialised memory and copies, such
/// as of an `mm_struct` at fork, are told from what is in use. The struct is aligned to 8 bytes, so that the last three bits
/// of its seal are ones: no pointer to a word is a seal. Most functions of the interface compare it, which AArch64 does
/// in two instructions.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Seal<W>(W);

impl<W: Word> Seal<W> {
    /// The seal of the struct at this place; none if there is no place.
    ///
    /// # Safety
    ///
    /// `place` is null, or of a struct of the header, which exists for as long as the result is used and has the alignment of
    /// its type, as the header demands. `T` has the layout of C and begins with a seal.
    pub(crate) unsafe fn at<'s, T>(place: *const T) -> Option<&'s Self> {
        if place.is_null() {
            return None;
        }
        debug_assert!(place.is_aligned(), "a struct of the header that is not aligned");
        // SAFETY: the caller says that it is such a struct. Every value of its first word is one of a `Seal`.
        Some(unsafe { &*place.cast::<Self>() })
    }

    /// Whether the struct that begins with this seal is in use.
    pub(crate) fn is_set(&self) -> bool {
        // Relaxed: the caller of C has made the struct known to this CPU after it was initialised.
        self.0.load(Ordering::Relaxed) == self.value()
    }

    /// Whether it is zero, as in a struct that the caller has cleared.
    pub(crate) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0 // Relaxed: as above.
    }

    pub(crate) fn set(&self) {
        self.0.store(self.value(), Ordering::Relaxed); // Relaxed: as above.
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed); // Relaxed: as above.
    }

    fn value(&self) -> u64 {
        !(core::ptr::from_ref(self).addr() as u64)
    }
}
