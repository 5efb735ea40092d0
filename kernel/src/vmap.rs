//! Pages at addresses of the kernel's own, which all CPUs share. They go with a flush of all CPUs.

use core::sync::atomic::{AtomicU8, Ordering};

use alloc::vec::Vec;
use lookaside::VaRange;

use crate::{
    arch::{self, PAGE},
    frame::Frame,
    lock::Lock,
    tables, tlb,
};

/// Which of the window's pages are in use.
static USED: Lock<[bool; 512]> = Lock::new([false; 512]);

/// A page of the kernel's own.
pub(crate) struct Mapped {
    place: usize,
}

impl Mapped {
    /// A page of zeros.
    pub(crate) fn new() -> Option<Self> {
        let frame = Frame::new()?;
        let mut used = USED.lock();
        let Some(place) = used.iter().position(|used| !used) else {
            drop(used);
            frame.free();
            return None;
        };
        used[place] = true;
        let slot = &arch::vmap_table()[place];
        // Release: its contents first. Nothing was there, and nothing is held of it.
        slot.store(arch::kernel_page(frame.into_address()), Ordering::Release);
        let mapped = Self { place };
        tlb::this_cpu().map_kernel(mapped.range());
        Some(mapped)
    }

    fn address(&self) -> usize {
        arch::vmap_window() + self.place * PAGE
    }

    fn range(&self) -> VaRange {
        tables::pages(self.address()..self.address() + PAGE)
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < PAGE, "beyond the page");
        // SAFETY: the page is mapped as long as this value lives.
        unsafe { &*((self.address() + offset) as *const AtomicU8) }
    }

    pub(crate) fn read(&self, offset: usize) -> u8 {
        self.byte(offset).load(Ordering::Relaxed) // Relaxed: under the pipe's lock.
    }

    pub(crate) fn write(&self, offset: usize, value: u8) {
        self.byte(offset).store(value, Ordering::Relaxed); // Relaxed: as above.
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let flushed = tlb::this_cpu().unmap_kernel(Vec::new(), |gather| {
            gather.revoke(self.range());
            let entry = arch::vmap_table()[self.place].swap(0, Ordering::AcqRel);
            gather.hold_page(Frame::named(arch::address_of(entry)));
        });
        flushed.frames.into_iter().for_each(Frame::free);
        USED.lock()[self.place] = false;
    }
}
