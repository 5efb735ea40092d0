//! What a flush is asked for, and `struct lookaside_wait`: a flush between its two halves.

use core::{ffi::c_int, fmt, mem::MaybeUninit, ptr::addr_of_mut};

use lookaside::{
    AddressSpace, CurrentCpu, Gather, KernelGather, Platform as _, Tlb, VaRange,
    flush::PendingFlush, platform::CpuId,
};

use crate::{
    error::{Refused, Reply, number},
    instance::{Instance, WordOf},
    machine::Machine,
    seal::Seal,
    space::Space,
};

/// What is to be flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranges {
    /// No address.
    Nothing,
    /// Every address, and tables.
    Everything,
    /// These addresses, and whether tables were unlinked there.
    Some(VaRange, Kind),
}

/// `enum lookaside_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pages,
    Mixed,
    Tables,
}

impl Kind {
    fn numbered(number: u32) -> Result<Self, Refused> {
        match number {
            0 => Ok(Self::Pages),
            1 => Ok(Self::Mixed),
            2 => Ok(Self::Tables),
            _ => Err(Refused::Argument),
        }
    }
}

impl Ranges {
    /// The arguments of a flush: `u64::MAX` bytes are all addresses, and other ranges are widened to whole pages.
    pub(crate) fn new(start: u64, bytes: u64, shift: u32, kind: u32) -> Result<Self, Refused> {
        let kind = Kind::numbered(kind)?;
        if bytes == u64::MAX {
            return Ok(Self::Everything);
        }
        if !(12..=48).contains(&shift) {
            return Err(Refused::PageSize);
        }
        let Some(more) = bytes.checked_sub(1) else { return Ok(Self::Nothing) };
        let last = start.checked_add(more).ok_or(Refused::Range)?;
        let offset = (1 << shift) - 1;
        let (first, last) = (start & !offset, last | offset);
        match (last - first).checked_add(1) {
            Some(bytes) => Ok(Self::Some(VaRange::new(first, bytes, shift)?, kind)),
            None => Ok(Self::Everything),
        }
    }
}

/// Whether these arguments of [`Ranges::new`] are what most flushes are of: one page of 4 KiB, or a part of it.
#[inline]
pub(crate) const fn is_one_page(start: u64, bytes: u64, shift: u32) -> bool {
    shift == 12 && bytes.wrapping_sub(1) <= 0xfff - start % 0x1000
}

/// The page of 4 KiB that the address is in, unless tables were unlinked, or the kind is none. Every entry in it that was changed was one
/// of 4 KiB if the kind is 0.
#[inline]
const fn page_of(address: u64, kind: u32) -> Option<VaRange> {
    match kind {
        0 => Some(VaRange::page(address)),
        1 => Some(VaRange::page(address).mixed()),
        _ => None,
    }
}

/// Records in a gather what was revoked.
macro_rules! record {
    ($gather:expr, $ranges:expr) => {
        match $ranges {
            Ranges::Nothing => {}
            Ranges::Everything => $gather.revoke_everything(),
            Ranges::Some(range, Kind::Pages) => $gather.revoke(range),
            Ranges::Some(range, Kind::Mixed) => $gather.revoke_mixed(range),
            Ranges::Some(range, Kind::Tables) => $gather.unlink_table(range),
        }
    };
}

/// The gather of one flush that is asked for when everything is changed.
pub(crate) fn gathered<P: lookaside::Platform>(
    space: &AddressSpace<P>,
    ranges: Ranges,
) -> Gather<'_, P> {
    let mut gather = Gather::new(space);
    record!(gather, ranges);
    gather
}

type Pending<I> = PendingFlush<'static, 'static, <I as Instance>::Platform, <I as Instance>::Tags>;

/// `struct lookaside_wait`.
#[repr(C, align(8))]
pub struct Wait<I: Instance> {
    seal: Seal<WordOf<I>>,
    /// `Some` if the seal is set.
    pending: MaybeUninit<Option<Pending<I>>>,
}

impl<I: Instance> Wait<I> {
    /// Begins a flush, and keeps it for [`Machine::wait`] unless it is complete.
    ///
    /// # Safety
    ///
    /// `place` is of a `struct lookaside_wait` that is not in use.
    #[inline(always)] // What is begun is made where it is kept.
    unsafe fn keep(place: *mut Self, begin: impl FnOnce(&mut Option<Pending<I>>)) -> c_int {
        // SAFETY: it is the caller's memory, which nobody else uses. Both fields may be of any bytes.
        let Self { seal, pending: slot } = unsafe { &mut *place };
        let pending = slot.write(None);
        begin(pending);
        if pending.is_none() { 0 } else { Self::keep_begun(seal, pending) }
    }

    /// As [`Self::keep`], once something was begun.
    #[inline(never)]
    fn keep_begun(seal: &Seal<WordOf<I>>, slot: &mut Option<Pending<I>>) -> c_int {
        let Some(pending) = slot else { return 0 };
        if !pending.is_complete() {
            seal.set();
            return 1;
        }
        pending.wait_in_place();
        *slot = None;
        0
    }

    /// Whether a flush may be begun at this place; if it is null, it is waited for at once.
    ///
    /// # Safety
    ///
    /// `place` is null, or of a `struct lookaside_wait`.
    unsafe fn is_asked_for(place: *mut Self) -> Result<bool, Refused> {
        if place.is_null() {
            return Ok(false);
        }
        // SAFETY: the caller says so.
        match unsafe { Seal::<WordOf<I>>::at(place) } {
            Some(seal) if !seal.is_set() => Ok(true),
            _ => Err(Refused::Wait),
        }
    }
}

type This<I> = CurrentCpu<'static, <I as Instance>::Platform, <I as Instance>::Tags>;

/// Flushes anything but one page of 4 KiB.
#[inline(never)] // It has a place on the stack, which one that is begun does not need.
fn flush_gathered<I: Instance>(
    this_cpu: &This<I>,
    space: &AddressSpace<I::Platform>,
    ranges: Ranges,
) {
    let _ = this_cpu.flush(gathered(space, ranges));
}

/// Begins a flush, and keeps it for [`Machine::wait`].
///
/// # Safety
///
/// That of [`Wait::keep`].
#[inline(never)] // As above.
unsafe fn begin_flush<I: Instance>(
    tlb: &'static Tlb<'static, I::Platform, I::Tags>,
    space: &'static AddressSpace<I::Platform>,
    ranges: Ranges,
    wait: *mut Wait<I>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        Wait::keep(wait, |pending| *pending = Some(tlb.begin_flush(&(), gathered(space, ranges))))
    }
}

impl<I: Instance> Machine<I> {
    /// `lookaside_flush_range` of anything but one page ([`is_one_page`]).
    ///
    /// # Safety
    ///
    /// `space` and `wait` are what the header says.
    pub(crate) unsafe fn flush_ranges_of(
        &'static self,
        space: *mut Space<I>,
        (start, bytes, shift, kind): (u64, u64, u32, u32),
        wait: *mut Wait<I>,
    ) -> c_int {
        // SAFETY: the caller promises it, and to release the space after the wait.
        match unsafe { Space::at(space) } {
            Ok(space) => {
                // SAFETY: the caller promises it.
                number(unsafe { self.flush_ranges(space, start, bytes, shift, kind, wait) })
            }
            Err(_) => self.refuse_space(),
        }
    }

    /// `lookaside_flush_page` of a space that is in use.
    ///
    /// # Safety
    ///
    /// The CPU that executes the call has this number. `wait` is null, or of a `struct lookaside_wait`, and then the space is not
    /// released before the wait.
    #[inline(always)] // All of the library's flush of one page is in the function that C calls.
    pub(crate) unsafe fn flush_page_of(
        &'static self,
        space: &'static AddressSpace<I::Platform>,
        address: u64,
        kind: u32,
        cpu: u32,
        wait: *mut Wait<I>,
    ) -> c_int {
        // What has to be asked of the kernel is asked elsewhere: here all is in registers that no call has to leave alone.
        let is_off = I::irqs_are_surely_off(self.tlb().platform());
        let Some(page) = page_of(address, kind).filter(|_| is_off) else {
            // SAFETY: the caller promises it.
            return unsafe { self.flush_page_slowly(space, address, kind, wait) };
        };
        // SAFETY: the caller says so.
        let Some(this_cpu) = (unsafe { self.tlb().numbered_cpu_if_free(&(), CpuId(cpu)) }) else {
            return self.refuse_cpu();
        };
        // Nothing in C relies on entries that others have cleared, so that no gather has to be counted.
        //
        // SAFETY: the caller promises it.
        match unsafe { Wait::is_asked_for(wait) } {
            Ok(false) => {
                this_cpu.flush_range(space, page);
                0
            }
            // SAFETY: the place was just looked at, and it is the caller's.
            Ok(true) => unsafe {
                Wait::keep(wait, |pending| {
                    self.tlb().begin_flush_range(&this_cpu, space, page, pending);
                })
            },
            Err(refused) => number(Err(refused)),
        }
    }

    /// As [`Self::flush_page_of`], of tables, or where it is not certain that interrupts are off; or refuses.
    ///
    /// # Safety
    ///
    /// As of [`Self::flush_ranges`].
    #[cold]
    unsafe fn flush_page_slowly(
        &'static self,
        space: &'static AddressSpace<I::Platform>,
        address: u64,
        kind: u32,
        wait: *mut Wait<I>,
    ) -> c_int {
        let page = address & !0xfff;
        // SAFETY: the caller promises it.
        number(unsafe { self.flush_ranges(space, page, 0x1000, 12, kind, wait) })
    }

    /// Flushes any ranges of a space that is in use.
    ///
    /// # Safety
    ///
    /// `wait` is null, or of a `struct lookaside_wait`, and then the space is not released before the wait.
    #[inline(never)] // What it keeps in registers would be saved for one page, too.
    unsafe fn flush_ranges(
        &'static self,
        space: &'static AddressSpace<I::Platform>,
        start: u64,
        bytes: u64,
        shift: u32,
        kind: u32,
        wait: *mut Wait<I>,
    ) -> Reply {
        let ranges = Ranges::new(start, bytes, shift, kind);
        let this_cpu = self.this_cpu()?;
        // SAFETY: the caller promises it.
        if unsafe { Wait::is_asked_for(wait)? } {
            // SAFETY: the place was just looked at, and it is the caller's.
            return Ok(unsafe { begin_flush::<I>(self.tlb(), space, ranges?, wait) });
        }
        flush_gathered::<I>(&this_cpu, space, ranges?);
        Ok(0)
    }

    pub(crate) unsafe fn flush_kernel_or_refuse(
        &'static self,
        ranges: Result<Ranges, Refused>,
        wait: *mut Wait<I>,
    ) -> Reply {
        let this_cpu = self.this_cpu()?;
        // SAFETY: the caller promises what the header says.
        let later = unsafe { Wait::is_asked_for(wait)? };
        let mut gather = KernelGather::new(self.tlb());
        record!(gather, ranges?);
        if !later {
            let _ = this_cpu.flush_kernel(gather);
            return Ok(0);
        }
        // SAFETY: the place was just looked at, and it is the caller's.
        Ok(unsafe {
            Wait::keep(wait, |pending| *pending = Some(self.tlb().begin_flush_kernel(&(), gather)))
        })
    }

    pub(crate) unsafe fn wait_or_refuse(&'static self, wait: *mut Wait<I>) -> Reply {
        // SAFETY: the caller promises what the header says.
        let seal = unsafe { Seal::<WordOf<I>>::at(wait) }
            .filter(|seal| seal.is_set())
            .ok_or(Refused::Wait)?;
        let platform = self.tlb().platform();
        // With interrupts off, this CPU may be what another one waits for.
        let this_cpu = if platform.irqs_are_off() { Some(self.this_cpu()?) } else { None };
        // SAFETY: the seal says that `keep` has put it there, and the caller that nobody else uses it.
        let slot = unsafe { &mut *addr_of_mut!((*wait).pending) };
        // SAFETY: as above.
        let slot = unsafe { slot.assume_init_mut() };
        let pending = slot.as_mut().ok_or(Refused::Wait)?;
        seal.clear();
        if let Some(this_cpu) = this_cpu {
            while !pending.is_complete() {
                this_cpu.handle_ipi();
                platform.relax();
            }
        }
        pending.wait_in_place();
        *slot = None;
        Ok(0)
    }
}

impl<I: Instance> fmt::Debug for Wait<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("in_use", &self.seal.is_set()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64, shift: u32) -> VaRange {
        VaRange::new(start, bytes, shift).unwrap()
    }

    #[test]
    fn ranges_are_widened_to_whole_pages() {
        let pages = |start, bytes, shift| Ranges::new(start, bytes, shift, 0).unwrap();
        let one = |start, bytes, shift| Ranges::Some(range(start, bytes, shift), Kind::Pages);
        assert_eq!(pages(0x1000, 0x1000, 12), one(0x1000, 0x1000, 12));
        assert_eq!(pages(0x1fff, 2, 12), one(0x1000, 0x2000, 12));
        assert_eq!(pages(0x20_1000, 0x1000, 21), one(0x20_0000, 0x20_0000, 21));
        assert_eq!(pages(u64::MAX, 1, 12), one(u64::MAX - 0xfff, 0x1000, 12));
        assert_eq!(pages(7, 0, 12), Ranges::Nothing);
        assert_eq!(pages(1, u64::MAX - 1, 12), Ranges::Everything);
        assert_eq!(Ranges::new(3, u64::MAX, 0, 2), Ok(Ranges::Everything));
    }

    #[test]
    fn one_page_is_what_it_is_as_a_range() {
        for (start, bytes) in
            [(0, 1), (0x1000, 0x1000), (0x1fff, 1), (0x1001, 0xfff), (u64::MAX, 1)]
        {
            assert!(is_one_page(start, bytes, 12), "{start:#x}, {bytes:#x}");
            let page = |kind| page_of(start, kind);
            let [pages, mixed] = [0, 1].map(|kind| page(kind).unwrap());
            assert_eq!(Ranges::new(start, bytes, 12, 0), Ok(Ranges::Some(pages, Kind::Pages)));
            assert_eq!(mixed, pages.mixed());
            assert_eq!([page(2), page(3)], [None; 2], "tables, and what is no kind");
        }
        for (start, bytes, shift) in [
            (0x1000, 0, 12),
            (0x1fff, 2, 12),
            (0x1000, 0x1001, 12),
            (u64::MAX, 2, 12),
            (0x1000, u64::MAX, 12),
            (0x1002, u64::MAX, 12),
            (0x1000, 0x1000, 13),
        ] {
            assert!(!is_one_page(start, bytes, shift), "{start:#x}, {bytes:#x}");
        }
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        assert_eq!(Ranges::new(0, 0x1000, 11, 0), Err(Refused::PageSize));
        assert_eq!(Ranges::new(0, 0x1000, 49, 0), Err(Refused::PageSize));
        assert_eq!(Ranges::new(0x2000, u64::MAX - 0x1000, 12, 0), Err(Refused::Range));
        assert_eq!(Ranges::new(0, 0x1000, 12, 3), Err(Refused::Argument));
    }
}
