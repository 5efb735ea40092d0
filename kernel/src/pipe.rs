//! Pipes: a page of bytes each, at an address of the kernel's own that goes when the pipe is closed.

use alloc::{collections::BTreeMap, sync::Arc};

use lookaside_kernel_abi::Refused;

use crate::{
    arch::{Access, PAGE},
    fault::Fatal,
    lock::Lock,
    process::Process,
    thread,
    vmap::Mapped,
};

struct Bytes {
    buffer: Mapped,
    /// Where the next byte is read, and how many there are.
    first: usize,
    count: usize,
    closed: bool,
}

/// A pipe.
pub(crate) struct Pipe(Lock<Bytes>);

struct Pipes {
    last: usize,
    open: BTreeMap<usize, Arc<Pipe>>,
}

static PIPES: Lock<Pipes> = Lock::new(Pipes { last: 0, open: BTreeMap::new() });

/// Threads that wait for a pipe wait for a channel that no process has.
fn channel(pipe: usize) -> usize {
    !pipe
}

/// A new pipe.
pub(crate) fn open() -> Result<usize, Refused> {
    let buffer = Mapped::new().ok_or(Refused::Full)?;
    let pipe = Pipe(Lock::new(Bytes { buffer, first: 0, count: 0, closed: false }));
    let mut pipes = PIPES.lock();
    pipes.last += 1;
    let number = pipes.last;
    pipes.open.insert(number, Arc::new(pipe));
    Ok(number)
}

/// Closes a pipe, and wakes the threads that wait for it.
pub(crate) fn close(number: usize) -> Result<(), Refused> {
    let pipe = PIPES.lock().open.remove(&number).ok_or(Refused::Missing)?;
    pipe.0.lock().closed = true;
    thread::wake(channel(number));
    Ok(())
}

fn find(number: usize) -> Result<Arc<Pipe>, Refused> {
    PIPES.lock().open.get(&number).cloned().ok_or(Refused::Missing)
}

/// Moves bytes from a pipe to a program, or the other way: as many as there are, or as there is room
/// for, but at least one.
pub(crate) fn transfer(
    process: &Process,
    number: usize,
    address: usize,
    bytes: usize,
    access: Access,
) -> Result<Result<usize, Refused>, Fatal> {
    if bytes == 0 {
        return Ok(Ok(0));
    }
    let pipe = match find(number) {
        Ok(pipe) => pipe,
        Err(refused) => return Ok(Err(refused)),
    };
    let moved = thread::wait_for(channel(number), thread::NEVER, || {
        let mut pipe = pipe.0.lock();
        let most = if access == Access::Write { pipe.count } else { PAGE - pipe.count };
        if pipe.closed {
            return Some(Ok(Err(Refused::Closed)));
        }
        let count = bytes.min(most);
        if count == 0 {
            return None;
        }
        let done =
            process.memory.lock().touch(&process.space, address, count, access, |at, bytes| {
                for byte in 0..bytes {
                    // SAFETY: `bytes` bytes of a frame of the process, through the map of all memory.
                    let at = unsafe { at.add(byte) };
                    if access == Access::Write {
                        // SAFETY: as above; user code may race with us, as it may with itself.
                        unsafe { at.write_volatile(pipe.buffer.read(pipe.first)) };
                        pipe.first = (pipe.first + 1) % PAGE;
                        pipe.count -= 1;
                    } else {
                        let place = (pipe.first + pipe.count) % PAGE;
                        // SAFETY: as above.
                        pipe.buffer.write(place, unsafe { at.read_volatile() });
                        pipe.count += 1;
                    }
                }
            });
        Some(done.map(|()| Ok(count)))
    });
    thread::wake(channel(number));
    moved.unwrap_or(Ok(Err(Refused::Closed)))
}
