//! The ASID allocator of each architecture. To take another one, change this file.

use lookaside::Error;
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
use lookaside::PerCpuAsids;
#[cfg(not(all(target_os = "none", target_arch = "x86_64")))]
use {
    super::init::Static,
    core::sync::atomic::AtomicU64,
    lookaside::{GlobalAsids, tags::GlobalAsidsConfig},
};

use super::platform::Hw;

/// The allocator.
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub(super) type Allocator = PerCpuAsids;
/// The allocator.
#[cfg(not(all(target_os = "none", target_arch = "x86_64")))]
pub(super) type Allocator = GlobalAsids<'static, Hw>;

/// Makes it. `tags`: no more than so many; 0 are all.
///
/// # Safety
///
/// No other allocator is in use.
#[cfg(all(target_os = "none", target_arch = "x86_64"))]
pub(super) unsafe fn make(_: &Hw, _: u32, pins: u32) -> Result<Allocator, Error> {
    if pins != 0 {
        return Err(Error::Unsupported("pins"));
    }
    Ok(Allocator::new())
}

#[cfg(not(all(target_os = "none", target_arch = "x86_64")))]
static WORDS: Static<[AtomicU64; Allocator::words_for(1 << 16)]> =
    Static::new([const { AtomicU64::new(0) }; Allocator::words_for(1 << 16)]);

/// Makes it. `tags`: no more than so many; 0 are all.
///
/// # Safety
///
/// No other allocator is in use.
#[cfg(not(all(target_os = "none", target_arch = "x86_64")))]
pub(super) unsafe fn make(hw: &Hw, tags: u32, pins: u32) -> Result<Allocator, Error> {
    let all = GlobalAsidsConfig::default();
    let tags = if tags == 0 { all.tags } else { tags.min(all.tags) };
    // SAFETY: only an allocator uses the words, and there is no other one.
    let words = unsafe { &mut *WORDS.get() };
    GlobalAsids::new(hw, GlobalAsidsConfig { tags, pins, ..all }, words)
}
