//! The ASID allocator: chosen when the machine is made, from what the hardware has.

use core::sync::atomic::AtomicU64;

use lookaside::tags::{AsidScope, Asids, AsidsConfig, GlobalAsidsConfig};

use super::{init::Static, platform::Hw};

/// The allocator.
pub(super) type Allocator = Asids<'static, Hw>;

/// How many tags the hardware of this architecture has at most.
const MOST_TAGS: u32 =
    if cfg!(target_arch = "x86_64") && cfg!(target_os = "none") { 1 << 12 } else { 1 << 16 };

static WORDS: Static<[AtomicU64; Asids::<Hw>::words_for(MOST_TAGS)]> =
    Static::new([const { AtomicU64::new(0) }; Asids::<Hw>::words_for(MOST_TAGS)]);

/// Makes it. `tags`: no more than so many; 0 are all. Only tags that are the same on all CPUs can be counted, and be
/// pinned.
///
/// # Safety
///
/// No other allocator is in use.
pub(super) unsafe fn make(tags: u32, pins: u32) -> Allocator {
    let all = GlobalAsidsConfig::default();
    let global = GlobalAsidsConfig {
        tags: if tags == 0 { all.tags } else { tags.min(all.tags) },
        pins,
        ..all
    };
    let scope = (tags != 0 || pins != 0).then_some(AsidScope::Global);
    // SAFETY: only an allocator uses the words, and there is no other one.
    Asids::new(AsidsConfig { scope, global }, unsafe { &mut *WORDS.get() })
}
