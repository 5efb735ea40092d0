//! The books of one machine: its CPUs and its tags.

use crate::{
    arch::{Errata, Mmu, Root},
    cpu::Cpu,
    cpuset::{CpuSet, MAX_CPUS},
    error::Error,
    here::Here,
    platform::{CpuId, Ordering, Platform, Word},
    space::{Debt, Space},
    tags::Tags,
};

/// One machine's books: which space has which tag, and which CPU runs what.
///
/// There is no global. A kernel makes one for its CPUs' first stage of translation, a hypervisor a
/// second one for the guests' second stage, a test as many as it likes. All storage comes from the
/// caller.
pub struct Tlb<'a, P: Platform, T: Tags<P>> {
    platform: P,
    tags: T,
    cpus: &'a [Cpu<P, T>],
    /// Errata of any CPU that bind every CPU, for example invalidations that must be repeated.
    errata: P::Word,
    /// The identifier of the latest space. Identifiers begin with 1.
    latest_id: P::Word,
}

/// Identifiers of spaces stop here: strategies may pack two flags beside one.
const LAST_ID: u64 = (1 << 62) - 1;

impl<'a, P: Platform, T: Tags<P>> Tlb<'a, P, T> {
    /// Books for the CPUs `0..cpus.len()`, none of which is up yet, and whose storage is new.
    ///
    /// # Errors
    ///
    /// * [`Error::CpuCount`] if there is no CPU, or more than [`MAX_CPUS`].
    /// * What the strategy finds wrong: too few tags, too little storage, storage that other books
    ///   have used.
    pub fn new(platform: P, tags: T, cpus: &'a [Cpu<P, T>]) -> Result<Self, Error> {
        if cpus.is_empty() || cpus.len() > MAX_CPUS {
            return Err(Error::CpuCount { cpus: cpus.len() });
        }
        tags.begin(&platform, cpus)?;
        let errata = P::Word::ZERO;
        let latest_id = P::Word::ZERO;
        Ok(Self { platform, tags, cpus, errata, latest_id })
    }

    /// A new space with these top tables. `residents` is storage for one bit a CPU
    /// ([`CpuSet::words_for`]) and is cleared.
    ///
    /// # Errors
    ///
    /// * [`Error::BadRoot`] if the root register cannot hold `root`.
    /// * [`Error::Storage`] if `residents` is too small.
    /// * [`Error::IdsExhausted`] after 2^62 spaces.
    ///
    /// # Safety
    ///
    /// * From the first [`Here::switch`] to the space until the space is released or every CPU has
    ///   left it, `root` is the physical address of a page table in the format of the machine.
    /// * Whatever the kernel executes and touches while the root is loaded is mapped by it, or by
    ///   a root register of the kernel's own.
    /// * Entries for user addresses, pages and blocks alike, are not global.
    pub unsafe fn space<'s>(
        &self,
        root: Root,
        residents: &'s [P::Word],
    ) -> Result<Space<'s, P>, Error> {
        self.platform.mmu().check_root(root)?;
        let residents = CpuSet::new(residents, self.cpus.len())?;
        for (_, word) in residents.words() {
            word.store(0, Ordering::Relaxed); // Relaxed: nobody else knows the space yet.
        }
        // Relaxed: a counter that only has to count. It stops for good at the last identifier.
        if self.latest_id.load(Ordering::Relaxed) >= LAST_ID - MAX_CPUS as u64 {
            return Err(Error::IdsExhausted);
        }
        let id = self.latest_id.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Space::new(root, id, residents))
    }

    /// The CPU that executes the call.
    ///
    /// # Errors
    ///
    /// [`Error::CpuOutOfRange`] if the platform names a CPU that has no storage.
    ///
    /// # Safety
    ///
    /// * Interrupts are off, and stay off until the returned value is gone.
    /// * The CPU has called [`Here::online`] since it came up, unless that is what comes next.
    #[inline]
    pub unsafe fn here(&self) -> Result<Here<'_, P, T>, Error> {
        let id = self.platform.cpu();
        match self.cpus.get(id.index()) {
            Some(cpu) => Ok(Here::new(self, cpu, id)),
            None => Err(Error::CpuOutOfRange { cpu: id, cpus: self.cpus.len() }),
        }
    }

    /// The CPUs that must pay `debt` before the flush is complete: they run the space, or are just
    /// beginning to. Every other CPU pays before it loads the root again.
    ///
    /// Call it after [`Space::owe`], and have each of them call [`Here::pay`].
    pub fn debtors(&self, space: &Space<'_, P>, debt: Debt) -> impl Iterator<Item = CpuId> {
        // F-OWE, in `Space::owe`, comes before these loads.
        space
            .residents
            .iter(Ordering::SeqCst) // ORDER O-DEBTORS (pairs with O-RESIDE): as F-OWE says.
            .filter(move |&cpu| T::must_pay_now(self, cpu, space, debt))
    }

    /// The platform.
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The strategy.
    pub const fn tags(&self) -> &T {
        &self.tags
    }

    /// The CPUs, up or not.
    pub const fn cpus(&self) -> &'a [Cpu<P, T>] {
        self.cpus
    }

    /// What must be worked around by every CPU because of any CPU.
    pub(crate) fn machine_errata(&self) -> Errata {
        Errata(self.errata.load(Ordering::Relaxed)) // Relaxed: see `admit`.
    }

    /// Admits a CPU and adds its errata to the machine's.
    pub(crate) fn admit(&self, features: &<P::Mmu as Mmu>::Features) -> Result<Errata, Error> {
        let errata = self.platform.mmu().admit(features)?;
        // Relaxed: the CPU runs no space yet. What it will run later is handed to it by other
        // means, which also make this visible to those who hand it over.
        self.errata.fetch_or(errata.0, Ordering::Relaxed);
        Ok(errata)
    }
}
