//! What a run leaves behind, as JSON.

use std::{eprintln, fs, path::Path, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{Counts, Finding, Form, Shadow, Site};

/// A fence instruction of the guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SiteRow {
    /// The address of the instruction.
    pub pc: u64,
    /// What it named.
    pub form: Form,
    /// What it was good for.
    #[serde(flatten)]
    pub site: Site,
}

/// A run, so far or to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What QEMU calls the architecture.
    pub architecture: String,
    /// How many CPUs there were.
    pub cpus: u32,
    /// The guest's instructions, as far as they were not executed in firmware.
    pub instructions: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The most memory that the shadow took at one time, in bytes.
    pub most_bytes: u64,
    /// The guest's memory, in bytes.
    pub guest_bytes: u64,
    /// What happened, in numbers.
    pub counts: Counts,
    /// Revoked entries that were still held at the end.
    pub revoked_at_end: u64,
    /// What was found.
    pub findings: Vec<Finding>,
    /// The fences.
    pub sites: Vec<SiteRow>,
    /// What the run could not see, in sentences.
    pub warnings: Vec<String>,
}

/// What is told while it runs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The guest's instructions.
    pub instructions: u64,
    /// Held entries that a store revoked.
    pub revoked: u64,
    /// Different findings.
    pub findings: u64,
}

impl Report {
    /// What a shadow knows. The rest is the front end's to say.
    #[must_use]
    pub fn of(shadow: &Shadow) -> Self {
        Self {
            counts: shadow.counts(),
            revoked_at_end: shadow.revoked_now(),
            findings: shadow.findings().to_vec(),
            sites: shadow.sites().map(|(pc, form, site)| SiteRow { pc, form, site }).collect(),
            ..Self::default()
        }
    }
}

/// Writes a report or counts down, whole or not at all: they go to a file beside, which then gets the name. A failure is
/// told on the standard error, as a plugin has nobody to return it to.
pub fn write(file: &Path, value: &impl Serialize) {
    let beside = file.with_extension("new");
    let text = serde_json::to_vec(value).unwrap_or_default();
    if fs::write(&beside, text).and_then(|()| fs::rename(&beside, file)).is_err() {
        eprintln!("lookaside: {} cannot be written", file.display());
    }
}
