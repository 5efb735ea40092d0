//! The timed machine: what things cost, on a machine of which one knows sizes and prices.
//!
//! The library's own source runs in every simulated CPU. Time is counted in whole picoseconds. All
//! that one CPU can see of another happens in one total order, by time and then by CPU; nothing
//! depends on the host, its clock, its addresses or its threads, so two runs are the same byte by
//! byte. Every picosecond of every CPU is put down to a [`Cause`] and to what the program said that it
//! was doing; together they are the elapsed time, without a rest.
//!
//! # What is modelled
//!
//! | what | how |
//! | --- | --- |
//! | words | every atomic word lies in a cache line, by its address in the [`Arena`]. A load of a line that the CPU lacks costs the distance to the nearest CPU that has a copy; loads that follow each other, of lines that different CPUs wrote, are under way together, up to 10. Requests for one line are served one after the other, by the cluster if it has a copy and else by the line's home. A write costs the distance to the farthest, takes all copies away, and comes after the write before it, the first load after that and the requests that the home has. A store goes on while its line is on the way; an atomic, a fence, an interrupt and a return from one wait for it |
//! | waiting | a CPU that waits in a loop ([`relax`]) sleeps until one of the lines is written that the loop has read; what others take from it meanwhile costs it nothing |
//! | hyper-threads | while two threads of a core execute instructions, each goes slower; one that waits, for another CPU, a lock or a line, leaves the core to the other |
//! | TLBs | two levels with entries and ways, what is gone is replaced first and then what was used least recently; tags, global entries, contiguous blocks; a cache of upper levels |
//! | interrupts | a price to send (to one CPU or to a group), to arrive, to enter and to return; they wait while interrupts are off, and those that wait are taken as one |
//! | broadcasts | a queue: each invalidation occupies the interconnect of every node; a CPU has a window of them under way; one wait at a time in the whole system; and each takes something from every CPU that does not wait |
//! | staleness | every access through a TLB is checked: an entry that is used after its flush was said to be complete ends the run with what has happened before |
//!
//! # What is not
//!
//! The guide in `docs/model.md` says of each in which direction it errs.
//!
//! * Memory order. Operations take effect at once, in the total order: what could be stale through
//!   a missing barrier is for the [adversary](crate::adversary).
//! * Caches of data. A line that nobody else wrote is here; what programs compute, and the misses that
//!   this has, are a length of time that the workload gives. Page tables are always in the caches that
//!   the price of a walk assumes.
//! * Out-of-order execution, other than that prices of walks and of the second level may say how much
//!   of them is hidden, and loads of several CPUs' lines that overlap: that is what a loop does which
//!   asks one CPU after another. Two loads of lines from the same CPU come one after the other, as if
//!   the second needed what the first brings.
//! * Frequency, power states, hosts that pre-empt guests.
//! * TLBs for instructions apart from data; entries for blocks of more than one size at one address.
//! * Where a broadcast is in the interconnect: it takes effect when it is issued, and is waited for.

mod account;
mod agents;
mod arena;
pub mod arm;
mod bill;
mod broadcasts;
mod cache;
mod cpu;
mod current;
mod exchange;
mod fabric;
mod history;
mod hops;
mod invalidate;
mod keyed;
mod lines;
mod lock;
mod machine;
mod model;
mod places;
mod platform;
mod price;
mod program;
mod queue;
mod random;
mod recency;
mod report;
pub mod riscv;
mod siblings;
mod simulate;
pub mod tables;
mod timeline;
mod tlb;
mod word;
pub mod x86;

pub use account::{Cause, Counters};
pub use arena::Arena;
pub use bill::{AccountId, Bill};
pub use hops::Hops;
pub use invalidate::KERNEL;
pub use lock::Lock;
pub use model::{BadModel, CacheShape, Distance, MAX_CPUS, Model, TlbShape, Topology};
pub use platform::Platform;
pub use price::{Price, Prices, Ps};
pub use program::{
    Next, Sent, counters, cpu, during, follow, idle_until, initiator, interrupts_off, keep_bills,
    lead, name, next_after_send, now, on_behalf, pause, pausing, random, random_below, reached,
    relax, send_ipi, sending, take_interrupts, touch, touch_kernel, touch_mapped, work,
};
pub use report::{CpuReport, Failure, LineReport, Report};
pub use simulate::{Options, World, simulate};
pub use timeline::{Doing, Interrupt, Moment, Timeline};
pub use word::Word;
