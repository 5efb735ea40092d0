//! Published results beside what the model says.
//!
//! Every published result names a workload, machines, and strategies: a baseline and variants. Each
//! is run on the [timed machine](lookaside_machine::timed), and so is the recommended strategy of this
//! project. What comes out is one row for each published value.
//!
//! # Fitted and predicted
//!
//! A value is *fitted* if some number of a machine file names it as what it was fitted to. All others
//! are *predicted*, whatever role they have. The zeros of baselines of changes in percent are *given*.
//!
//! # The error
//!
//! What is predicted are ratios. The error of a variant is that of its ratio to the baseline,
//! `(modelled / modelled baseline) / (published / published baseline) - 1`; for changes in percent that
//! of `(100 + modelled) / (100 + published) - 1`. The error of a baseline is that of its value.
//!
//! # JSON
//!
//! `--format json` gives one object. Its keys stay; rows may get more.
//!
//! | key | what |
//! | --- | --- |
//! | `results` | an array of rows: results of the founding systems first, otherwise in the order of `published/`; then by points of the curve; the baseline before the variants |
//! | `events` | how many steps were simulated |
//! | `seconds` | how many seconds were simulated, all runs together. Not the time of the host: that goes to standard error, so that two runs give the same bytes |
//!
//! A row:
//!
//! | key | what |
//! | --- | --- |
//! | `id` | the name of the result |
//! | `seed` | the founding system it belongs to, 0 to 4; `null` for further material |
//! | `source` | the key of its source in `published/` |
//! | `machine` | the key of the machine in `machines/` |
//! | `workload` | the workload |
//! | `x` | the place on the curve; `null` if there is none |
//! | `variant` | what the publication calls the strategy |
//! | `strategy` | what the lab calls it |
//! | `metric` | what was measured, in words |
//! | `unit` | the unit of `published`, `modelled` and `recommended` |
//! | `better` | `lower` or `higher` |
//! | `published` | the published value; `null` on another machine than the published one |
//! | `modelled` | the model's; `null` if the strategy does not exist on the machine, and `problem` says why |
//! | `ratio_published`, `ratio_modelled` | the same over the baseline |
//! | `error` | as above, as a fraction |
//! | `role` | `fitted`, `predicted` or `given`; `null` where nothing was published |
//! | `test` | what a prediction tests: `failable`, `control`, `interpolation` or `repeat`; else `null` |
//! | `least`, `greatest` | the value of a baseline, or the ratio of a variant, with that of the seeds that makes it least and greatest; `null` if there was one seed |
//! | `plausible_low`, `plausible_high` | between which at least 80 % of plausible machines have the ratio of a gain that could have failed; `null` for others, and for runs that take long |
//! | `turns_on` | the number of the machine that the ratio turns on, on these machines; `null` if none stands out |
//! | `recommended` | what the recommended strategy gives on the same run, in the same unit |
//! | `recommended_strategy` | its name |
//! | `recommended_over_best` | how many times as good it is as the best published variant in the model, or where the series are conditions as the series under which it is least; `null` if there are no variants |
//! | `cause` | why a prediction misses, where one does |
//! | `problem` | why there is no `modelled` |

mod book;
mod certainty;
mod csv;
mod execute;
pub mod explain;
mod fit;
mod json;
mod plan;
pub mod ratio;
mod readings;
mod reference;
mod row;
mod shape;
mod summary;
pub mod table;
#[cfg(test)]
mod tests;

pub use book::{Book, Settings};
pub use certainty::{Certainty, Sample};
pub use csv::to_csv;
pub use execute::{Execute, Measured, Run, Runs};
pub use fit::{Fitted, fit};
pub use json::to_json;
pub use plan::{Plan, Request, machine_at, points, run};
pub use readings::{ReadAs, readings};
pub use reference::{Member, Reference};
pub use row::{Comparison, Place, Reproduction, Row, Standing, Test};
pub use summary::{LIMIT, Miss, SAME, Summary};
