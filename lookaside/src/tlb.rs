//! The state of one machine: its CPUs, its ASID allocator, and the requests to all CPUs.

use core::{fmt, sync::atomic::AtomicU64};

use crate::{
    arch::{Errata, Mmu, Tag},
    cpu::{Aligned, Cpu},
    cpuset::MAX_CPUS,
    current_cpu::CurrentCpu,
    error::Error,
    flush::{
        broadcast_ring::{BroadcastRing, Up},
        request_queue::RequestQueue,
    },
    platform::{CpuId, Ordering, Platform, Word},
    residency::Residents,
    space::AddressSpace,
    tags::Tags,
};

/// The state of one machine: which space has which tag, and which CPU has loaded which root.
///
/// A kernel makes one for the first stage of translation; a second one can manage another regime. All storage
/// comes from the caller and is used by this `Tlb` alone.
///
/// An address space, a gather and a batch belong to the `Tlb` that made them; every other one refuses
/// them.
pub struct Tlb<'a, P: Platform, T: Tags<P>> {
    platform: P,
    tags: T,
    cpus: &'a [Cpu<P, T>],
    id: TlbId,
    /// The errata of all CPUs that are or were online: some oblige every CPU, for example to repeat
    /// invalidations.
    errata: P::Word,
    /// The identifier of the latest space; identifiers begin with 1. In cache lines of its own: every CPU reads the
    /// fields beside it whenever it handles a request.
    latest_id: Aligned<P::Word>,
    /// Requests to every CPU.
    ring: Aligned<BroadcastRing<P::Word>>,
    /// The CPUs that are online.
    up: Aligned<Up<P::Word>>,
}

/// Which [`Tlb`] something belongs to: a number that no other `Tlb` has had or will have.
///
/// An address would not do: a space may outlive its `Tlb`, and another one may then have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TlbId(u64);

/// The latest [`TlbId`]: the one static of this crate. Only a static is shared by all `Tlb`s.
static LATEST: AtomicU64 = AtomicU64::new(0);

impl TlbId {
    /// The next one.
    fn next() -> Result<Self, Error> {
        // Relaxed, both: a counter that only has to count. It does not wrap (P6).
        let next =
            LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
        next.map(Self).map_err(|_| Error::IdsExhausted)
    }

    /// One for tests of what has no `Tlb`.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(u64::MAX);
}

/// Identifiers of spaces stop here: strategies may pack two flags beside one.
const LAST_ID: u64 = (1 << 62) - 1;

impl<'a, P: Platform, T: Tags<P>> Tlb<'a, P, T> {
    /// The state of a machine with the CPUs `0..cpus.len()`, none of which is online yet. Their storage is new.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuCount`] if there is no CPU, or more than [`MAX_CPUS`].
    /// * What the strategy finds wrong: too few tags, too little storage, storage that another `Tlb` has used.
    /// * [`Error::IdsExhausted`] after 2^64 - 1 `Tlb`s.
    pub fn new(platform: P, mut tags: T, cpus: &'a mut [Cpu<P, T>]) -> Result<Self, Error> {
        if cpus.is_empty() || cpus.len() > MAX_CPUS {
            return Err(Error::CpuCount { cpus: cpus.len() });
        }
        tags.begin(&platform, cpus)?;
        let cpus = &*cpus;
        let (id, errata) = (TlbId::next()?, P::Word::ZERO);
        for cpu in cpus {
            cpu.queue.go_down();
        }
        let latest_id = Aligned(P::Word::ZERO);
        let (ring, up) = (Aligned(BroadcastRing::NEW), Aligned(Up::NEW));
        Ok(Self { platform, tags, cpus, id, errata, latest_id, ring, up })
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
    /// * [`Error::BadRoot`] if the root register cannot hold the root of `tables`.
    /// * [`Error::Storage`] if `residents` is too small.
    /// * [`Error::IdsExhausted`] after 2^62 spaces.
    pub fn space(
        &self,
        tables: P::Tables,
        residents: P::ResidentWords,
    ) -> Result<AddressSpace<P>, Error> {
        self.platform.mmu().check_root(P::root(&tables))?;
        Residents::new(residents.as_ref(), self.cpus.len())?;
        // Relaxed: a counter that only has to count. It stops for good at the last identifier.
        let latest = &*self.latest_id;
        if latest.load(Ordering::Relaxed) >= LAST_ID - MAX_CPUS as u64 {
            return Err(Error::IdsExhausted);
        }
        let id = latest.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(AddressSpace::new(tables, id, self.id, residents))
    }

    /// The CPU that executes the call, for as long as interrupts are off.
    ///
    /// # Panics
    ///
    /// If the platform names a CPU that has no storage, which [`Self::online`] refuses. Debug builds also panic
    /// if the CPU is not online, or interrupts are on ([`Platform::irqs_are_off`]).
    #[inline]
    #[track_caller]
    pub fn this_cpu<'c>(&'c self, irqs_off: &'c P::IrqsOff) -> CurrentCpu<'c, P, T> {
        let _ = irqs_off;
        debug_assert!(self.platform.irqs_are_off(), "interrupts are on");
        let id = self.platform.cpu();
        let cpu = &self.cpus[id.index()];
        debug_assert!(self.is_online(id), "{id} is not online");
        CurrentCpu::new(self, cpu, id)
    }

    /// Brings up the CPU that executes the call: checks that it fits the machine, notes its errata, parks it,
    /// and empties its TLB of whatever it held before.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuOutOfRange`] if the platform names a CPU that has no storage.
    /// * What [`Mmu::admit`] finds missing, fewer tag bits than the machine runs with for example.
    ///
    /// The CPU must then not be used.
    #[doc(alias = "cpu_init")]
    pub fn online(
        &self,
        irqs_off: &P::IrqsOff,
        features: &<P::Mmu as Mmu>::Features,
    ) -> Result<(), Error> {
        let _ = irqs_off;
        let id = self.platform.cpu();
        let Some(cpu) = self.cpus.get(id.index()) else {
            return Err(Error::CpuOutOfRange { cpu: id, cpus: self.cpus.len() });
        };
        let errata = self.admit(features)?;
        CurrentCpu::new(self, cpu, id).come_up(errata);
        Ok(())
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
    /// has a foreign root loaded ([`CurrentCpu::with_root`]), or is in the last epoch of [`crate::GlobalAsids`]; and
    /// for a space that this CPU does not run, or of another `Tlb`.
    #[must_use]
    pub fn nmi_uaccess_okay(&self, space: &AddressSpace<P>) -> bool {
        if space.tlb() != self.id {
            return false; // It may have the identifier of one that this CPU runs.
        }
        let id = self.platform.cpu();
        let free = self.cpus.get(id.index()).filter(|cpu| !cpu.nmi_uaccess_disabled());
        free.is_some_and(|cpu| T::nmi_uaccess_okay(cpu, space))
    }

    /// Reports a CPU that has stopped and executes nothing until it comes up again, after a panic for example
    /// ([`Platform::has_stopped`]): from here on no flush waits for it, and it is in no space.
    ///
    /// Locks that it held stay locked. If it stopped in the middle of a call of this library, other CPUs may then
    /// wait for such a lock for ever.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuOutOfRange`] if there is no such CPU.
    /// * [`Error::NotStopped`] if the platform does not know that the CPU has stopped.
    pub fn halted(&self, cpu: CpuId) -> Result<(), Error> {
        let Some(halted) = self.cpus.get(cpu.index()) else {
            return Err(Error::CpuOutOfRange { cpu, cpus: self.cpus.len() });
        };
        if !self.platform.has_stopped(cpu) {
            return Err(Error::NotStopped { cpu });
        }
        // Its hardware walks nothing any more, wherever it stopped.
        halted.set_loaded_tag(Tag::RESERVED);
        // SAFETY: the platform says that the CPU has stopped.
        unsafe { T::stopped(&halted.tags) };
        self.go_down(cpu);
        Ok(())
    }

    pub(crate) fn queue(&self, cpu: CpuId) -> Option<&'a RequestQueue<P::Word>> {
        self.cpus.get(cpu.index()).map(|cpu| &cpu.queue)
    }

    /// The requests to every CPU.
    pub(crate) fn ring(&self) -> &BroadcastRing<P::Word> {
        &self.ring
    }

    /// The CPUs that are online.
    pub(crate) fn up(&self) -> &Up<P::Word> {
        &self.up
    }

    /// A CPU comes up: requests go to it from here on.
    pub(crate) fn come_up(&self, cpu: CpuId) {
        if let Some(queue) = self.queue(cpu) {
            queue.come_up(self.ring.latest());
        }
        self.up.add(cpu);
    }

    /// A CPU goes down: no flush waits for it from here on.
    pub(crate) fn go_down(&self, cpu: CpuId) {
        self.up.remove(cpu);
        if let Some(queue) = self.queue(cpu) {
            queue.go_down();
        }
    }

    /// The number of this `Tlb`.
    #[inline]
    pub(crate) const fn id(&self) -> TlbId {
        self.id
    }

    /// The platform.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The strategy.
    pub const fn tags(&self) -> &T {
        &self.tags
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

impl<P: Platform, T: Tags<P>> fmt::Debug for Tlb<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tlb")
            .field("id", &self.id)
            .field("cpus", &self.cpus.len())
            .field("errata", &self.errata())
            .finish_non_exhaustive()
    }
}
