//! A trace: its events, and how it came to be.

use crate::event::Event;

/// A trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// How it came to be.
    pub origin: Origin,
    /// Who was there when it began.
    pub tasks: Vec<Task>,
    /// Names that tasks have or had; [`NameId`] is the place in here.
    pub names: Vec<String>,
    /// The events, by time; those of one CPU in the order in which they happened.
    pub events: Vec<Event>,
}

/// How a trace came to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The architecture, as `uname -m` names it; none where nobody knows.
    pub architecture: Option<String>,
    /// The release of the kernel.
    pub kernel: Option<String>,
    /// How many CPUs were up; at least as many as appear in events.
    pub cpus: u32,
    /// Whether a hypervisor ran the system; none where nobody knows.
    pub guest: Option<bool>,
    /// The machine that it ran on, as far as it could be told.
    pub hardware: Hardware,
    /// What was executed, without paths; or the names of the processes, or of the control group, that were followed.
    /// Empty for the whole system.
    pub command: Vec<String>,
    /// The process that the trace is about, and its descendants with it; none for the whole system, and
    /// for processes that ran already.
    pub root: Option<u32>,
    /// Processes that ran already when recording began, or came to the control group that was followed: the trace is
    /// about them and their descendants. Empty otherwise.
    pub members: Vec<u32>,
    /// Which kinds of event were not recorded, by their names in tracefs: the recorder could not switch them on, or another
    /// tool was not told to. Empty as well where nobody knows ([`Origin::knows_absent`]).
    pub absent: Vec<String>,
    /// How many events the system lost, and how many lines an importer did not understand.
    pub losses: Losses,
}

impl Origin {
    /// Whether [`Origin::absent`] is known. Text without a header does not say which events were recorded; whatever does also
    /// says which kernel it was, or lacks some.
    #[must_use]
    pub fn knows_absent(&self) -> bool {
        self.kernel.is_some() || !self.absent.is_empty()
    }
}

/// The machine that a system runs on, as it says itself. In a guest that is what the hypervisor shows, which may be
/// another model than the host has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The processor: on x86 vendor, family and model as numbers (`AuthenticAMD 25/17`), elsewhere implementer and
    /// part (`0x41/0xd40`), on RISC-V the name of its core in the device tree (`sifive,u74-mc`).
    pub processor: Option<String>,
    /// The name of the processor for people.
    pub name: Option<String>,
    /// What runs the system, in a word (`kvm`, `xen`).
    pub hypervisor: Option<String>,
    /// The caches of the first CPU: level, kind and size (`L1 data 32K`).
    pub caches: Vec<String>,
}

/// What is missing from a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// Events of kinds that are none of [`Kind`](crate::Kind); harmless.
    pub foreign: u64,
    /// Lines that begin like an event and cannot be read to their end.
    pub damaged: u64,
    /// Events whose time is before that of an earlier one of the same CPU; they were put in order.
    pub reordered: u64,
    /// Whether the end of the file is missing.
    pub truncated: bool,
}

/// A thread that existed when the trace began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number, which Linux calls pid.
    pub id: u32,
    /// The process that it belongs to, which Linux calls tgid.
    pub process: u32,
    /// Its name.
    pub name: NameId,
    /// Whether it is a thread of the kernel, without an address space.
    pub kernel: bool,
}

/// A name, by its place in [`Trace::names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);
