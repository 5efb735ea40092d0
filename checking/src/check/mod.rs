//! Exploring every scenario of a protocol in ever deeper rounds, within a budget.
//!
//! A scenario is explored in rounds ([`round`]). Each is deeper than the one before, or draws other random
//! schedules. The number of a round and the seed determine what it explores; the clock does not. Rounds can
//! therefore be distributed over several machines ([`Shard`]) and their results merged ([`Outcome::merge`]).
//!
//! # The format
//!
//! [`Outcome`] as JSON is what `lookaside check --format json` writes and what `--merge` reads:
//!
//! ```json
//! {
//!   "version": 2, "source": "9f3c…", "seed": 1, "shards": [[0, 1]],
//!   "schedules": 1048576, "steps": 120000000, "stale": 0, "agrees": true,
//!   "seconds": 12.5,
//!   "scenarios": [{
//!     "name": "rollover-arm", "protocol": "epochs", "rounds": [0, 1, 2], "exhausted": true,
//!     "demanded": 2, "preemptions": 3, "random": 4000, "schedules": 12345, "steps": 1234567,
//!     "states": 54321, "seen": ["a rollover"], "failure": null
//!   }],
//!   "mutants": null, "zoo": null, "litmus": null
//! }
//! ```
//!
//! `stale` is the number of scenarios in which any rule was broken: a stale translation, a deadlock, or
//! another. `random` counts random and PCT schedules. `preemptions` is the largest number of pre-emptions
//! for which all schedules were explored, `demanded` the number that had to be reached, or null. `zoo` has
//! the keys `total`, `agree` and `protocols`; `litmus` is what `lookaside litmus --format json` writes, `mutants`
//! what `cargo xtask mutants --format json` writes; `agrees` says whether all three match what is expected.
//! A failure has the keys `rule`, `message` and `schedule`.

mod outcome;
mod round;
mod run;
mod shard;
mod table;

pub use outcome::{Checked, Found, MergeError, Outcome, SOURCE};
pub use round::{DEEPEST, Round, demanded, round, rounds_for};
pub use run::{Progress, Request, Until, run};
pub use shard::{Shard, ShardError};
pub use table::to_text;

use lookaside_scenarios::scenario::{self, TOPICS};
use lookaside_terminal::{Refused, names};

/// A scenario to check, and the protocol that it exercises.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The name of the protocol.
    pub protocol: &'static str,
    /// The scenario.
    pub entry: &'static scenario::Entry,
}

/// The scenarios with these names or of these protocols, each once and in catalogue order. All scenarios if
/// `wanted` is empty.
///
/// # Errors
///
/// If a name is neither a protocol nor a scenario.
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
