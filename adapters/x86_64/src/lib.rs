#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_debug_implementations)]

use core::fmt;

use lookaside::VaRange;
use lookaside_changes::Changes;
use x86_64::{
    VirtAddr,
    structures::paging::{
        FrameAllocator, FrameDeallocator, Mapper, Page, PageSize, PageTableFlags, PhysFrame,
        Size4KiB,
        mapper::{CleanUp, FlagUpdateError, MapToError, MapperFlush, MapperFlushAll, UnmapError},
        page::PageRangeInclusive,
    },
};

/// The flags of a parent that only allow more.
const ALLOW: PageTableFlags =
    PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::USER_ACCESSIBLE);

/// The binary logarithms of what an entry of each level maps, from the second.
const P2: u32 = 21;
const P3: u32 = 30;
const P4: u32 = 39;

/// A mapper of the crate `x86_64` whose changes are recorded: `changes` is a [`lookaside::Gather`] or a
/// [`lookaside::KernelGather`], which is begun before and flushed afterwards.
///
/// The methods are those of [`Mapper`] and [`CleanUp`], without what those return to be flushed or freed.
pub struct Recorded<M> {
    mapper: M,
}

impl<M> Recorded<M> {
    /// Records what is changed through `mapper` from now on.
    pub const fn new(mapper: M) -> Self {
        Self { mapper }
    }

    /// The mapper, for [`Translate`](x86_64::structures::paging::Translate).
    pub const fn mapper(&self) -> &M {
        &self.mapper
    }

    /// The mapper, whose changes nobody records any more.
    pub fn into_mapper(self) -> M {
        self.mapper
    }

    /// As [`Mapper::map_to`]: the page was not mapped, so that there is nothing to flush.
    /// [`lookaside::CurrentCpu::map`] comes next.
    ///
    /// # Errors
    ///
    /// As [`Mapper::map_to`].
    ///
    /// # Safety
    ///
    /// As for [`Mapper::map_to`].
    pub unsafe fn map_to<S: PageSize, A>(
        &mut self,
        page: Page<S>,
        frame: PhysFrame<S>,
        flags: PageTableFlags,
        frame_allocator: &mut A,
    ) -> Result<(), MapToError<S>>
    where
        M: Mapper<S>,
        A: FrameAllocator<Size4KiB> + ?Sized,
    {
        // SAFETY: the caller promises it. Parents get flags that only allow more.
        unsafe { self.mapper.map_to(page, frame, flags, frame_allocator) }.map(MapperFlush::ignore)
    }

    /// As [`Mapper::map_to_with_table_flags`]. If a flag for parents takes something away ([`PageTableFlags::NO_EXECUTE`]
    /// for example), all that they map may be concerned, and is recorded.
    ///
    /// # Errors
    ///
    /// As [`Mapper::map_to_with_table_flags`].
    ///
    /// # Safety
    ///
    /// As for [`Mapper::map_to_with_table_flags`].
    pub unsafe fn map_to_with_table_flags<S: PageSize, A>(
        &mut self,
        page: Page<S>,
        frame: PhysFrame<S>,
        flags: PageTableFlags,
        parent_table_flags: PageTableFlags,
        frame_allocator: &mut A,
        changes: &mut impl Changes,
    ) -> Result<(), MapToError<S>>
    where
        M: Mapper<S>,
        A: FrameAllocator<Size4KiB> + ?Sized,
    {
        if !ALLOW.contains(parent_table_flags) {
            // Also if this fails: flags of parents are changed on the way.
            unlink(around(page.start_address(), P4), changes);
        }
        // SAFETY: the caller promises it.
        let mapped = unsafe {
            self.mapper.map_to_with_table_flags(
                page,
                frame,
                flags,
                parent_table_flags,
                frame_allocator,
            )
        };
        mapped.map(MapperFlush::ignore)
    }

    /// As [`Mapper::unmap`]. The frame is held until the flush.
    ///
    /// # Errors
    ///
    /// As [`Mapper::unmap`].
    pub fn unmap<S: PageSize, C: Changes>(
        &mut self,
        page: Page<S>,
        changes: &mut C,
    ) -> Result<(), UnmapError>
    where
        M: Mapper<S>,
        C::Frames: Extend<PhysFrame<S>>,
    {
        let (frame, flush) = self.mapper.unmap(page)?;
        revoke(flush, changes);
        changes.hold_page(frame);
        Ok(())
    }

    /// As [`Mapper::update_flags`].
    ///
    /// # Errors
    ///
    /// As [`Mapper::update_flags`].
    ///
    /// # Safety
    ///
    /// As for [`Mapper::update_flags`].
    pub unsafe fn update_flags<S: PageSize>(
        &mut self,
        page: Page<S>,
        flags: PageTableFlags,
        changes: &mut impl Changes,
    ) -> Result<(), FlagUpdateError>
    where
        M: Mapper<S>,
    {
        // SAFETY: the caller promises it.
        let flush = unsafe { self.mapper.update_flags(page, flags)? };
        revoke(flush, changes);
        Ok(())
    }

    /// As [`Mapper::set_flags_p4_entry`].
    ///
    /// # Errors
    ///
    /// As [`Mapper::set_flags_p4_entry`].
    ///
    /// # Safety
    ///
    /// As for [`Mapper::set_flags_p4_entry`].
    pub unsafe fn set_flags_p4_entry<S: PageSize>(
        &mut self,
        page: Page<S>,
        flags: PageTableFlags,
        changes: &mut impl Changes,
    ) -> Result<(), FlagUpdateError>
    where
        M: Mapper<S>,
    {
        // SAFETY: the caller promises it.
        unsafe { self.mapper.set_flags_p4_entry(page, flags)? }.ignore();
        unlink(around(page.start_address(), P4), changes);
        Ok(())
    }

    /// As [`Mapper::set_flags_p3_entry`].
    ///
    /// # Errors
    ///
    /// As [`Mapper::set_flags_p3_entry`].
    ///
    /// # Safety
    ///
    /// As for [`Mapper::set_flags_p3_entry`].
    pub unsafe fn set_flags_p3_entry<S: PageSize>(
        &mut self,
        page: Page<S>,
        flags: PageTableFlags,
        changes: &mut impl Changes,
    ) -> Result<(), FlagUpdateError>
    where
        M: Mapper<S>,
    {
        // SAFETY: the caller promises it.
        unsafe { self.mapper.set_flags_p3_entry(page, flags)? }.ignore();
        unlink(around(page.start_address(), P3), changes);
        Ok(())
    }

    /// As [`Mapper::set_flags_p2_entry`].
    ///
    /// # Errors
    ///
    /// As [`Mapper::set_flags_p2_entry`].
    ///
    /// # Safety
    ///
    /// As for [`Mapper::set_flags_p2_entry`].
    pub unsafe fn set_flags_p2_entry<S: PageSize>(
        &mut self,
        page: Page<S>,
        flags: PageTableFlags,
        changes: &mut impl Changes,
    ) -> Result<(), FlagUpdateError>
    where
        M: Mapper<S>,
    {
        // SAFETY: the caller promises it.
        unsafe { self.mapper.set_flags_p2_entry(page, flags)? }.ignore();
        unlink(around(page.start_address(), P2), changes);
        Ok(())
    }

    /// As [`CleanUp::clean_up_addr_range`]. The tables are held until the flush.
    ///
    /// # Safety
    ///
    /// Each table that is empty belongs to the container of `changes`, and to nothing else.
    pub unsafe fn clean_up_addr_range<C: Changes>(
        &mut self,
        range: PageRangeInclusive,
        changes: &mut C,
    ) where
        M: CleanUp,
        C::Frames: Extend<PhysFrame>,
    {
        let (first, last) = (range.start.start_address(), range.end.start_address());
        let bytes = (last.as_u64() - first.as_u64()).saturating_add(Size4KiB::SIZE);
        // A table that is freed may have mapped more than this. All its entries were absent, though, and an
        // `INVLPG` of any address drops all that the PCID has in paging-structure caches (SDM vol. 3, 4.10.4.1).
        let mapped = VaRange::new(first.as_u64(), bytes, 12).ok();
        // SAFETY: the caller promises it.
        unsafe { self.mapper.clean_up_addr_range(range, &mut HoldTables { changes, mapped }) };
    }
}

/// Records what a token stands for that other code has got from a mapper. Its `flush` would be for this CPU alone.
pub fn revoke<S: PageSize>(flush: MapperFlush<S>, changes: &mut impl Changes) {
    let start = flush.page().start_address().as_u64();
    match VaRange::new(start, S::SIZE, S::SIZE.trailing_zeros()) {
        Ok(page) => changes.revoke(page),
        Err(_) => changes.revoke_everything(),
    }
    flush.ignore();
}

/// Records what a token stands for that names no address.
pub fn revoke_all(flush: MapperFlushAll, changes: &mut impl Changes) {
    changes.revoke_everything();
    flush.ignore();
}

/// The aligned range of `1 << shift` bytes that contains `address`, in the smallest pages.
fn around(address: VirtAddr, shift: u32) -> Option<VaRange> {
    VaRange::new(address.as_u64() & !((1 << shift) - 1), 1 << shift, 12).ok()
}

fn unlink(range: Option<VaRange>, changes: &mut impl Changes) {
    match range {
        Some(range) => changes.unlink_table(range),
        None => changes.revoke_everything(),
    }
}

/// Holds page tables that are freed.
struct HoldTables<'c, C> {
    changes: &'c mut C,
    /// What they mapped, if it is not everything.
    mapped: Option<VaRange>,
}

impl<C: Changes> FrameDeallocator<Size4KiB> for HoldTables<'_, C>
where
    C::Frames: Extend<PhysFrame>,
{
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame) {
        self.changes.hold_table(self.mapped, frame);
    }
}

impl<M> fmt::Debug for Recorded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded")
    }
}
