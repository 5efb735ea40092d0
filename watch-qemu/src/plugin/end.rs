//! What is written down: counts while it runs, and everything at the end.

use core::{ffi::c_void, sync::atomic::Ordering};
use std::{fs, path::Path};

use super::Plugin;
use crate::{
    ffi,
    report::{Progress, Report, SiteRow},
};

/// How often counts are written down, in milliseconds.
const EVERY: u64 = 500;

/// Writes counts down if it is time.
pub(super) fn tell(plugin: &Plugin) {
    let Some(file) = &plugin.options.progress else { return };
    let now = plugin.began.elapsed().as_millis() as u64;
    // Relaxed: if two CPUs write at the same time, no harm is done.
    if now < plugin.told.load(Ordering::Relaxed) + EVERY {
        return;
    }
    plugin.told.store(now, Ordering::Relaxed);
    let shadow = plugin.shadow();
    let progress = Progress {
        instructions: instructions(plugin),
        revoked: shadow.counts().revoked,
        findings: shadow.findings().len() as u64,
    };
    drop(shadow);
    write(file, &serde_json::to_vec(&progress).unwrap_or_default());
}

fn instructions(plugin: &Plugin) -> u64 {
    // SAFETY: the scoreboard is QEMU's own, from the installation.
    unsafe { ffi::qemu_plugin_u64_sum(plugin.instructions) }
}

/// Whole or not at all: it goes to a file beside, which then gets the name.
fn write(file: &Path, text: &[u8]) {
    let beside = file.with_extension("new");
    if fs::write(&beside, text).and_then(|()| fs::rename(&beside, file)).is_err() {
        eprintln!("lookaside: {} cannot be written", file.display());
    }
}

pub(super) extern "C" fn at_exit(_: ffi::Id, _: *mut c_void) {
    let plugin = Plugin::get();
    if plugin.shadow.get().is_none() || plugin.ended.swap(true, Ordering::AcqRel) {
        return;
    }
    let instructions = instructions(plugin);
    let shadow = plugin.shadow();
    let report = Report {
        architecture: plugin.target.clone(),
        cpus: plugin.lanes.len() as u32,
        instructions,
        seconds: plugin.began.elapsed().as_secs_f64(),
        most_bytes: super::memory::most(),
        guest_bytes: plugin.guest().bytes(),
        counts: shadow.counts(),
        revoked_at_end: shadow.revoked_now(),
        findings: shadow.findings().to_vec(),
        sites: shadow.sites().map(|(pc, form, site)| SiteRow { pc, form, site }).collect(),
        warnings: Vec::new(),
    };
    drop(shadow);
    write(&plugin.options.report, &serde_json::to_vec(&report).unwrap_or_default());
}
