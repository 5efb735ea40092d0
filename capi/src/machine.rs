//! The functions of the header, over any instance.

use core::{
    ffi::c_int,
    fmt,
    mem::{align_of, size_of},
};

use lookaside::{
    AddressSpace, CurrentCpu, Platform, Tlb, VaRange,
    arch::{Mmu, Root, errata::BREAK_BEFORE_NO_EXECUTE},
    flush::Permissions,
    platform::CpuId,
    tags::Tags,
};

use crate::{
    batch::Batch,
    cpus::MAX_CPUS,
    error::{Refused, Reply, number},
    flush::{Ranges, Wait, is_one_page},
    instance::{Instance, Pins},
    layout::{batch_words, space_words, wait_words},
    space::Space,
};

type Features<I> = <<<I as Instance>::Platform as Platform>::Mmu as Mmu>::Features;

/// What `lookaside_init` makes. Each method is the function of the header that has its name after `lookaside_`; the header
/// says what it does, what it is called with, and what it returns.
///
/// # Safety
///
/// That of all unsafe methods: a pointer is null or of a struct that the header gives it, which is the caller's and
/// exists; and the caller does what the header says, in particular *Memory* at its head.
pub struct Machine<I: Instance> {
    tlb: Tlb<'static, I::Platform, I::Tags>,
}

/// `struct lookaside_roots`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Roots {
    /// At the exit to user mode.
    pub user: u64,
    /// At the next trap.
    pub kernel: u64,
}

impl<I: Instance> Machine<I> {
    /// The structs of the header have room for what lies in them. For instances whose words of residency lie in the
    /// space. Another compiler may lay out a struct of Rust in another way, so a little room may be left.
    pub const FITS: () = {
        assert!(size_of::<Space<I>>() <= 8 * space_words(MAX_CPUS), "LOOKASIDE_SPACE_WORDS");
        assert!(size_of::<Wait<I>>() <= 8 * wait_words(), "LOOKASIDE_WAIT_WORDS");
        assert!(size_of::<Batch<I>>() <= 8 * batch_words(MAX_CPUS), "LOOKASIDE_BATCH_WORDS");
        assert!(align_of::<Space<I>>() == 8, "the alignment of lookaside_space");
        assert!(align_of::<Wait<I>>() == 8, "the alignment of lookaside_wait");
        assert!(align_of::<Batch<I>>() == 8, "the alignment of lookaside_batch");
    };

    /// The machine of this state.
    pub const fn new(tlb: Tlb<'static, I::Platform, I::Tags>) -> Self {
        Self { tlb }
    }

    /// The library's state.
    pub const fn tlb(&self) -> &Tlb<'static, I::Platform, I::Tags> {
        &self.tlb
    }

    /// The CPU that executes the call, if it may call anything but `handle_ipi`.
    pub(crate) fn this_cpu(
        &'static self,
    ) -> Result<CurrentCpu<'static, I::Platform, I::Tags>, Refused> {
        let this_cpu = self.this_cpu_anyhow()?;
        if this_cpu.has_foreign_root() { Err(Refused::Root) } else { Ok(this_cpu) }
    }

    /// As [`Self::this_cpu`], while a foreign root is loaded, too.
    fn this_cpu_anyhow(
        &'static self,
    ) -> Result<CurrentCpu<'static, I::Platform, I::Tags>, Refused> {
        let platform = self.tlb.platform();
        if !platform.irqs_are_off() {
            return Err(Refused::Irqs);
        }
        self.tlb.this_cpu_if_online(&()).ok_or(Refused::Offline)
    }

    /// Why this CPU may not call.
    #[cold]
    pub(crate) fn refuse_cpu(&'static self) -> c_int {
        number(self.this_cpu().and(Err(Refused::Offline)))
    }

    /// `lookaside_online`.
    pub fn online(&'static self, features: &Features<I>) -> c_int {
        number(self.online_or_refuse(features))
    }

    fn online_or_refuse(&'static self, features: &Features<I>) -> Reply {
        if !self.tlb.platform().irqs_are_off() {
            return Err(Refused::Irqs);
        }
        self.tlb.online(&(), features)?;
        Ok(c_int::from(self.tlb.errata().contains(BREAK_BEFORE_NO_EXECUTE)))
    }

    /// `lookaside_offline`.
    pub fn offline(&'static self) -> c_int {
        number(self.this_cpu().map(|this_cpu| {
            this_cpu.offline();
            0
        }))
    }

    /// `lookaside_stopped`.
    pub fn stopped(&'static self, cpu: u32) -> c_int {
        if !self.tlb.platform().irqs_are_off() {
            return number(Err(Refused::Irqs));
        }
        number(self.tlb.stopped(&(), CpuId(cpu)).map(|()| 0).map_err(Refused::from))
    }

    /// `lookaside_space_init`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn space_init(
        &'static self,
        space: *mut Space<I>,
        root: u64,
        user_root: u64,
    ) -> c_int {
        let tables =
            Root { table: root, user_table: if user_root == 0 { root } else { user_root } };
        let made = self.tlb.space(tables, I::resident_words()).map_err(Refused::from);
        // SAFETY: the caller promises it.
        number(made.and_then(|made| unsafe { Space::put(space, made) }).map(|()| 0))
    }

    /// `lookaside_space_release`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn space_release(&'static self, space: *mut Space<I>) -> c_int {
        // SAFETY: the caller promises it.
        number(unsafe { self.space_release_or_refuse(space) })
    }

    unsafe fn space_release_or_refuse(&'static self, space: *mut Space<I>) -> Reply {
        let this_cpu = self.this_cpu()?;
        // SAFETY: the caller promises it.
        let used = unsafe { Space::at(space)? };
        if I::Tags::is_pinned(used) {
            return Err(Refused::Pinned);
        }
        let root = used.root();
        // SAFETY: the caller promises that nobody else uses it.
        let _ = unsafe { Space::take(space, |space| this_cpu.release(space)) }?;
        I::root_freed(self.tlb.platform().mmu(), root);
        Ok(0)
    }

    /// `lookaside_switch`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn switch(&'static self, space: *mut Space<I>, cpu: u32) -> c_int {
        // SAFETY: the caller promises it.
        match unsafe { Space::at(space) } {
            // SAFETY: the caller promises it.
            Ok(space) => unsafe { self.switch_to(space, cpu) },
            Err(_) => self.refuse_space(),
        }
    }

    /// As [`Self::switch`], to a space that is in use.
    ///
    /// # Safety
    ///
    /// The CPU that executes the call has this number.
    #[inline]
    pub(crate) unsafe fn switch_to(
        &'static self,
        space: &'static AddressSpace<I::Platform>,
        cpu: u32,
    ) -> c_int {
        // What has to be asked of the kernel is asked elsewhere: here all is in registers that no call has to leave alone.
        if !I::irqs_are_surely_off(self.tlb.platform()) {
            return self.switch_slowly(space);
        }
        // SAFETY: the caller says so.
        match unsafe { self.tlb.numbered_cpu_if_free(&(), CpuId(cpu)) } {
            // `enum lookaside_switched` has the library's order.
            Some(this_cpu) => this_cpu.switch(space) as c_int,
            None => self.refuse_cpu(),
        }
    }

    /// As [`Self::switch_to`], where it is not certain that interrupts are off; or refuses.
    #[cold]
    fn switch_slowly(&'static self, space: &'static AddressSpace<I::Platform>) -> c_int {
        number(self.this_cpu().map(|this_cpu| this_cpu.switch(space) as c_int))
    }

    /// What a function returns that is called with no space, or a worse reason to refuse it.
    #[cold]
    pub(crate) fn refuse_space(&'static self) -> c_int {
        number(self.this_cpu().and(Err(Refused::Space)))
    }

    /// `lookaside_lazy`.
    pub fn lazy(&'static self) -> c_int {
        number(self.this_cpu().map(|this_cpu| {
            this_cpu.lazy();
            0
        }))
    }

    /// `lookaside_park`.
    pub fn park(&'static self) -> c_int {
        number(self.this_cpu().map(|this_cpu| {
            let _ = this_cpu.park();
            0
        }))
    }

    /// `lookaside_root_begin`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn root_begin(&'static self, root: u64) -> c_int {
        number(self.this_cpu().and_then(|this_cpu| {
            // SAFETY: no foreign root is loaded, and the caller ends it.
            unsafe { this_cpu.enter_root(&Root::new(root)) }.map(|()| 0).map_err(Refused::from)
        }))
    }

    /// `lookaside_root_end`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn root_end(&'static self) -> c_int {
        let begun = |this_cpu: &CurrentCpu<'static, I::Platform, I::Tags>| {
            this_cpu.has_foreign_root().then_some(()).ok_or(Refused::Root)
        };
        number(self.this_cpu_anyhow().and_then(|this_cpu| {
            begun(&this_cpu)?;
            // SAFETY: it was begun.
            unsafe { this_cpu.leave_root() };
            Ok(0)
        }))
    }

    /// `lookaside_user_roots`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn user_roots(&'static self, space: *mut Space<I>, roots: *mut Roots) -> c_int {
        // SAFETY: the caller promises it.
        number(unsafe { self.user_roots_or_refuse(space, roots) })
    }

    unsafe fn user_roots_or_refuse(
        &'static self,
        space: *mut Space<I>,
        roots: *mut Roots,
    ) -> Reply {
        let this_cpu = self.this_cpu()?;
        // SAFETY: the caller promises it.
        let space = unsafe { Space::at(space)? };
        if roots.is_null() {
            this_cpu.cancel_exit();
            return Ok(0);
        }
        if !roots.is_aligned() {
            return Err(Refused::Argument);
        }
        // The user's comes last: its load may be a flush.
        let kernel = this_cpu.kernel_root(space);
        let user = this_cpu.user_root(space);
        // SAFETY: the caller's memory.
        unsafe { roots.write(Roots { user, kernel }) };
        Ok((user != kernel && I::trampoline_fences(self.tlb.platform().mmu())).into())
    }

    /// `lookaside_flush_range`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn flush_range(
        &'static self,
        space: *mut Space<I>,
        start: u64,
        bytes: u64,
        shift: u32,
        kind: u32,
        wait: *mut Wait<I>,
    ) -> c_int {
        if is_one_page(start, bytes, shift) {
            let cpu = self.tlb.platform().cpu();
            // SAFETY: the caller promises it; the kernel says which CPU this is.
            return unsafe { self.flush_page(space, start, kind, cpu.0, wait) };
        }
        // SAFETY: the caller promises it.
        unsafe { self.flush_ranges_of(space, (start, bytes, shift, kind), wait) }
    }

    /// `lookaside_flush_page`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn flush_page(
        &'static self,
        space: *mut Space<I>,
        address: u64,
        kind: u32,
        cpu: u32,
        wait: *mut Wait<I>,
    ) -> c_int {
        // SAFETY: the caller promises it, and to release the space after the wait.
        match unsafe { Space::at(space) } {
            // SAFETY: the caller promises it.
            Ok(space) => unsafe { self.flush_page_of(space, address, kind, cpu, wait) },
            Err(_) => self.refuse_space(),
        }
    }

    /// `lookaside_flush_kernel`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn flush_kernel(
        &'static self,
        start: u64,
        bytes: u64,
        shift: u32,
        kind: u32,
        wait: *mut Wait<I>,
    ) -> c_int {
        let ranges = Ranges::new(start, bytes, shift, kind);
        // SAFETY: the caller promises it.
        number(unsafe { self.flush_kernel_or_refuse(ranges, wait) })
    }

    /// `lookaside_wait`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn wait(&'static self, wait: *mut Wait<I>) -> c_int {
        // SAFETY: the caller promises it.
        number(unsafe { self.wait_or_refuse(wait) })
    }

    /// `lookaside_batch_add`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn batch_add(
        &'static self,
        batch: *mut Batch<I>,
        space: *mut Space<I>,
        start: u64,
        bytes: u64,
        shift: u32,
        kind: u32,
    ) -> c_int {
        let ranges = Ranges::new(start, bytes, shift, kind);
        // SAFETY: the caller promises it.
        number(unsafe { self.batch_add_or_refuse(batch, space, ranges) })
    }

    /// `lookaside_batch_flush`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn batch_flush(&'static self, batch: *mut Batch<I>) -> c_int {
        // SAFETY: the caller promises it.
        number(unsafe { self.batch_flush_or_refuse(batch) })
    }

    /// `lookaside_map`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn map(
        &'static self,
        space: *mut Space<I>,
        start: u64,
        bytes: u64,
        shift: u32,
        event: u32,
    ) -> c_int {
        // SAFETY: the caller promises it.
        number(unsafe { self.map_or_refuse(space, Ranges::new(start, bytes, shift, 0), event) })
    }

    unsafe fn map_or_refuse(
        &'static self,
        space: *mut Space<I>,
        ranges: Result<Ranges, Refused>,
        event: u32,
    ) -> Reply {
        let this_cpu = self.this_cpu()?;
        let range: VaRange = match ranges? {
            Ranges::Nothing => return Ok(0),
            Ranges::Everything => return Err(Refused::Range),
            Ranges::Some(range, _) => range,
        };
        match (space.is_null(), event) {
            (true, 0) => this_cpu.map_kernel(range),
            // SAFETY: the caller promises it.
            (false, 0) => this_cpu.map(unsafe { Space::at(space)? }, range),
            (false, 1) => {
                // The caller has compared the access with the entry.
                let any = Permissions::default();
                // SAFETY: the caller promises it.
                let _ = this_cpu.spurious_fault(unsafe { Space::at(space)? }, range, any, any);
            }
            _ => return Err(Refused::Argument),
        }
        Ok(0)
    }

    /// `lookaside_handle_ipi`.
    pub fn handle_ipi(&'static self) -> c_int {
        number(self.this_cpu_anyhow().map(|this_cpu| {
            this_cpu.handle_ipi();
            0
        }))
    }

    /// `lookaside_nmi_uaccess_okay`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn nmi_uaccess_okay(&'static self, space: *mut Space<I>) -> bool {
        // SAFETY: the caller promises it.
        let space = unsafe { Space::at(space) };
        space.is_ok_and(|space| self.tlb.nmi_uaccess_okay(space))
    }

    /// `lookaside_pin`.
    ///
    /// # Safety
    ///
    /// That of [`Machine`].
    pub unsafe fn pin(&'static self, space: *mut Space<I>, pinned: bool) -> c_int {
        number(self.this_cpu().and_then(|this_cpu| {
            // SAFETY: the caller promises it.
            let space = unsafe { Space::at(space)? };
            if !pinned {
                return Ok(I::Tags::unpin(&this_cpu, space).map(|()| 0)?);
            }
            let tag = I::Tags::pin(&this_cpu, space)?;
            Ok(I::user_asid(self.tlb.platform().mmu(), tag).into())
        }))
    }
}

impl<I: Instance> fmt::Debug for Machine<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("tlb", &self.tlb).finish()
    }
}
