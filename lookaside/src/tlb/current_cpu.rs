//! The CPU that runs this code, and what it can do: switch, go lazy, park, load a foreign root, come up and go
//! down.

use core::{fmt, marker::PhantomData};

use crate::{
    arch::{
        Errata, Held, Invalidation, KeptLoads, Mmu, Root, Scope, Sharing, TableChange, Tag, Wait,
        errata::AT_LOADS, foreign_tag,
    },
    counts::Event,
    error::Error,
    ids::{CpuId, TlbId},
    platform::Platform,
    range::VaRange,
    request::{FlushRanges, Mapped},
    residency::Residency,
    space::AddressSpace,
    tlb::{Cpu, Switched, Tags, Tlb},
};

/// The CPU that executes the code which holds this value, with interrupts off.
///
/// [`Tlb::this_cpu`] makes one. It cannot be sent to another thread and costs nothing to make, so make it where it
/// is needed.
pub struct CurrentCpu<'t, P: Platform, T: Tags<P> = crate::tags::Asids<'static, P>> {
    pub(crate) tlb: &'t Tlb<'t, P, T>,
    /// It knows its number. Two references are passed in registers, three values are not.
    pub(crate) cpu: &'t Cpu<P, T>,
    /// Another thread may be on another CPU.
    stays: PhantomData<*const ()>,
}

impl<'t, P: Platform, T: Tags<P>> CurrentCpu<'t, P, T> {
    #[inline]
    pub(crate) fn new(tlb: &'t Tlb<'t, P, T>, cpu: &'t Cpu<P, T>) -> Self {
        Self { tlb, cpu, stays: PhantomData }
    }

    /// The CPU that executes the call. The caller has a guard that keeps interrupts off for as long as it has this.
    #[inline]
    #[track_caller]
    pub(crate) fn executing(tlb: &'t Tlb<'t, P, T>) -> Self {
        debug_assert!(tlb.platform.irqs_are_off(), "interrupts are on");
        let id = tlb.platform.cpu();
        debug_assert!(tlb.cpus.get(id.index()).is_some_and(Cpu::is_online), "{id} is not online");
        // SAFETY: the implementer of `Platform` promises that this CPU has succeeded in `online`, which has found its
        // place, and that its number is still the same.
        let cpu = unsafe { tlb.cpus.get_unchecked(id.index()) };
        Self { tlb, cpu, stays: PhantomData }
    }

    /// A copy, for functions that are not inlined: see [`AllocatorCpu::copied`].
    #[inline]
    pub(crate) const fn by_value(&self) -> Self {
        Self { ..*self }
    }

    /// This CPU, as the ASID allocator may use it.
    #[inline]
    #[track_caller]
    pub(crate) fn for_allocator(&self) -> AllocatorCpu<'t, P, T> {
        debug_assert!(self.tlb.platform.cpu() == self.cpu.id, "the code is on another CPU by now");
        AllocatorCpu(Self { ..*self })
    }

    /// Makes this CPU run `next`: the context switch.
    ///
    /// The caller may return to user mode as soon as this returns; where user mode has a root or a tag of its own, after
    /// [`Self::kernel_root`] and [`Self::user_root`]. If [`Switched::root_changed`],
    /// the kernel's hardening of the branch predictor comes first.
    ///
    /// # Panics
    ///
    /// If the space is of another [`Tlb`], whose tags mean other spaces.
    #[doc(alias = "switch_mm_irqs_off")]
    #[doc(alias = "check_and_switch_context")]
    #[doc(alias = "pmap_activate")]
    #[inline]
    #[track_caller]
    pub fn switch(&self, next: &AddressSpace<P>) -> Switched {
        if !P::ONLY_TLB && next.tlb != self.tlb.id {
            return self.by_value().refuse_switch(next);
        }
        T::switch_in(&self.for_allocator(), next)
    }

    /// The panic of [`Self::switch`], in a function that returns as far as its caller knows: a switch then ends in
    /// another function or returns, and needs no frame on the stack.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse_switch(self, next: &AddressSpace<P>) -> Switched {
        self.must_own(next.tlb);
        Switched::Unchanged
    }

    /// Reports an event of this CPU to the kernel.
    #[inline]
    pub(crate) fn observe(&self, event: Event) {
        self.tlb.platform.observe(self.cpu.id, event);
    }

    /// Panics if something is of another [`Tlb`] than this CPU.
    #[inline]
    #[track_caller]
    pub(crate) fn must_own(&self, tlb: TlbId) {
        if !P::ONLY_TLB && tlb != self.tlb.id {
            belongs_to_another();
        }
    }

    /// Enters lazy TLB mode: this CPU runs kernel code for a while, idles for example, and uses no user
    /// translations. The root register stays as it is; switching back to the same space is free if nothing was
    /// flushed meanwhile. It may be called again, and on a CPU that is parked.
    ///
    /// Until the next [`Self::switch`] this CPU must do with what the reserved root maps: if it gets an IPI because
    /// a page table of the space is freed, [`Self::handle_ipi`] may park it, so that it gets no more of them.
    /// [`crate::PerCpuAsids`] does that. Switching back is then a switch as from any other space, and makes up for
    /// missed flushes.
    ///
    /// If the space is released, this CPU parks, too.
    #[doc(alias = "enter_lazy_tlb")]
    #[inline]
    pub fn lazy(&self) {
        T::lazy(&self.for_allocator());
    }

    /// Makes this CPU run no space: its root register names the reserved root, and its hardware starts no walk of
    /// user tables. All kernel-only contexts share this state, so that changing from one to another writes
    /// nothing.
    #[doc(alias = "leave_mm")]
    #[inline]
    pub fn park(&self) -> Switched {
        T::park(&self.for_allocator())
    }

    /// Calls `f` while the root register names a foreign root, of firmware's runtime services for example. No entry
    /// under that root is kept afterwards. If `f` panics, the register is restored before the panic goes on.
    ///
    /// The space that this CPU ran stays loaded as far as others can see: its tag is not given to another space, and
    /// flushes that arrive meanwhile are made up for on return. If the space is released meanwhile, or this CPU was lazy in
    /// it, the CPU may come back parked ([`Self::park`]) instead.
    ///
    /// Interrupts stay off, as the guard says that this value borrows. A kernel that has them on meanwhile calls
    /// [`Self::enter_root`], drops the guard, stays on this CPU, and takes another guard for [`Self::leave_root`].
    ///
    /// No flush reaches this CPU for what it holds under the foreign root, also if the tables are those of a space: until
    /// the end nothing under them is revoked, and none of them is freed.
    ///
    /// `f`, and the interrupt handlers that run meanwhile, call nothing of this library for this CPU but
    /// [`Self::handle_ipi`] and [`Tlb::nmi_uaccess_okay`]. The implementer of [`Platform`] promises both.
    ///
    /// # Errors
    ///
    /// [`Error::BadRoot`] if the root register cannot hold the root of `tables`; then `f` is not called.
    #[doc(alias = "efi_switch_mm")]
    #[doc(alias = "use_temporary_mm")]
    pub fn with_root<R>(&mut self, tables: &P::Tables, f: impl FnOnce() -> R) -> Result<R, Error> {
        // SAFETY: `ForeignRoot` ends it, also if `f` panics.
        unsafe { self.enter_root(tables)? };
        let foreign = ForeignRoot { this_cpu: self };
        let result = f();
        drop(foreign);
        Ok(result)
    }

    /// Begins what [`Self::with_root`] does around a closure, for kernels in languages that have none.
    /// [`Self::leave_root`] ends it. Nothing is remembered but what the library keeps for this CPU.
    ///
    /// # Errors
    ///
    /// [`Error::BadRoot`] if the root register cannot hold the root of `tables`; then nothing has begun.
    ///
    /// # Safety
    ///
    /// * No foreign root is loaded on this CPU ([`Self::has_foreign_root`]).
    /// * Nothing under `tables` is revoked, and none of them freed, before [`Self::leave_root`].
    /// * This CPU calls [`Self::leave_root`] before it returns to user mode, and before it goes on with the thread
    ///   that was interrupted if an interrupt handler has begun this.
    pub unsafe fn enter_root(&self, tables: &P::Tables) -> Result<(), Error> {
        let root = P::root_on(tables, self.id());
        self.mmu().check_root(root)?;
        self.nmi_uaccess_disable();
        self.mmu().settle();
        self.cpu.set_foreign_root(true);
        // SAFETY: it is the root of tables, and the caller has another one loaded at the end.
        unsafe { self.mmu().load_foreign(self.cpu.errata(), root) };
        Ok(())
    }

    /// Ends what [`Self::enter_root`] has begun: the register names again what it named before, or the reserved root if
    /// this CPU has left its space meanwhile.
    ///
    /// # Safety
    ///
    /// [`Self::enter_root`] has succeeded on this CPU, and was not ended yet.
    pub unsafe fn leave_root(&self) {
        self.cpu.set_foreign_root(false);
        T::restore_root(&self.for_allocator());
        let tag = foreign_tag(self.mmu().properties().tag_bits);
        if tag != Tag::RESERVED {
            // The caller may free the tables. The register names other ones by now, so that nothing of them comes back.
            self.mmu().flush(self.errata(), Invalidation::Tag(tag), Scope::Local);
        }
        self.nmi_uaccess_enable();
    }

    /// Whether a foreign root is loaded on this CPU.
    #[must_use]
    #[inline]
    pub fn has_foreign_root(&self) -> bool {
        self.cpu.has_foreign_root()
    }

    /// The root that this CPU has loaded, or [`Root::NONE`] if it is parked; while a foreign one is loaded, the root
    /// that comes after it.
    pub(crate) fn loaded_root(&self) -> Root {
        self.cpu.loaded().0
    }

    /// Which CPU this is.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> CpuId {
        self.cpu.id
    }

    /// The state of the machine.
    #[must_use]
    #[inline]
    pub const fn tlb(&self) -> &'t Tlb<'t, P, T> {
        self.tlb
    }

    /// What the ASID allocator keeps for this CPU.
    #[must_use]
    #[inline]
    pub const fn cpu(&self) -> &'t T::Cpu {
        &self.cpu.tags
    }

    /// The translation hardware.
    #[must_use]
    #[inline]
    pub fn mmu(&self) -> &'t P::Mmu {
        self.tlb.platform.mmu()
    }

    /// The errata that this CPU must work around: its own, and those of all others.
    #[must_use]
    #[inline]
    pub fn errata(&self) -> Errata {
        self.cpu.errata().union(self.tlb.machine_errata())
    }

    /// Whether this CPU is present in `space`, so that it has missed no flush. For ASID allocators: after they have
    /// published that the CPU switches to the space, and before they load the root. If not,
    /// [`AllocatorCpu::mark_present`] comes next.
    #[inline]
    #[must_use]
    pub fn is_present(&self, space: &AddressSpace<P>) -> bool {
        space.residents().is_present(self.cpu.bits)
    }

    /// From here until [`Self::nmi_uaccess_enable`], [`Tlb::nmi_uaccess_okay`] is false on this CPU. Calls nest.
    pub(crate) fn nmi_uaccess_disable(&self) {
        self.cpu.nmi_uaccess_disable();
    }

    /// Ends what [`Self::nmi_uaccess_disable`] began.
    pub(crate) fn nmi_uaccess_enable(&self) {
        self.cpu.nmi_uaccess_enable();
    }

    /// How many spurious faults this CPU has had.
    pub(crate) fn spurious_faults(&self) -> u64 {
        self.cpu.spurious_faults()
    }

    /// Counts one more.
    pub(crate) fn count_spurious_fault(&self) {
        self.cpu.count_spurious_fault();
    }

    /// The tag that the root register names.
    #[must_use]
    #[inline]
    pub fn tag(&self) -> Tag {
        self.cpu.tag()
    }

    /// Whether the root register names what the library has loaded. Finds code that writes the register behind the
    /// library's back.
    #[must_use]
    pub fn register_is_ours(&self) -> bool {
        let (root, tag) = self.cpu.loaded();
        tag == Tag::RESERVED || self.mmu().is_loaded(root, tag)
    }
}

/// This CPU, as its ASID allocator has it: all of [`CurrentCpu`], and two things that only the allocator may do,
/// which are to write the root register and to make the CPU present in a space.
///
/// The library makes one for each call of a method of [`Tags`], so that nothing else can call those methods.
pub struct AllocatorCpu<'t, P: Platform, T: Tags<P>>(CurrentCpu<'t, P, T>);

impl<'t, P: Platform, T: Tags<P>> core::ops::Deref for AllocatorCpu<'t, P, T> {
    type Target = CurrentCpu<'t, P, T>;

    #[inline]
    fn deref(&self) -> &CurrentCpu<'t, P, T> {
        &self.0
    }
}

impl<P: Platform, T: Tags<P>> AllocatorCpu<'_, P, T> {
    /// A copy, for functions that are not inlined: they take it by value, which is in registers. What they borrow
    /// would have to be in memory.
    #[inline]
    pub(crate) fn copied(&self) -> Self {
        self.0.for_allocator()
    }

    /// Makes this CPU present in `space`, and returns what its load of the root must do with entries that it
    /// holds under the tag.
    pub fn mark_present(&self, space: &AddressSpace<P>) -> Held {
        let was = space.residents().mark_present(self.id());
        let held = if was != Residency::Absent || space.absent_may_hold_entries() {
            Held::Drop
        } else {
            self.mmu().properties().first_load
        };
        // An initiator that has skipped this CPU has changed the tables before: walks from here on see that.
        self.mmu().publish(Wait::Now);
        held
    }

    /// What [`Self::load_kept`] writes on this CPU.
    pub(crate) fn kept_loads(&self) -> KeptLoads {
        let has_errata = self.cpu.errata().intersects(AT_LOADS);
        if has_errata { KeptLoads::None } else { self.mmu().properties().kept_loads }
    }

    /// [`Self::load`] of a space whose entries are kept, in place of another one. `writes` is [`Self::kept_loads`], as a constant.
    #[inline(always)]
    pub(crate) fn load_kept(&self, writes: KeptLoads, space: &AddressSpace<P>, tag: Tag) {
        let root = space.root_on(self.cpu.id);
        self.cpu.set_loaded_root(root);
        // SAFETY: as in `load`; two spaces have two tags.
        unsafe { self.mmu().load_kept(writes, root, tag) };
        self.cpu.set_loaded_tag(tag);
    }

    /// Loads the root of a space under a tag, and records what the register names.
    #[inline]
    pub fn load(&self, space: &AddressSpace<P>, tag: Tag, held: Held, sharing: Sharing) {
        let root = space.root_on(self.cpu.id);
        self.cpu.set_loaded_root(root);
        let errata = if P::Mmu::LOADS_HAVE_ERRATA { self.cpu.errata() } else { Errata::NONE };
        // SAFETY: roots of spaces are tables by `Platform`, and the allocator keeps only entries of the same space:
        // its implementer promises that.
        unsafe { self.mmu().load(errata, root, tag, held, sharing) };
        self.cpu.set_loaded_tag(tag);
    }

    /// Loads the root and tag again that [`Self::load`] loaded last. Neither loads a separate user table: the exit
    /// to user mode does.
    pub fn reload(&self, held: Held, sharing: Sharing) {
        let (root, tag) = self.cpu.loaded();
        // SAFETY: as above; this CPU never left the space as far as others can see.
        unsafe { self.mmu().load(self.cpu.errata(), root, tag, held, sharing) };
    }

    /// Removes `ranges` under a tag. `mapped` is what this CPU has mapped under it, where that is known.
    #[inline(always)] // Out of line, the ranges of a flush of one page would have to be in memory.
    pub(crate) fn flush_ranges(&self, tag: Tag, ranges: &FlushRanges, mapped: Option<&Mapped>) {
        match ranges.only_page() {
            Some(page) => self.invalidate_page(tag, page),
            None => ranges.flush_several(&self.tlb.platform, self.errata(), tag, mapped),
        }
    }

    /// Removes a page, and no table, under a tag.
    #[inline]
    pub(crate) fn invalidate_page(&self, tag: Tag, page: VaRange) {
        let pages = [page];
        let entries = Invalidation::ranges(tag, &pages, TableChange::LastLevel);
        let errata = if P::Mmu::PAGE_FLUSHES_HAVE_ERRATA { self.errata() } else { Errata::NONE };
        self.mmu().flush(errata, entries, Scope::Local);
    }

    /// Loads the reserved root; while a foreign root is loaded, at the end of that ([`Tags::restore_root`]).
    pub fn park_register(&self) {
        if !self.cpu.has_foreign_root() {
            self.mmu().park(self.cpu.errata());
        }
        self.record_parked();
    }

    /// As [`Self::park_register`] on a CPU that has no foreign root loaded, and drops what is held under the reserved tag.
    pub fn park_register_and_drop(&self) {
        self.mmu().park_and_drop(self.cpu.errata());
        self.record_parked();
    }

    /// Records that the register names the reserved root, or that it will after the foreign one.
    fn record_parked(&self) {
        self.cpu.set_loaded_root(Root::NONE);
        self.cpu.set_loaded_tag(Tag::RESERVED);
    }
}

#[cold]
#[track_caller]
fn belongs_to_another() -> ! {
    panic!("{}", Error::OtherTlb)
}

/// A foreign root is loaded. The drop restores the root of before; only [`CurrentCpu::with_root`] has such a value,
/// so that nothing can forget it.
struct ForeignRoot<'h, 't, P: Platform, T: Tags<P>> {
    this_cpu: &'h CurrentCpu<'t, P, T>,
}

impl<P: Platform, T: Tags<P>> Drop for ForeignRoot<'_, '_, P, T> {
    fn drop(&mut self) {
        // SAFETY: `with_root` has begun it, and makes one such value.
        unsafe { self.this_cpu.leave_root() };
    }
}

impl<P: Platform, T: Tags<P>> fmt::Debug for CurrentCpu<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCpu")
            .field("id", &self.id())
            .field("tag", &self.tag())
            .finish_non_exhaustive()
    }
}

impl<P: Platform, T: Tags<P>> fmt::Debug for AllocatorCpu<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AllocatorCpu").field(&self.0).finish()
    }
}
