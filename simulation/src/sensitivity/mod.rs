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
pub mod words;

pub(crate) use answer::foremost;
pub use answer::{Answer, FEW, Influence, Interval, Question, best_of};
pub use sample::{Gaps, Plausible, Uncertain, plausible, uncertain};
