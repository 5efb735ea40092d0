//! The guest's physical memory.

/// Reads physical memory, as a page-table walker does.
pub trait Memory {
    /// The aligned 8 bytes at a physical address; nothing if no memory is there.
    fn word(&self, address: u64) -> Option<u64>;
}

impl<M: Memory + ?Sized> Memory for &M {
    fn word(&self, address: u64) -> Option<u64> {
        (**self).word(address)
    }
}
