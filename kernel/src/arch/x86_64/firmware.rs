//! Reading what firmware and boot loaders left in memory.

use core::slice;

/// What is at a physical address.
///
/// # Safety
///
/// It is mapped, and nobody changes it.
pub(super) unsafe fn bytes(address: u64, length: usize) -> &'static [u8] {
    // SAFETY: the caller promises it.
    unsafe { slice::from_raw_parts(address as *const u8, length) }
}

/// The number in up to eight bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
