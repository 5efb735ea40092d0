//! The state of one machine: its CPUs, its ASID allocator, and the requests to all CPUs.

mod allocator;
mod cpu;
mod current_cpu;

use core::fmt;

pub use self::{
    allocator::{AsidScope, Released, RootState, Switched, Tags},
    cpu::Cpu,
    current_cpu::{AllocatorCpu, CurrentCpu},
};

use crate::{
    arch::{Errata, Mmu, Root, Sharing},
    error::Error,
    ids::{CpuId, MAX_CPUS, TlbId},
    platform::Platform,
    request::{BroadcastRing, RequestQueue, Up},
    residency::Residents,
    space::AddressSpace,
    word::{Aligned, Ordering, Word},
};

/// The state of one machine: which space has which tag, and which CPU has loaded which root.
///
/// A kernel makes one for the first stage of translation; a second one can manage another regime. All storage
/// comes from the caller and is used by this `Tlb` alone.
///
/// `T` is the ASID allocator. A kernel leaves it out: then it is chosen when the `Tlb` is made, from what the hardware
/// has ([`crate::tags::Asids`]), and a `static` of the kernel has the type `Tlb<'static, Hw>`.
///
/// An address space, a gather and a batch belong to the `Tlb` that made them; every other one refuses
/// them.
pub struct Tlb<'a, P: Platform, T: Tags<P> = crate::tags::Asids<'static, P>> {
    pub(crate) platform: P,
    pub(crate) tags: T,
    /// Beside fields that a switch reads anyway.
    choice: T::Choice,
    pub(crate) cpus: &'a [Cpu<P, T>],
    pub(crate) id: TlbId,
    /// The errata of all CPUs that are or were online: some oblige every CPU, for example to repeat
    /// invalidations.
    errata: P::Word,
    /// The identifier of the latest space; identifiers begin with 1. In cache lines of its own: every CPU reads the
    /// fields beside it whenever it handles a request.
    latest_id: Aligned<P::Word>,
    /// Requests to every CPU.
    pub(crate) ring: Aligned<BroadcastRing<P::Word>>,
    /// The CPUs that are online.
    pub(crate) up: Aligned<Up<P::Word>>,
    /// How many CPUs make others leave a root, or stopped in the middle of that.
    pub(crate) leaving: Aligned<P::Word>,
}

/// Identifiers of spaces stop here: allocators may pack two flags beside one.
const LAST_ID: u64 = (1 << 62) - 1;

impl<'a, P: Platform, T: Tags<P>> Tlb<'a, P, T> {
    /// The state of a machine with the CPUs `0..cpus.len()`, none of which is online yet. Their storage is new.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuCount`] if there is no CPU, or more than [`MAX_CPUS`].
    /// * What the ASID allocator finds wrong: too few tags, too little storage, storage that another `Tlb` has used.
    /// * [`Error::IdsExhausted`] after 2^64 - 1 `Tlb`s.
    pub fn new(platform: P, mut tags: T, cpus: &'a mut [Cpu<P, T>]) -> Result<Self, Error> {
        if cpus.is_empty() || cpus.len() > MAX_CPUS {
            return Err(Error::CpuCount { cpus: cpus.len() });
        }
        let choice = tags.begin(&platform, cpus)?;
        let sharing = platform.mmu().properties().sharing;
        for (number, cpu) in cpus.iter_mut().enumerate() {
            cpu.set_id(CpuId(number as u32), sharing);
        }
        let cpus = &*cpus;
        let (id, errata) = (TlbId::next().ok_or(Error::IdsExhausted)?, P::Word::ZERO);
        for cpu in cpus {
            cpu.set_online(false); // An earlier `Tlb` may have had the storage.
            cpu.queue.go_down();
        }
        let latest_id = Aligned(P::Word::ZERO);
        let (ring, up) = (Aligned(BroadcastRing::NEW), Aligned(Up::NEW));
        let leaving = Aligned(P::Word::ZERO);
        Ok(Self { platform, tags, choice, cpus, id, errata, latest_id, ring, up, leaving })
    }

    /// A new space, which owns these top tables. `residents` is storage for two bits a CPU
    /// ([`Residents::words_for`]), which is cleared.
    ///
    /// What the kernel promises of the tables and of the space is said at [`Platform`].
    ///
    /// # Errors
    ///
    /// `tables` and `residents` are dropped.
    ///
    /// * [`Error::BadRoot`] if the root register of a CPU cannot hold the root of `tables`, or user mode is to have tables
    ///   of its own ([`Properties::has_user_tables`](crate::arch::Properties::has_user_tables)) and these have none, or
    ///   the other way round.
    /// * [`Error::Unsupported`] if CPUs have different roots and use each other's translations.
    /// * [`Error::Storage`] if `residents` is too small.
    /// * [`Error::IdsExhausted`] after 2^62 spaces.
    pub fn space(
        &self,
        tables: P::Tables,
        residents: P::ResidentWords,
    ) -> Result<AddressSpace<P>, Error> {
        self.check_roots(&tables)?;
        Residents::new(residents.as_ref(), self.cpus.len())?;
        // Relaxed: a counter that only has to count. It stops for good at the last identifier.
        let latest = &*self.latest_id;
        if latest.load(Ordering::Relaxed) >= LAST_ID - MAX_CPUS as u64 {
            return Err(Error::IdsExhausted);
        }
        let id = latest.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(AddressSpace::with_id(tables, id, self.id, residents))
    }

    fn check_roots(&self, tables: &P::Tables) -> Result<(), Error> {
        let (mmu, properties) = (self.platform.mmu(), self.platform.mmu().properties());
        let check = |root: Root| {
            if properties.has_user_tables == (root.user_table == root.table) {
                return Err(Error::BadRoot { address: root.user_table });
            }
            mmu.check_root(root)
        };
        let first = P::root(tables);
        check(first)?;
        for number in 0..self.cpus.len() as u32 {
            let root = P::root_on(tables, CpuId(number));
            if root != first {
                if properties.sharing == Sharing::Shared {
                    return Err(Error::Unsupported(
                        "a root of each CPU's own, where CPUs share translations",
                    ));
                }
                check(root)?;
            }
        }
        Ok(())
    }

    /// The CPU that executes the call, for as long as interrupts are off.
    ///
    /// # Panics
    ///
    /// In debug builds if the CPU is not online, or interrupts are on ([`Platform::irqs_are_off`]).
    #[inline]
    #[track_caller]
    pub fn this_cpu<'c>(&'c self, irqs_off: &'c P::IrqsOff) -> CurrentCpu<'c, P, T> {
        let _ = irqs_off;
        CurrentCpu::executing(self)
    }

    /// As [`Self::this_cpu`], and `None` in every build if the CPU has no storage or is not online: for a caller that cannot
    /// promise it, as one in another language.
    #[must_use]
    #[inline]
    pub fn this_cpu_if_online<'c>(
        &'c self,
        irqs_off: &'c P::IrqsOff,
    ) -> Option<CurrentCpu<'c, P, T>> {
        let _ = irqs_off;
        debug_assert!(self.platform.irqs_are_off(), "interrupts are on");
        let id = self.platform.cpu();
        let cpu = self.cpus.get(id.index())?;
        // Of the CPU's own state, which it is about to use: the map is in another cache line, and its index is checked.
        cpu.is_online().then(|| CurrentCpu::new(self, cpu))
    }

    /// As [`Self::this_cpu_if_online`], for a caller that knows which CPU it is executed by, and `None` too while a foreign root
    /// is loaded ([`CurrentCpu::with_root`]).
    ///
    /// # Panics
    ///
    /// In a debug build, if interrupts are on or another CPU executes the call.
    ///
    /// # Safety
    ///
    /// The CPU that executes the call has the number `id`, as [`Platform::cpu`] would say.
    #[must_use]
    #[inline]
    pub unsafe fn numbered_cpu_if_free<'c>(
        &'c self,
        irqs_off: &'c P::IrqsOff,
        id: CpuId,
    ) -> Option<CurrentCpu<'c, P, T>> {
        let _ = irqs_off;
        debug_assert!(self.platform.irqs_are_off(), "interrupts are on");
        debug_assert!(self.platform.cpu() == id, "another CPU than {id} executes the call");
        let cpu = self.cpus.get(id.index())?;
        cpu.is_free().then(|| CurrentCpu::new(self, cpu))
    }

    /// Whether a CPU has come up and not gone down since, at some moment. True for ever of the CPU that executes
    /// the call, until it calls [`CurrentCpu::offline`].
    #[must_use]
    pub fn is_online(&self, cpu: CpuId) -> bool {
        cpu.index() < self.cpus.len() && self.up.contains(cpu)
    }

    /// Whether an NMI handler may access user memory of `space`, for example a profiler that walks a stack. An NMI
    /// comes between any two instructions: in the middle of a switch, of a flush, of a call of firmware. Its
    /// handler may call this function and nothing else of the library; any other handler may call it as well.
    ///
    /// If true, until the handler returns, user addresses translate on this CPU by the tables of `space`, and by no
    /// translation whose flush was reported complete or acknowledged ([`CurrentCpu::flush_early`]). CPUs that flush
    /// meanwhile wait for this one where they must. An access may still fault.
    ///
    /// False means that this is not known. It is false while this CPU is lazy, has missed a flush of the space,
    /// has a foreign root loaded ([`CurrentCpu::with_root`]), or is in the last epoch of [`crate::GlobalAsids`] and the space
    /// has no pinned tag; for a space that this CPU does not run, or of another `Tlb`; and always where the kernel runs on
    /// a root of its own ([`Properties::kernel_has_own_root`](crate::arch::Properties::kernel_has_own_root)).
    #[must_use]
    pub fn nmi_uaccess_okay(&self, space: &AddressSpace<P>) -> bool {
        // A space of another `Tlb` may have the identifier of one that this CPU runs.
        if space.tlb != self.id || self.platform.mmu().properties().kernel_has_own_root {
            return false;
        }
        let id = self.platform.cpu();
        let free = self.cpus.get(id.index()).filter(|cpu| !cpu.nmi_uaccess_disabled());
        free.is_some_and(|cpu| T::nmi_uaccess_okay(self, cpu, space))
    }

    pub(crate) fn queue(&self, cpu: CpuId) -> Option<&'a RequestQueue<P::Word>> {
        Some(&self.cpus.get(cpu.index())?.queue)
    }

    /// The platform.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The ASID allocator.
    pub const fn tags(&self) -> &T {
        &self.tags
    }

    /// Whether a space has one tag on all CPUs or each CPU its own.
    #[must_use]
    pub fn asid_scope(&self) -> AsidScope {
        if T::has_global_tags(self) { AsidScope::Global } else { AsidScope::PerCpu }
    }

    /// What the ASID allocator decided when the `Tlb` was made, for the allocator.
    #[must_use]
    #[inline]
    pub const fn choice(&self) -> T::Choice {
        self.choice
    }

    /// The CPUs, online or not.
    pub const fn cpus(&self) -> &'a [Cpu<P, T>] {
        self.cpus
    }

    /// The errata of every CPU that has come up so far. The kernel looks up here those that
    /// [it must work around itself](crate::arch::errata::ADVICE).
    #[must_use]
    pub fn errata(&self) -> Errata {
        self.machine_errata()
    }

    /// The errata of any CPU, which every CPU takes into account.
    #[inline]
    pub(crate) fn machine_errata(&self) -> Errata {
        Errata(self.errata.load(Ordering::Relaxed)) // Relaxed: see `admit`.
    }

    /// Admits a CPU and adds its errata to the machine's.
    pub(crate) fn admit(&self, features: &<P::Mmu as Mmu>::Features) -> Result<Errata, Error> {
        let errata = self.platform.mmu().admit(features)?;
        // Relaxed: the CPU runs no space yet. The kernel gives it a thread later, in an order that makes this visible.
        self.errata.fetch_or(errata.0, Ordering::Relaxed);
        Ok(errata)
    }
}

impl<P: Platform<ResidentWords: Default>> AddressSpace<P> {
    /// A new space, as [`Tlb::space`] makes one, with resident words of its own.
    ///
    /// # Errors
    ///
    /// As [`Tlb::space`].
    pub fn new<T: Tags<P>>(tlb: &Tlb<'_, P, T>, tables: P::Tables) -> Result<Self, Error> {
        tlb.space(tables, P::ResidentWords::default())
    }
}

impl<P: Platform, T: Tags<P>> fmt::Debug for Tlb<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tlb")
            .field("id", &self.id)
            .field("cpus", &self.cpus.len())
            .field("tag_bits", &self.platform.mmu().properties().tag_bits)
            .field("asid_scope", &self.asid_scope())
            .field("errata", &self.errata())
            .finish_non_exhaustive()
    }
}
