//! How sure an answer is, and which price it turns on.
//!
//! A machine file has one number for each price, or none. None of them is exact: a measurement repeats to some
//! percent, a proxy is another machine's, a fitted number has taken up whatever the model lacks, and what
//! nobody has published is charged as nothing, although it is not for nothing. So an answer is asked of many
//! [plausible machines](sample): in each, every price and path is drawn from its range (`published/ranges.toml`),
//! and one of the [readings](crate::data::Reading) of the sources is followed. Each machine has a seed of its
//! own, so that chaos is in the spread too. The [answer] has an interval for each metric, on how many of the
//! machines each strategy is best, and what that turns on.
//!
//! Ranges are independent of each other, and logarithms of numbers are uniform in them: nothing is known
//! about more. A share of plausible machines is a share of these, not a probability.

pub mod answer;
mod rank;
pub mod sample;
mod standing;
pub mod words;

/// Two results are as good as each other where the better is at most this part better: what model and machine repeat to.
pub const TIE: f64 = 0.01;
/// Fewer plausible machines than these say nothing of how sure an answer is.
pub const LEAST: usize = 4;
/// More are not asked.
pub const MOST: usize = 10_000;

pub(crate) use answer::foremost;
pub use answer::{Answer, FEW, Influence, Interval, Otherwise, Question, best_of};
pub use sample::{Gaps, Plausible, Uncertain, plausible, uncertain};
