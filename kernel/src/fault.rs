//! Page faults, and the kernel's own accesses to user memory, which resolve a missing page as a fault would.

use alloc::vec::Vec;

use lookaside::flush::{Flags, Permissions};

use crate::{
    arch::{self, Access, PAGE, Protection},
    count,
    frame::Frame,
    memory::Memory,
    tables::{Found, LARGE, Taken, pages},
    tlb::{self, AddressSpace},
};

/// Why a program cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fatal {
    /// Nothing is mapped there, or not for that.
    BadAddress,
    /// No memory is left.
    OutOfMemory,
}

impl Memory {
    /// Resolves a fault of user mode at `address`, or returns why it cannot.
    pub(crate) fn fault(
        &mut self,
        space: &AddressSpace,
        address: usize,
        access: Access,
    ) -> Result<(), Fatal> {
        count::FAULTS.add(1);
        let area = self.areas.area(address).ok_or(Fatal::BadAddress)?;
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
            return self.put(space, page, frame, entry);
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
        // This CPU may hold the former entry.
        let allowed =
            Permissions { read: true, write: now.write, execute: area.protection.execute };
        let wanted = Permissions { write: access == Access::Write, ..Permissions::default() };
        let page = pages(page..page + PAGE);
        assert!(
            cfg!(feature = "no-spurious")
                || tlb::this_cpu().spurious_fault(space, page, wanted, allowed),
            "the entry allows it"
        );
        Ok(())
    }

    /// Maps a frame where nothing is mapped.
    fn put(
        &self,
        space: &AddressSpace,
        page: usize,
        frame: Frame,
        entry: u64,
    ) -> Result<(), Fatal> {
        if !self.tables.map(page, entry, 0) {
            frame.free();
            return Err(Fatal::OutOfMemory);
        }
        frame.into_address();
        tlb::this_cpu().map(space, pages(page..page + PAGE));
        Ok(())
    }

    /// A page is written to that is not writable, in an area that is: it may be shared.
    fn write_shared(
        &mut self,
        space: &AddressSpace,
        page: usize,
        found: &Found,
        to: Protection,
    ) -> Result<(), Fatal> {
        let taken = Taken { address: page, entry: found.entry, level: found.level };
        if taken.frames().all(|frame| frame.is_alone()) {
            // The entry allows more, so nothing is flushed: a CPU with the old entry takes a spurious fault.
            self.tables.widen(page, space, to, Flags::ALL);
            return Ok(());
        }
        // Break before make: the entry comes to name another frame.
        let range = page..page + PAGE;
        if !self.tables.split_ends(&range, space) {
            return Err(Fatal::OutOfMemory);
        }
        let copy = Frame::new().ok_or(Fatal::OutOfMemory)?;
        count::PAGES.add(1);
        let flushed = tlb::this_cpu().unmap(space, Vec::<Taken>::new(), |gather| {
            self.tables.take(range.clone(), space, gather);
            gather.revoke(pages(range));
        });
        for frame in flushed.frames.iter().flat_map(Taken::frames) {
            copy.copy_from(&frame);
            frame.free();
        }
        let entry = arch::with(arch::page(copy.address(), 0, to), Flags::ALL);
        self.put(space, page, copy, entry)
    }

    /// Calls `each` with the memory behind user addresses, piece by piece.
    pub(crate) fn touch(
        &mut self,
        space: &AddressSpace,
        address: usize,
        bytes: usize,
        access: Access,
        mut each: impl FnMut(*mut u8, usize),
    ) -> Result<(), Fatal> {
        let end = address.checked_add(bytes).ok_or(Fatal::BadAddress)?;
        let mut address = address;
        while address < end {
            let page = address & !(PAGE - 1);
            let area = self.areas.area(address).ok_or(Fatal::BadAddress)?;
            if access == Access::Write && !area.protection.write {
                return Err(Fatal::BadAddress);
            }
            // As a load or store of user mode would: sets the flags, and copies a shared page.
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
}
