//! The guest's memory, which Bochs reads for us.

use lookaside_watch::Memory;

/// Asks Bochs for 8 bytes of physical memory. It answers whether there is memory.
pub(crate) type ReadWord = extern "C" fn(address: u64, value: &mut u64) -> bool;

/// The guest's memory.
pub(crate) struct Guest {
    pub(crate) word: ReadWord,
    pub(crate) bytes: u64,
}

impl Memory for Guest {
    fn word(&self, address: u64) -> Option<u64> {
        let address = address & !7;
        let mut value = 0;
        (address < self.bytes && (self.word)(address, &mut value)).then_some(value)
    }
}
