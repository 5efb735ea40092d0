//! For front ends, which feed an emulator's events to a [`Shadow`](crate::Shadow): what they are told, and what they leave
//! behind. With the feature `front-end`, which needs `std`.

mod counting;
mod options;
mod report;

pub use counting::{Counting, most_bytes};
pub use options::{Architecture, Options, TaskRegister};
pub use report::{Progress, Report, SiteRow, write};
