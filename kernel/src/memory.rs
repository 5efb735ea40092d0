//! What a process has mapped: its areas, the faults that fill them, and the calls that change them.
//!
//! Everything here runs under the lock of the memory, flushes included: who waits for the lock serves.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;

use lookaside::{Flags, Permissions};
use lookaside_kernel_abi::{EXECUTE, Kind, Refused, WRITE};

use crate::{
    arch::{self, Access, PAGE, Protection, USER},
    count,
    frame::Frame,
    tables::{Found, LARGE, Tables, Taken, pages},
    tlb::{self, Gather, Space},
};

/// Why a program cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fatal {
    /// Nothing is mapped there, or not for that.
    BadAddress,
    /// No memory is left.
    OutOfMemory,
}

/// What is mapped from one address to another.
#[derive(Clone, Copy, Debug)]
struct Area {
    end: usize,
    protection: Protection,
}

/// The mappings of one process.
pub(crate) struct Memory {
    tables: Tables,
    areas: BTreeMap<usize, Area>,
}

impl Memory {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { tables: Tables::new()?, areas: BTreeMap::new() })
    }

    pub(crate) fn root(&self) -> u64 {
        self.tables.root()
    }

    // ---- Areas

    /// The area that an address is in.
    fn area(&self, address: usize) -> Option<Area> {
        let (_, area) = self.areas.range(..=address).next_back()?;
        (address < area.end).then_some(*area)
    }

    fn is_free(&self, range: &Range<usize>) -> bool {
        let before = self.areas.range(..range.end).next_back();
        before.is_none_or(|(_, area)| area.end <= range.start)
    }

    /// Whether all of `range` is mapped.
    fn is_full(&self, range: &Range<usize>) -> bool {
        let mut address = range.start;
        while address < range.end {
            match self.area(address) {
                Some(area) => address = area.end,
                None => return false,
            }
        }
        true
    }

    /// Makes areas begin and end where `range` does.
    fn cut(&mut self, range: &Range<usize>) {
        for at in [range.start, range.end] {
            if let Some((_, area)) = self.areas.range_mut(..at).next_back()
                && at < area.end
            {
                let rest = *area;
                area.end = at;
                self.areas.insert(at, rest);
            }
        }
    }

    /// Takes the areas in `range` out of the books.
    fn remove(&mut self, range: &Range<usize>) -> Vec<(usize, Area)> {
        self.cut(range);
        let starts: Vec<usize> = self.areas.range(range.clone()).map(|(start, _)| *start).collect();
        starts.into_iter().filter_map(|start| Some((start, self.areas.remove(&start)?))).collect()
    }

    // ---- Calls

    /// New memory, at `address` or anywhere.
    pub(crate) fn map(
        &mut self,
        space: &Space,
        address: usize,
        bytes: usize,
        protection: Protection,
        kind: Kind,
    ) -> Result<usize, Refused> {
        let align = if kind == Kind::Pages { PAGE } else { LARGE };
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Refused::Invalid)?;
        let start = if address == 0 { self.room(bytes, align)? } else { address };
        let range = user(start, bytes)?;
        let aligned = match kind {
            Kind::Pages => true,
            Kind::Large => start % LARGE == 0 && bytes % LARGE == 0,
            Kind::Blocks => start % LARGE == 0,
        };
        if !aligned || !self.is_free(&range) {
            return Err(Refused::Invalid);
        }
        if kind == Kind::Blocks && arch::blocks().is_none() {
            return Err(Refused::Unsupported);
        }
        self.areas.insert(start, Area { end: range.end, protection });
        if kind != Kind::Pages && !self.fill(&range, protection, kind) {
            self.unmap(space, start, bytes)?;
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

    /// A free range of addresses.
    fn room(&self, bytes: usize, align: usize) -> Result<usize, Refused> {
        let mut start = (USER.start + USER.len() / 4).next_multiple_of(align);
        for (&from, area) in &self.areas {
            if area.end > start && from < start.saturating_add(bytes) {
                start = area.end.next_multiple_of(align);
            }
        }
        user(start, bytes).map(|range| range.start).map_err(|_| Refused::Full)
    }

    pub(crate) fn unmap(
        &mut self,
        space: &Space,
        address: usize,
        bytes: usize,
    ) -> Result<(), Refused> {
        let range = user(address, bytes)?;
        self.remove(&range);
        self.revoke(space, range, true);
        Ok(())
    }

    /// Leaves the area, and takes its pages.
    pub(crate) fn discard(
        &mut self,
        space: &Space,
        address: usize,
        bytes: usize,
    ) -> Result<(), Refused> {
        let range = user(address, bytes)?;
        if !self.is_full(&range) {
            return Err(Refused::Missing);
        }
        self.revoke(space, range, false);
        Ok(())
    }

    /// Takes pages out, makes everybody let go of them, and frees them.
    fn revoke(&mut self, space: &Space, range: Range<usize>, with_tables: bool) {
        let mut gather = Gather::new(space);
        let mut frames = Vec::new();
        self.tables.take(range.clone(), space, &mut gather, |taken| frames.extend(taken.frames()));
        if !frames.is_empty() {
            gather.revoke_mixed(pages(range.clone()));
        }
        let tables =
            if with_tables { self.tables.unlink_empty(range, &mut gather) } else { Vec::new() };
        count::PAGES.add(frames.len());
        let (frames, tables) = (gather.hold_page(frames), gather.hold_table(tables));
        let flushed = tlb::here().flush(gather);
        for frame in tlb::released(frames.release(&flushed)) {
            frame.free();
        }
        for table in tlb::released(tables.release(&flushed)) {
            table.free();
        }
    }

    pub(crate) fn protect(
        &mut self,
        space: &Space,
        address: usize,
        bytes: usize,
        protection: Protection,
    ) -> Result<(), Refused> {
        let range = user(address, bytes)?;
        if !self.is_full(&range) {
            return Err(Refused::Missing);
        }
        for (start, area) in self.remove(&range) {
            self.areas.insert(start, Area { protection, ..area });
        }
        // More is allowed when a fault asks for it: a page may be shared by then.
        let least = Protection { write: false, ..protection };
        if self.tables.protect(range.clone(), least, space) {
            let mut gather = Gather::new(space);
            count::PAGES.add(range.len() / PAGE);
            gather.revoke_mixed(pages(range));
            let _ = tlb::here().flush(gather);
        }
        Ok(())
    }

    /// Moves what is mapped to addresses that are free.
    pub(crate) fn move_to(
        &mut self,
        space: &Space,
        from: usize,
        bytes: usize,
        to: usize,
    ) -> Result<usize, Refused> {
        let (from, to) = (user(from, bytes)?, user(to, bytes)?);
        if !self.is_full(&from) || !self.is_free(&to) {
            return Err(Refused::Missing);
        }
        if !self.tables.grow(to.clone()) {
            return Err(Refused::Full);
        }
        let mut moved: Vec<Taken> = Vec::new();
        let mut gather = Gather::new(space);
        self.tables.take(from.clone(), space, &mut gather, |taken| moved.push(taken));
        count::PAGES.add(moved.len());
        // Both ends are behind one lock, and the pages come to the new addresses after the flush.
        gather.move_away(pages(from.clone()), self);
        let _ = tlb::here().flush(gather);
        for (start, area) in self.remove(&from) {
            self.areas.insert(
                start - from.start + to.start,
                Area { end: area.end - from.start + to.start, ..area },
            );
        }
        for taken in moved {
            let flags = arch::flags(taken.entry);
            let first = taken.address - from.start + to.start;
            for (page, frame) in taken.frames().enumerate() {
                let entry = arch::page(frame.into_address(), 0, arch::protection(taken.entry));
                let mapped = self.tables.map(first + page * PAGE, arch::with(entry, flags), 0);
                assert!(mapped, "its tables are there");
            }
        }
        Ok(to.start)
    }

    /// Which of up to 64 pages were written to since the last time.
    pub(crate) fn harvest(
        &mut self,
        space: &Space,
        address: usize,
        bytes: usize,
    ) -> Result<u64, Refused> {
        let range = user(address, bytes)?;
        if range.len() > 64 * PAGE {
            return Err(Refused::Invalid);
        }
        let dirty = self.tables.harvest(range.clone(), space);
        // Who holds an entry as dirty would write on without a note.
        let mut gather = Gather::new(space);
        count::PAGES.add(range.len() / PAGE);
        gather.revoke(pages(range));
        let _ = tlb::here().flush(gather);
        Ok(dirty)
    }

    /// Gives a child the same mappings; all pages are shared until one of the two writes. Says whether
    /// there was memory.
    pub(crate) fn fork(&mut self, space: &Space, child: &mut Self) -> bool {
        child.areas = self.areas.clone();
        for (&start, area) in &self.areas {
            let least = Protection { write: false, ..area.protection };
            if self.tables.protect(start..area.end, least, space) {
                let mut gather = Gather::new(space);
                gather.revoke_mixed(pages(start..area.end));
                let _ = tlb::here().flush(gather);
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
                shared.frames().for_each(|frame| drop(frame.share()));
                address += if found.level == 0 { PAGE } else { LARGE };
            }
        }
        true
    }

    // ---- Faults

    /// Lets user mode go on after a fault at `address`, or says why not.
    pub(crate) fn fault(
        &mut self,
        space: &Space,
        address: usize,
        access: Access,
    ) -> Result<(), Fatal> {
        count::FAULTS.add(1);
        let area = self.area(address).ok_or(Fatal::BadAddress)?;
        let allowed = match access {
            Access::Read => true,
            Access::Write => area.protection.write,
            Access::Execute => area.protection.execute,
        };
        if !allowed {
            return Err(Fatal::BadAddress);
        }
        let page = address & !(PAGE - 1);
        let flags = Flags { accessed: true, dirty: access == Access::Write };
        let Some(found) = self.tables.find(page) else {
            let frame = Frame::new().ok_or(Fatal::OutOfMemory)?;
            let entry = arch::with(arch::page(frame.address(), 0, area.protection), flags);
            return self.put(page, frame, entry);
        };
        let now = arch::protection(found.entry);
        if access == Access::Write && !now.write {
            return self.write_shared(space, page, &found, area.protection);
        }
        let noted = arch::hardware_sets_flags() || arch::flags(found.entry).contains(flags);
        if noted && (now.execute || access != Access::Execute) {
            count::SPURIOUS.add(1);
        } else {
            let to = Protection { execute: area.protection.execute, ..now };
            self.tables.widen(page, space, to, flags);
        }
        // This CPU may hold what the entry was before.
        let allowed =
            Permissions { read: true, write: now.write, execute: area.protection.execute };
        let wanted = Permissions { write: access == Access::Write, ..Permissions::default() };
        let page = pages(page..page + PAGE);
        assert!(tlb::here().spurious_fault(space, page, wanted, allowed), "the entry allows it");
        Ok(())
    }

    /// Maps a frame where nothing is mapped, so that nothing need be flushed.
    fn put(&self, page: usize, frame: Frame, entry: u64) -> Result<(), Fatal> {
        if !self.tables.map(page, entry, 0) {
            frame.free();
            return Err(Fatal::OutOfMemory);
        }
        frame.into_address();
        Ok(())
    }

    /// A page is written to that is not writable, in an area that is: it may be shared.
    fn write_shared(
        &mut self,
        space: &Space,
        page: usize,
        found: &Found,
        to: Protection,
    ) -> Result<(), Fatal> {
        let taken = Taken { address: page, entry: found.entry, level: found.level };
        if taken.frames().all(|frame| frame.is_alone()) {
            // More is allowed, so nobody is told: who has not noticed takes a spurious fault.
            self.tables.widen(page, space, to, Flags::ALL);
            return Ok(());
        }
        // Break before make: the entry comes to name another frame.
        let copy = Frame::new().ok_or(Fatal::OutOfMemory)?;
        let range = page..page + PAGE;
        let mut gather = Gather::new(space);
        let mut old = Vec::new();
        self.tables.take(range.clone(), space, &mut gather, |taken| old.extend(taken.frames()));
        gather.revoke(pages(range));
        count::PAGES.add(1);
        let held = gather.hold_page(old);
        let flushed = tlb::here().flush(gather);
        for frame in tlb::released(held.release(&flushed)) {
            copy.copy_from(&frame);
            frame.free();
        }
        let entry = arch::with(arch::page(copy.address(), 0, to), Flags::ALL);
        self.put(page, copy, entry)
    }

    // ---- The kernel's own accesses

    /// Calls `each` with the memory behind user addresses, piece by piece.
    pub(crate) fn touch(
        &mut self,
        space: &Space,
        address: usize,
        bytes: usize,
        access: Access,
        mut each: impl FnMut(*mut u8, usize),
    ) -> Result<(), Fatal> {
        let end = address.checked_add(bytes).ok_or(Fatal::BadAddress)?;
        let mut address = address;
        while address < end {
            let page = address & !(PAGE - 1);
            let area = self.area(address).ok_or(Fatal::BadAddress)?;
            if access == Access::Write && !area.protection.write {
                return Err(Fatal::BadAddress);
            }
            // As a load or store of user mode would: with the flags, and a copy of what is shared.
            let found = loop {
                match self.tables.find(page) {
                    Some(found) if access != Access::Write => break found,
                    Some(found) if arch::protection(found.entry).write => {
                        let to = arch::protection(found.entry);
                        self.tables.widen(page, space, to, Flags::ALL);
                        break found;
                    }
                    _ => self.fault(space, address, access)?,
                }
            };
            let piece = (page + PAGE).min(end) - address;
            let inside = address % if found.level == 0 { PAGE } else { LARGE };
            let at = arch::OFFSET + arch::address_of(found.entry) as usize + inside;
            each(at as *mut u8, piece);
            address += piece;
        }
        Ok(())
    }

    // ---- The end

    /// Takes everything, with one flush.
    pub(crate) fn end(&mut self, space: &Space) {
        self.areas.clear();
        let mut gather = Gather::new(space);
        let (frames, tables) = self.tables.unlink_all(&mut gather);
        count::PAGES.add(frames.len());
        let (frames, tables) = (gather.hold_page(frames), gather.hold_table(tables));
        let flushed = tlb::here().flush(gather);
        tlb::released(frames.release(&flushed)).into_iter().for_each(Frame::free);
        for table in tlb::released(tables.release(&flushed)) {
            table.free();
        }
    }

    /// The root, when the space was released.
    pub(crate) fn into_root(self) -> Frame {
        self.tables.into_root()
    }
}

/// How many bytes are mapped as blocks at a time.
const BLOCK: usize = 16 * PAGE;

fn frame_of(first: u64, page: usize) -> Frame {
    Frame::named(first + (page * PAGE) as u64)
}

/// Whole pages of user addresses.
fn user(start: usize, bytes: usize) -> Result<Range<usize>, Refused> {
    let end = start.checked_add(bytes).ok_or(Refused::Invalid)?;
    let whole = start % PAGE == 0 && bytes % PAGE == 0 && bytes > 0;
    if whole && start >= USER.start && end <= USER.end {
        Ok(start..end)
    } else {
        Err(Refused::Invalid)
    }
}

/// Protection from the bits of a call.
pub(crate) fn protection(bits: usize) -> Result<Protection, Refused> {
    if bits & !(WRITE | EXECUTE) != 0 {
        return Err(Refused::Invalid);
    }
    Ok(Protection { write: bits & WRITE != 0, execute: bits & EXECUTE != 0 })
}
