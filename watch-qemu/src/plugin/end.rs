//! What is written down: counts while it runs, and everything at the end.

use core::{ffi::c_void, sync::atomic::Ordering};

use lookaside_watch::front_end::{Progress, Report, most_bytes, write};

use super::Plugin;
use crate::ffi;

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
    write(file, &progress);
}

fn instructions(plugin: &Plugin) -> u64 {
    // SAFETY: the scoreboard is QEMU's own, from the installation.
    unsafe { ffi::qemu_plugin_u64_sum(plugin.instructions) }
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
        most_bytes: most_bytes(),
        guest_bytes: plugin.guest().bytes(),
        ..Report::of(&shadow)
    };
    drop(shadow);
    write(&plugin.options.report, &report);
}
