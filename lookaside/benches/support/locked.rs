//! The allocator to compare with: epochs with one lock around every allocation, as kernels have it.
//!
//! Kept here and nowhere else. The way in without allocation is the library's; what differs is that
//! each new tag is searched in one bitmap under one lock.

use core::{cell::UnsafeCell, num::NonZeroU64};

use lookaside::{
    AddressSpace, Cpu, CurrentCpu, Error, Platform, Tlb, VaRange,
    arch::{Held, Invalidation, Mmu, Scope, Sharing, Tag, Wait},
    platform::{CpuId, Ordering, Word},
    tags::{
        AllocatorCpu, FlushRanges, FlushRequest, FlushScope, Released, RootState, Switched, Tags,
    },
};

const FIRST: usize = 2;

pub(crate) struct Locked<W> {
    tags: usize,
    epoch: W,
    lock: Spin<W>,
}

/// A kernel's spin lock.
#[repr(align(128))]
struct Spin<W> {
    word: W,
    map: UnsafeCell<Map>,
}

// SAFETY: the map is touched only inside `Spin::with`, by one thread at a time.
unsafe impl<W: Sync> Sync for Spin<W> {}

impl<W: Word> Spin<W> {
    fn with<R>(&self, f: impl FnOnce(&mut Map) -> R) -> R {
        while self.word.swap(1, Ordering::Acquire) != 0 {
            while self.word.load(Ordering::Relaxed) != 0 {
                core::hint::spin_loop();
            }
        }
        // SAFETY: the word was 0 and is 1 now: nobody else is here.
        let result = f(unsafe { &mut *self.map.get() });
        self.word.store(0, Ordering::Release);
        result
    }
}

struct Map {
    used: Vec<u64>,
    cursor: usize,
}

#[repr(align(128))]
pub(crate) struct LockedCpu<W> {
    active: W,
    reserved: W,
    pending: W,
}

impl<W: Word> Locked<W> {
    pub(crate) fn new(tags: usize) -> Self {
        Self {
            tags,
            epoch: W::ZERO,
            lock: Spin {
                word: W::ZERO,
                map: UnsafeCell::new(Map { used: vec![0; tags.div_ceil(64)], cursor: FIRST }),
            },
        }
    }
}

impl Map {
    fn take(&mut self, tags: usize) -> Option<usize> {
        let mut tag = self.cursor;
        while tag < tags {
            let free = !self.used[tag / 64] & (!0 << (tag % 64));
            if free != 0 {
                let found = tag / 64 * 64 + free.trailing_zeros() as usize;
                if found >= tags {
                    return None;
                }
                self.used[found / 64] |= 1 << (found % 64);
                self.cursor = found + 1;
                return Some(found);
            }
            tag = (tag / 64 + 1) * 64;
        }
        None
    }
}

impl<W: Word> Locked<W> {
    /// The slow path, with the lock held: the tag, the flush, the active word.
    fn allocate<P: Platform<Word = W>>(
        &self,
        this_cpu: &AllocatorCpu<'_, P, Self>,
        word: &W,
        map: &mut Map,
    ) -> u64 {
        let mut epoch = self.epoch.load(Ordering::Relaxed);
        let mut cookie = word.load(Ordering::Relaxed);
        if cookie >> 16 != epoch {
            let mut kept = false;
            for other in this_cpu.tlb().cpus() {
                let reserved = &other.tags().reserved;
                if cookie != 0 && reserved.load(Ordering::Relaxed) == cookie {
                    reserved.store(epoch << 16 | cookie & 0xffff, Ordering::Relaxed);
                    kept = true;
                }
            }
            let tag = if kept {
                cookie as usize & 0xffff
            } else if let Some(tag) = map.take(self.tags) {
                tag
            } else {
                epoch += 1;
                self.epoch.store(epoch, Ordering::Release);
                map.used.fill(0);
                map.cursor = FIRST;
                for other in this_cpu.tlb().cpus() {
                    let other = other.tags();
                    let mut live = other.active.swap(0, Ordering::AcqRel);
                    if live == 0 {
                        live = other.reserved.load(Ordering::Relaxed);
                    }
                    other.reserved.store(live, Ordering::Relaxed);
                    map.used[live as usize % 65536 / 64] |= 1 << (live % 64);
                    other.pending.store(1, Ordering::Relaxed);
                }
                map.take(self.tags).expect("more tags than CPUs")
            };
            cookie = epoch << 16 | tag as u64;
            word.store(cookie, Ordering::Release);
        }
        if this_cpu.cpu().pending.swap(0, Ordering::Relaxed) != 0 {
            this_cpu.mmu().flush(this_cpu.errata(), Invalidation::All, Scope::Local);
        }
        this_cpu.cpu().active.store(cookie, Ordering::Relaxed);
        cookie
    }
}

// SAFETY: nothing is freed in a benchmark.
unsafe impl<P: Platform> Tags<P> for Locked<P::Word> {
    type Cpu = LockedCpu<P::Word>;
    type Choice = ();
    const CPU: Self::Cpu =
        LockedCpu { active: P::Word::ZERO, reserved: P::Word::ZERO, pending: P::Word::ZERO };

    fn begin(&mut self, _: &P, _: &mut [Cpu<P, Self>]) -> Result<(), Error> {
        self.epoch.store(1, Ordering::Relaxed);
        Ok(())
    }

    fn switch_in(this_cpu: &AllocatorCpu<'_, P, Self>, next: &AddressSpace<P>) -> Switched {
        let held = if this_cpu.is_present(next) { Held::Keep } else { this_cpu.mark_present(next) };
        this_cpu.mmu().settle();
        let (this, cpu) = (this_cpu.tlb().tags(), this_cpu.cpu());
        // SAFETY: this is the strategy.
        let word = unsafe { next.tag_word() };
        let mut cookie = word.load(Ordering::Acquire);
        let epoch = this.epoch.load(Ordering::Acquire);
        let active = cpu.active.load(Ordering::Relaxed);
        let fast = active != 0
            && cookie >> 16 == epoch
            && cpu
                .active
                .compare_exchange(active, cookie, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if !fast {
            cookie = this.lock.with(|map| this.allocate(this_cpu, word, map));
        }
        this_cpu.load(next, Tag(cookie as u16), held, Sharing::Private);
        if fast { Switched::Kept } else { Switched::Fresh }
    }

    fn lazy(_: &AllocatorCpu<'_, P, Self>) {}

    fn park(this_cpu: &AllocatorCpu<'_, P, Self>) -> Switched {
        this_cpu.park_register();
        Switched::Kept
    }

    fn has_global_tags(_: &Tlb<'_, P, Self>) -> bool {
        true
    }

    fn tracks_generations(_: &Tlb<'_, P, Self>) -> bool {
        false
    }

    fn local_generation(_: &Tlb<'_, P, Self>, _: CpuId, _: u64, _: bool) -> u64 {
        u64::MAX
    }

    fn catch_up_with(_: &AllocatorCpu<'_, P, Self>, _: Option<CpuId>) -> u64 {
        0
    }

    fn catch_up(_: &AllocatorCpu<'_, P, Self>) -> u64 {
        0
    }

    fn nmi_uaccess_okay(_: &Tlb<'_, P, Self>, _: &Cpu<P, Self>, _: &AddressSpace<P>) -> bool {
        false
    }

    unsafe fn stopped(_: &Tlb<'_, P, Self>, _: &Cpu<P, Self>) {}

    fn context_id(_: &Tlb<'_, P, Self>, space: &AddressSpace<P>) -> Option<u64> {
        // SAFETY: this is the strategy.
        let cookie = unsafe { space.tag_word() }.load(Ordering::Relaxed);
        (cookie != 0).then_some(cookie)
    }

    fn loaded_context(
        this_cpu: &CurrentCpu<'_, P, Self>,
        space: &AddressSpace<P>,
    ) -> Option<NonZeroU64> {
        let context = Self::context_id(this_cpu.tlb(), space)?;
        NonZeroU64::new(context).filter(|_| Self::is_loaded(this_cpu, context))
    }

    fn has_context(_: &CurrentCpu<'_, P, Self>, _: &AddressSpace<P>, _: u64) -> bool {
        true
    }

    fn root_state(_: &Tlb<'_, P, Self>, _: CpuId, _: u64) -> RootState {
        RootState::Loaded
    }

    fn is_loaded(_: &CurrentCpu<'_, P, Self>, _: u64) -> bool {
        true
    }

    fn flush_local(this_cpu: &AllocatorCpu<'_, P, Self>, request: &FlushRequest) -> bool {
        if let FlushScope::AddressSpace { context, .. } = request.scope {
            this_cpu.mmu().flush(
                this_cpu.errata(),
                Invalidation::Tag(Tag(context as u16)),
                Scope::Local,
            );
        }
        true
    }

    fn flush_page(this_cpu: &AllocatorCpu<'_, P, Self>, context: u64, _: u64, _: VaRange) {
        let tag = Invalidation::Tag(Tag(context as u16));
        this_cpu.mmu().flush(this_cpu.errata(), tag, Scope::Local);
    }

    fn flush_all_spaces(this_cpu: &AllocatorCpu<'_, P, Self>) {
        this_cpu.mmu().flush(this_cpu.errata(), Invalidation::All, Scope::Local);
    }

    fn flush_broadcast(
        this_cpu: &AllocatorCpu<'_, P, Self>,
        context: u64,
        _: &FlushRanges,
        _: Wait,
    ) {
        this_cpu.mmu().flush(
            this_cpu.errata(),
            Invalidation::Tag(Tag(context as u16)),
            Scope::Broadcast,
        );
    }

    fn retag(_: &AllocatorCpu<'_, P, Self>, _: &AddressSpace<P>, _: u64) -> bool {
        false
    }

    fn is_pinned(_: &AddressSpace<P>) -> bool {
        false
    }

    fn user_held(_: &AllocatorCpu<'_, P, Self>) -> Held {
        Held::Keep
    }

    fn restore_root(_: &AllocatorCpu<'_, P, Self>) {}

    fn release(_: &AllocatorCpu<'_, P, Self>, _: &AddressSpace<P>) -> Released {
        Released::Later
    }
}
