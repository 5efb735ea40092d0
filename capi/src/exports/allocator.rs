//! The ASID allocator: chosen when the machine is made, from what the hardware has, but on AArch64, whose tags are always the same on all
//! CPUs.

use core::sync::atomic::AtomicU64;

#[cfg(not(all(target_os = "none", target_arch = "aarch64")))]
use lookaside::tags::{AsidScope, Asids, AsidsConfig};
use lookaside::{GlobalAsids, tags::GlobalAsidsConfig};

use super::{init::Static, platform::Hw};
use crate::error::Refused;

/// The allocator. On AArch64 the one that would be chosen there is named, so that no switch and no flush asks which it is. It needs
/// more tags than there are CPUs, as the header says, and the hardware has 256 at least.
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub(super) type Allocator = GlobalAsids<'static, Hw>;
/// The allocator.
#[cfg(not(all(target_os = "none", target_arch = "aarch64")))]
pub(super) type Allocator = Asids<'static, Hw>;

/// How many bits a tag of this architecture has at most.
pub(super) const TAG_BITS: u32 =
    if cfg!(target_arch = "x86_64") && cfg!(target_os = "none") { 12 } else { 16 };
const MOST_TAGS: u32 = 1 << TAG_BITS;

static WORDS: Static<[AtomicU64; GlobalAsids::<Hw>::words_for(MOST_TAGS)]> =
    Static::new([const { AtomicU64::new(0) }; GlobalAsids::<Hw>::words_for(MOST_TAGS)]);

/// Makes it. `tags`: no more than so many; 0 are all. Only tags that are the same on all CPUs can be counted, and be
/// pinned.
///
/// # Safety
///
/// No other allocator is in use.
pub(super) unsafe fn make(hw: &Hw, tags: u32, pins: u32) -> Result<Allocator, Refused> {
    let all = GlobalAsidsConfig::default();
    let global = GlobalAsidsConfig {
        tags: if tags == 0 { all.tags } else { tags.min(all.tags) },
        pins,
        ..all
    };
    // SAFETY: only an allocator uses the words, and there is no other one.
    let words = unsafe { &mut *WORDS.get() };
    #[cfg(all(target_os = "none", target_arch = "aarch64"))]
    return Ok(GlobalAsids::new(hw, global, words)?);
    #[cfg(not(all(target_os = "none", target_arch = "aarch64")))]
    {
        let _ = hw;
        let scope = (tags != 0 || pins != 0).then_some(AsidScope::Global);
        Ok(Asids::new(AsidsConfig { scope, global }, words))
    }
}
