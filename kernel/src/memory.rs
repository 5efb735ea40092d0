//! The memory of a process, and the calls that change it.
//!
//! Everything here runs under the lock of the memory, flushes included: a CPU that waits for the lock handles
//! requests.

use alloc::vec::Vec;
use core::ops::Range;

use lookaside::{arch::Root, flush::Flags};
use lookaside_kernel_abi::{EXECUTE, Kind, Refused, WRITE};

use crate::{
    arch::{self, PAGE, Protection},
    areas::{Area, Areas, user},
    count,
    frame::Frame,
    tables::{Freed, LARGE, Tables, Taken, pages},
    tlb::{self, AddressSpace},
};

/// The mappings of one process.
pub(crate) struct Memory {
    pub(crate) tables: Tables,
    pub(crate) areas: Areas,
}

impl Memory {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { tables: Tables::new()?, areas: Areas::NONE })
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(self.tables.root())
    }

    /// New memory, at `address` or anywhere.
    pub(crate) fn map(
        &mut self,
        space: &AddressSpace,
        address: usize,
        bytes: usize,
        protection: Protection,
        kind: Kind,
    ) -> Result<usize, Refused> {
        let align = if kind == Kind::Pages { PAGE } else { LARGE };
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Refused::Invalid)?;
        let start = if address == 0 { self.areas.room(bytes, align)? } else { address };
        let range = user(start, bytes)?;
        self.areas.check_room()?;
        let aligned = match kind {
            Kind::Pages => true,
            Kind::Large => start % LARGE == 0 && bytes % LARGE == 0,
            Kind::Blocks => start % LARGE == 0,
        };
        if !aligned || !self.areas.is_free(&range) {
            return Err(Refused::Invalid);
        }
        if kind == Kind::Blocks && arch::blocks().is_none() {
            return Err(Refused::Unsupported);
        }
        self.areas.insert(start, Area { end: range.end, protection });
        if kind != Kind::Pages && !self.fill(&range, protection, kind) {
            self.areas.remove(&range);
            self.revoke(space, range, true);
            return Err(Refused::Full);
        }
        Ok(start)
    }

    /// Maps all of a range at once.
    fn fill(&mut self, range: &Range<usize>, protection: Protection, kind: Kind) -> bool {
        let step = if kind == Kind::Large { LARGE } else { BLOCK };
        for address in range.clone().step_by(step) {
            let count = step.min(range.end - address) / PAGE;
            let Some(first) = Frame::run(count.next_power_of_two()) else { return false };
            (count..count.next_power_of_two()).for_each(|page| frame_of(first, page).free());
            // Where software keeps the flags, a block is not worth the faults that set them one by one.
            let flags = if arch::hardware_sets_flags() { Flags::NONE } else { Flags::ALL };
            let mapped = if kind == Kind::Large {
                self.tables.map(address, arch::with(arch::page(first, 1, protection), flags), 1)
            } else {
                let entry = arch::with(arch::page(first, 0, protection), flags);
                self.tables.map_blocks(address, count, entry)
            };
            if !mapped {
                (0..count).for_each(|page| frame_of(first, page).free());
                return false;
            }
        }
        true
    }

    pub(crate) fn unmap(
        &mut self,
        space: &AddressSpace,
        address: usize,
        bytes: usize,
    ) -> Result<(), Refused> {
        let range = user(address, bytes)?;
        self.prepare(space, &range)?;
        self.areas.remove(&range);
        if cfg!(feature = "no-flush") {
            // What was mapped is leaked. The tests must notice.
            range.step_by(PAGE).for_each(|page| _ = self.tables.exchange(page, 0));
            return Ok(());
        }
        self.revoke(space, range, true);
        Ok(())
    }

    /// Leaves the area, and takes its pages.
    pub(crate) fn discard(
        &mut self,
        space: &AddressSpace,
        address: usize,
        bytes: usize,
    ) -> Result<(), Refused> {
        let range = user(address, bytes)?;
        if !self.areas.is_full(&range) {
            return Err(Refused::Missing);
        }
        self.prepare(space, &range)?;
        self.revoke(space, range, false);
        Ok(())
    }

    /// Whether there is memory for a change of `range`: nothing is changed if there is not.
    fn prepare(&self, space: &AddressSpace, range: &Range<usize>) -> Result<(), Refused> {
        self.areas.check_cut(range)?;
        if self.tables.split_ends(range, space) { Ok(()) } else { Err(Refused::Full) }
    }

    /// Takes pages out, flushes them from every CPU, and frees them.
    fn revoke(&mut self, space: &AddressSpace, range: Range<usize>, with_tables: bool) {
        let flushed = tlb::this_cpu().unmap(space, Freed::default(), |gather| {
            if self.tables.take(range.clone(), space, gather) > 0 {
                gather.revoke_mixed(pages(range.clone()));
            }
            if with_tables {
                self.tables.unlink_empty(range, gather);
            }
        });
        count::PAGES.add(flushed.frames.free());
    }

    pub(crate) fn protect(
        &mut self,
        space: &AddressSpace,
        address: usize,
        bytes: usize,
        protection: Protection,
    ) -> Result<(), Refused> {
        let range = user(address, bytes)?;
        if !self.areas.is_full(&range) {
            return Err(Refused::Missing);
        }
        self.prepare(space, &range)?;
        for (start, area) in self.areas.remove(&range) {
            self.areas.insert(start, Area { protection, ..area });
        }
        if self.tables.protect(range.clone(), protection, space) {
            count::PAGES.add(range.len() / PAGE);
            tlb::this_cpu().flush_range(space, pages(range).mixed());
        }
        Ok(())
    }

    /// Moves what is mapped to addresses that are free.
    pub(crate) fn move_to(
        &mut self,
        space: &AddressSpace,
        from: usize,
        bytes: usize,
        to: usize,
    ) -> Result<usize, Refused> {
        let (from, to) = (user(from, bytes)?, user(to, bytes)?);
        if !self.areas.is_full(&from) || !self.areas.is_free(&to) {
            return Err(Refused::Missing);
        }
        self.prepare(space, &from)?;
        if !self.tables.grow(to.clone()) {
            return Err(Refused::Full);
        }
        let flushed = tlb::this_cpu().unmap(space, Vec::<Taken>::new(), |gather| {
            self.tables.take(from.clone(), space, gather);
            // Both ends are behind one lock, and the pages come to the new addresses after the flush.
            gather.move_away(pages(from.clone()), self);
        });
        // Until it was cleared, hardware may have set flags in an entry that was read before.
        let (moved, late) = (flushed.frames, flushed.flags);
        count::PAGES.add(moved.len());
        for (start, area) in self.areas.remove(&from) {
            self.areas.insert(
                start - from.start + to.start,
                Area { end: area.end - from.start + to.start, ..area },
            );
        }
        for taken in moved {
            let flags = arch::flags(taken.entry) | late;
            let first = taken.address - from.start + to.start;
            for (page, frame) in taken.frames().enumerate() {
                let entry = arch::page(frame.into_address(), 0, arch::protection(taken.entry));
                let mapped = self.tables.map(first + page * PAGE, arch::with(entry, flags), 0);
                assert!(mapped, "its tables are there");
            }
        }
        Ok(to.start)
    }

    /// Which of less than 64 pages were used, or written to, since the last time.
    pub(crate) fn harvest(
        &mut self,
        space: &AddressSpace,
        address: usize,
        bytes: usize,
        flag: Flags,
    ) -> Result<u64, Refused> {
        let range = user(address, bytes)?;
        if range.len() >= 64 * PAGE {
            return Err(Refused::Invalid);
        }
        self.prepare(space, &range)?;
        let set = self.tables.harvest(range.clone(), flag, space);
        // A CPU that holds an entry with the flag would not set it again.
        count::PAGES.add(range.len() / PAGE);
        tlb::this_cpu().flush_range(space, pages(range).mixed());
        Ok(set)
    }

    /// Gives a child the same mappings; all pages are shared until one of the two writes. Says whether
    /// there was memory.
    pub(crate) fn fork(&mut self, space: &AddressSpace, child: &mut Self) -> bool {
        child.areas = self.areas.clone();
        for (start, area) in self.areas.iter() {
            let least = Protection { write: false, ..area.protection };
            if self.tables.protect(start..area.end, least, space) {
                tlb::this_cpu().flush_range(space, pages(start..area.end).mixed());
            }
            let mut address = start;
            while address < area.end {
                let Some(found) = self.tables.find(address) else {
                    address += PAGE;
                    continue;
                };
                let entry = arch::page(arch::address_of(found.entry), found.level, least);
                if !child.tables.map(address, arch::with(entry, Flags::ACCESSED), found.level) {
                    return false;
                }
                let shared = Taken { address, entry: found.entry, level: found.level };
                shared.frames().for_each(|frame| frame.share());
                address += if found.level == 0 { PAGE } else { LARGE };
            }
        }
        true
    }

    /// Frees everything, of a space that was released: the flush finds no CPU that could hold it.
    pub(crate) fn end(&mut self, space: &AddressSpace) {
        self.areas = Areas::NONE;
        let flushed = tlb::this_cpu().unmap(space, Freed::default(), |gather| {
            self.tables.unlink_all(gather);
        });
        count::PAGES.add(flushed.frames.free());
        self.tables.free_root();
    }
}

/// How many bytes are mapped as blocks at a time.
const BLOCK: usize = 16 * PAGE;

fn frame_of(first: u64, page: usize) -> Frame {
    Frame::named(first + (page * PAGE) as u64)
}

/// Protection from the bits of a call.
pub(crate) fn protection(bits: usize) -> Result<Protection, Refused> {
    if bits & !(WRITE | EXECUTE) != 0 {
        return Err(Refused::Invalid);
    }
    Ok(Protection { write: bits & WRITE != 0, execute: bits & EXECUTE != 0 })
}
