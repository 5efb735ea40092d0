//! Loading the user programs: one ELF, which the kernel carries.

use alloc::sync::Arc;

use lookaside_kernel_abi::{Kind, Refused};

use crate::{
    arch::{self, Access, PAGE, Protection, USER},
    process::Process,
};

/// All programs, as the user crate's build left them.
static ELF: &[u8] = include_bytes!(env!("LOOKASIDE_USER"));

/// The size of the first thread's stack.
const STACK: usize = 16 * PAGE;

/// A program header.
struct Segment {
    flags: u32,
    offset: usize,
    address: usize,
    in_file: usize,
    in_memory: usize,
}

/// Maps the programs and a stack into a new process; returns where it begins and the stack's top.
pub(crate) fn load(process: &Arc<Process>) -> Result<(usize, usize), Refused> {
    let mut memory = process.memory.lock();
    let space = &process.space;
    for segment in segments() {
        let start = segment.address & !(PAGE - 1);
        let bytes = (segment.address + segment.in_memory).next_multiple_of(PAGE) - start;
        let last = Protection { write: segment.flags & 2 != 0, execute: segment.flags & 1 != 0 };
        let writable = Protection { write: true, execute: false };
        memory.map(space, start, bytes, writable, Kind::Pages)?;
        let mut from = &ELF[segment.offset..segment.offset + segment.in_file];
        let copy = |to: *mut u8, count| {
            let (now, later) = from.split_at(count);
            // SAFETY: `count` bytes of a frame that this process has, through the map of all memory.
            unsafe { to.copy_from_nonoverlapping(now.as_ptr(), count) };
            if last.execute {
                arch::sync_code(to.addr(), count);
            }
            from = later;
        };
        memory
            .touch(space, segment.address, segment.in_file, Access::Write, copy)
            .map_err(|_| Refused::Full)?;
        memory.protect(space, start, bytes, last)?;
    }
    let top = USER.end - PAGE;
    let writable = Protection { write: true, execute: false };
    memory.map(space, top - STACK, STACK, writable, Kind::Pages)?;
    Ok((number(24, 8), top))
}

/// A little-endian number of the file.
fn number(at: usize, bytes: usize) -> usize {
    ELF[at..at + bytes].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte))
}

/// The segments to load.
fn segments() -> impl Iterator<Item = Segment> {
    assert!(ELF.starts_with(b"\x7fELF\x02\x01"), "the user programs are no ELF of 64 bits");
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let headers = (0..count).map(move |index| table + index * size);
    headers.filter(|&at| number(at, 4) == 1 && number(at + 40, 8) > 0).map(|at| Segment {
        flags: number(at + 4, 4) as u32,
        offset: number(at + 8, 8),
        address: number(at + 16, 8),
        in_file: number(at + 32, 8),
        in_memory: number(at + 40, 8),
    })
}
