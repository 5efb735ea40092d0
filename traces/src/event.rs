//! What happened: the events of a trace.

use crate::{call::Call, trace::NameId};

/// One event. Takes 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When, in nanoseconds of the clock of the recorder.
    pub time: u64,
    /// On which CPU.
    pub cpu: u16,
    /// Whether a hardware interrupt was being handled; none where the dialect does not say.
    pub in_interrupt: Option<bool>,
    /// The thread that ran; 0 for the idle loop.
    pub task: u32,
    /// What happened.
    pub kind: Kind,
}

impl Event {
    /// Whether it may be part of a request that its CPU began to serve in an interrupt, or not in one
    /// (`inside`): the end of a request need not be recorded, and what no request does ends it.
    #[cfg(feature = "files")]
    pub(crate) fn is_of_request(&self, inside: Option<bool>) -> bool {
        let may_be = match self.kind {
            Kind::Served { .. } => true,
            Kind::Flush { reason, .. } => {
                matches!(reason, Reason::Remote | Reason::WrongSpace | Reason::Switch)
            }
            _ => false,
        };
        may_be && self.in_interrupt == inside
    }

    /// Whether a call chain at this event is that of what its thread has asked for: not of a handler that has interrupted
    /// it, nor of a switch, whose events come under the name of the thread that was left.
    #[cfg(feature = "files")]
    pub(crate) const fn is_of_its_thread(&self) -> bool {
        let is_asked_for = match self.kind {
            Kind::Call { .. } | Kind::Fault { .. } => true,
            Kind::Flush { reason, .. } => {
                matches!(reason, Reason::Local | Reason::LocalSpace | Reason::Send)
            }
            _ => false,
        };
        is_asked_for && !matches!(self.in_interrupt, Some(true))
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// The CPU turns from [`Event::task`] to another thread.
    Switch {
        /// To which; 0 for the idle loop.
        next: u32,
        /// Its name.
        name: NameId,
        /// Whether the thread that is left wants to go on (it was pre-empted, or yielded).
        runnable: bool,
    },
    /// A thread will run on another CPU from here on.
    Migrate {
        /// Which thread.
        task: u32,
        /// To which CPU.
        to: u16,
    },
    /// [`Event::task`] made a thread.
    Create {
        /// Its number.
        task: u32,
        /// Its name.
        name: NameId,
        /// The flags of `clone`; [`CLONE_VM`], [`CLONE_VFORK`] and [`CLONE_THREAD`] matter.
        flags: u64,
    },
    /// A thread has another program from here on.
    Execute {
        /// Its number.
        task: u32,
        /// The number that it had before: the leader's, if another thread of the process executed.
        old: u32,
    },
    /// [`Event::task`] ends.
    Exit,
    /// A thread has another name.
    Rename {
        /// Which thread.
        task: u32,
        /// Its new name.
        name: NameId,
    },
    /// The last user of an address space has left it, and its pages are unmapped.
    Unmapped {
        /// What the kernel knows the space by; 0 where it was hidden.
        space: u64,
    },
    /// A TLB flush, or what Linux counts as one.
    Flush {
        /// Why.
        reason: Reason,
        /// How many pages; [`Pages::Everything`] for all.
        pages: Pages,
    },
    /// [`Event::task`] is in this function of its program, or was when it called the kernel: the next event of the
    /// thread is by it.
    Caller {
        /// The name of the function, with its module where nobody knows it.
        function: NameId,
    },
    /// A system call begins.
    Call {
        /// Which.
        call: Call,
        /// Its arguments, in the order of the system call; those that are not there are 0.
        arguments: [u64; 5],
    },
    /// A system call ends.
    Return {
        /// Which.
        call: Call,
        /// What it returned; errors are -4095 to -1.
        value: i64,
    },
    /// A page fault of a program, or of the kernel when it used an address of a program or of its own.
    Fault {
        /// The address.
        address: u64,
        /// What the hardware says about it; see [`fault`].
        code: u64,
    },
    /// Another CPU was asked to call a function.
    Ask {
        /// Which CPU.
        target: u16,
        /// What the request is known by; 0 where it was hidden.
        request: u64,
        /// Whether the function flushes a TLB.
        flush: bool,
    },
    /// A function that was asked for begins.
    Serve {
        /// As in [`Kind::Ask`]; 0 also where this CPU asked itself.
        request: u64,
        /// Whether the function flushes a TLB.
        flush: bool,
    },
    /// A function that was asked for is over.
    Served {
        /// As in [`Kind::Ask`].
        request: u64,
        /// Whether the function flushes a TLB.
        flush: bool,
    },
    /// An interrupt was sent to one CPU.
    Send {
        /// Which.
        target: u16,
        /// What for.
        purpose: Purpose,
    },
    /// An interrupt was sent to several CPUs. The event names the first 64 of them.
    SendMany {
        /// CPUs 0 to 63, one bit each.
        targets: u64,
        /// What for.
        purpose: Purpose,
    },
    /// The handler of requests between CPUs begins.
    Interrupt,
    /// The handler of requests between CPUs is over.
    Resume,
    /// The kernel had no room for events here.
    Lost {
        /// How many; 0 for an unknown number.
        events: u64,
    },
}

impl Kind {
    /// The word for it in tables, and as a key for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Switch { .. } => "switch",
            Self::Migrate { .. } => "migrate",
            Self::Create { .. } => "create",
            Self::Execute { .. } => "execute",
            Self::Exit => "exit",
            Self::Rename { .. } => "rename",
            Self::Unmapped { .. } => "unmapped",
            Self::Flush { .. } => "flush",
            Self::Caller { .. } => "caller",
            Self::Call { .. } => "call",
            Self::Return { .. } => "return",
            Self::Fault { .. } => "fault",
            Self::Ask { .. } => "ask",
            Self::Serve { .. } => "serve",
            Self::Served { .. } => "served",
            Self::Send { .. } => "send",
            Self::SendMany { .. } => "send_many",
            Self::Interrupt => "interrupt",
            Self::Resume => "resume",
            Self::Lost { .. } => "lost",
        }
    }

    /// The descriptor of the file that a call maps shared (`mmap` with `MAP_SHARED`, and not `MAP_ANONYMOUS`), and what is allowed there.
    pub(crate) const fn maps_file_shared(&self) -> Option<(u32, u64)> {
        const MAP_SHARED: u64 = 1;
        const MAP_ANONYMOUS: u64 = 0x20;
        match *self {
            Self::Call { call: Call::Mmap, arguments: [_, _, allowed, flags, descriptor] }
                if flags & (MAP_SHARED | MAP_ANONYMOUS) == MAP_SHARED =>
            {
                Some((descriptor as u32, allowed))
            }
            _ => None,
        }
    }
}

/// Flag of `clone`: the address space is shared.
pub const CLONE_VM: u64 = 0x100;
/// Flag of `clone`: the parent waits until the child executes or ends.
pub const CLONE_VFORK: u64 = 0x4000;
/// Flag of `clone`: the new thread belongs to the same process.
pub const CLONE_THREAD: u64 = 0x1_0000;

/// Bits of the code of a page fault on x86.
pub mod fault {
    /// The page was present: the access was not allowed.
    pub const PRESENT: u64 = 1 << 0;
    /// It was a write.
    pub const WRITE: u64 = 1 << 1;
    /// It came from a user program.
    pub const USER: u64 = 1 << 2;
    /// It was the fetch of an instruction.
    pub const FETCH: u64 = 1 << 4;

    /// Addresses from here on are the kernel's own.
    pub const KERNEL: u64 = 1 << 63;
}

/// How many pages a flush was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pages {
    /// So many; 0 if there was nothing to do.
    Some(u32),
    /// All.
    Everything,
}

/// Why Linux flushes, by its own numbers (x86, `enum tlb_flush_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// 0: the CPU turned to another space.
    Switch,
    /// 1: another CPU asked.
    Remote,
    /// 2: not used any more.
    Local,
    /// 3: the space that runs here, by who changed it.
    LocalSpace,
    /// 4: once for each flush of a space that others may hold. Not a count of interrupts.
    Send,
    /// 5: asked to, while another space was loaded.
    WrongSpace,
}

impl Reason {
    /// All of them, by number.
    pub const ALL: [Self; 6] =
        [Self::Switch, Self::Remote, Self::Local, Self::LocalSpace, Self::Send, Self::WrongSpace];

    /// What Linux prints for it (`TLB_FLUSH_REASON`).
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Switch => "flush on task switch",
            Self::Remote => "remote shootdown",
            Self::Local => "local shootdown",
            Self::LocalSpace => "local mm shootdown",
            Self::Send => "remote ipi send",
            Self::WrongSpace => "remote wrong cpu",
        }
    }

    /// The reason of that number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// What an interrupt between CPUs is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To call functions: flushes among them.
    Functions,
    /// To wake a thread.
    WakeUp,
    /// To look for something else to run.
    Reschedule,
    /// Something else.
    Other,
}

const _: () = assert!(size_of::<Event>() <= 64, "the docs promise it");
