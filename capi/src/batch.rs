//! `struct lookaside_batch`: flushes that are completed together.

use core::{
    fmt,
    mem::MaybeUninit,
    ptr::{self, addr_of_mut},
};

use lookaside::platform::CpuSet;

use crate::{
    cpus::MAX_CPUS,
    error::{Refused, Reply},
    flush::{Ranges, gathered},
    instance::{Instance, WordOf},
    machine::Machine,
    seal::Seal,
    space::Space,
};

/// One bit for each CPU.
const WORDS: usize = MAX_CPUS.div_ceil(64);

const _: () = assert!(WORDS == CpuSet::<core::sync::atomic::AtomicU64>::words_for(MAX_CPUS));

/// `struct lookaside_batch`. Zeros are an empty one.
#[repr(C, align(8))]
pub struct Batch<I: Instance> {
    seal: Seal<WordOf<I>>,
    /// Which CPUs must act. `batch` borrows them.
    words: [WordOf<I>; WORDS],
    batch: MaybeUninit<lookaside::flush::Batch<'static, I::Platform>>,
}

impl<I: Instance> Batch<I> {
    /// Whether there is a batch at this place that is not empty.
    ///
    /// # Safety
    ///
    /// `place` is null, or of a `struct lookaside_batch`.
    unsafe fn is_in_use(place: *const Self) -> Result<bool, Refused> {
        // SAFETY: the caller says so.
        match unsafe { Seal::<WordOf<I>>::at(place) } {
            Some(seal) if seal.is_set() => Ok(true),
            Some(seal) if seal.is_zero() => Ok(false),
            _ => Err(Refused::Batch),
        }
    }
}

impl<I: Instance> Machine<I> {
    pub(crate) unsafe fn batch_add_or_refuse(
        &'static self,
        batch: *mut Batch<I>,
        space: *mut Space<I>,
        ranges: Result<Ranges, Refused>,
    ) -> Reply {
        let this_cpu = self.this_cpu()?;
        // SAFETY: the caller promises what the header says.
        let (space, in_use) = unsafe { (Space::at(space)?, Batch::is_in_use(batch)?) };
        let ranges = ranges?;
        if !in_use {
            // SAFETY: it is the caller's memory, which nobody else uses and which stays where it is until the batch is
            // empty again. It is zeros, or was in use before: the words are words, which `new` clears.
            unsafe {
                let words = &mut *addr_of_mut!((*batch).words);
                let new = lookaside::flush::Batch::new(self.tlb(), words)?;
                addr_of_mut!((*batch).batch).write(MaybeUninit::new(new));
                (*batch).seal.set();
            }
        }
        // SAFETY: it is in use, so it was initialised.
        let batch = unsafe { (*addr_of_mut!((*batch).batch)).assume_init_mut() };
        this_cpu.defer(gathered(space, ranges), batch);
        Ok(0)
    }

    pub(crate) unsafe fn batch_flush_or_refuse(&'static self, batch: *mut Batch<I>) -> Reply {
        let this_cpu = self.this_cpu()?;
        // SAFETY: the caller promises what the header says.
        if !unsafe { Batch::is_in_use(batch)? } {
            return Ok(0);
        }
        // SAFETY: it is in use, so it was initialised. It is taken once, since the seal is broken.
        let taken = unsafe {
            (*batch).seal.clear();
            ptr::addr_of!((*batch).batch).read().assume_init()
        };
        let _ = this_cpu.flush_batch(taken);
        Ok(0)
    }
}

impl<I: Instance> fmt::Debug for Batch<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("in_use", &self.seal.is_set()).finish_non_exhaustive()
    }
}
