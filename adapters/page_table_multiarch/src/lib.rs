#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_debug_implementations)]

use core::{fmt, marker::PhantomData, ops::Deref};

use lookaside::VaRange;
use lookaside_changes::Changes;
use memory_addr::PhysAddr;
use page_table_multiarch::{
    GenericPTE, MappingFlags, PageSize, PageTable64, PageTable64Cursor, PagingError, PagingHandler,
    PagingMetaData, PagingResult,
};

/// A mapping that was removed: its frames, which are free when they come out of the flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmapped {
    /// The physical address.
    pub frame: PhysAddr,
    /// How large it is.
    pub size: PageSize,
}

/// The metadata `M`, whose changes are recorded where they are made, so that its cursor flushes nothing.
pub struct Recorded<M>(PhantomData<fn() -> M>);

impl<M: PagingMetaData> PagingMetaData for Recorded<M> {
    const LEVELS: usize = M::LEVELS;
    const PA_MAX_BITS: usize = M::PA_MAX_BITS;
    const VA_MAX_BITS: usize = M::VA_MAX_BITS;
    const PA_MAX_ADDR: usize = M::PA_MAX_ADDR;

    type VirtAddr = M::VirtAddr;

    fn paddr_is_valid(paddr: usize) -> bool {
        M::paddr_is_valid(paddr)
    }

    fn vaddr_is_valid(vaddr: usize) -> bool {
        M::vaddr_is_valid(vaddr)
    }

    /// [`Cursor`] has recorded it in a gather.
    fn flush_tlb(_: Option<M::VirtAddr>) {}
}

/// The table inside [`PageTable`].
pub type Inner<M, PTE, H> = PageTable64<Recorded<M>, PTE, H>;

/// A [`PageTable64`] that is changed through a [`Cursor`] only. What reads it ([`PageTable64::query`], `walk`,
/// `root_paddr`) is there by `Deref`.
pub struct PageTable<M: PagingMetaData, PTE: GenericPTE, H: PagingHandler>(Inner<M, PTE, H>);

impl<M: PagingMetaData, PTE: GenericPTE, H: PagingHandler> PageTable<M, PTE, H> {
    /// As [`PageTable64::try_new`].
    ///
    /// # Errors
    ///
    /// As [`PageTable64::try_new`].
    pub fn try_new() -> PagingResult<Self> {
        PageTable64::try_new().map(Self)
    }

    /// A table that no CPU has used yet. Until then it may be changed in any way: there is nothing to flush.
    pub const fn before_first_use(table: Inner<M, PTE, H>) -> Self {
        Self(table)
    }

    /// Begins to change the table, and records the changes. `changes` is a [`lookaside::Gather`] of the space whose
    /// table this is, or a [`lookaside::KernelGather`].
    pub fn cursor<'c, C: Changes>(&'c mut self, changes: &'c mut C) -> Cursor<'c, M, PTE, H, C> {
        Cursor { cursor: self.0.cursor(), changes }
    }
}

impl<M: PagingMetaData, PTE: GenericPTE, H: PagingHandler> Deref for PageTable<M, PTE, H> {
    type Target = Inner<M, PTE, H>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Changes a [`PageTable`], and records each change before the call returns.
///
/// The methods are those of [`PageTable64Cursor`], but for `remap` and `copy_from`.
pub struct Cursor<'c, M: PagingMetaData, PTE: GenericPTE, H: PagingHandler, C> {
    cursor: PageTable64Cursor<'c, Recorded<M>, PTE, H>,
    changes: &'c mut C,
}

impl<M: PagingMetaData, PTE: GenericPTE, H: PagingHandler, C: Changes> Cursor<'_, M, PTE, H, C> {
    /// As [`PageTable64Cursor::map`]: the page was not mapped, so that there is nothing to flush.
    /// [`lookaside::CurrentCpu::map`] comes next.
    ///
    /// If something else was mapped there, it was unmapped by a gather that is *flushed*.
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::map`].
    pub fn map(
        &mut self,
        vaddr: M::VirtAddr,
        target: PhysAddr,
        page_size: PageSize,
        flags: MappingFlags,
    ) -> PagingResult {
        self.cursor.map(vaddr, target, page_size, flags)
    }

    /// As [`PageTable64Cursor::map_region`], with what [`Self::map`] says.
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::map_region`].
    pub fn map_region(
        &mut self,
        vaddr: M::VirtAddr,
        get_paddr: impl Fn(M::VirtAddr) -> PhysAddr,
        size: usize,
        flags: MappingFlags,
        allow_huge: bool,
    ) -> PagingResult {
        self.cursor.map_region(vaddr, get_paddr, size, flags, allow_huge)
    }

    /// As [`PageTable64Cursor::protect`].
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::protect`].
    pub fn protect(&mut self, vaddr: M::VirtAddr, flags: MappingFlags) -> PagingResult<PageSize> {
        let size = self.cursor.protect(vaddr, flags)?;
        self.revoke(vaddr, size);
        Ok(size)
    }

    /// As [`PageTable64Cursor::protect_region`].
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::protect_region`].
    pub fn protect_region(
        &mut self,
        vaddr: M::VirtAddr,
        size: usize,
        flags: MappingFlags,
    ) -> PagingResult {
        if size == 0 {
            return Ok(());
        }
        // Also if this fails: it changes one entry after the other.
        match VaRange::new(to_u64(vaddr.into()), to_u64(size), 12) {
            Ok(range) => self.changes.revoke_mixed(range),
            Err(_) => return Err(PagingError::NotAligned),
        }
        self.cursor.protect_region(vaddr, size, flags)
    }

    /// As [`PageTable64Cursor::unmap`]. The frame is held until the flush.
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::unmap`].
    pub fn unmap(&mut self, vaddr: M::VirtAddr) -> PagingResult<(MappingFlags, PageSize)>
    where
        C::Frames: Extend<Unmapped>,
    {
        let (frame, flags, size) = self.cursor.unmap(vaddr)?;
        self.revoke(vaddr, size);
        self.changes.hold_page(Unmapped { frame, size });
        Ok((flags, size))
    }

    /// As [`Self::unmap`], where the frame is not the kernel's to free: a device's registers for example. Nothing is
    /// held.
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::unmap`].
    pub fn unmap_borrowed(&mut self, vaddr: M::VirtAddr) -> PagingResult<(MappingFlags, PageSize)> {
        let (_, flags, size) = self.cursor.unmap(vaddr)?;
        self.revoke(vaddr, size);
        Ok((flags, size))
    }

    /// As [`PageTable64Cursor::unmap_region`], by [`Self::unmap`].
    ///
    /// # Errors
    ///
    /// As [`PageTable64Cursor::unmap_region`], and [`PagingError::MappedToHugePage`] if a block is larger than what is
    /// left of the region. What was unmapped before is recorded.
    pub fn unmap_region(&mut self, vaddr: M::VirtAddr, size: usize) -> PagingResult
    where
        C::Frames: Extend<Unmapped>,
    {
        self.for_each_page(vaddr, size, |this, page| this.unmap(page).map(|(_, size)| size))
    }

    /// As [`Self::unmap_region`], by [`Self::unmap_borrowed`].
    ///
    /// # Errors
    ///
    /// As [`Self::unmap_region`].
    pub fn unmap_borrowed_region(&mut self, vaddr: M::VirtAddr, size: usize) -> PagingResult {
        self.for_each_page(vaddr, size, |this, page| {
            this.unmap_borrowed(page).map(|(_, size)| size)
        })
    }

    fn for_each_page(
        &mut self,
        vaddr: M::VirtAddr,
        size: usize,
        mut work: impl FnMut(&mut Self, M::VirtAddr) -> PagingResult<PageSize>,
    ) -> PagingResult {
        let (mut at, mut left): (usize, usize) = (vaddr.into(), size);
        while left > 0 {
            // Asked first: a block of which only a part is in the region stays mapped.
            let (_, _, size) = self.cursor.query(at.into())?;
            if !size.is_aligned(at) || size as usize > left {
                return Err(PagingError::MappedToHugePage);
            }
            let done = work(self, at.into())? as usize;
            (at, left) = (at.wrapping_add(done), left - done);
        }
        Ok(())
    }

    /// Records the entry of this size that maps `vaddr`.
    fn revoke(&mut self, vaddr: M::VirtAddr, size: PageSize) {
        let (address, size): (usize, usize) = (vaddr.into(), size as usize);
        let start = to_u64(address & !(size - 1));
        match VaRange::new(start, to_u64(size), size.trailing_zeros()) {
            Ok(page) => self.changes.revoke(page),
            Err(_) => self.changes.revoke_everything(),
        }
    }
}

/// Addresses have at most 64 bits.
const fn to_u64(value: usize) -> u64 {
    value as u64
}

impl<M> fmt::Debug for Recorded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded")
    }
}

impl<M: PagingMetaData, PTE: GenericPTE, H: PagingHandler> fmt::Debug for PageTable<M, PTE, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageTable").field(&self.0.root_paddr()).finish()
    }
}

impl<M: PagingMetaData, PTE: GenericPTE, H: PagingHandler, C> fmt::Debug
    for Cursor<'_, M, PTE, H, C>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}
