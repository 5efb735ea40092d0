//! `struct lookaside_space`: an address space in the caller's memory.

use core::{fmt, mem::MaybeUninit, ptr};

use lookaside::AddressSpace;

use crate::{
    error::Refused,
    instance::{Instance, WordOf},
    seal::Seal,
};

/// `struct lookaside_space`.
#[repr(C, align(8))]
pub struct Space<I: Instance> {
    seal: Seal<WordOf<I>>,
    space: MaybeUninit<AddressSpace<I::Platform>>,
}

impl<I: Instance> Space<I> {
    /// The space at this place.
    ///
    /// # Errors
    ///
    /// [`Refused::Space`] if there is none.
    ///
    /// # Safety
    ///
    /// `place` is null, or of a `struct lookaside_space`; and until the result is no longer used the caller does not
    /// release it.
    pub(crate) unsafe fn at<'s>(
        place: *const Self,
    ) -> Result<&'s AddressSpace<I::Platform>, Refused> {
        // SAFETY: the caller says that it is such a struct.
        let seal = unsafe { Seal::<WordOf<I>>::at(place) }.ok_or(Refused::Space)?;
        seal.is_set().then_some(()).ok_or(Refused::Space)?;
        // SAFETY: the seal says that `put` has initialised it. It is not released meanwhile.
        Ok(unsafe { (*ptr::addr_of!((*place).space)).assume_init_ref() })
    }

    /// Puts a space there, whatever was there before.
    ///
    /// # Errors
    ///
    /// [`Refused::Space`] if there is no place.
    ///
    /// # Safety
    ///
    /// As for [`Self::at`], and nobody else uses it.
    pub(crate) unsafe fn put(
        place: *mut Self,
        space: AddressSpace<I::Platform>,
    ) -> Result<(), Refused> {
        // SAFETY: the caller says that it is such a struct.
        let seal = unsafe { Seal::<WordOf<I>>::at(place) }.ok_or(Refused::Space)?;
        // SAFETY: it is the caller's memory, which nobody else uses.
        unsafe { ptr::addr_of_mut!((*place).space).write(MaybeUninit::new(space)) };
        seal.set();
        Ok(())
    }

    /// Takes the space that is there, by `end`, which makes every CPU leave it.
    ///
    /// # Errors
    ///
    /// [`Refused::Space`] if there is none.
    ///
    /// # Safety
    ///
    /// As for [`Self::put`].
    pub(crate) unsafe fn take<R>(
        place: *mut Self,
        end: impl FnOnce(&mut AddressSpace<I::Platform>) -> R,
    ) -> Result<R, Refused> {
        // SAFETY: the caller says that it is such a struct.
        let seal = unsafe { Seal::<WordOf<I>>::at(place) }.ok_or(Refused::Space)?;
        seal.is_set().then_some(()).ok_or(Refused::Space)?;
        // From here on an NMI handler is told no.
        seal.clear();
        // SAFETY: it was initialised, and nobody else uses it. It is not dropped: it owns nothing that lies elsewhere,
        // and page tables are the kernel's.
        Ok(end(unsafe { (*ptr::addr_of_mut!((*place).space)).assume_init_mut() }))
    }
}

impl<I: Instance> fmt::Debug for Space<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("in_use", &self.seal.is_set()).finish_non_exhaustive()
    }
}
