//! Memory in which the words of a timed machine live.
//!
//! What shares a cache line depends on addresses, and addresses that an allocator chooses differ
//! from run to run. So everything that simulated CPUs share is put into an arena, at places that
//! depend on nothing but the order in which it is made.

use core::{alloc::Layout, cell::Cell, mem, ops::Range, ptr::NonNull, slice};
use std::alloc;

/// A cache line, in bytes.
pub(crate) const LINE: usize = 64;
const ALIGNMENT: usize = 4096;

/// A piece of memory that only grows fuller. Each value in it begins a cache line of its own, and is
/// never dropped.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    size: usize,
    used: Cell<usize>,
}

impl Arena {
    /// Room for `bytes` bytes. The system provides it when it is written to.
    ///
    /// # Panics
    ///
    /// If the address space has no room for it.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let layout = Self::layout(bytes);
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc::alloc(layout) };
        let Some(base) = NonNull::new(base) else { alloc::handle_alloc_error(layout) };
        Self { base, size: layout.size(), used: Cell::new(0) }
    }

    fn layout(bytes: usize) -> Layout {
        let size = bytes.max(1).next_multiple_of(ALIGNMENT);
        Layout::from_size_align(size, ALIGNMENT).expect("an arena fits the address space")
    }

    /// Puts a value into the arena.
    ///
    /// # Panics
    ///
    /// If the arena is full, or the type is one that has to be dropped.
    pub fn put<T>(&self, value: T) -> &T {
        let mut value = Some(value);
        &self.fill(1, |_| value.take().expect("one value is asked for once"))[0]
    }

    /// Puts `count` values side by side into the arena: the first begins a cache line, the others
    /// follow as in any array. They are the caller's alone.
    ///
    /// # Panics
    ///
    /// If the arena is full, or the type is one that has to be dropped.
    #[allow(clippy::mut_from_ref, reason = "each call hands out memory of its own")]
    pub fn fill<T>(&self, count: usize, mut make: impl FnMut(usize) -> T) -> &mut [T] {
        assert!(!mem::needs_drop::<T>(), "values in an arena are never dropped");
        assert!(align_of::<T>() <= ALIGNMENT, "the arena is aligned to {ALIGNMENT} bytes");
        let layout = Layout::array::<T>(count).expect("an array fits the address space");
        let start = self.used.get().next_multiple_of(layout.align().max(LINE));
        assert!(start + layout.size() <= self.size, "the arena of {} bytes is full", self.size);
        self.used.set(start + layout.size());
        // SAFETY: `start` is within the allocation.
        let first = unsafe { self.base.add(start) }.cast::<T>();
        for i in 0..count {
            // SAFETY: this part of the allocation has room for `count` values and was handed out to nobody
            // else. It is aligned for them: the base is aligned to more, and `start` to as much.
            unsafe { first.add(i).write(make(i)) };
        }
        // SAFETY: all were just written, live as long as the arena, and are handed out to nobody else.
        unsafe { slice::from_raw_parts_mut(first.as_ptr(), count) }
    }

    /// The addresses that belong to the arena.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let base = self.base.as_ptr().addr();
        base..base + self.size
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and no borrow of it is left.
        unsafe { alloc::dealloc(self.base.as_ptr(), Self::layout(self.size)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_begins_a_line() {
        let arena = Arena::new(4096);
        let (a, b) = (arena.put(1_u64), arena.put(2_u64));
        let many = arena.fill(3, |i| i as u64);
        assert_eq!((*a, *b, &*many), (1, 2, &[0, 1, 2][..]));
        let offset = |word: &u64| core::ptr::from_ref(word).addr() - arena.addresses().start;
        assert_eq!((offset(a), offset(b), offset(&many[1])), (0, 64, 136));
    }

    #[test]
    #[should_panic(expected = "full")]
    fn a_full_arena_says_so() {
        let arena = Arena::new(4096);
        let _ = arena.fill(513, |i| i as u64);
    }
}
