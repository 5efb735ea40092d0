//! One CPU: what its root register names, and what its ASID allocator keeps for it.

use core::fmt;

use crate::{
    arch::{Errata, Root, Sharing, Tag},
    ids::CpuId,
    platform::Platform,
    request::RequestQueue,
    residency::CpuBits,
    tlb::Tags,
    word::{Ordering, Word},
};

/// In [`Cpu::presence`]: all zero, as the storage is to begin with.
const OFFLINE: u64 = 0;
const ONLINE: u64 = 1;
const FOREIGN_ROOT: u64 = 2;

/// What the library keeps for one CPU. The kernel provides one for each CPU the machine can have.
///
/// All of it is zero to begin with, so that a static array of them can be made.
#[repr(C, align(128))]
pub struct Cpu<P: Platform, T: Tags<P> = crate::tags::Asids<'static, P>> {
    pub(crate) tags: T::Cpu,
    pub(crate) queue: RequestQueue<P::Word>,
    /// The table that the register names, to be loaded again after a foreign root. Private to the CPU.
    table: P::Word,
    /// The tag that the register names; initiators of flushes read it.
    tag: P::Word,
    errata: P::Word,
    /// Its number, which is its place among the CPUs of the `Tlb`.
    pub(crate) id: CpuId,
    /// Where spaces note this CPU's residency, by its number.
    pub(crate) bits: CpuBits,
    /// The same where TLBs are private, and that of no CPU where CPUs use each other's entries: no flush is only this CPU's there
    /// before more was looked at.
    pub(crate) private_bits: CpuBits,
    /// Nesting count; while it is not zero, `nmi_uaccess_okay` is false. Private to the CPU.
    nmi_uaccess_disables: P::Word,
    /// Whether the CPU is online, for itself (others ask the map of the `Tlb`), and whether it has a foreign root loaded: [`OFFLINE`],
    /// [`ONLINE`], [`FOREIGN_ROOT`].
    presence: P::Word,
    /// How many spurious faults this CPU has had, for [`crate::conformance`]. Private to the CPU.
    spurious_faults: P::Word,
}

impl<P: Platform, T: Tags<P>> Cpu<P, T> {
    /// A CPU that was never online.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tags: T::CPU,
            queue: RequestQueue::NEW,
            table: P::Word::ZERO,
            tag: P::Word::ZERO,
            errata: P::Word::ZERO,
            id: CpuId(0),
            bits: CpuBits::UNSET,
            private_bits: CpuBits::UNSET,
            nmi_uaccess_disables: P::Word::ZERO,
            presence: P::Word::ZERO,
            spurious_faults: P::Word::ZERO,
        }
    }

    /// Gives the CPU its number, on hardware whose CPUs share entries like this.
    pub(crate) const fn set_id(&mut self, id: CpuId, sharing: Sharing) {
        (self.id, self.bits) = (id, CpuBits::of(id));
        self.private_bits = match sharing {
            Sharing::Private => self.bits,
            Sharing::Shared => CpuBits::NONE,
        };
    }

    /// What the ASID allocator keeps for this CPU. For allocators, which look at other CPUs too.
    #[must_use]
    #[inline]
    pub const fn tags(&self) -> &T::Cpu {
        &self.tags
    }

    #[inline]
    pub(crate) fn errata(&self) -> Errata {
        Errata(self.errata.get())
    }

    pub(crate) fn set_errata(&self, errata: Errata) {
        self.errata.set(errata.0);
    }

    #[inline]
    pub(crate) fn loaded(&self) -> (Root, Tag) {
        (Root::new(self.table.get()), self.tag())
    }

    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        Tag(self.tag.load(Ordering::Relaxed) as u16) // Relaxed: this CPU's own word.
    }

    /// Whether the register names this tag, for the CPU itself.
    #[inline]
    pub(crate) fn names(&self, tag: Tag) -> bool {
        self.tag.load(Ordering::Relaxed) == u64::from(tag.0) // Relaxed: this CPU's own word.
    }

    /// Records the table that the register is about to name.
    #[inline]
    pub(crate) fn set_loaded_root(&self, root: Root) {
        self.table.set(root.table);
    }

    /// Records under which tag the register names its table from now on.
    #[inline]
    pub(crate) fn set_loaded_tag(&self, tag: Tag) {
        // ORDER O-LOADED-TAG (pairs with O-LOADED-TAG-READ): after the register was written. A reader knows then
        // that the register does not name what it named before.
        self.tag.store(u64::from(tag.0), Ordering::Release);
    }

    /// Records whether a foreign root is loaded ([`crate::CurrentCpu::with_root`]). For the CPU itself, which is online.
    pub(crate) fn set_foreign_root(&self, loaded: bool) {
        // Relaxed: as `set_online`.
        self.presence.store(if loaded { FOREIGN_ROOT } else { ONLINE }, Ordering::Relaxed);
    }

    /// Records whether the CPU is online, without a foreign root. For the CPU itself, and for another one if it has stopped.
    pub(crate) fn set_online(&self, online: bool) {
        // Relaxed: who clears that of a CPU which has stopped removes the CPU from the map afterwards, and it comes up later.
        self.presence.store(if online { ONLINE } else { OFFLINE }, Ordering::Relaxed);
    }

    /// Whether the calling CPU, which is this one, is online.
    #[inline]
    pub(crate) fn is_online(&self) -> bool {
        self.presence.load(Ordering::Relaxed) != OFFLINE // Relaxed: as `set_online`.
    }

    /// Whether the calling CPU, which is this one, is online and has no foreign root loaded.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.presence.load(Ordering::Relaxed) == ONLINE // Relaxed: as `set_online`.
    }

    /// Whether a foreign root is loaded.
    #[inline]
    pub(crate) fn has_foreign_root(&self) -> bool {
        self.presence.load(Ordering::Relaxed) == FOREIGN_ROOT // Relaxed: as `set_online`.
    }

    /// How many spurious faults this CPU has had.
    pub(crate) fn spurious_faults(&self) -> u64 {
        self.spurious_faults.get()
    }

    /// Counts one more.
    pub(crate) fn count_spurious_fault(&self) {
        self.spurious_faults.set(self.spurious_faults.get() + 1);
    }

    /// From here until [`Self::nmi_uaccess_enable`], `nmi_uaccess_okay` is false. Calls nest.
    pub(crate) fn nmi_uaccess_disable(&self) {
        self.nmi_uaccess_disables.set(self.nmi_uaccess_disables.get() + 1);
    }

    /// Ends what [`Self::nmi_uaccess_disable`] began.
    pub(crate) fn nmi_uaccess_enable(&self) {
        self.nmi_uaccess_disables.set(self.nmi_uaccess_disables.get() - 1);
    }

    /// Sets the nesting count to zero, for a CPU that comes up after it stopped at any place.
    pub(crate) fn nmi_uaccess_reset(&self) {
        self.nmi_uaccess_disables.set(0);
    }

    /// Whether an NMI must not access user memory.
    pub(crate) fn nmi_uaccess_disabled(&self) -> bool {
        self.nmi_uaccess_disables.get() != 0
    }

    /// The tag that the register of this CPU, seen from any CPU, names or has just ceased to name.
    pub(crate) fn loaded_tag(&self) -> Tag {
        // ORDER O-LOADED-TAG-READ (pairs with O-LOADED-TAG): as there.
        Tag(self.tag.load(Ordering::Acquire) as u16)
    }
}

impl<P: Platform, T: Tags<P>> Default for Cpu<P, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, T: Tags<P>> fmt::Debug for Cpu<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cpu")
            .field("tag", &self.tag())
            .field("errata", &self.errata())
            .field("nmi_uaccess_disabled", &self.nmi_uaccess_disabled())
            .finish_non_exhaustive()
    }
}
