//! What user mode and the kernel agree on: numbers of system calls, and of everything they name.
//!
//! A call has a number and up to four arguments, and returns a number that is negative if it failed
//! ([`Refused`]). A program that passes a bad address is killed, as one that touches it.
#![no_std]

/// A system call. In brackets: its arguments, and what it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Call {
    /// (code): ends the process. Codes are 0 to 255.
    Exit,
    /// (): ends the thread, and with the last one the process, with code 0.
    EndThread,
    /// ()
    Yield,
    /// (milliseconds)
    Sleep,
    /// (program, argument) -> process: starts a new process.
    Spawn,
    /// (entry, stack top, argument) -> thread: starts a thread of this process.
    Thread,
    /// () -> process, or 0 in the child: all pages are shared until written to.
    Fork,
    /// (process) -> its exit code, or [`KILLED`], once it has ended. A process is waited for once.
    Wait,
    /// () -> pipe: an empty pipe, known to all processes by its number.
    Pipe,
    /// (pipe): closes it for everybody.
    Close,
    /// (pipe, address, bytes) -> how many were read; waits until there is at least one.
    Read,
    /// (pipe, address, bytes) -> how many were written; waits until there is room.
    Write,
    /// (address or 0, bytes, protection bits, [`Kind`]) -> address: new zeroed memory.
    Map,
    /// (address, bytes)
    Unmap,
    /// (address, bytes, protection bits)
    Protect,
    /// (from, bytes, to) -> to: moves pages to addresses that must be free.
    Move,
    /// (address, bytes): the pages are zero again when they are next touched.
    Discard,
    /// (address, bytes of less than 64 pages, [`Noted`]) -> bit per page: which were used, or written to,
    /// since this was last asked. They count as unused, or clean, from then on.
    Harvest,
    /// (cpu): moves this thread to a CPU and keeps it there; `usize::MAX` lets it go again.
    RunOn,
    /// () -> the CPU that runs this thread.
    Cpu,
    /// () -> nanoseconds
    Clock,
    /// ([`Parameter`]) -> its value
    Parameter,
    /// ([`Counter`]) -> its value, over all CPUs
    Counter,
    /// (address, bytes): writes text to the console, whole.
    Print,
    /// (code): prints the counts and ends the machine.
    Shutdown,
}

impl Call {
    /// All of them, in order.
    pub const ALL: [Self; 25] = [
        Self::Exit,
        Self::EndThread,
        Self::Yield,
        Self::Sleep,
        Self::Spawn,
        Self::Thread,
        Self::Fork,
        Self::Wait,
        Self::Pipe,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Map,
        Self::Unmap,
        Self::Protect,
        Self::Move,
        Self::Discard,
        Self::Harvest,
        Self::RunOn,
        Self::Cpu,
        Self::Clock,
        Self::Parameter,
        Self::Counter,
        Self::Print,
        Self::Shutdown,
    ];
}

/// Why a call failed. It returns the negative of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(isize)]
pub enum Refused {
    /// The arguments make no sense.
    Invalid = 1,
    /// No memory is left, or no room between other pages.
    Full = 2,
    /// There is no such process, pipe or page.
    Missing = 3,
    /// The pipe was closed.
    Closed = 4,
    /// The machine has nothing of the kind: no blocks for example.
    Unsupported = 5,
}

/// What [`Call::Wait`] returns of a process that was killed.
pub const KILLED: isize = 256;

/// Memory may be written to.
pub const WRITE: usize = 1;
/// Memory may be executed.
pub const EXECUTE: usize = 2;

/// What entries of page tables note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Noted {
    /// That a page was written to.
    Dirty,
    /// That a page was used.
    Accessed,
}

/// How memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Pages of 4 KiB, each when it is first touched.
    Pages,
    /// Pages of 2 MiB, at once.
    Large,
    /// Pages of 4 KiB in contiguous blocks, at once.
    Blocks,
}

/// Parameters of the kernel's command line, and properties of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Parameter {
    /// How many CPUs are up.
    Cpus,
    /// `seed=`: for what is chosen at random.
    Seed,
    /// `soak=`: for how many seconds the hunters run; 0 for one short round of everything.
    Soak,
    /// Whether the machine has contiguous blocks: 0 or 1.
    Blocks,
    /// How many frames are free.
    FreeFrames,
    /// `only=`: which test to run alone, by its number; `usize::MAX >> 1` for all.
    Only,
}

/// The kernel's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Switches between spaces.
    Switches,
    /// Tags that were given to a space.
    FreshTags,
    /// Rollovers of the tags.
    Rollovers,
    /// Switches that flushed.
    CaughtUp,
    /// Flushes in which no CPU had to act.
    FlushesNoCpu,
    /// Flushes of one CPU alone.
    FlushesLocal,
    /// Flushes that were replaced by a new tag.
    FlushesRetagged,
    /// Broadcasts.
    FlushesBroadcast,
    /// Flushes by interrupt.
    FlushesIpis,
    /// CPUs that were interrupted for them.
    Interrupted,
    /// Pages that were taken back, moved or protected.
    Pages,
    /// Page faults.
    Faults,
    /// Page faults that were spurious.
    Spurious,
}
