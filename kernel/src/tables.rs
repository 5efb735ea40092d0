//! The page tables of one space: finding entries, putting pages in, and taking them out.
//!
//! All entries that user mode can change the flags of are changed by one atomic operation each. The
//! caller holds the lock of the space's memory, and flushes.

use core::ops::Range;

use alloc::vec::Vec;
use lookaside::{VaRange, flush::Flags};

use crate::{
    arch::{self, PAGE, Protection, Table},
    blocks,
    frame::{self, Frame},
    tlb::{self, AddressSpace, Gather},
};

use core::sync::atomic::{AtomicU64, Ordering};

/// The size of a large page: the range that one last-level table maps.
pub(crate) const LARGE: usize = 512 * PAGE;

/// The tables under one root.
pub(crate) struct Tables {
    root: Frame,
}

/// An entry that was found, and its level: 0 for a page, 1 for a large one.
pub(crate) struct Found {
    pub(crate) entry: u64,
    pub(crate) level: u32,
}

impl Tables {
    /// Tables that map the kernel and nothing for user mode.
    pub(crate) fn new() -> Option<Self> {
        let root = Frame::new()?;
        arch::fill_root(root.words());
        Some(Self { root })
    }

    pub(crate) fn root(&self) -> u64 {
        self.root.address()
    }

    /// The entry of `level` for an address. Without `grow`, none if a table is missing; with it, none
    /// if there is no memory for one.
    fn slot(&self, address: usize, level: u32, grow: bool) -> Option<&'static AtomicU64> {
        let mut table = self.root.words();
        for above in (level + 1..arch::LEVELS).rev() {
            let slot = &table[index(address, above)];
            let mut entry = slot.load(Ordering::Relaxed); // Relaxed: the lock is held.
            if !arch::is_present(entry) {
                if !grow {
                    return None;
                }
                entry = arch::table(Frame::new()?.into_address());
                // Release: walks that find the table find it empty.
                slot.store(entry, Ordering::Release);
            }
            if arch::is_page(entry, above) {
                return None;
            }
            table = frame::words(arch::address_of(entry));
        }
        Some(&table[index(address, level)])
    }

    /// The entry that maps an address.
    pub(crate) fn find(&self, address: usize) -> Option<Found> {
        let large = self.slot(address, 1, false)?.load(Ordering::Relaxed); // Relaxed: the lock is held.
        if arch::is_page(large, 1) {
            return Some(Found { entry: large, level: 1 });
        }
        let slot = self.slot(address, 0, false)?;
        let entry = blocks::plain(slot.load(Ordering::Relaxed), slot);
        arch::is_present(entry).then_some(Found { entry, level: 0 })
    }

    /// Changes the entry of a page that is present, in one step, to one that allows more or has more
    /// flags. A block that it is part of becomes pages first.
    pub(crate) fn widen(&self, address: usize, space: &AddressSpace, to: Protection, flags: Flags) {
        let Some(Found { level, .. }) = self.find(address) else { return };
        if level == 0
            && let Some(table) = self.last_table(address, false)
        {
            let slot = index(address, 0);
            blocks::unfold(table, slot..slot + 1, address, space);
        }
        let Some(slot) = self.slot(address, level, false) else { return };
        // AcqRel: the accesses of former sharers of the page are done; hardware's flags are kept.
        let _ = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |entry| {
            let page = arch::page(arch::address_of(entry), level, to);
            Some(arch::with(page, arch::flags(entry) | flags))
        });
    }

    /// Maps one page that nothing maps; says whether there was memory for its tables. Whether the entry
    /// comes to have the frame, or the caller still has it, is for the caller to see to.
    #[must_use]
    pub(crate) fn map(&self, address: usize, entry: u64, level: u32) -> bool {
        match self.slot(address, level, true) {
            Some(slot) if level == 0 || !arch::is_present(slot.load(Ordering::Relaxed)) => {
                slot.store(entry, Ordering::Release); // Release: its contents first.
                true
            }
            // A table with no page in it, which a large page would hide.
            Some(_) | None => false,
        }
    }

    /// Writes an entry of the last level whose tables are there, flushes nothing, and returns what it was.
    pub(crate) fn exchange(&self, address: usize, entry: u64) -> u64 {
        let slot = self.slot(address, 0, false).expect("its tables are there");
        slot.swap(entry, Ordering::AcqRel) // AcqRel: as any change of an entry.
    }

    /// Makes all tables that pages in `range` need; says whether there was memory.
    #[must_use]
    pub(crate) fn grow(&self, range: Range<usize>) -> bool {
        let tables = (range.start & !(LARGE - 1)..range.end).step_by(LARGE);
        tables.into_iter().all(|address| self.slot(address, 0, true).is_some())
    }

    /// Maps consecutive frames to the pages of one table, in blocks where that is possible.
    pub(crate) fn map_blocks(&self, address: usize, pages: usize, first: u64) -> bool {
        let Some(table) = self.last_table(address, true) else { return false };
        let at = index(address, 0);
        blocks::set(table, at..at + pages, address, first)
    }

    /// The last-level table for an address.
    fn last_table(&self, address: usize, grow: bool) -> Option<&'static Table> {
        let slot = self.slot(address & !(LARGE - 1), 0, grow)?;
        // SAFETY: this is the first entry of its table, and tables are for good until they are
        // unlinked, under the lock that is held.
        Some(unsafe { &*core::ptr::from_ref(slot).cast::<Table>() })
    }

    /// Calls `each` with the last-level tables, and the slots in them, of all addresses in `range`;
    /// which cuts through no large page.
    fn each_table(&self, range: Range<usize>, mut each: impl FnMut(usize, Part)) {
        let mut address = range.start;
        while address < range.end {
            let next = ((address & !(LARGE - 1)) + LARGE).min(range.end);
            if let Some(slot) = self.slot(address, 1, false) {
                if arch::is_page(slot.load(Ordering::Relaxed), 1) {
                    assert!(next - address == LARGE, "a large page is cut through");
                    each(address, Part::Large(slot));
                } else if let Some(table) = self.last_table(address, false) {
                    let first = index(address, 0);
                    each(address, Part::Pages(table, first..first + (next - address) / PAGE));
                }
            }
            address = next;
        }
    }

    /// Splits the large pages that `range` cuts through; says whether there was memory.
    #[must_use]
    pub(crate) fn split_ends(&self, range: &Range<usize>, space: &AddressSpace) -> bool {
        [range.start, range.end].into_iter().all(|end| {
            match self.slot(end & !(LARGE - 1), 1, false) {
                Some(slot)
                    if !end.is_multiple_of(LARGE)
                        && arch::is_page(slot.load(Ordering::Relaxed), 1) =>
                {
                    split(slot, end, space)
                }
                _ => true,
            }
        })
    }

    /// Takes all pages in `range` out: `gather` holds them, and learns their flags. Returns how many entries
    /// there were.
    pub(crate) fn take<F: Extend<Taken>>(
        &self,
        range: Range<usize>,
        space: &AddressSpace,
        gather: &mut Gather<'_, F>,
    ) -> usize {
        let (mut found, mut count) = (Flags::NONE, 0);
        let mut hold = |taken| {
            count += 1;
            gather.hold_page(taken);
        };
        self.each_table(range, |address, part| match part {
            Part::Large(slot) => {
                let entry = slot.swap(0, Ordering::AcqRel);
                found |= arch::flags(entry);
                hold(Taken { address, entry, level: 1 });
            }
            Part::Pages(table, slots) => {
                found |= blocks::take(table, slots, address, space, &mut hold);
            }
        });
        gather.found(found);
        count
    }

    /// Changes the entries of all pages in `range`; says whether any lost a permission. None comes to be
    /// writable: a page may be shared, so that is for the fault to see to.
    pub(crate) fn protect(
        &self,
        range: Range<usize>,
        to: Protection,
        space: &AddressSpace,
    ) -> bool {
        let mut less = false;
        self.each_table(range, |address, part| match part {
            Part::Large(slot) => less |= change(slot, 1, to),
            Part::Pages(table, slots) => {
                // Blocks that lose the same permission as a whole stay blocks.
                if !to.write {
                    less |= blocks::write_protect(table, slots.clone(), address, space);
                }
                if executes(&table[slots.clone()], to) {
                    blocks::unfold(table, slots.clone(), address, space);
                }
                for slot in &table[slots] {
                    less |= change(slot, 0, to);
                }
            }
        });
        less
    }

    /// Takes a flag of less than 64 pages, and says on which it was set.
    pub(crate) fn harvest(&self, range: Range<usize>, flag: Flags, space: &AddressSpace) -> u64 {
        let mut set = 0;
        let start = range.start;
        self.each_table(range, |address, part| {
            let Part::Pages(table, slots) = part else { unreachable!("less than a large page") };
            blocks::unfold(table, slots.clone(), address, space);
            for (place, slot) in table[slots].iter().enumerate() {
                let without = |entry| arch::is_present(entry).then(|| arch::without(entry, flag));
                // AcqRel: with the flag come the accesses that set it.
                if let Ok(was) = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, without)
                    && arch::flags(was).only(flag) != Flags::NONE
                {
                    set |= 1 << ((address - start) / PAGE + place);
                }
            }
        });
        set
    }

    /// Unlinks the last-level tables in `range` that map nothing any more.
    pub(crate) fn unlink_empty(&self, range: Range<usize>, gather: &mut Gather<'_, Freed>) {
        let mut address = range.start & !(LARGE - 1);
        while address < range.end {
            if let Some(slot) = self.slot(address, 1, false)
                && let Some(table) = self.last_table(address, false)
                && table.iter().all(|entry| entry.load(Ordering::Relaxed) == 0)
            {
                let entry = slot.swap(0, Ordering::AcqRel);
                let table = LooseTable(Frame::named(arch::address_of(entry)));
                gather.hold_table(pages(address..address + LARGE), table);
            }
            address += LARGE;
        }
    }

    /// Unlinks everything: all pages, and all tables but the root.
    pub(crate) fn unlink_all(&self, gather: &mut Gather<'_, Freed>) {
        gather.revoke_everything();
        for slot in &self.root.words()[user_slots()] {
            unlink(slot, arch::LEVELS - 1, gather);
        }
    }

    /// Frees the root, which no register names any more; nothing else is left.
    pub(crate) fn free_root(&mut self) {
        Frame::named(self.root()).free();
    }
}

/// A page that was taken out.
pub(crate) struct Taken {
    pub(crate) address: usize,
    /// The removed entry, in the form of a single page's.
    pub(crate) entry: u64,
    pub(crate) level: u32,
}

impl Taken {
    /// The frames that it mapped.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame> + use<> {
        frames(self.entry, self.level)
    }
}

/// A page table that no entry names any more.
pub(crate) struct LooseTable(Frame);

/// What a gather holds of a process.
#[derive(Default)]
pub(crate) struct Freed {
    pages: Vec<Frame>,
    tables: Vec<Frame>,
}

impl Freed {
    /// Gives everything back, and returns how many pages there were.
    pub(crate) fn free(self) -> usize {
        let pages = self.pages.len();
        self.pages.into_iter().for_each(Frame::free);
        self.tables.into_iter().for_each(Frame::free);
        pages
    }
}

impl Extend<Taken> for Freed {
    fn extend<I: IntoIterator<Item = Taken>>(&mut self, taken: I) {
        self.pages.extend(taken.into_iter().flat_map(|taken| taken.frames()));
    }
}

impl Extend<Frame> for Freed {
    fn extend<I: IntoIterator<Item = Frame>>(&mut self, pages: I) {
        self.pages.extend(pages);
    }
}

impl Extend<LooseTable> for Freed {
    fn extend<I: IntoIterator<Item = LooseTable>>(&mut self, tables: I) {
        self.tables.extend(tables.into_iter().map(|table| table.0));
    }
}

enum Part {
    Large(&'static AtomicU64),
    Pages(&'static Table, Range<usize>),
}

fn frames(entry: u64, level: u32) -> impl Iterator<Item = Frame> {
    let first = arch::address_of(entry);
    let count = if level == 0 { 1 } else { LARGE / PAGE };
    (0..count).map(move |page| Frame::named(first + (page * PAGE) as u64))
}

/// Takes an entry of `level` out, with all that is below: `gather` holds it.
fn unlink(slot: &AtomicU64, level: u32, gather: &mut Gather<'_, Freed>) {
    let entry = slot.swap(0, Ordering::AcqRel);
    if !arch::is_present(entry) {
        return;
    }
    if arch::is_page(entry, level) {
        frames(blocks::plain(entry, slot), level).for_each(|frame| gather.hold_page(frame));
        return;
    }
    let table = Frame::named(arch::address_of(entry));
    for slot in table.words() {
        unlink(slot, level - 1, gather);
    }
    gather.hold_table(None, LooseTable(table)); // Everything is revoked.
}

/// Whether a page has another permission to be executed than it is to have.
fn executes(slots: &[AtomicU64], to: Protection) -> bool {
    let entries = slots.iter().map(|slot| slot.load(Ordering::Relaxed)); // Relaxed: the lock is held.
    entries
        .filter(|entry| arch::is_present(*entry))
        .any(|e| arch::protection(e).execute != to.execute)
}

/// Makes pages of 4 KiB of a large one, with a break in between; says whether there was memory.
fn split(slot: &AtomicU64, address: usize, space: &AddressSpace) -> bool {
    let Some(table) = Frame::new() else { return false };
    let large = slot.swap(0, Ordering::AcqRel);
    let start = address & !(LARGE - 1);
    let range = VaRange::new(start as u64, LARGE as u64, 21).expect("aligned");
    tlb::this_cpu().flush_range(space, range);
    let (first, protection) = (arch::address_of(large), arch::protection(large));
    for (place, entry) in table.words().iter().enumerate() {
        let page = arch::page(first + (place * PAGE) as u64, 0, protection);
        entry.store(arch::with(page, arch::flags(large)), Ordering::Relaxed);
    }
    // Release: its entries first.
    slot.store(arch::table(table.into_address()), Ordering::Release);
    true
}

/// Gives an entry other permissions, but none to write that it had not, and says whether it lost any.
fn change(slot: &AtomicU64, level: u32, to: Protection) -> bool {
    let then = |entry| {
        let was = arch::protection(entry);
        let to = Protection { write: was.write && to.write, ..to };
        (arch::is_present(entry) && was != to).then(|| {
            let page = arch::page(arch::address_of(entry), level, to);
            arch::with(page, arch::flags(entry))
        })
    };
    // AcqRel: hardware's flags are kept, and what they stand for is seen.
    match slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, then) {
        Ok(was) => {
            let was = arch::protection(was);
            was.write && !to.write || was.execute && !to.execute
        }
        Err(_) => false,
    }
}

/// A range of pages of 4 KiB.
pub(crate) fn pages(range: Range<usize>) -> VaRange {
    VaRange::new(range.start as u64, range.len() as u64, 12).expect("whole pages of user addresses")
}

fn user_slots() -> Range<usize> {
    let level = arch::LEVELS - 1;
    index(arch::USER.start, level)..index(arch::USER.end - 1, level) + 1
}

fn index(address: usize, level: u32) -> usize {
    address >> (12 + 9 * level) & 511
}
