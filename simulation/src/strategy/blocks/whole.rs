//! The library's way: a block goes as a whole, and each of its entries is touched once.

use core::ops::Range;

use lookaside::{
    VaRange,
    contig::{Arm, Entries, Full, SizeChange},
};

use lookaside_machine::timed::Word;

use super::{
    Zap,
    table::{self, BLOCK, PageTables},
};

/// Clears folio by folio. A page that is one of a block tells how far its block goes, so nothing has
/// to be read to find that out.
pub(super) fn clear(tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
    for (first, words) in tables.tables() {
        let entries = entries(first, words);
        // SAFETY: nobody but this CPU knows these words, and no hardware walks them. The code that calls
        // flushes as `flush_block` says, and the whole space after this.
        let mut locked = unsafe { entries.locked(SizeChange::Flushed) };
        let mut flush = |range: VaRange| zap.flush_block(range.start() >> 12);
        let Range { start: mut slot, end } = table::slots(first, words, &pages);
        while slot < end {
            let page = locked.get(slot).expect("a slot of the table");
            if !page.is_present() {
                slot += 1;
                continue;
            }
            let pages = if page.is_folded() { BLOCK - slot % BLOCK } else { 1 };
            let pages = pages.min(end - slot);
            // Blocks that go as a whole are not flushed whatever is promised of the space.
            let cleared = locked
                .get_and_clear(slot..slot + pages, Full::No, &mut flush)
                .expect("slots of the table");
            zap.gone(cleared.present as u64);
            slot += pages;
        }
    }
}

/// Takes write permission. Only blocks at the ends that are cut through become pages.
pub(super) fn write_protect(tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
    for (first, words) in tables.tables() {
        let slots = table::slots(first, words, &pages);
        if slots.is_empty() {
            continue;
        }
        let entries = entries(first, words);
        // SAFETY: as in `clear`; the caller flushes these pages after this.
        let mut locked = unsafe { entries.locked(SizeChange::Flushed) };
        let mut flush = |range: VaRange| zap.flush_block(range.start() >> 12);
        locked.write_protect(slots, &mut flush).expect("slots of the table");
    }
}

fn entries(first: usize, words: &[Word]) -> Entries<'_, Word, Arm> {
    Entries::new(table::format(), words, (first as u64) << 12)
        .expect("whole tables at multiples of what they map")
}
