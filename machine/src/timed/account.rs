//! Where the time goes: every picosecond of every CPU is put down to a cause and an activity.

use super::price::Ps;

super::keyed::keyed! {
    /// Why a simulated CPU spends time.
    Cause
    /// What programs and the kernel compute, as the workload says.
    Work = "work",
    /// What that takes in addition while another hardware thread of the core executes.
    Siblings = "siblings",
    /// Accesses to words whose cache lines the CPU has, atomics included.
    Words = "words",
    /// Cache lines that come from other CPUs.
    Lines = "lines",
    /// Waiting for a cache line that others are moving.
    LineQueue = "line queue",
    /// Fences and barriers, and the stores that they wait for.
    Fences = "fences",
    /// Translations found in the second level of the TLB.
    SecondLevel = "second level",
    /// Page walks.
    Walks = "walks",
    /// Writes of the root register.
    Roots = "roots",
    /// Invalidations on this CPU.
    Invalidations = "invalidations",
    /// Issuing broadcast invalidations and waiting for their answers.
    Broadcasts = "broadcasts",
    /// Waiting for the interconnect while it serves the broadcasts of others.
    BroadcastQueue = "broadcast queue",
    /// What the broadcasts of others take from this CPU.
    Stolen = "stolen",
    /// Sending interrupts.
    Sends = "sends",
    /// Entry into interrupt handlers, and return.
    Interrupts = "interrupts",
    /// Waiting for another CPU to write something.
    Waiting = "waiting",
    /// Waiting for a lock.
    Locks = "locks",
    /// Doing nothing.
    Idle = "idle",
}

const CAUSES: usize = Cause::ALL.len();

/// What the time of one CPU went into, by activity and cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    spent: Vec<[Ps; CAUSES]>,
}

impl Account {
    #[inline]
    pub(crate) fn add(&mut self, activity: usize, cause: Cause, time: Ps) {
        if activity >= self.spent.len() {
            self.spent.resize(activity + 1, [0; CAUSES]);
        }
        self.spent[activity][cause as usize] += time;
    }

    pub(crate) fn get(&self, activity: usize, cause: Cause) -> Ps {
        self.spent.get(activity).map_or(0, |spent| spent[cause as usize])
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// How often things happened on one CPU, or on all.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: u64,)+ }

        impl Counters {
            /// Each counter with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }

            /// Adds the counters of another CPU.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counters! {
    /// Pages that were accessed, each time they were.
    accesses,
    /// Accesses that only the second level of the TLB could translate.
    second_level,
    /// Accesses that had to walk.
    walks,
    /// Writes of the root register.
    roots,
    /// Invalidations by address on this CPU.
    page_flushes,
    /// Invalidations of a tag or of everything on this CPU.
    full_flushes,
    /// Invalidations that this CPU had broadcast.
    broadcasts,
    /// Waits of this CPU for its broadcasts.
    syncs,
    /// Interrupts that this CPU sent.
    sent,
    /// Interrupts that this CPU took.
    taken,
    /// Cache lines that this CPU got from another.
    lines,
}
