//! What the measurements ask of Linux, each as a small safe function.

use core::{
    ffi::{c_int, c_void},
    hint,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
};
use std::{io, os::fd::AsFd, sync::Arc, thread, time::Instant};

use rustix::{
    event::{EventfdFlags, eventfd},
    fd::OwnedFd,
    mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags},
    process::Pid,
    thread::{CpuSet, MembarrierCommand},
};

/// Bytes of a page, as the measurements take them.
pub(super) const PAGE: usize = 4096;
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// The CPUs on which this thread may run.
pub(super) fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Has this thread run on these CPUs only.
pub(super) fn pin(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Above the programs of a busy machine, below the kernel's own threads that matter.
const PRIORITY: c_int = 10;

/// Has this thread run before all that are not of real time, or as any other again. Threads that it
/// starts inherit it.
pub(super) fn real_time(on: bool) -> io::Result<()> {
    let (policy, priority) = if on { (libc::SCHED_FIFO, PRIORITY) } else { (libc::SCHED_OTHER, 0) };
    // SAFETY: all-zero is a value of this struct of integers.
    let mut parameters: libc::sched_param = unsafe { core::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the pointer is to a live struct, which the call only reads; 0 names this thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How often this thread has given the CPU up: because it wanted to, and because it had to.
pub(super) fn switches() -> [u64; 2] {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a live struct, which the call writes.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    [usage.ru_nvcsw as u64, usage.ru_nivcsw as u64]
}

/// The cheapest system call that is one: it is never answered without the kernel.
pub(super) fn system_call() {
    hint::black_box(rustix::process::getppid());
}

/// Asks for the barriers of [`barrier`]. Called once before.
pub(super) fn register_barriers() -> io::Result<()> {
    Ok(rustix::thread::membarrier(MembarrierCommand::RegisterPrivateExpedited)?)
}

/// Has all CPUs that run this process execute a barrier, and waits for them.
pub(super) fn barrier() -> io::Result<()> {
    Ok(rustix::thread::membarrier(MembarrierCommand::PrivateExpedited)?)
}

/// Memory of this process in pages of 4 KiB. All of it is readable and writable, and none of it is
/// looked at by anybody but through these methods.
pub(super) struct Area {
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: memory may be accessed by any thread of the process; only one has the area at a time.
unsafe impl Send for Area {}

impl Area {
    /// Memory that nobody has touched.
    pub(super) fn new(pages: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: without an address asked for, the mapping takes no place that was in use.
        let start =
            unsafe { mm::mmap_anonymous(ptr::null_mut(), pages * PAGE, protection, flags) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("no address"))?;
        let area = Self { start, pages };
        // Larger pages would hide what is measured. A kernel without them has nothing to advise.
        let _ = area.advise(pages, Advice::LinuxNoHugepage);
        Ok(area)
    }

    pub(super) const fn pages(&self) -> usize {
        self.pages
    }

    fn pointer(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    fn advise(&self, pages: usize, advice: Advice) -> io::Result<()> {
        assert!(pages <= self.pages, "these are pages of the area");
        // SAFETY: the pages are the area's. What they held may go: only words without a meaning are
        // written there, but for a chase, which is made anew.
        Ok(unsafe { mm::madvise(self.pointer(), pages * PAGE, advice) }?)
    }

    /// The word at an offset in bytes.
    fn word(&self, offset: usize) -> *mut usize {
        assert!(offset.is_multiple_of(8) && offset < self.pages * PAGE, "the word is in the area");
        // SAFETY: the offset is within the mapping.
        unsafe { self.start.as_ptr().add(offset) }.cast()
    }

    /// Writes a word of each of the first pages, at different lines.
    pub(super) fn write(&self, pages: usize) {
        for page in 0..pages {
            let word = self.word(place_of(page));
            // SAFETY: the word is in the area, which is writable outside of its methods.
            unsafe { word.write_volatile(page) };
        }
    }

    /// Makes the first pages read-only and then writable again: how long each took, in nanoseconds.
    pub(super) fn protect(&self, pages: usize) -> io::Result<[f64; 2]> {
        let call = |flags| {
            assert!(pages <= self.pages, "these are pages of the area");
            let begin = Instant::now();
            // SAFETY: the pages are the area's. Nobody writes to them before they are writable again:
            // writing borrows the area on the same thread.
            unsafe { mm::mprotect(self.pointer(), pages * PAGE, flags) }?;
            Ok::<f64, io::Error>(nanoseconds(begin))
        };
        let read = call(MprotectFlags::READ)?;
        Ok([read, call(MprotectFlags::READ | MprotectFlags::WRITE)?])
    }

    /// Gives the first pages back to the kernel; they are zero when they are touched next.
    pub(super) fn discard(&self, pages: usize) -> io::Result<()> {
        self.advise(pages, Advice::LinuxDontNeed)
    }

    /// Makes a chase: a word at each of these offsets, in bytes, holds the address of the next.
    pub(super) fn link(&self, offsets: &[usize]) {
        for (i, &offset) in offsets.iter().enumerate() {
            let next = self.word(offsets[(i + 1) % offsets.len()]);
            // SAFETY: the word is in the area, which is writable outside of its methods.
            unsafe { self.word(offset).write_volatile(next as usize) };
        }
    }

    /// Follows a chase so many steps from the word at an offset, where [`Self::link`] has made one.
    pub(super) fn chase(&self, from: usize, steps: usize) {
        let mut word = self.word(from).cast::<*mut usize>();
        for _ in 0..steps {
            // SAFETY: `link` has written addresses of words that it has written too; all are in the
            // area, and `discard` is not called between them.
            word = unsafe { word.read_volatile() }.cast();
        }
        hint::black_box(word);
    }
}

/// The offset of the word of a page that is touched: at another line in each, so that they do not all
/// contend for one set of the cache.
pub(super) const fn place_of(page: usize) -> usize {
    page * PAGE + page * LINE % PAGE
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is the area's, and nobody has a reference into it.
        let _ = unsafe { mm::munmap(self.pointer(), self.pages * PAGE) };
    }
}

/// How long ago that was.
pub(super) fn nanoseconds(begin: Instant) -> f64 {
    begin.elapsed().as_nanos() as f64
}

/// Two that wake each other in turn: the descriptor that each waits for.
struct Bell([OwnedFd; 2]);

/// What ends the other side.
const OVER: u64 = 1 << 32;

impl Bell {
    fn new() -> io::Result<Self> {
        let new = || eventfd(0, EventfdFlags::empty());
        Ok(Self([new()?, new()?]))
    }

    fn ring(&self, side: usize, what: u64) -> io::Result<()> {
        rustix::io::write(self.0[side].as_fd(), &what.to_ne_bytes())?;
        Ok(())
    }

    fn wait(&self, side: usize) -> io::Result<u64> {
        let mut what = [0; 8];
        rustix::io::read(self.0[side].as_fd(), &mut what)?;
        Ok(u64::from_ne_bytes(what))
    }

    /// Touches and answers until it is over. Allocates nothing.
    fn answer(&self, touch: impl Fn()) -> io::Result<()> {
        while self.wait(1)? < OVER {
            touch();
            self.ring(0, 1)?;
        }
        Ok(())
    }
}

/// The other side of a ping-pong.
enum Side {
    Thread(thread::JoinHandle<()>),
    Process(Pid),
}

/// A ping-pong through eventfds. Both sides are on the CPU of the thread that makes it.
pub(super) struct PingPong {
    bell: Arc<Bell>,
    mine: Area,
    pages: usize,
    side: Option<Side>,
}

impl PingPong {
    /// Between two threads of this process, or between two processes. Each side has a chase through
    /// so many pages in an order given by offsets. Processes have the memory that they had before the
    /// fork, each under page tables of its own; with `apart`, the other side has made a copy.
    pub(super) fn new(processes: bool, chase: &[usize], apart: bool) -> io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let area = || {
            let area = Area::new(chase.len().max(1))?;
            area.link(chase);
            Ok::<Area, io::Error>(area)
        };
        let (mine, other, pages) = (area()?, Arc::clone(&bell), chase.len());
        let side = if processes {
            let parent = rustix::process::getpid();
            // SAFETY: the child has one thread. Until it ends with `_exit` it makes system calls and
            // accesses memory that is mapped; it takes no lock, and allocates and frees nothing.
            match unsafe { libc::fork() } {
                -1 => return Err(io::Error::last_os_error()),
                0 => {
                    // SAFETY: a call with two numbers.
                    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                    if rustix::process::getppid() == Some(parent) {
                        if apart {
                            mine.link(chase);
                        }
                        let _ = other.answer(|| mine.chase(0, pages));
                    }
                    // SAFETY: ends the child without running anything of the parent's.
                    unsafe { libc::_exit(0) }
                }
                child => Pid::from_raw(child).map(Side::Process),
            }
        } else {
            let theirs = area()?;
            Some(Side::Thread(thread::spawn(move || {
                let _ = other.answer(|| theirs.chase(0, pages));
            })))
        };
        Ok(Self { bell, mine, pages, side })
    }

    /// So many round trips, in which each side goes once through its chase.
    pub(super) fn rounds(&self, rounds: u32) -> io::Result<()> {
        for _ in 0..rounds {
            self.mine.chase(0, self.pages);
            self.bell.ring(1, 1)?;
            self.bell.wait(0)?;
        }
        Ok(())
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        let _ = self.bell.ring(1, OVER);
        match self.side.take() {
            Some(Side::Thread(thread)) => {
                let _ = thread.join();
            }
            Some(Side::Process(child)) => {
                let _ =
                    rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
            }
            None => {}
        }
    }
}

/// A thread of this process that computes on another CPU, until it is dropped.
pub(super) struct Spinner {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<[u64; 2]>>,
}

impl Spinner {
    /// Begins; returns once it computes.
    pub(super) fn new(cpu: usize) -> io::Result<Self> {
        // 1: it computes. 2: it may not run there.
        let over = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicU8::new(0));
        let (theirs, says) = (Arc::clone(&over), Arc::clone(&begun));
        let thread = thread::spawn(move || {
            let pinned = pin(&[cpu]);
            let before = switches();
            says.store(if pinned.is_ok() { 1 } else { 2 }, Ordering::Release);
            while pinned.is_ok() && !theirs.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
            let after = switches();
            [after[0] - before[0], after[1] - before[1]]
        });
        let mut new = Self { over, thread: Some(thread) };
        loop {
            match begun.load(Ordering::Acquire) {
                0 => thread::yield_now(),
                1 => return Ok(new),
                _ => {
                    new.end();
                    return Err(io::Error::other(format!("no thread may run on CPU {cpu}")));
                }
            }
        }
    }

    /// Ends it; how often it was made to give its CPU up.
    pub(super) fn end(&mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).map_or(0, |[_, forced]| forced)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.end();
    }
}
