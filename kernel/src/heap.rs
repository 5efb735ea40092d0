//! The kernel's heap: the first part of memory.

use core::{
    alloc::{GlobalAlloc, Layout},
    ops::Range,
    ptr::{self, NonNull},
};

use linked_list_allocator::Heap;

use crate::{
    arch::{OFFSET, PAGE},
    lock::Lock,
};

/// The least and the most that the heap gets, in bytes.
const SIZE: usize = 16 << 20;

struct KernelHeap(Lock<Heap>);

#[global_allocator]
static HEAP: KernelHeap = KernelHeap(Lock::new(Heap::empty()));

/// Takes the heap out of `memory`, and returns the rest.
pub(crate) fn open(memory: Range<u64>) -> Range<u64> {
    let size = SIZE.min((memory.end - memory.start) as usize / 4) & !(PAGE - 1);
    let start = (OFFSET + memory.start as usize) as *mut u8;
    // SAFETY: nobody else uses this memory, and it is mapped for good.
    unsafe { HEAP.0.lock().init(start, size) };
    memory.start + size as u64..memory.end
}

// SAFETY: memory from `Heap` is fresh and as large as requested.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().allocate_first_fit(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if let Some(at) = NonNull::new(at) {
            // SAFETY: the caller says that it is ours, of this layout.
            unsafe { self.0.lock().deallocate(at, layout) };
        }
    }
}
