//! Checking: every scenario of a protocol, ever deeper, until a budget is spent.
//!
//! A scenario is explored in rounds ([`rung`]), each a little deeper than the one before, or with
//! other luck. What a round explores is fixed by its number and the seed alone, and not by the clock; so
//! rounds can be dealt out to several machines ([`Shard`]), and what they found be merged
//! ([`Outcome::merge`]).
//!
//! # The format
//!
//! [`Outcome`] as JSON is what `lab check --format json` writes and what `--merge` reads:
//!
//! ```json
//! {
//!   "format": 1, "source": "9f3c…", "seed": 1, "shards": [[0, 1]],
//!   "schedules": 1048576, "steps": 120000000, "stale": 0, "agrees": true,
//!   "seconds": 12.5,
//!   "scenarios": [{
//!     "name": "rollover-arm", "protocol": "epochs", "rounds": [0, 1, 2], "exhausted": true,
//!     "demanded": 2, "preemptions": 3, "chance": 4000, "schedules": 12345, "steps": 1234567, "states": 54321,
//!     "seen": ["a turnover"], "failure": null
//!   }],
//!   "mutants": null, "zoo": null, "litmus": null
//! }
//! ```
//!
//! `stale` is the number of scenarios in which a rule was broken, be it that a translation was stale,
//! that nobody could go on, or any other. `preemptions` is the largest number within which everything
//! was explored, and `demanded` the number within which it was to be, or null. `zoo` has the keys `total`, `agree` and `specimens`; `litmus` is what `lab litmus --format
//! json` writes, and `mutants` what `cargo xtask mutants --format json` does; `agrees` says whether they were
//! as they should be. A failure has the keys `rule`, `message` and `schedule`.

mod outcome;
mod run;
mod rung;
mod shard;
mod table;

pub use outcome::{Checked, Found, MergeError, Outcome};
pub use run::{Progress, Request, Until, run};
pub use rung::{DEEPEST, Rung, demanded, rounds_for, rung};
pub use shard::{Shard, ShardError};
pub use table::to_text;

use crate::{
    data::Refused,
    names,
    scenario::{self, TOPICS},
};

/// A scenario that is to be checked, and the protocol that it is about.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The name of the protocol.
    pub protocol: &'static str,
    /// The scenario.
    pub entry: &'static scenario::Entry,
}

/// The scenarios of these protocols or names, each once and in order; all if there are no names.
///
/// # Errors
///
/// If there is no protocol and no scenario of such a name.
pub fn select(wanted: &[String]) -> Result<Vec<Subject>, Refused> {
    let subjects = || {
        TOPICS.iter().flat_map(|topic| {
            topic.scenarios.iter().map(|entry| Subject { protocol: topic.name, entry })
        })
    };
    let known = || TOPICS.iter().map(|topic| topic.name).chain(subjects().map(|s| s.entry.name));
    if let Some(unknown) = wanted.iter().find(|name| !known().any(|known| known == *name)) {
        return Err(names::unknown("protocol or scenario", unknown, known()));
    }
    let chosen = |subject: &Subject| {
        wanted.is_empty()
            || wanted.iter().any(|name| name == subject.protocol || name == subject.entry.name)
    };
    Ok(subjects().filter(chosen).collect())
}
