// What the adapter needs of Redox's `rmm`, declared again: the same traits, and a mapper with one level of tables that
// frees an empty table when Redox's does.

use core::marker::PhantomData;
use std::collections::BTreeMap;

pub trait Arch {
    fn invalidate(address: usize);
}

/// This process has no TLB to tell.
pub enum Host {}

impl Arch for Host {
    fn invalidate(address: usize) {
        panic!("{address:#x} was flushed on one CPU");
    }
}

pub trait Flusher<A> {
    fn consume(&mut self, flush: PageFlush<A>);
}

#[must_use = "The page table must be flushed, or the changes unsafely ignored"]
pub struct PageFlush<A> {
    address: usize,
    arch: PhantomData<A>,
}

impl<A: Arch> PageFlush<A> {
    pub fn new(address: usize) -> Self {
        Self { address, arch: PhantomData }
    }

    pub fn flush(self) {
        A::invalidate(self.address);
    }

    /// # Safety
    ///
    /// The entry is flushed otherwise.
    pub unsafe fn ignore(self) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PhysicalAddress(pub usize);

#[derive(Clone, Copy, Debug)]
pub struct FrameCount(pub usize);

pub struct FrameUsage {
    pub used: usize,
}

/// # Safety
///
/// Each frame is given away once.
pub unsafe trait FrameAllocator {
    fn allocate(&mut self, count: FrameCount) -> Option<PhysicalAddress>;

    /// # Safety
    ///
    /// The frames were allocated, and nobody uses them.
    unsafe fn free(&mut self, address: PhysicalAddress, count: FrameCount);

    fn usage(&self) -> FrameUsage;
}

/// Tables of 512 pages each.
pub struct PageMapper<A, F> {
    tables: BTreeMap<usize, (PhysicalAddress, BTreeMap<usize, PhysicalAddress>)>,
    allocator: F,
    arch: PhantomData<A>,
}

impl<A: Arch, F: FrameAllocator> PageMapper<A, F> {
    pub fn new(allocator: F) -> Self {
        Self { tables: BTreeMap::new(), allocator, arch: PhantomData }
    }

    pub fn allocator_mut(&mut self) -> &mut F {
        &mut self.allocator
    }

    pub fn map_phys(&mut self, address: usize, frame: PhysicalAddress) -> Option<PageFlush<A>> {
        if !self.tables.contains_key(&(address >> 21)) {
            let table = self.allocator.allocate(FrameCount(1))?;
            self.tables.insert(address >> 21, (table, BTreeMap::new()));
        }
        self.tables.get_mut(&(address >> 21))?.1.insert(address >> 12, frame);
        Some(PageFlush::new(address))
    }

    pub fn unmap_phys(&mut self, address: usize) -> Option<(PhysicalAddress, PageFlush<A>)> {
        let (table, entries) = self.tables.get_mut(&(address >> 21))?;
        let frame = entries.remove(&(address >> 12))?;
        if entries.is_empty() {
            // SAFETY: as far as `rmm` knows.
            unsafe { self.allocator.free(*table, FrameCount(1)) };
            self.tables.remove(&(address >> 21));
        }
        Some((frame, PageFlush::new(address)))
    }
}
