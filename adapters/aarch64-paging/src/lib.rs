#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_debug_implementations)]

mod tables;

use core::{fmt, marker::PhantomData};

use aarch64_paging::{
    MapError, Mapping,
    descriptor::{
        Descriptor, PagingAttributes, PhysicalAddress, UpdatableDescriptor, VirtualAddress,
    },
    paging::{Constraints, MemoryRegion, Translation, TranslationRegime, VaRange as Half},
};
use bitflags::Flags as _;
use lookaside::VaRange;
use lookaside_changes::Changes;

use self::tables::Holding;
pub use self::tables::Table;

/// What has become free by a change, and comes out of the flush.
#[derive(Debug, PartialEq, Eq)]
pub enum Freed<A: PagingAttributes> {
    /// What a page or block descriptor mapped.
    Page {
        /// Its physical address.
        address: PhysicalAddress,
        /// Its size in bytes.
        bytes: usize,
    },
    /// A page table.
    Table(Table<A>),
}

/// The regime `R` without its instructions: changes are recorded where they are made, and the register is written by
/// [`lookaside::CurrentCpu::switch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded<R>(PhantomData<R>);

impl<R: TranslationRegime> TranslationRegime for Recorded<R> {
    type Attributes = R::Attributes;
    type Asid = R::Asid;
    type VaRange = R::VaRange;

    fn invalidate_va(_: VirtualAddress) {}

    /// Nobody has the mapping but [`LiveMapping`], which does not call this.
    unsafe fn activate(_: PhysicalAddress, _: R::Asid, _: R::VaRange) -> usize {
        usize::MAX
    }

    unsafe fn deactivate(_: usize, _: R::Asid, _: R::VaRange) {}
}

/// A [`Mapping`] that CPUs may use at any time, and that has no ASID of its own: [`lookaside::Tlb::space`] gives one.
///
/// Each change goes through `changes`: a [`lookaside::Gather`] of the space whose tables these are, or for the upper
/// half a [`lookaside::KernelGather`].
///
/// It frees its tables when it is dropped, so it is dropped after [`lookaside::CurrentCpu::release`].
pub struct LiveMapping<T, R>
where
    T: Translation<R::Attributes>,
    R: TranslationRegime<Asid = usize, VaRange = Half>,
{
    mapping: Mapping<Holding<T, R::Attributes>, Recorded<R>>,
}

impl<T, R> LiveMapping<T, R>
where
    T: Translation<R::Attributes>,
    R: TranslationRegime<Asid = usize, VaRange = Half>,
{
    /// As [`Mapping::with_asid_and_va_range`], without an ASID. The regime is [`El1And0`](aarch64_paging::paging::El1And0)
    /// or [`El2And0`](aarch64_paging::paging::El2And0).
    pub fn new(translation: T, root_level: usize, _: R, half: Half) -> Self {
        let (translation, regime) = (Holding::new(translation), Recorded(PhantomData));
        let mapping = Mapping::with_asid_and_va_range(translation, 0, root_level, regime, half);
        // So that break-before-make is checked.
        mapping.mark_active();
        Self { mapping }
    }

    /// The physical address of the root table, for [`lookaside::Platform::root`].
    pub fn root_address(&self) -> PhysicalAddress {
        self.mapping.root_address()
    }

    /// As [`Mapping::walk_range`].
    ///
    /// # Errors
    ///
    /// As [`Mapping::walk_range`].
    pub fn walk_range<F>(&self, range: &MemoryRegion, f: &mut F) -> Result<(), MapError>
    where
        F: FnMut(&MemoryRegion, &Descriptor<R::Attributes>, usize) -> Result<(), ()>,
    {
        self.mapping.walk_range(range, f)
    }

    /// As [`Mapping::map_range`]. [`lookaside::CurrentCpu::map`] comes next; there is something to flush only if part of
    /// the range was mapped before, with other permissions for example.
    ///
    /// To map something else there: [`Self::unmap_range`], flush, and then this.
    ///
    /// # Errors
    ///
    /// As [`Mapping::map_range`], and [`MapError::InvalidFlags`] if `flags` are not valid: they unmap, for which there is
    /// [`Self::unmap_range`].
    pub fn map_range(
        &mut self,
        range: &MemoryRegion,
        pa: PhysicalAddress,
        flags: R::Attributes,
        constraints: Constraints,
        changes: &mut impl Changes,
    ) -> Result<(), MapError> {
        if flags & R::Attributes::VALID != R::Attributes::VALID {
            return Err(MapError::InvalidFlags(flags.bits()));
        }
        let mut was_mapped = false;
        self.walk_range(range, &mut |_, descriptor, _| {
            was_mapped |= descriptor.is_valid();
            Ok(())
        })?;
        self.mapping.map_range(range, pa, flags, constraints)?;
        if was_mapped {
            revoke(range, changes);
        }
        Ok(())
    }

    /// Unmaps the range. What was mapped is held until the flush, and so are tables that are not needed any more.
    ///
    /// # Errors
    ///
    /// As [`Mapping::map_range`], and [`MapError::BreakBeforeMakeViolation`] if only a part of a block is in the range.
    /// Then nothing was changed.
    pub fn unmap_range<C: Changes>(
        &mut self,
        range: &MemoryRegion,
        changes: &mut C,
    ) -> Result<(), MapError>
    where
        C::Frames: Extend<Freed<R::Attributes>>,
    {
        self.refuse_parts_of_blocks(range)?;
        let mut pages = 0_u64;
        self.walk_range(range, &mut |_, descriptor, level| {
            if descriptor.is_valid() {
                let address = descriptor.output_address();
                changes.hold_page(Freed::Page { address, bytes: bytes_at(level) });
                pages += 1;
            }
            Ok(())
        })?;
        let nothing = R::Attributes::default();
        let unmapped =
            self.mapping.map_range(range, PhysicalAddress(0), nothing, Constraints::empty());
        // What the crate refuses, the walks above have refused: the pages are not mapped any more.
        assert_eq!(unmapped, Ok(()), "pages are held that are mapped still");
        self.hold_tables(range, changes);
        if pages > 0 {
            revoke(range, changes);
        }
        Ok(())
    }

    /// As [`Mapping::compact_subtables`]. The tables are held until the flush, which is then for all that the tables map.
    pub fn compact_subtables<C: Changes>(&mut self, changes: &mut C)
    where
        C::Frames: Extend<Freed<R::Attributes>>,
    {
        self.mapping.compact_subtables();
        for table in self.mapping.translation().take() {
            changes.hold_table(None, Freed::Table(table));
        }
    }

    /// Holds the tables that the last change has freed, all of which mapped addresses in `range`.
    fn hold_tables<C: Changes>(&self, range: &MemoryRegion, changes: &mut C)
    where
        C::Frames: Extend<Freed<R::Attributes>>,
    {
        for table in self.mapping.translation().take() {
            changes.hold_table(to_range(range), Freed::Table(table));
        }
    }

    /// Fails if the range has a part of a block that is mapped, and not all of it. The crate would split the block
    /// without a break in between if its updater leaves that part as it is.
    fn refuse_parts_of_blocks(&self, range: &MemoryRegion) -> Result<(), MapError> {
        let mut part = None;
        self.walk_range(range, &mut |region, descriptor, level| {
            if descriptor.is_valid() && region.len() != bytes_at(level) {
                part.get_or_insert_with(|| region.clone());
            }
            Ok(())
        })?;
        part.map_or(Ok(()), |region| Err(MapError::BreakBeforeMakeViolation(region)))
    }

    /// As [`Mapping::modify_range`].
    ///
    /// # Errors
    ///
    /// As [`Mapping::modify_range`], and [`MapError::BreakBeforeMakeViolation`] if only a part of a block is in the range.
    /// If the updater fails, what it has changed before is recorded.
    pub fn modify_range<F>(
        &mut self,
        range: &MemoryRegion,
        f: &F,
        changes: &mut impl Changes,
    ) -> Result<(), MapError>
    where
        F: Fn(&MemoryRegion, &mut UpdatableDescriptor<R::Attributes>) -> Result<(), ()> + ?Sized,
    {
        self.refuse_parts_of_blocks(range)?;
        revoke(range, changes);
        self.mapping.modify_range(range, f)
    }
}

impl<T, R> Drop for LiveMapping<T, R>
where
    T: Translation<R::Attributes>,
    R: TranslationRegime<Asid = usize, VaRange = Half>,
{
    fn drop(&mut self) {
        self.mapping.translation().hold_no_more();
        self.mapping.mark_inactive();
    }
}

impl<T, R> fmt::Debug for LiveMapping<T, R>
where
    T: Translation<R::Attributes>,
    R: TranslationRegime<Asid = usize, VaRange = Half>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveMapping").field(&self.root_address()).finish()
    }
}

/// What a descriptor of this level maps.
const fn bytes_at(level: usize) -> usize {
    4096 << (9 * (3 - level))
}

fn to_range(region: &MemoryRegion) -> Option<VaRange> {
    VaRange::new(region.start().0 as u64, region.len() as u64, 12).ok()
}

/// Descriptors of several sizes may be concerned.
fn revoke(region: &MemoryRegion, changes: &mut impl Changes) {
    match to_range(region) {
        Some(range) => changes.revoke_mixed(range),
        None if region.is_empty() => {}
        None => changes.revoke_everything(),
    }
}
