//! The operations on one slot, and their orderings.

use super::format::{Format, Raw};
use crate::word::{Ordering, Word};

/// What the slot holds, for the holder of the lock.
#[inline]
#[track_caller]
pub(super) fn peek<W: Word>(word: &W) -> Raw {
    // Relaxed is enough: the lock orders other writers, and hardware's flags may be set a moment
    // after any load, however ordered. What must not miss one is an atomic operation.
    Raw(word.load(Ordering::Relaxed))
}

/// What the slot holds, without a lock.
#[inline]
#[track_caller]
pub(super) fn read<W: Word>(word: &W) -> Raw {
    // ORDER O-CONTIG-READ (pairs with O-CONTIG-MAKE, O-CONTIG-TAKE): the entry, then what the kernel keeps of the
    // page that it names. Otherwise a reader finds the page and not yet what was written of it
    // before it was mapped.
    Raw(word.load(Ordering::Acquire))
}

/// Takes the entry out and leaves nothing, so that hardware can set no flag behind our back.
#[inline]
#[track_caller]
pub(super) fn take<W: Word>(word: &W) -> Raw {
    // The swap is atomic, which is what keeps the flags. That walks find the slot empty is ordered by the first barrier of
    // the flush.
    //
    // ORDER O-CONTIG-TAKE (pairs with O-CONTIG-READ): the beginning of the gather (O-BEGUN), then the empty slot. A
    // reader without the table's lock that finds the slot of a plain page empty, and relies on that, sees that a gather is
    // under way. Of a block nothing is to be relied on: its other entries may still map the page.
    Raw(word.swap(0, Ordering::Release))
}

/// Writes a slot that holds no present entry, so that hardware does not write it meanwhile.
#[inline]
#[track_caller]
pub(super) fn make<W: Word>(word: &W, entry: Raw) {
    // ORDER O-CONTIG-MAKE (pairs with O-CONTIG-READ, walks): the contents of the page, then the
    // entry that maps it. Otherwise a CPU that walks to it finds what the page held before it was
    // cleared. A walk that reads the entry is before the access that it translates.
    word.store(entry.0, Ordering::Release);
}

/// Changes the entry if it is present, keeping what hardware sets meanwhile. Returns what it was, and
/// whether it changed; nothing if it is absent.
#[inline]
#[track_caller]
pub(super) fn update<W: Word, F: Format>(
    format: F,
    word: &W,
    change: impl Fn(Raw) -> Raw,
) -> Option<(Raw, bool)> {
    let mut now = peek(word);
    // Only hardware writes the slot meanwhile, and it does not write absent entries.
    if !format.is_present(now) {
        return None;
    }
    loop {
        let then = change(now);
        if then == now {
            return Some((now, false));
        }
        // Release as O-CONTIG-TAKE, for a reader that relies on what the entry does not permit any more. The entry goes on
        // naming the same page, and an atomic change does not end what O-CONTIG-MAKE began.
        match word.compare_exchange(now.0, then.0, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Some((now, true)),
            Err(other) => now = Raw(other),
        }
    }
}
