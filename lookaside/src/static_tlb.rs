//! A [`Tlb`] in a `static`, with the storage of its CPUs and of its ASID allocator.

use core::{cell::UnsafeCell, fmt, mem::MaybeUninit, ops::Deref};

use crate::{
    error::Error,
    platform::Platform,
    tags::{Asids, AsidsConfig},
    tlb::{Cpu, Tlb},
    word::{Ordering, Word},
};

/// Words for as many tags as any hardware has: 16 KiB.
const WORDS: usize = 2056;

/// A [`Tlb`] in a `static` of a kernel, with all storage that it needs on a machine of up to `CPUS` CPUs:
///
/// ```ignore
/// static TLB: StaticTlb<Hw, 64> = StaticTlb::new();
/// ```
///
/// The boot CPU calls [`Self::init`] once. From then on this is the `Tlb`, by `Deref`. A kernel that wants its storage
/// elsewhere makes a [`Tlb`] of its own.
pub struct StaticTlb<P: Platform<Word: 'static> + 'static, const CPUS: usize> {
    /// [`EMPTY`], [`BUSY`] or [`READY`].
    state: P::Word,
    tlb: UnsafeCell<MaybeUninit<Tlb<'static, P>>>,
    cpus: UnsafeCell<[Cpu<P>; CPUS]>,
    words: UnsafeCell<[P::Word; WORDS]>,
}

/// [`StaticTlb::init`] was not called.
const EMPTY: u64 = 0;
/// It is under way, or has failed.
const BUSY: u64 = 1;
/// It has succeeded.
const READY: u64 = 2;

// SAFETY: the cells are written once, by the caller of `init` that has changed the state to `BUSY`. After that they are
// only read, or used through the `Tlb`, which is shared.
unsafe impl<P: Platform<Word: 'static> + 'static, const CPUS: usize> Sync for StaticTlb<P, CPUS>
where
    Tlb<'static, P>: Send + Sync,
    Cpu<P>: Send + Sync,
    P::Word: Send + Sync,
{
}

impl<P: Platform<Word: 'static> + 'static, const CPUS: usize> StaticTlb<P, CPUS> {
    /// Storage for a `Tlb`.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(WORDS >= Asids::<P>::words_for(1 << 16)) };
        Self {
            state: P::Word::ZERO,
            tlb: UnsafeCell::new(MaybeUninit::uninit()),
            cpus: UnsafeCell::new([const { Cpu::new() }; CPUS]),
            words: UnsafeCell::new([const { P::Word::ZERO }; WORDS]),
        }
    }

    /// Makes the `Tlb` of a machine with the CPUs `0..cpus`, as [`Tlb::new`]: once, on the boot CPU.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuCount`] if there is no storage for so many CPUs.
    /// * [`Error::UsedStorage`] if this was called before, even if it failed then.
    /// * As [`Tlb::new`].
    pub fn init(
        &'static self,
        platform: P,
        cpus: usize,
        config: AsidsConfig,
    ) -> Result<&'static Tlb<'static, P>, Error> {
        if cpus > CPUS {
            return Err(Error::CpuCount { cpus });
        }
        // Relaxed: it decides who writes the cells, and nobody has written them before.
        let was = self.state.compare_exchange(EMPTY, BUSY, Ordering::Relaxed, Ordering::Relaxed);
        if was.is_err() {
            return Err(Error::UsedStorage { cpu: platform.cpu() });
        }
        // SAFETY: one caller ever gets here, and nobody reads the cells before the state is `READY`. They are in a
        // static, and only this borrows them.
        let (storage, words) = unsafe { (&mut *self.cpus.get(), &mut *self.words.get()) };
        let tlb = Tlb::new(platform, Asids::new(config, words), &mut storage[..cpus])?;
        // SAFETY: as above.
        let tlb = unsafe { (*self.tlb.get()).write(tlb) };
        // ORDER O-STATIC-READY (pairs with O-STATIC-READ): the `Tlb` and its storage are written before others find it.
        self.state.store(READY, Ordering::Release);
        Ok(tlb)
    }

    /// The `Tlb`, if [`Self::init`] has made it.
    #[inline]
    pub fn get(&self) -> Option<&Tlb<'static, P>> {
        // ORDER O-STATIC-READ (pairs with O-STATIC-READY): that it is there, before what it has.
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: it was written before the state became `READY`, and is only read from then on.
        Some(unsafe { (*self.tlb.get()).assume_init_ref() })
    }

    /// Handles requests of other CPUs, as [`crate::CurrentCpu::handle_ipi`], if the `Tlb` was made and this CPU is online.
    /// Otherwise it does nothing, as no CPU waits for this one. So the IPI handler and loops that wait for a lock may call it at any
    /// time, from the first instruction on.
    pub fn handle_ipi(&self, irqs_off: &P::IrqsOff) {
        if let Some(tlb) = self.get()
            && tlb.is_online(tlb.platform().cpu())
        {
            tlb.this_cpu(irqs_off).handle_ipi();
        }
    }
}

impl<P: Platform<Word: 'static> + 'static, const CPUS: usize> Default for StaticTlb<P, CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

/// # Panics
///
/// If it was not initialised.
impl<P: Platform<Word: 'static> + 'static, const CPUS: usize> Deref for StaticTlb<P, CPUS> {
    type Target = Tlb<'static, P>;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &Self::Target {
        self.get().expect("StaticTlb::init comes first")
    }
}

impl<P: Platform<Word: 'static> + 'static, const CPUS: usize> fmt::Debug for StaticTlb<P, CPUS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StaticTlb").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::{hint, sync::atomic::AtomicU64};
    use std::thread;

    use super::*;
    use crate::{
        arch::{Root, aarch64::*},
        platform::{CpuId, Targets},
    };

    struct Silent;

    impl Instructions for Silent {
        fn tlbi(&self, _: Tlbi) {}
        fn dsb(&self, _: Dsb) {}
        fn isb(&self) {}
        fn write_ttbr0(&self, _: u64) {}
        fn read_ttbr1(&self) -> u64 {
            0
        }
        fn write_ttbr1(&self, _: u64) {}
        fn ic_iallu(&self) {}
    }

    struct Hw(Aarch64<Silent>);

    // SAFETY: nothing is executed, and no CPU comes online.
    unsafe impl Platform for Hw {
        type Word = AtomicU64;
        type Mmu = Aarch64<Silent>;
        type IrqsOff = ();
        type Tables = Root;
        type ResidentWords = [AtomicU64; 1];

        fn root(root: &Root) -> Root {
            *root
        }

        fn mmu(&self) -> &Self::Mmu {
            &self.0
        }

        fn cpu(&self) -> CpuId {
            CpuId(0)
        }

        fn send_ipi(&self, _: Targets) {}
    }

    /// Under Miri a weaker ordering is a data race.
    #[test]
    fn what_another_thread_finds_is_whole() {
        static TLB: StaticTlb<Hw, 2> = StaticTlb::new();
        let id = IdRegisters { mmfr0: 5, ..IdRegisters::default() };
        let features = Features::decode(id);
        let config = Config::new(features, registers::tcr(16, &features), 0x4000_1000);
        let other = thread::spawn(|| {
            loop {
                if let Some(tlb) = TLB.get() {
                    break tlb.cpus().len();
                }
                hint::spin_loop();
            }
        });
        let hw = Hw(Aarch64::new(Silent, config).unwrap());
        assert!(TLB.init(hw, 2, AsidsConfig::default()).is_ok());
        assert_eq!(other.join().unwrap(), 2);
    }
}
