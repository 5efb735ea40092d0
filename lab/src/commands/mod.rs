//! The commands, one in each file, and what they share.

#[cfg(any(test, not(all(feature = "checks", feature = "traces", target_os = "linux"))))]
pub(crate) mod absent;
#[cfg(feature = "traces")]
pub(crate) mod advise;
#[cfg(feature = "traces")]
pub(crate) mod against_linux;
#[cfg(all(feature = "traces", target_os = "linux"))]
pub(crate) mod calibrate;
#[cfg(feature = "checks")]
pub(crate) mod check;
#[cfg(feature = "traces")]
pub(crate) mod diff;
#[cfg(feature = "checks")]
pub(crate) mod differential;
pub(crate) mod experiments;
pub(crate) mod explain;
pub(crate) mod fit;
#[cfg(feature = "checks")]
pub(crate) mod hunt;
#[cfg(feature = "traces")]
pub(crate) mod import;
pub(crate) mod list;
#[cfg(feature = "checks")]
pub(crate) mod litmus;
mod output;
mod parquet;
#[cfg(feature = "traces")]
mod plausible;
mod progress;
#[cfg(all(feature = "traces", target_os = "linux"))]
pub(crate) mod record;
#[cfg(feature = "traces")]
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod run;
#[cfg(feature = "traces")]
mod scene;
mod shared;
#[cfg(feature = "traces")]
pub(crate) mod shell;
pub(crate) mod sweep;
mod timeline;
#[cfg(all(feature = "traces", target_os = "linux"))]
pub(crate) mod watch;
#[cfg(feature = "traces")]
pub(crate) mod what_if;
#[cfg(feature = "checks")]
pub(crate) mod zoo;

use core::error::Error;
use std::process::ExitCode;

use self::shared::{check_place, check_plausible, execute, option, settings, with_sockets};

/// The result of a command: how the program ends, or why it could not do what was requested.
type Result<T = ExitCode> = core::result::Result<T, Box<dyn Error>>;
