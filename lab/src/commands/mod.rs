//! The commands, one in each file, and what they share.

#[cfg(all(feature = "clock", target_os = "linux"))]
pub(crate) mod calibrate;
#[cfg(feature = "clock")]
pub(crate) mod check;
#[cfg(feature = "clock")]
pub(crate) mod differential;
#[cfg(feature = "clock")]
pub(crate) mod explain;
pub(crate) mod explore;
#[cfg(feature = "clock")]
pub(crate) mod fit;
pub(crate) mod generate;
#[cfg(feature = "clock")]
pub(crate) mod hunt;
#[cfg(feature = "clock")]
pub(crate) mod import;
#[cfg(feature = "clock")]
pub(crate) mod list;
#[cfg(feature = "clock")]
pub(crate) mod litmus;
#[cfg(feature = "clock")]
mod output;
#[cfg(feature = "clock")]
mod progress;
#[cfg(all(feature = "clock", target_os = "linux"))]
pub(crate) mod record;
#[cfg(feature = "clock")]
pub(crate) mod replay;
#[cfg(feature = "clock")]
pub(crate) mod reproduce;
#[cfg(feature = "clock")]
pub(crate) mod run;
#[cfg(feature = "clock")]
mod shared;
#[cfg(feature = "clock")]
mod timeline;
#[cfg(feature = "clock")]
pub(crate) mod zoo;

use core::error::Error;
use std::process::ExitCode;

#[cfg(feature = "clock")]
use self::shared::{check_place, execute, option};

/// What a command gives: how the program ends, or why it could not.
pub(crate) type Result<T = ExitCode> = core::result::Result<T, Box<dyn Error>>;
