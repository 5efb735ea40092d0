//! Page tables that were unlinked, while CPUs may still walk them.

use core::{
    iter, mem,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use aarch64_paging::{
    descriptor::{PagingAttributes, PhysicalAddress},
    paging::{PageTable, Translation},
};

/// A page table that nothing refers to any more. It comes out of the flush.
#[derive(Debug, PartialEq, Eq)]
pub struct Table<A: PagingAttributes>(NonNull<PageTable<A>>);

impl<A: PagingAttributes> Table<A> {
    /// The memory of the table, which [`Translation::allocate_table`] has allocated. A [`Translation`] of the same kind
    /// frees it.
    #[must_use]
    pub fn into_raw(self) -> NonNull<PageTable<A>> {
        self.0
    }
}

// SAFETY: whoever has it is the only one to use the memory.
unsafe impl<A: PagingAttributes> Send for Table<A> {}

/// The translation `T`, whose tables are not freed but put aside.
pub(crate) struct Holding<T, A: PagingAttributes> {
    inner: T,
    /// The tables, linked through their first descriptors. A pointer to a table is a multiple of 4096, so that a CPU
    /// which still walks one finds an invalid descriptor there.
    tables: AtomicPtr<PageTable<A>>,
    ends: AtomicBool,
}

impl<T, A: PagingAttributes> Holding<T, A> {
    pub(crate) const fn new(inner: T) -> Self {
        let tables = AtomicPtr::new(ptr::null_mut());
        Self { inner, tables, ends: AtomicBool::new(false) }
    }

    /// From now on tables are freed at once: no CPU walks them any more.
    pub(crate) fn hold_no_more(&self) {
        self.ends.store(true, Ordering::Relaxed); // Relaxed: the caller has the mapping alone.
    }

    /// Takes the tables that were put aside.
    pub(crate) fn take(&self) -> impl Iterator<Item = Table<A>> {
        // Relaxed, here and below: whoever changes the mapping has it alone.
        let mut next = self.tables.swap(ptr::null_mut(), Ordering::Relaxed);
        iter::from_fn(move || {
            let table = NonNull::new(next)?;
            // SAFETY: a table, which `deallocate_table` has put here, and nobody else has.
            next = unsafe { link(table) }.swap(ptr::null_mut(), Ordering::Relaxed);
            Some(Table(table))
        })
    }
}

/// The first descriptor of a table, as a link.
///
/// # Safety
///
/// The table is valid, and but for CPUs that may walk it the caller's alone for `'t`.
unsafe fn link<'t, A: PagingAttributes>(
    table: NonNull<PageTable<A>>,
) -> &'t AtomicPtr<PageTable<A>> {
    // SAFETY: it is aligned to 4096 bytes, and nobody accesses it otherwise.
    unsafe { AtomicPtr::from_ptr(table.as_ptr().cast()) }
}

impl<T: Translation<A>, A: PagingAttributes> Translation<A> for Holding<T, A> {
    fn allocate_table(&mut self) -> (NonNull<PageTable<A>>, PhysicalAddress) {
        self.inner.allocate_table()
    }

    unsafe fn deallocate_table(&mut self, table: NonNull<PageTable<A>>) {
        if *self.ends.get_mut() {
            // SAFETY: the caller promises that it is a table of this translation.
            unsafe { self.inner.deallocate_table(table) };
            return;
        }
        let first = mem::replace(self.tables.get_mut(), table.as_ptr());
        // SAFETY: the caller has given the table away. Nothing refers to it but what CPUs have cached.
        unsafe { link(table) }.store(first, Ordering::Relaxed);
    }

    fn physical_to_virtual(&self, pa: PhysicalAddress) -> NonNull<PageTable<A>> {
        self.inner.physical_to_virtual(pa)
    }
}
