//! Programs that ask for more and more, until the kernel refuses or kills them.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::bad::{GOT_AWAY, REFUSED};
use crate::{
    Program,
    memory::{Area, PAGE},
    system::{self, Kind, Refused},
};

/// What counts as endless, for all but memory.
const MANY: usize = 4096;

static HELD: [AtomicUsize; MANY] = [const { AtomicUsize::new(0) }; MANY];

/// Gets things until there are no more, or many.
fn hold(get: impl Fn(usize) -> system::Result) -> Result<impl Iterator<Item = usize>, Refused> {
    let mut count = 0;
    while count < MANY {
        match get(count) {
            Ok(thing) => HELD[count].store(thing, Ordering::Relaxed),
            Err(Refused::Full) => break,
            Err(error) => return Err(error),
        }
        count += 1;
    }
    Ok(HELD[..count].iter().map(|held| held.load(Ordering::Relaxed)))
}

/// Touches all the memory that there is.
pub(super) fn memory() -> u8 {
    const PAGES: usize = 256;
    loop {
        match Area::map(PAGES, Kind::Pages) {
            Ok(area) => (0..PAGES).for_each(|page| area.word(page, 0).store(1, Ordering::Relaxed)),
            Err(Refused::Full) => return REFUSED,
            Err(_) => return GOT_AWAY,
        }
    }
}

/// Maps much and touches nothing, with holes, so that no two can become one.
pub(super) fn maps() -> u8 {
    let get = |_| {
        let area = Area::map(3, Kind::Pages)?;
        system::unmap(area.start + PAGE, PAGE)?;
        Ok(area.start)
    };
    if hold(get).is_ok() { REFUSED } else { GOT_AWAY }
}

/// Starts processes that wait for the pipe's end, in both ways that there are.
pub(super) fn processes(pipe: usize) -> u8 {
    // It holds a number, which nobody is to find.
    let _ = system::receive(pipe);
    let get = |count: usize| {
        let spawned = count.is_multiple_of(2);
        let child = if spawned { system::spawn(Program::Sleeper, pipe)? } else { system::fork()? };
        if child == 0 {
            system::exit(sleep(pipe));
        }
        Ok(child)
    };
    let Ok(children) = hold(get) else { return GOT_AWAY };
    let _ = system::close(pipe);
    let mut ends = children.map(system::wait);
    if ends.all(|end| end.is_ok()) { REFUSED } else { GOT_AWAY }
}

/// Waits for the pipe's end.
pub(crate) fn sleep(pipe: usize) -> u8 {
    u8::from(system::receive(pipe) != Err(Refused::Closed))
}

/// Starts threads that wait for the pipe's end.
pub(super) fn threads(pipe: usize) -> u8 {
    extern "C" fn wait(pipe: usize) -> ! {
        sleep(pipe);
        system::end_thread()
    }
    let _ = system::receive(pipe);
    let get = |_| {
        let stack = Area::map(1, Kind::Pages)?;
        system::thread(wait as *const () as usize, stack.start + PAGE - 64, pipe)
    };
    if hold(get).is_ok() { REFUSED } else { GOT_AWAY }
}

pub(super) fn pipes() -> u8 {
    let Ok(mut pipes) = hold(|_| system::pipe()) else { return GOT_AWAY };
    if pipes.all(|pipe| system::close(pipe).is_ok()) { REFUSED } else { GOT_AWAY }
}
