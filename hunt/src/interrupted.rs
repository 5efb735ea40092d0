//! A run that is told to end (Ctrl-C, `kill`, a terminal that goes): its emulator ends with it, and what was found until then is told.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on these signals do not end this program.
pub(crate) fn begin() -> Result<(), String> {
    let interrupted = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(interrupted))
            .map_err(|error| format!("signals: {error}"))?;
    }
    Ok(())
}

/// Whether such a signal came.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) // Relaxed: nothing else is read because of it.
}

/// An error if such a signal came, once the result was told.
pub(crate) fn check() -> Result<(), String> {
    if was_interrupted() {
        Err("interrupted: the result is of the time until then".into())
    } else {
        Ok(())
    }
}
