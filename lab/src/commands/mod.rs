//! The commands, one in each file, and what they share.

#[cfg(target_os = "linux")]
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod differential;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod hunt;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod litmus;
mod output;
mod progress;
#[cfg(target_os = "linux")]
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod run;
mod shared;
mod timeline;
pub(crate) mod zoo;

use lookaside_explorer::Result;

use self::shared::{check_place, execute, option};
