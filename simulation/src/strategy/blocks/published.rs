//! The ways that were measured, from their descriptions.
//!
//! In each of them the loop over the entries asks for the state of a page before it clears the entry,
//! and with contiguous entries that state is gathered: all sixteen are read, whatever the first ones
//! say (the early end of that loop came later). Clearing looks at the entry once more, to see whether
//! it is one of a block.

use core::ops::Range;

use lookaside::platform::{Ordering, Word as _};
use lookaside_machine::timed::Word;

use super::{
    Way, Zap,
    table::{self, BLOCK, PageTables},
};

/// Relaxed is enough everywhere here: the lock of the table orders those who write it.
const RELAXED: Ordering = Ordering::Relaxed;

/// The sixteen entries of the block that `slot` would be in.
fn block(words: &[Word], slot: usize) -> &[Word] {
    let first = slot / BLOCK * BLOCK;
    &words[first..first + BLOCK]
}

/// The state of a page: its entry, with the flags of its block's present entries.
fn state(words: &[Word], slot: usize) -> u64 {
    let own = words[slot].load(RELAXED);
    if table::is_contiguous(own) { gathered(words, slot, own) } else { own }
}

fn gathered(words: &[Word], slot: usize, own: u64) -> u64 {
    let entries = block(words, slot).iter().map(|word| word.load(RELAXED));
    let present = entries.filter(|&entry| table::is_present(entry));
    present.fold(own, table::with_flags_of)
}

/// Clears entry by entry.
pub(super) fn clear_each(way: Way, tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
    for (first, words) in tables.tables() {
        for slot in table::slots(first, words, &pages) {
            if way == Way::NoBlocks {
                if table::is_present(words[slot].load(RELAXED)) {
                    words[slot].swap(0, RELAXED);
                    zap.gone(1);
                }
                continue;
            }
            if !table::is_present(state(words, slot)) {
                continue;
            }
            if table::is_contiguous(words[slot].load(RELAXED)) {
                match way {
                    Way::Robust => clear_and_carry(words, slot),
                    Way::Unfold => {
                        unfold(first, words, slot, zap);
                        words[slot].swap(0, RELAXED);
                    }
                    _ => _ = words[slot].swap(0, RELAXED),
                }
            } else {
                words[slot].swap(0, RELAXED);
            }
            zap.gone(1);
        }
    }
}

/// Takes write permission from entry by entry. If they `unfold`, blocks become pages before, and blocks again after their last
/// entry, if all of it has changed.
pub(super) fn write_protect(
    unfolds: bool,
    tables: &PageTables<'_>,
    pages: Range<usize>,
    zap: &impl Zap,
) {
    for (first, words) in tables.tables() {
        let mut folds = false;
        let slots = table::slots(first, words, &pages);
        for slot in slots.clone() {
            let entry = words[slot].load(RELAXED);
            if !table::is_present(entry) {
                continue;
            }
            if unfolds && table::is_contiguous(entry) {
                unfold(first, words, slot, zap);
                folds = slot % BLOCK == 0;
            }
            words[slot].update(table::read_only);
            if folds && slot % BLOCK == BLOCK - 1 {
                fold(first, words, slot, zap);
                folds = false;
            }
        }
    }
}

/// Makes a block of pages, which are all there: all entries are looked at, taken out, flushed, and written again.
fn fold(first: usize, words: &[Word], slot: usize, zap: &impl Zap) {
    let block = block(words, slot);
    for word in block {
        word.load(RELAXED);
    }
    let mut entries = [0; BLOCK];
    for (entry, word) in entries.iter_mut().zip(block) {
        *entry = word.swap(0, RELAXED);
    }
    zap.flush_block((first + slot / BLOCK * BLOCK) as u64);
    for (entry, word) in entries.into_iter().zip(block) {
        word.store(table::folded(entry), RELAXED);
    }
}

/// Makes plain pages of a block: all entries are taken out, flushed, and written again.
fn unfold(first: usize, words: &[Word], slot: usize, zap: &impl Zap) {
    let block = block(words, slot);
    let mut entries = [0; BLOCK];
    for (entry, word) in entries.iter_mut().zip(block) {
        *entry = word.swap(0, RELAXED);
    }
    zap.flush_block((first + slot / BLOCK * BLOCK) as u64);
    let all = entries.into_iter().fold(0, table::with_flags_of);
    for (entry, word) in entries.into_iter().zip(block) {
        word.store(table::with_flags_of(table::unfolded(entry), all), RELAXED);
    }
}

/// Clears an entry of a block, and moves the flags that it had to the last entry that is left. An
/// entry without any has to be told what its siblings say.
fn clear_and_carry(words: &[Word], slot: usize) {
    let entry = words[slot].swap(0, RELAXED);
    if !table::has_flags(entry) {
        gathered(words, slot, entry);
        return;
    }
    for word in block(words, slot).iter().rev() {
        let mut left = word.load(RELAXED);
        while table::is_present(left) {
            let with = table::with_flags_of(left, entry);
            match word.compare_exchange(left, with, RELAXED, RELAXED) {
                Ok(_) => return,
                Err(now) => left = now,
            }
        }
    }
}

/// Clears the entries of a folio together.
///
/// How many there are is found out by asking for the state of each next page. A batch that does not
/// begin or end with a block unfolds what it cuts through; here there is none, and all that is left is
/// the look at the entry.
pub(super) fn clear_batches(tables: &PageTables<'_>, pages: Range<usize>, zap: &impl Zap) {
    for (first, words) in tables.tables() {
        let Range { start: mut slot, end: last } = table::slots(first, words, &pages);
        while slot < last {
            if !table::is_present(state(words, slot)) {
                slot += 1;
                continue;
            }
            let limit = (tables.folio_end(first + slot) - first).min(last);
            let mut end = slot + 1;
            while end < limit && table::is_present(state(words, end)) {
                end += 1;
            }
            for (edge, cut) in [(slot, slot), (end - 1, end)] {
                if cut % BLOCK != 0 && table::is_contiguous(words[edge].load(RELAXED)) {
                    unfold(first, words, edge, zap);
                }
            }
            for word in &words[slot..end] {
                word.swap(0, RELAXED);
            }
            zap.gone((end - slot) as u64);
            slot = end;
        }
    }
}
