//! Shared parts of the hunters: stamps that name their writer and time, and the counts of results.
//!
//! Every page of a hunter holds stamps. Before it takes a page away it makes the others read it, so
//! that their CPUs hold the translation; once the kernel has said that it is gone, it publishes from
//! which generation on a stamp may still be seen. A reader looks first at what was published and then
//! at the page: whatever is older than that, belongs to somebody else, or is what the kernel leaves in
//! free frames came through a translation that should be gone.

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    println,
    report::Report,
    system::{self, Parameter},
};

/// The kernel's poison in free frames.
const POISON: u64 = 0xdead_beef_f4ee_f4ee;

/// How many stale values a program talks about.
const TALK: u64 = 5;

static STALE: AtomicU64 = AtomicU64::new(0);
static READS: AtomicU64 = AtomicU64::new(0);

/// A value written to a page: its generation, its writer, and the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    pub(crate) fn new(generation: u32, owner: u16, page: usize) -> Self {
        Self(u64::from(generation) << 32 | u64::from(owner) << 16 | (page & 0xffff) as u64)
    }

    pub(crate) fn load(word: &AtomicU64) -> Self {
        // Acquire: a reader that sees a stamp sees the earlier stores of its writer.
        Self(word.load(Ordering::Acquire))
    }

    pub(crate) fn store(self, word: &AtomicU64) {
        word.store(self.0, Ordering::Release); // Release: pairs with `load`.
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether `self` is what `owner` wrote to `page`, no earlier than `floor`.
    pub(crate) fn is_by(self, owner: u16, page: usize, floor: u32) -> bool {
        self.generation() >= floor && self == Self::new(self.generation(), owner, page)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == POISON {
            return to.write_str("a free frame");
        }
        let (owner, page) = (self.0 >> 16 & 0xffff, self.0 & 0xffff);
        write!(to, "generation {} of page {page} by {owner}", self.generation())
    }
}

/// Reports and counts a read of a value that must not be visible any more.
pub(crate) fn stale(what: fmt::Arguments<'_>) {
    if STALE.fetch_add(1, Ordering::Relaxed) < TALK {
        println!("STALE: {what}");
    }
}

/// Counts reads, of one thread all at once.
pub(crate) fn count_reads(reads: u64) {
    READS.fetch_add(reads, Ordering::Relaxed);
}

/// How many threads help a hunter.
pub(crate) fn helpers() -> usize {
    (system::cpus() - 1).clamp(1, crate::gate::MEMBERS)
}

/// The CPU of a helper: not that of the hunter, CPU 0, if there are others.
pub(crate) fn cpu_of(helper: usize) -> usize {
    (helper + 1) % system::cpus()
}

/// The memory kind that luck chooses: blocks if the machine has them, now and then.
pub(crate) fn any_kind(random: &mut crate::random::Random) -> system::Kind {
    if system::parameter(Parameter::Blocks) != 0 && random.one_in(2) {
        system::Kind::Blocks
    } else {
        system::Kind::Pages
    }
}

/// The task of a hunter: a seed, and a pipe for its results if it must not print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) seed: u32,
    pub(crate) pipe: Option<usize>,
}

impl Task {
    pub(crate) fn argument(self) -> usize {
        self.pipe.map_or(0, |pipe| pipe + 1) << 32 | self.seed as usize
    }

    pub(crate) fn from(argument: usize) -> Self {
        Self { seed: argument as u32, pipe: (argument >> 32).checked_sub(1) }
    }
}

/// The results of hunters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Pages whose translations were revoked.
    pub(crate) revokes: u64,
    /// Those that another thread had read just before.
    pub(crate) seen: u64,
    /// Values that were read and judged.
    pub(crate) reads: u64,
    /// Those that must not be seen.
    pub(crate) stale: u64,
    /// Pages that were written to and said to be clean, or used and said not to be.
    pub(crate) lost: u64,
}

impl Totals {
    /// Ends a hunter, whose helpers are done: reports the results, and returns the exit code.
    pub(crate) fn finish(mut self, name: &str, task: Task, report: Report) -> u8 {
        self.reads += READS.load(Ordering::Relaxed); // Relaxed: the helpers were joined.
        self.stale += STALE.load(Ordering::Relaxed);
        match task.pipe {
            Some(pipe) => self.send(pipe),
            None => report.end(name, format_args!("{self}")),
        }
        u8::from(self.stale + self.lost > 0)
    }

    fn send(self, pipe: usize) {
        for value in [self.revokes, self.seen, self.reads, self.stale, self.lost] {
            system::send(pipe, value).expect("somebody wants to know");
        }
    }

    /// Adds what another hunter has sent.
    pub(crate) fn receive(&mut self, pipe: usize) -> system::Result<()> {
        for value in
            [&mut self.revokes, &mut self.seen, &mut self.reads, &mut self.stale, &mut self.lost]
        {
            *value += system::receive(pipe)?;
        }
        Ok(())
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revokes, seen, reads, stale, lost } = self;
        write!(to, "{revokes} revokes, {reads} reads, {stale} stale, {lost} lost flags, ")?;
        write!(to, "{seen} revokes of what others had just read")
    }
}
