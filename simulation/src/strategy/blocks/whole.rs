//! The library's way: a block goes as a whole, and each of its entries is touched once.

use lookaside::{
    VaRange,
    contig::{Entries, Full, SizeChange},
};

use super::{
    Zap,
    table::{self, BLOCK, PageTables},
};

/// Clears folio by folio. A page that is one of a block tells how far its block goes, so nothing has
/// to be read to find that out.
pub(super) fn clear(tables: &PageTables<'_>, zap: &impl Zap) {
    for (first, words) in tables.tables() {
        let entries = Entries::new(table::format(), words, (first as u64) << 12)
            .expect("whole tables at multiples of what they map");
        // SAFETY: nobody but this CPU knows these words, and no hardware walks them. The code that calls
        // flushes as `flush_block` says, and the whole space after this.
        let mut locked = unsafe { entries.locked(SizeChange::Flushed) };
        let mut flush = |range: VaRange| zap.flush_block(range.start() >> 12);
        let mut slot = 0;
        while slot < words.len() {
            let page = locked.get(slot).expect("a slot of the table");
            if !page.is_present() {
                slot += 1;
                continue;
            }
            let pages = if page.is_folded() { BLOCK - slot % BLOCK } else { 1 };
            // Blocks that go as a whole are not flushed whatever is promised of the space.
            let cleared = locked
                .get_and_clear(slot..slot + pages, Full::No, &mut flush)
                .expect("slots of the table");
            zap.gone(cleared.present as u64);
            slot += pages;
        }
    }
}
