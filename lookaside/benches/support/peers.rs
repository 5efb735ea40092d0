//! Shootdown protocols to compare with: a bare flag, a queue of calls, and flags of completion under one lock.
//! Written from descriptions.

use core::{
    cell::UnsafeCell,
    hint::{black_box, spin_loop},
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
};

/// A cache line of its own, and its neighbour, which hardware may prefetch.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// The interrupt line of the target: a store here is what costs an interprocessor interrupt elsewhere.
#[derive(Default)]
pub(crate) struct Interrupt(Line<AtomicBool>);

impl Interrupt {
    /// Interrupts the target. It sees what was stored before.
    #[inline]
    pub(crate) fn send(&self) {
        self.0.0.store(true, Ordering::Release);
    }

    /// Whether an interrupt has arrived, which is taken.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // One operation: a store that another CPU sees after the handler has read its requests would erase the next interrupt.
        self.0.0.load(Ordering::Relaxed) && self.0.0.swap(false, Ordering::SeqCst)
    }
}

/// What invalidates a page: a store, as in `cargo xtask instructions`.
#[inline]
pub(crate) fn invalidate(page: u64) {
    black_box(page);
}

/// A protocol by which a CPU has a page of a space flushed that another CPU runs as well.
pub(crate) trait Shootdown: Sync {
    /// On the initiator: returns when no CPU holds the page.
    fn shoot(&self, page: u64);
    /// On the target, once it was interrupted.
    fn handle(&self);
    /// The interrupt of the target.
    fn interrupt(&self) -> &Interrupt;
}

/// The least that there is: one line to the target and one back. The page is not told.
#[derive(Default)]
pub(crate) struct Flag {
    interrupt: Interrupt,
    answers: Line<AtomicU64>,
}

impl Shootdown for Flag {
    fn shoot(&self, page: u64) {
        let before = self.answers.0.load(Ordering::Relaxed);
        self.interrupt.send();
        invalidate(page);
        while self.answers.0.load(Ordering::Acquire) == before {
            spin_loop();
        }
    }

    fn handle(&self) {
        invalidate(0);
        // Only the target writes it.
        let before = self.answers.0.load(Ordering::Relaxed);
        self.answers.0.store(before + 1, Ordering::Release);
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// A call of a function on another CPU, as Linux has it: each pair of CPUs has an entry, the target a list of entries
/// without a lock, and whoever finds it empty sends the interrupt. The request lies with the initiator; the space has a
/// generation, and each CPU the generation that it has caught up with.
#[derive(Default)]
pub(crate) struct Queue {
    interrupt: Interrupt,
    /// The CPUs that run the space.
    mask: Line<AtomicU64>,
    generation: Line<AtomicU64>,
    /// What each of the two CPUs has caught up with.
    caught_up: [Line<AtomicU64>; 2],
    head: Line<AtomicPtr<Entry>>,
    entry: Line<Entry>,
    request: Line<Request>,
}

#[derive(Default)]
struct Entry {
    next: AtomicPtr<Entry>,
    busy: AtomicBool,
    request: AtomicPtr<Request>,
}

#[derive(Default)]
struct Request {
    page: AtomicU64,
    generation: AtomicU64,
}

impl Queue {
    /// Both CPUs run the space.
    pub(crate) fn new() -> Self {
        Self { mask: Line(AtomicU64::new(0b11)), ..Self::default() }
    }

    /// Flushes on the CPU of this number, unless it has caught up already.
    fn flush(&self, cpu: usize, request: &Request) {
        let generation = self.generation.0.load(Ordering::Acquire);
        let caught_up = &self.caught_up[cpu].0;
        if caught_up.load(Ordering::Relaxed) < generation {
            invalidate(request.page.load(Ordering::Relaxed));
            caught_up.store(request.generation.load(Ordering::Relaxed), Ordering::Release);
        }
    }
}

impl Shootdown for Queue {
    fn shoot(&self, page: u64) {
        let generation = self.generation.0.fetch_add(1, Ordering::SeqCst) + 1;
        let request = &self.request.0;
        request.page.store(page, Ordering::Relaxed);
        request.generation.store(generation, Ordering::Relaxed);
        if self.mask.0.load(Ordering::Relaxed) & !1 != 0 {
            let entry = &self.entry.0;
            entry.busy.store(true, Ordering::Relaxed);
            entry.request.store(ptr::from_ref(request).cast_mut(), Ordering::Relaxed);
            let mut first = self.head.0.load(Ordering::Relaxed);
            loop {
                entry.next.store(first, Ordering::Relaxed);
                let entry = ptr::from_ref(entry).cast_mut();
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                match self.head.0.compare_exchange_weak(first, entry, success, failure) {
                    Ok(_) => break,
                    Err(now) => first = now,
                }
            }
            if first.is_null() {
                self.interrupt.send();
            }
        }
        self.flush(0, request);
        while self.entry.0.busy.load(Ordering::Acquire) {
            spin_loop();
        }
    }

    fn handle(&self) {
        let mut next = self.head.0.swap(ptr::null_mut(), Ordering::AcqRel);
        while !next.is_null() {
            // SAFETY: the entry is of `self`, and so is the request in it; both are only read here, and written by the
            // initiator when the entry is not busy.
            let (entry, request) = unsafe { (&*next, &*(*next).request.load(Ordering::Relaxed)) };
            next = entry.next.load(Ordering::Relaxed);
            self.flush(1, request);
            entry.busy.store(false, Ordering::Release);
        }
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}

/// Flags of completion, as FreeBSD had them from 2016 on (review D8041): one lock for all shootdowns, one request, and a
/// word of each CPU that says which shootdown it has done last.
#[derive(Default)]
pub(crate) struct Flags {
    interrupt: Interrupt,
    mask: Line<AtomicU64>,
    locked: Line<AtomicBool>,
    request: Line<UnsafeCell<(u64, u32)>>,
    done: Line<AtomicU64>,
}

// SAFETY: the request is written by whoever holds the lock, before the interrupt, and read in its handler; the lock is
// released after the handler has said that it has read it.
unsafe impl Sync for Flags {}

impl Flags {
    /// Both CPUs run the space.
    pub(crate) fn new() -> Self {
        Self { mask: Line(AtomicU64::new(0b11)), ..Self::default() }
    }
}

impl Shootdown for Flags {
    fn shoot(&self, page: u64) {
        let others = self.mask.0.load(Ordering::Acquire) & !1;
        if others == 0 {
            return invalidate(page);
        }
        while self.locked.0.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: the lock is held, and no handler reads: the last one has answered.
        let generation = unsafe {
            let request = &mut *self.request.0.get();
            *request = (page, request.1.wrapping_add(1));
            request.1
        };
        self.interrupt.send();
        invalidate(page);
        while self.done.0.load(Ordering::Acquire) != u64::from(generation) {
            spin_loop();
        }
        self.locked.0.store(false, Ordering::Release);
    }

    fn handle(&self) {
        // SAFETY: the initiator writes again when this has answered.
        let (page, generation) = unsafe { *self.request.0.get() };
        invalidate(page);
        self.done.0.store(u64::from(generation), Ordering::Release);
    }

    fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }
}
